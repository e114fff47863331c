package manager

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// recoverAtOnce is how many sandboxes are recovered in parallel at start.
const recoverAtOnce = 16

// Recover finds every stored open sandbox again, in parallel, and closes the rows of those that are gone, each with a reason. It is called
// once at start, before the server listens. It takes at most twice DialTimeout for all of them together: a sandbox that hangs must not delay
// the start. A sandbox that exists but was not reached by then stays open, and Run tries it again at once. The error is the store's: without
// it nothing is known.
func (m *Manager) Recover(ctx context.Context) error {
	open, err := m.cfg.Store.OpenSandboxes(ctx)
	if err != nil {
		return fmt.Errorf("reading the open sandboxes: %w", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(recoverAtOnce)
	soon, cancel := context.WithTimeout(gctx, 2*m.cfg.DialTimeout)
	defer cancel()
	for _, rec := range open {
		g.Go(func() error {
			s := m.slot(rec.WorkspaceID)
			release, err := s.turn.Lock(gctx)
			if err != nil {
				return err
			}
			defer release()
			if s.current() != nil {
				return nil
			}
			if soon.Err() != nil {
				s.markUnreachable(gctx, rec, errNoTime)
				return gctx.Err()
			}
			if _, err := s.reviveBy(gctx, soon, rec); err != nil && !errors.Is(err, executors.ErrGone) {
				m.cfg.Log.Warn("a sandbox could not be reached", "sandbox_id", rec.Handle.ID,
					"workspace_id", rec.WorkspaceID, "error", err)
			}
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("recovering sandboxes: %w", err)
	}
	m.cfg.Metering.Settle(ctx, m.known)
	m.reaper.start()
	return nil
}

// errNoTime is the reason of a sandbox that was not recovered before the server began to serve.
var errNoTime = fault.New(fault.Unavailable, "sandbox_unreachable", "The server had no time to look for it before it began to serve. It is looking now.")

// revive recovers the sandbox of an open record and puts it into the slot. The caller holds the slot's turn. On ErrGone it closes the
// record; on any other error the record becomes the slot's stray.
func (s *slot) revive(ctx context.Context, rec executors.Record) (*place, error) {
	return s.reviveBy(ctx, ctx, rec)
}

// reviveBy is revive that must find the sandbox before by. Writing to the store afterwards may use all of ctx.
func (s *slot) reviveBy(ctx, by context.Context, rec executors.Record) (*place, error) {
	still, asked, err := s.m.dormant(by, rec)
	if err == nil && still {
		return s.adopt(ctx, rec), nil
	}
	var p *place
	if err == nil {
		p, err = s.m.find(by, rec)
	}
	if err != nil && by.Err() != nil && ctx.Err() == nil && !errors.Is(err, executors.ErrGone) {
		err = errNoTime
	}
	if err == nil && (rec.State == executors.Stopping || rec.State == executors.Starting && p.OwnDisk) {
		// The server died, or failed, while destroying the sandbox or copying the workspace there: it is of no use to anybody.
		p.Guest.Close()
		s.m.cfg.Metering.RunsOn(ctx, rec, s.m.cfg.Metering.RunningSince(ctx, rec.Handle))
		if err = p.box().Destroy(ctx); err == nil {
			s.m.cfg.Metering.Stopped(ctx, s.m.cfg.Metering.UsageInterval(rec), 0, executors.ByServer)
			err = executors.ErrGone
		}
	}
	if err == nil {
		p.record.HealthAt = s.m.now()
		if rec.State == executors.Paused && !(asked && rec.PausedFor.Wakes()) { // it was resumed to be found: Run suspends it again
			reason := rec.Reason
			p.setPaused(&reason)
		} else {
			p.record.State, p.record.Reason, p.record.PausedFor = executors.Running, "", ""
		}
		// A row that cannot be written, as on a full disk, is no reason to abandon an agent: the row found it, and will find it again.
		if err := s.m.cfg.Store.UpdateSandbox(ctx, p.record); err != nil {
			s.m.cfg.Log.Warn("sandbox could not be stored as running", "sandbox_id", rec.Handle.ID, "error", err)
			p.record.HealthAt = 0 // the next good answer is written
		}
		s.settle(ctx, p)
		s.keep(ctx, p)
		return p, nil
	}
	if errors.Is(err, executors.ErrGone) {
		s.mu.Lock()
		s.stray = nil
		s.mu.Unlock()
		s.m.reaper.noteGone(rec.Handle.ID)
		s.m.finish(ctx, rec, executors.Gone, s.m.goneReason(ctx, rec, err))
		return nil, err
	}
	s.markUnreachable(ctx, rec, err)
	return nil, err
}

// markUnreachable makes an open record that could not be reached the slot's stray, and shows the reason to people.
func (s *slot) markUnreachable(ctx context.Context, rec executors.Record, cause error) {
	reason := "It cannot be reached: " + executors.CleanReason(executors.ReasonOf(cause))
	news := rec.Reason != reason
	rec.Reason = reason
	s.mu.Lock()
	s.stray = &rec
	s.mu.Unlock()
	if !news {
		return
	}
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		s.m.cfg.Log.Warn("a sandbox could not be stored as unreachable", "sandbox_id", rec.Handle.ID, "error", err)
	}
	s.m.publish(ctx, rec)
}

func (m *Manager) goneReason(ctx context.Context, rec executors.Record, err error) string {
	switch rec.State {
	case executors.Stopping:
		return "It was destroyed."
	case executors.Starting:
		return "The server stopped while it was being made."
	}
	return m.goneWords(ctx, rec, err)
}

// strayed reports whether the slot's sandbox has still to be recovered.
func (s *slot) strayed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stray != nil
}

// find recovers the record's sandbox from its executor and greets its guest.
func (m *Manager) find(ctx context.Context, rec executors.Record) (*place, error) {
	e, ok := m.cfg.Executors.Find(ctx, rec.Handle.Kind)
	if !ok {
		return nil, executors.ErrNoExecutor(rec.Handle.Kind)
	}
	rctx, cancel := context.WithTimeout(ctx, 4*m.cfg.DialTimeout)
	defer cancel()
	if err := m.attached().prepare(rctx, rec); err != nil {
		return nil, err
	}
	sb, err := e.Recover(rctx, rec.Handle)
	if err != nil {
		return nil, fmt.Errorf("recovering sandbox %s: %w", rec.Handle.ID, err)
	}
	rec.Handle = sb.Handle()
	return m.connect(ctx, sb, rec)
}
