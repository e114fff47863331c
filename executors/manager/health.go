package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
)

// Health checking: how the Manager distinguishes a sandbox that stopped answering from one that is gone.
const (
	checkAtOnce     = 32               // concurrent checks that are not slow
	checkSlotFor    = time.Second      // after this time a check counts as slow
	silentAfter     = 3                // failed checks before the team is notified that a sandbox does not answer
	healthKeepEvery = 60 * time.Second // how often a good health is written to the store
)

// checks are the health checks of sandboxes: those that are due, and those requested.
type checks struct {
	m *Manager

	looks        chan look     // executors that changed: Run checks their sandboxes at once
	recheckQueue chan string   // workspaces whose guest could not be dialed: Run checks them at once
	slots        chan struct{} // a semaphore for checks that are not slow

	mu       sync.Mutex
	checking map[string]bool // workspaces whose sandbox is being checked
}

func newChecks(m *Manager) *checks {
	return &checks{m: m, looks: make(chan look, 256), recheckQueue: make(chan string, 64), slots: make(chan struct{}, checkAtOnce), checking: make(map[string]bool)}
}

// Run checks the health of the live sandboxes and reaps unknown ones until ctx is done. It returns when its goroutines, and makings under
// way, have ended. Recover comes first.
func (m *Manager) Run(ctx context.Context) error {
	m.refreeze(ctx)
	m.wakeUnfinished(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		m.checks.startChecks(ctx, m.slotsWhere(func(s *slot) bool { return s.strayed() })) // Recover had no time for them
		m.every(ctx, m.cfg.HealthEvery, func(ctx context.Context) {
			m.checks.startChecks(ctx, m.slotsWhere(func(s *slot) bool { return s.kind() != "" }))
			m.cfg.Metering.Beat(ctx, m.cfg.HealthEvery, m.resting)
		})
	})
	wg.Go(func() {
		m.Reap(ctx)
		m.every(ctx, m.cfg.ReapEvery, func(ctx context.Context) {
			m.sweepSlots()
			m.Reap(ctx)
		})
	})
	wg.Go(func() { m.checks.recheck(ctx) })
	wg.Go(func() { m.checks.recheckLooks(ctx) })
	if m.cfg.Pool != nil {
		wg.Go(func() { m.cfg.Pool.Run(ctx) })
	}
	wg.Wait()
	m.work.Close()
	m.cfg.Choice.Close()
	m.closePipes()
	return nil
}

// closePipes closes the connections to the guests, which live on: the next server finds them again.
func (m *Manager) closePipes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.slots {
		if p := s.current(); p != nil {
			p.Guest.Close()
		}
	}
}

// recheck checks the sandboxes that could not be dialed, each on its own: one that hangs delays no other.
func (c *checks) recheck(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-c.recheckQueue:
			c.startChecks(ctx, []string{id})
		}
	}
}

func (m *Manager) every(ctx context.Context, d time.Duration, fn func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.cfg.After(d):
			fn(ctx)
		}
	}
}

// CheckHealth checks every live sandbox and every unreachable one once, now.
func (m *Manager) CheckHealth(ctx context.Context) {
	m.checks.checkAll(ctx, m.slotsWhere(func(s *slot) bool { return s.kind() != "" }))
	m.cfg.Metering.Beat(ctx, m.cfg.HealthEvery, m.resting)
}

// slotsWhere returns the workspaces whose slots satisfy a condition.
func (m *Manager) slotsWhere(such func(*slot) bool) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]string, 0, len(m.slots))
	for id, s := range m.slots {
		if such(s) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// checkAll checks these workspaces' sandboxes and waits for all results.
func (c *checks) checkAll(ctx context.Context, ids []string) {
	var wg sync.WaitGroup
	for _, id := range ids {
		free, ok := c.checkSlot(ctx)
		if !ok {
			break
		}
		wg.Go(func() {
			defer free()
			c.checkOne(ctx, id)
		})
	}
	wg.Wait()
}

// startChecks starts to check these workspaces' sandboxes without waiting for the results. It skips one whose check is under way: a sandbox
// that hangs has one check at a time.
func (c *checks) startChecks(ctx context.Context, ids []string) {
	for _, id := range ids {
		c.mu.Lock()
		busy := c.checking[id]
		c.checking[id] = true
		c.mu.Unlock()
		if busy {
			continue
		}
		done := func() {
			c.mu.Lock()
			delete(c.checking, id)
			c.mu.Unlock()
		}
		free, ok := c.checkSlot(ctx)
		if !ok {
			done()
			return
		}
		if !c.m.work.Go(func() {
			defer free()
			defer done()
			c.checkOne(ctx, id)
		}) {
			free()
			done()
		}
	}
}

// checkSlot waits until it may run one more check; the returned func releases its place. A slow check loses its place: hanging sandboxes,
// each bounded by its deadlines, must not block the others.
func (c *checks) checkSlot(ctx context.Context) (free func(), ok bool) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	give := sync.OnceFunc(func() { <-c.slots })
	slow := time.AfterFunc(checkSlotFor, give)
	return func() {
		slow.Stop()
		give()
	}, true
}

func (c *checks) checkOne(ctx context.Context, id string) {
	if err := c.m.Check(ctx, id); err != nil && ctx.Err() == nil {
		c.m.cfg.Log.Debug("health check failed", "workspace_id", id, "error", err)
	}
}

// Check checks the workspace's sandbox now. It returns nil when the guest answers or the workspace has no sandbox, ErrGone when the sandbox
// turned out to be gone (its Place has ended by then), and another error while that is unknown.
func (m *Manager) Check(ctx context.Context, workspaceID string) error {
	s := m.slot(workspaceID)
	p := s.current()
	if p == nil {
		return s.checkStray(ctx)
	}
	if why := m.cfg.Choice.Unreachable(ctx, p.Kind); why != nil {
		s.left(ctx, p, why)
		return why
	}
	defer p.cameBack()()
	if p.Asleep() {
		return nil // it cannot answer, so the guest is not asked
	}
	_, err := p.hello(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		s.healthy(ctx, p)
		s.keep(ctx, p)
		s.rest(ctx, p)
		s.renew(ctx, p)
		return nil
	}
	return s.suspect(ctx, p, err)
}

func (s *slot) checkStray(ctx context.Context) error {
	s.mu.Lock()
	stray := s.stray
	s.mu.Unlock()
	if stray == nil {
		return nil
	}
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = s.reclaim(ctx)
	return err
}

// healthy records a good answer; it writes to the store when the state changed or the last write is a while ago.
func (s *slot) healthy(ctx context.Context, p *place) {
	now := s.m.now()
	s.mu.Lock()
	if s.place != p {
		s.mu.Unlock()
		return
	}
	news := p.record.Reason != "" && p.record.State != executors.Paused
	p.silent, p.healthAt = 0, now
	s.m.cfg.Metering.Seen(p.SandboxID)
	write := news || now-p.record.HealthAt >= healthKeepEvery.Milliseconds()
	if write {
		p.record.HealthAt = now
	}
	if news {
		p.record.Reason = ""
	}
	rec := p.record
	s.mu.Unlock()
	if !write {
		return
	}
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		s.m.cfg.Log.Warn("health of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
	if news {
		s.m.publish(ctx, rec)
	}
}

// suspect asks the executor about a sandbox that did not answer: is it gone, or only silent?
func (s *slot) suspect(ctx context.Context, p *place, cause error) error {
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s.current() != p {
		return executors.ErrGone
	}
	if p.Asleep() { // since the check began
		return nil
	}
	oom := s.m.KilledBy(p.WorkspaceID, p.SandboxID) // read while its figures still exist
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	still, asked, derr := s.m.dormant(ctx, rec)
	switch {
	case errors.Is(cause, executors.ErrGone):
		err = cause
	case asked && derr != nil:
		err = derr
	case still:
		s.m.cfg.Counters.Unhealthy(p.Kind, rec.Purpose)
		s.fellAsleep(ctx, p)
		return nil
	default:
		rctx, cancel := context.WithTimeout(ctx, 2*s.m.cfg.DialTimeout)
		defer cancel()
		if e, ok := s.m.cfg.Executors.Find(ctx, p.Kind); ok {
			_, err = e.Recover(rctx, p.box().Handle())
		} else {
			err = executors.ErrNoExecutor(p.Kind)
		}
	}
	if errors.Is(err, executors.ErrGone) {
		s.m.reaper.noteGone(p.SandboxID)
		words := s.m.goneWords(ctx, rec, err)
		if oom != "" {
			words = "killed: " + oom
			s.m.noteEnd(p.SandboxID, words)
		}
		if p.OwnDisk {
			p.notify(ctx, "sandbox.lost", "The sandbox is gone. "+sentence(words))
		}
		s.endPlace(ctx, p, executors.Gone, sentence(words))
		return executors.ErrGone
	}
	s.m.cfg.Counters.Unhealthy(p.Kind, rec.Purpose)
	if err == nil { // it does not answer, but exists
		s.m.cfg.Metering.Seen(p.SandboxID)
	}
	s.mu.Lock()
	p.silent++
	notify := p.silent == silentAfter
	if notify {
		p.record.Reason = "It does not answer: " + executors.CleanReason(executors.ReasonOf(cause))
	}
	rec = p.record
	s.mu.Unlock()
	if notify {
		s.m.cfg.Log.Warn("a sandbox does not answer", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "error", cause)
		if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
			s.m.cfg.Log.Warn("a sandbox could not be stored as not answering", "sandbox_id", p.SandboxID, "error", err)
		}
		s.m.publish(ctx, rec)
	}
	return fmt.Errorf("sandbox %s does not answer: %w", p.SandboxID, cause)
}

// endPlace takes the Place out of the slot, closes its row and wakes everybody who waits for its end.
func (s *slot) endPlace(ctx context.Context, p *place, state executors.State, reason string) {
	s.mu.Lock()
	s.place = nil
	p.setPaused(nil)
	p.setAway(nil)
	rec := p.record
	s.mu.Unlock()
	s.m.finish(ctx, rec, state, reason)
	p.close(reason)
}

// close wakes everybody who waits for the sandbox's end and closes the connection to its guest.
func (p *place) close(reason string) {
	p.End(reason)
	p.Guest.Close()
}
