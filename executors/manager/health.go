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

// Health checking: how a place that stopped answering is told from one that is gone.
const (
	checkAtOnce     = 32               // checks at the same time that are not slow
	checkSlotFor    = time.Second      // after which a check is slow
	silentAfter     = 3                // failed checks before the team is told that a sandbox does not answer
	healthKeepEvery = 60 * time.Second // how often a good health is worth a write
)

// Run keeps checking the health of the live places and reaping what the store does not know, until ctx is done. It returns
// when its goroutines, and makings under way, have ended. Recover comes first.
func (m *Manager) Run(ctx context.Context) error {
	m.refreeze(ctx)
	m.wakeUnfinished(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		m.startChecks(ctx, m.roomsWhere(func(r *room) bool { return r.strayed() })) // Recover had no time for them
		m.every(ctx, m.cfg.HealthEvery, func(ctx context.Context) {
			m.startChecks(ctx, m.roomsWhere(func(r *room) bool { return r.kind() != "" }))
			m.cfg.Metering.Beat(ctx, m.cfg.HealthEvery, m.resting)
		})
	})
	wg.Go(func() {
		m.Reap(ctx)
		m.every(ctx, m.cfg.ReapEvery, func(ctx context.Context) {
			m.sweepRooms()
			m.Reap(ctx)
		})
	})
	wg.Go(func() { m.heed(ctx) })
	wg.Go(func() { m.heedLooks(ctx) })
	if m.cfg.Pool != nil {
		wg.Go(func() { m.cfg.Pool.Run(ctx) })
	}
	wg.Wait()
	m.work.Close()
	m.cfg.Choice.Close()
	m.closePipes()
	return nil
}

// closePipes lets go of the guests, which live on: the next server finds them again.
func (m *Manager) closePipes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rooms {
		if p := r.current(); p != nil {
			p.Guest.Close()
		}
	}
}

// heed looks at the places that could not be dialed, each by itself: one that hangs keeps nobody waiting.
func (m *Manager) heed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-m.worries:
			m.startChecks(ctx, []string{id})
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

// CheckHealth looks at every live place and every unreachable sandbox once, now.
func (m *Manager) CheckHealth(ctx context.Context) {
	m.checkAll(ctx, m.roomsWhere(func(r *room) bool { return r.kind() != "" }))
	m.cfg.Metering.Beat(ctx, m.cfg.HealthEvery, m.resting)
}

// roomsWhere names the workspaces whose rooms are such.
func (m *Manager) roomsWhere(such func(*room) bool) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]string, 0, len(m.rooms))
	for id, r := range m.rooms {
		if such(r) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// checkAll looks at these workspaces' sandboxes and waits until all were looked at.
func (m *Manager) checkAll(ctx context.Context, ids []string) {
	var wg sync.WaitGroup
	for _, id := range ids {
		free, ok := m.checkSlot(ctx)
		if !ok {
			break
		}
		wg.Go(func() {
			defer free()
			m.checkOne(ctx, id)
		})
	}
	wg.Wait()
}

// startChecks looks at these workspaces' sandboxes without waiting for what comes of it. One that is being looked at so is left alone:
// a sandbox that hangs has one check under way.
func (m *Manager) startChecks(ctx context.Context, ids []string) {
	for _, id := range ids {
		m.mu.Lock()
		busy := m.checking[id]
		m.checking[id] = true
		m.mu.Unlock()
		if busy {
			continue
		}
		done := func() {
			m.mu.Lock()
			delete(m.checking, id)
			m.mu.Unlock()
		}
		free, ok := m.checkSlot(ctx)
		if !ok {
			done()
			return
		}
		if !m.work.Go(func() {
			defer free()
			defer done()
			m.checkOne(ctx, id)
		}) {
			free()
			done()
		}
	}
}

// checkSlot waits for the right to check one more sandbox; the returned func gives it back. A check that is slow loses it: those that
// hang, each of which ends by its deadlines, take no turn from the others.
func (m *Manager) checkSlot(ctx context.Context) (free func(), ok bool) {
	select {
	case m.checkSlots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	give := sync.OnceFunc(func() { <-m.checkSlots })
	slow := time.AfterFunc(checkSlotFor, give)
	return func() {
		slow.Stop()
		give()
	}, true
}

func (m *Manager) checkOne(ctx context.Context, id string) {
	if err := m.Check(ctx, id); err != nil && ctx.Err() == nil {
		m.cfg.Log.Debug("health check failed", "workspace_id", id, "error", err)
	}
}

// Check looks at the workspace's sandbox now. It returns nil when the guest answers or the workspace has no sandbox,
// ErrGone when the sandbox turned out to be gone (its place is ended by then), and another error while it cannot be told.
func (m *Manager) Check(ctx context.Context, workspaceID string) error {
	r := m.room(workspaceID)
	p := r.current()
	if p == nil {
		return m.checkStray(ctx, r)
	}
	if why := m.awayWhy(ctx, p.Kind); why != nil {
		m.left(ctx, r, p, why)
		return why
	}
	defer m.cameBack(p)()
	if p.Asleep() {
		return nil // it cannot answer, and is not asked
	}
	_, err := m.hello(ctx, p)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		m.healthy(ctx, r, p)
		m.keep(ctx, r, p)
		m.rest(ctx, r, p)
		m.renew(ctx, r, p)
		return nil
	}
	return m.suspect(ctx, r, p, err)
}

func (m *Manager) checkStray(ctx context.Context, r *room) error {
	r.mu.Lock()
	stray := r.stray
	r.mu.Unlock()
	if stray == nil {
		return nil
	}
	release, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = m.reclaim(ctx, r)
	return err
}

// healthy notes a good answer; it is written when it is news or a while since the last write.
func (m *Manager) healthy(ctx context.Context, r *room, p *place) {
	now := m.now()
	r.mu.Lock()
	if r.place != p {
		r.mu.Unlock()
		return
	}
	news := p.record.Reason != "" && p.record.State != executors.Paused
	p.silent, p.healthAt = 0, now
	m.cfg.Metering.Seen(p.SandboxID)
	write := news || now-p.record.HealthAt >= healthKeepEvery.Milliseconds()
	if write {
		p.record.HealthAt = now
	}
	if news {
		p.record.Reason = ""
	}
	rec := p.record
	r.mu.Unlock()
	if !write {
		return
	}
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		m.cfg.Log.Warn("health of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
	if news {
		m.publish(ctx, rec)
	}
}

// suspect asks the executor about a place that did not answer: gone, or only silent?
func (m *Manager) suspect(ctx context.Context, r *room, p *place, cause error) error {
	release, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	if r.current() != p {
		return executors.ErrGone
	}
	if p.Asleep() { // since the question was asked
		return nil
	}
	oom := m.KilledBy(p.WorkspaceID, p.SandboxID) // asked while its figures are there
	r.mu.Lock()
	rec := p.record
	r.mu.Unlock()
	still, asked, derr := m.dormant(ctx, rec)
	switch {
	case errors.Is(cause, executors.ErrGone):
		err = cause
	case asked && derr != nil:
		err = derr
	case still:
		m.cfg.Counters.Unhealthy(p.Kind)
		m.fellAsleep(ctx, r, p)
		return nil
	default:
		rctx, cancel := context.WithTimeout(ctx, 2*m.cfg.DialTimeout)
		defer cancel()
		if e, ok := m.cfg.Executors.Find(ctx, p.Kind); ok {
			_, err = e.Recover(rctx, p.box().Handle())
		} else {
			err = executors.ErrNoExecutor(p.Kind)
		}
	}
	if errors.Is(err, executors.ErrGone) {
		m.noteGone(p.SandboxID)
		words := m.goneWords(ctx, rec, err)
		if oom != "" {
			words = "killed: " + oom
			m.noteEnd(p.SandboxID, words)
		}
		if p.OwnDisk {
			m.tell(ctx, p, "sandbox.lost", "The sandbox is gone. "+sentence(words))
		}
		m.endPlace(ctx, r, p, executors.Gone, sentence(words))
		return executors.ErrGone
	}
	m.cfg.Counters.Unhealthy(p.Kind)
	if err == nil { // it does not answer, and is there
		m.cfg.Metering.Seen(p.SandboxID)
	}
	r.mu.Lock()
	p.silent++
	tell := p.silent == silentAfter
	if tell {
		p.record.Reason = "It does not answer: " + executors.CleanReason(executors.ReasonOf(cause))
	}
	rec = p.record
	r.mu.Unlock()
	if tell {
		m.cfg.Log.Warn("sandbox does not answer", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "error", cause)
		if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
			m.cfg.Log.Warn("silence of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
		}
		m.publish(ctx, rec)
	}
	return fmt.Errorf("sandbox %s does not answer: %w", p.SandboxID, cause)
}

// endPlace takes the place out of the room, closes its row and wakes everybody who waits for its end.
func (m *Manager) endPlace(ctx context.Context, r *room, p *place, state executors.State, reason string) {
	r.mu.Lock()
	r.place = nil
	m.setPaused(p, nil)
	m.setAway(p, nil)
	rec := p.record
	r.mu.Unlock()
	m.finish(ctx, rec, state, reason)
	p.close(reason)
}

// close wakes everybody who waits for the place's end and lets go of its guest.
func (p *place) close(reason string) {
	p.End(reason)
	p.Guest.Close()
}
