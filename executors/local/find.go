//go:build linux || darwin

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
)

// find looks for the live guest of a sandbox. The caller holds the sandbox's turn.
func (e *Executor) find(ctx context.Context, h executors.Handle) (*sandbox, error) {
	dir := e.dir(h.ID)
	who, err := readRecord(dir)
	if hostproc.Unreadable(err) {
		return nil, fmt.Errorf("reading the record of sandbox %s: %w", h.ID, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no record (%w): %w", h.ID, err, executors.ErrGone)
	}
	if len(h.State) > 0 {
		var stored hostproc.Identity
		if err := json.Unmarshal(h.State, &stored); err != nil || stored != who {
			return nil, fmt.Errorf("the record of sandbox %s names another process: %w", h.ID, executors.ErrGone)
		}
	}
	runs, err := who.Runs(h.ID)
	if err != nil {
		return nil, fmt.Errorf("looking for the guest of sandbox %s: %w", h.ID, err)
	}
	if !runs {
		return nil, fmt.Errorf("the guest of sandbox %s has ended: %w", h.ID, executors.ErrGone)
	}
	token, err := hostproc.ReadToken(dir)
	if hostproc.Unreadable(err) {
		return nil, fmt.Errorf("reading the token of sandbox %s: %w", h.ID, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no token (%w): %w", h.ID, err, executors.ErrGone)
	}
	sb := &sandbox{e: e, id: h.ID, dir: dir, token: token, who: who, Confined: e.groups().Of(h.ID)}
	if err := e.groups().Thaw(ctx, h.ID); err != nil {
		return nil, err
	}
	if err := e.guest(sb).Find(ctx); err != nil {
		return nil, err
	}
	return sb, nil
}

// guest is how the guest of a sandbox is spoken to.
func (e *Executor) guest(sb *sandbox) hostproc.Guest {
	return hostproc.Guest{ID: sb.id, Dir: sb.dir, Token: sb.token, Pid: sb.who.Pid, Now: e.cfg.Now}
}

func readRecord(dir string) (hostproc.Identity, error) {
	var who hostproc.Identity
	err := hostproc.ReadRecord(dir, &who)
	return who, err
}

// destroy ends everything of a sandbox and removes its folder. Idempotent. The caller holds the sandbox's turn.
func (e *Executor) destroy(ctx context.Context, id string) error {
	if err := e.endAll(ctx, id); err != nil {
		return err
	}
	if err := hostproc.RemoveFolder(e.dir(id)); err != nil {
		return fmt.Errorf("removing the folder of sandbox %s: %w", id, err)
	}
	return nil
}

// endAll ends the guest, if it lives, and every process of the sandbox.
func (e *Executor) endAll(ctx context.Context, id string) error {
	dir := e.dir(id)
	who, err := readRecord(dir)
	if terr := e.groups().Thaw(ctx, id); terr != nil {
		e.cfg.Log.Warn("sandbox that stands still could not be woken to be ended", "sandbox_id", id, "error", terr)
	}
	var known map[int]hostproc.Proc
	if err == nil && who.GuestOf(id) {
		// Counted before the guest ends: afterwards they have no parent that shows whose they are.
		known = hostproc.Members(id, who)
		e.shutdown(ctx, id, dir, who)
	}
	err = hostproc.End(ctx, id, known, who, e.cfg.Grace)
	return errors.Join(err, e.groups().Dissolve(ctx, id))
}

// shutdown asks the guest to end its processes and itself. What it does not do, End does.
func (e *Executor) shutdown(ctx context.Context, id, dir string, who hostproc.Identity) {
	token, err := hostproc.ReadToken(dir)
	if err != nil {
		return
	}
	err = e.guest(&sandbox{id: id, dir: dir, token: token, who: who}).Shutdown(ctx, e.cfg.Grace, func() bool { return !who.Alive() })
	if err != nil {
		e.cfg.Log.Debug("guest did not take its shutdown", "sandbox_id", id, "error", err)
	}
}
