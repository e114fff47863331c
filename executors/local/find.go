//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// find looks for the live guest of a sandbox. The caller holds the sandbox's turn.
func (e *Executor) find(ctx context.Context, h executors.Handle) (*sandbox, error) {
	dir := e.dir(h.ID)
	who, err := readRecord(dir)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no record (%w): %w", h.ID, err, executors.ErrGone)
	}
	if len(h.State) > 0 {
		var stored identity
		if err := json.Unmarshal(h.State, &stored); err != nil || stored != who {
			return nil, fmt.Errorf("the record of sandbox %s names another process: %w", h.ID, executors.ErrGone)
		}
	}
	if !who.guestOf(h.ID) {
		return nil, fmt.Errorf("the guest of sandbox %s has ended: %w", h.ID, executors.ErrGone)
	}
	token, err := readToken(dir)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no token (%w): %w", h.ID, err, executors.ErrGone)
	}
	sb := &sandbox{e: e, id: h.ID, dir: dir, token: token, who: who}
	// Who answers is checked here and not by the client, for another's answer is a proof and not a failure.
	c := client.New(client.Config{Dial: sb.Dial, Token: token, Now: e.cfg.Now})
	defer c.Close()
	hello, err := c.Hello(ctx)
	switch {
	case fault.CodeOf(err) == "guest_unauthorized":
		return nil, fmt.Errorf("another guest answers for sandbox %s: %w", h.ID, executors.ErrGone)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		// It runs but its door is gone for good: nobody can reach it any more.
		return nil, fmt.Errorf("the guest of sandbox %s has lost its socket (%w): %w", h.ID, err, executors.ErrGone)
	case err != nil:
		return nil, fmt.Errorf("saying hello to sandbox %s: %w", h.ID, err)
	case hello.Pid != who.Pid:
		return nil, fmt.Errorf("another guest answers for sandbox %s: %w", h.ID, executors.ErrGone)
	}
	if err := executors.CheckHello(hello, h.ID); err != nil {
		return nil, err
	}
	return sb, nil
}

func readRecord(dir string) (identity, error) {
	b, err := readSmall(filepath.Join(dir, recordName))
	if err != nil {
		return identity{}, err
	}
	var who identity
	if err := json.Unmarshal(b, &who); err != nil {
		return identity{}, err
	}
	return who, nil
}

// destroy ends everything of a sandbox and removes its folder. Idempotent. The caller holds the sandbox's turn.
func (e *Executor) destroy(ctx context.Context, id string) error {
	if err := e.endAll(ctx, id); err != nil {
		return err
	}
	if err := os.RemoveAll(e.dir(id)); err != nil {
		return fmt.Errorf("removing the folder of sandbox %s: %w", id, err)
	}
	return nil
}

// endAll ends the guest, if it lives, and every process of the sandbox.
func (e *Executor) endAll(ctx context.Context, id string) error {
	dir := e.dir(id)
	who, err := readRecord(dir)
	var known map[int]proc
	if err == nil && who.guestOf(id) {
		// Counted before the guest ends: afterwards they have no parent that shows whose they are.
		known = members(id, who)
		e.shutdown(ctx, id, dir, who)
	}
	return end(ctx, id, known, who, e.cfg.Grace)
}

// shutdown asks the guest to end its processes and itself, and waits for that a bounded while. What it does not do, end does.
func (e *Executor) shutdown(ctx context.Context, id, dir string, who identity) {
	token, err := readToken(dir)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*e.cfg.Grace+time.Second)
	defer cancel()
	c := client.New(client.Config{Dial: func(ctx context.Context) (io.ReadWriteCloser, error) { return dialUnix(ctx, dir) },
		Token: token, SandboxID: id, Now: e.cfg.Now})
	defer c.Close()
	if err := c.Shutdown(ctx); err != nil {
		e.cfg.Log.Debug("guest did not take its shutdown", "sandbox_id", id, "error", err)
		return
	}
	waitGone(ctx, 2*e.cfg.Grace, func() bool { return !who.alive() })
}
