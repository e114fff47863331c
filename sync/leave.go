package filesync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/tenant"
)

// SyncToServer copies every changed file of a sandbox with its own disk to this server, before the sandbox is suspended or ends. It
// waits as long as ctx allows. Home also reports what could not be copied.
func (s *Service) SyncToServer(ctx context.Context, p *executors.Place) error {
	if !p.OwnDisk || s.cfg.Trees == nil {
		return nil
	}
	base, err := s.base(ctx, p.WorkspaceID)
	if err != nil {
		return err
	}
	f := s.followPlace(p)
	if err := f.look(ctx, base); err != nil {
		f.mirror.show(Behind, "The sandbox could not be asked for its files before it was suspended or ended.")
		f.mirror.keep()
		return fmt.Errorf("asking for changes: %w", err)
	}
	err = f.settle(ctx)
	if words := f.mirror.unread(); words != "" { // everything it reported is on this server, but its report was incomplete
		err = errors.Join(err, fmt.Errorf("asking for changes: %s", words))
	}
	f.mirror.keep()
	if f.homes != nil {
		err = errors.Join(err, f.homes.copy(ctx))
	}
	if dir, derr := s.cfg.Trees.Worktree(ctx, p.WorkspaceID); derr == nil {
		err = errors.Join(err, settleDisk(dir))
	}
	return err
}

// keepTimeout bounds how long an ending mirror stores its progress.
const keepTimeout = 10 * time.Second

// keep stores the progress of the sync, even when the worker's time is up.
func (m *mirror) keep() {
	ctx, cancel := context.WithTimeout(tenant.In(context.Background(), m.teamID), keepTimeout)
	defer cancel()
	h := m.now()
	st, err := m.s.cfg.Store.MirrorState(ctx, m.id)
	if err == nil {
		st.SandboxID, st.State, st.Pending, st.Reason, st.SyncedAt = m.sbxID, h.State, h.Pending, h.Reason, h.SyncedAt
		err = m.s.cfg.Store.ApplyMirror(ctx, MirrorDelta{WorkspaceID: m.id, TeamID: m.teamID, State: st})
	}
	if err != nil {
		m.log.Warn("sync progress could not be stored", "error", err)
	}
}

// ended reports, once its sandbox has ended, what a mirror did not copy.
func (m *mirror) ended() {
	h := m.now()
	if h.Pending == 0 {
		return
	}
	m.show(Behind, fmt.Sprintf("The sandbox ended before %d changed files were synced to the server.", h.Pending))
	m.keep()
}

// Arrive sends what agents stored in their home, and records the state of a new sandbox before anybody works in it: from then on
// the server knows which files the sandbox changed and which this server changed. It never fails the creation: without the
// record, files that differ are kept in both versions.
func (s *Service) Arrive(ctx context.Context, a executors.Arrival) error {
	p := a.Place
	if !p.OwnDisk || s.cfg.Trees == nil {
		return nil
	}
	log := s.cfg.Log.With("workspace_id", p.WorkspaceID, "sandbox_id", p.SandboxID)
	if h := s.homesOf(p); h != nil {
		if err := h.send(ctx); err != nil {
			log.WarnContext(ctx, "what agents stored in their home could not be sent to a new sandbox", "error", err)
		}
	}
	if err := s.firstLook(ctx, p); err != nil {
		log.WarnContext(ctx, "what a new sandbox has could not be compared with the server", "error", err)
	}
	return nil
}

// firstLook compares a new sandbox with the worktree on this server, once.
func (s *Service) firstLook(ctx context.Context, p *executors.Place) error {
	base, err := s.base(ctx, p.WorkspaceID)
	if err != nil {
		return err
	}
	b := realBox{p.Guest}
	set, err := whole(ctx, b, base)
	if err != nil {
		return err
	}
	f := &follower{s: s, box: b, workspaceID: p.WorkspaceID, teamID: p.TeamID, sandboxID: p.SandboxID,
		log: s.cfg.Log.With("workspace_id", p.WorkspaceID, "sandbox_id", p.SandboxID)}
	m := newMirror(s, b, f, string(p.Kind))
	m.note(set)
	_, err = m.work(ctx)
	return err
}

// whole reads the whole set of a guest.
func whole(ctx context.Context, b box, base string) (guest.ChangeSet, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.watch(ctx, base, 0)
	if err != nil {
		return guest.ChangeSet{}, err
	}
	defer w.Close()
	set, err := collect(w, base)
	if err == nil {
		err = unique(set.Upserts)
	}
	return set, err
}
