package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// keepLeftWithin bounds saving what one abandoned sandbox holds.
const keepLeftWithin = 10 * time.Minute

// endLeft ends an abandoned sandbox, after saving what it holds. The caller holds the turn of its workspace's slot.
func (rp *reaper) endLeft(ctx context.Context, e executors.Executor, h executors.Handle, rec executors.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLeftWithin)
	defer cancel()
	if rec.State != executors.Failed { // nobody has worked in one that was never ready
		if err := rp.keepLeft(ctx, e, h, rec); errors.Is(err, executors.ErrGone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	err := rp.destroyHandle(ctx, e, h)
	if errors.Is(err, executors.ErrGone) {
		return nil
	}
	return err
}

func (rp *reaper) keepLeft(ctx context.Context, e executors.Executor, h executors.Handle, rec executors.Record) error {
	sb, err := e.Recover(ctx, h)
	if err != nil {
		return fmt.Errorf("recovering abandoned sandbox %s: %w", h.ID, err)
	}
	p, err := rp.m.connect(ctx, sb, rec)
	if err != nil {
		return err
	}
	defer p.Guest.Close()
	p.quieten(ctx)
	ctx = context.WithValue(ctx, takingLeave{}, p)
	for _, a := range rp.m.attached() {
		if a.Left == nil {
			continue
		}
		if err := a.Left(ctx, p.Place); err != nil {
			return fmt.Errorf("saving what sandbox %s holds: %w", h.ID, err)
		}
	}
	return nil
}

// quietenWithin is how long programs may take to exit on their own before their files are saved.
const quietenWithin = 5 * time.Second

// quieten ends everything that runs in an abandoned sandbox, so that nothing writes while its files are saved.
func (p *place) quieten(ctx context.Context) {
	all, err := p.Guest.Processes(ctx)
	if err != nil {
		p.m.cfg.Log.Warn("the processes of an abandoned sandbox could not be listed", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	var wg sync.WaitGroup
	limit := make(chan struct{}, checkAtOnce)
	for _, proc := range all {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if _, err := p.Guest.Stop(ctx, proc.ID, quietenWithin); err != nil && !fault.Is(err, fault.NotFound) {
				p.m.cfg.Log.Warn("a program in an abandoned sandbox could not be ended", "sandbox_id", p.SandboxID, "error", err)
			}
		})
	}
	wg.Wait()
}

// reapMember is reapOne on a member's machine, where nothing is deleted before it is saved.
func (rp *reaper) reapMember(ctx context.Context, e executors.Executor, h executors.Handle) {
	rec, err := rp.m.cfg.Store.Sandbox(ctx, h.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		rp.reapOne(ctx, e, h) // it was made only to try the machine: others keep their rows for the ledger
		return
	case err != nil:
		rp.m.cfg.Log.Warn("the owner of an unknown sandbox could not be read", "sandbox_id", h.ID, "error", err)
		return
	case rec.EndedAt == 0 || rec.Handle.Kind != h.Kind:
		return // it lives, or is on another machine: this executor must not touch it
	}
	s := rp.m.slot(rec.WorkspaceID)
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return
	}
	defer release()
	if err := rp.endLeft(ctx, e, h, rec); err != nil {
		rp.m.cfg.Log.Warn("an abandoned sandbox could not be ended", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
		return
	}
	rp.m.cfg.Counters.Cleaned(h.Kind, rec.Purpose)
	rp.m.cfg.Log.Info("an abandoned sandbox was ended; what it held is saved", "executor", h.Kind, "sandbox_id", h.ID, "workspace_id", rec.WorkspaceID)
}

// clearLeft ends what the workspace abandoned in an executor before a new sandbox begins there: both would work in the same folder. The
// caller holds the slot's turn.
func (rp *reaper) clearLeft(ctx context.Context, e executors.Executor, workspaceID string) error {
	if e.Kind().Member() == "" {
		return nil
	}
	all, err := e.List(ctx)
	if err != nil {
		return err
	}
	for _, h := range all {
		rec, err := rp.m.cfg.Store.Sandbox(ctx, h.ID)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if rec.WorkspaceID != workspaceID || rec.EndedAt == 0 || rec.Handle.Kind != h.Kind {
			continue
		}
		if err := rp.endLeft(ctx, e, h, rec); err != nil {
			return fault.Wrap(err, fault.Unavailable, "remnant_not_saved", "The work the workspace left behind on %s could not be saved yet, so no new sandbox starts there. Try again in a moment.", rp.m.cfg.Choice.CapabilitiesOf(ctx, e).Name)
		}
	}
	return nil
}

// Evict ends all sandboxes of an executor that is about to be removed, each after copying its files to the server. It returns how many could
// not be ended: those stay.
func (m *Manager) Evict(ctx context.Context, k executors.Kind) (left int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	limit := make(chan struct{}, checkAtOnce)
	for _, id := range m.slotsWhere(func(s *slot) bool { return s.kind() == k }) {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if err := m.Destroy(ctx, id); err != nil {
				m.cfg.Log.Warn("a sandbox could not be saved and ended before its machine is removed", "workspace_id", id, "error", err)
				mu.Lock()
				left++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return left
}
