package manager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
)

// Ledger keeps what sandboxes cost. Safe for concurrent use; its calls are bounded by their context.
type Ledger interface {
	// Afford refuses what may not begin, or begin again, and holds back what it may cost until it has begun, or Release says that it did not.
	Afford(ctx context.Context, s executors.Stretch) error
	// Release notes that a sandbox that Afford let in did not begin after all.
	Release(ctx context.Context, sandboxID string) error
	// Began notes that a sandbox runs. One that is known to run goes on.
	Began(ctx context.Context, s executors.Stretch) error
	// Beat notes that these still run.
	Beat(ctx context.Context, sandboxIDs []string) error
	// Still notes that a sandbox does not run any more, since at (ms UTC; 0 = now, or as far as by knows). Without a stretch under way it
	// does nothing, but where the place tells when its last run began (Since) and nobody noted that.
	Still(ctx context.Context, s executors.Stretch, at int64, by executors.StillBy) error
	// Settle ends the stretches of all sandboxes but these, by their last heartbeats.
	Settle(ctx context.Context, sandboxIDs []string) error
}

// witnessTimeout bounds how long a place is asked for its record.
const witnessTimeout = 5 * time.Second

// metering is what the Manager keeps of the sandboxes that run.
type metering struct {
	mu   sync.Mutex
	runs map[string]*metered // by sandbox id
	at   int64               // ms UTC of the last beat
}

type metered struct {
	kind   executors.Kind
	making bool // it is being made: whoever makes it would know if it were gone
	seen   bool // it was known to run since the last beat
}

// afford refuses to let something begin that its people may not have, or that there is no money for.
func (m *Manager) afford(ctx context.Context, s executors.Stretch) error {
	if m.cfg.Ledger == nil { // what costs nothing is asked for, too: it may count in people's hours
		return nil
	}
	return m.cfg.Ledger.Afford(ctx, s)
}

// release gives back what afford held back for a sandbox that did not begin.
func (m *Manager) release(ctx context.Context, sandboxID string) {
	if m.cfg.Ledger == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	if err := m.cfg.Ledger.Release(ctx, sandboxID); err != nil {
		m.cfg.Log.Warn("what was held back for a sandbox that did not begin stays so for a while", "sandbox_id", sandboxID, "error", err)
	}
}

// began notes that a sandbox runs. Where running costs money, what cannot be noted is an error.
func (m *Manager) began(ctx context.Context, s executors.Stretch, making bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	t := &m.metering
	t.mu.Lock()
	if t.runs == nil {
		t.runs = make(map[string]*metered)
	}
	t.runs[s.SandboxID] = &metered{kind: s.Kind, making: making, seen: true}
	t.mu.Unlock()
	if m.cfg.Ledger == nil {
		return nil
	}
	err := m.cfg.Ledger.Began(ctx, s)
	if err != nil && s.PriceNano <= 0 && !s.Metered {
		m.cfg.Log.Warn("a sandbox runs that the ledger does not know", "sandbox_id", s.SandboxID, "error", err)
		return nil
	}
	return err
}

// runsOn is began for a sandbox that runs already, whatever the ledger says of it: the health check tries again.
func (m *Manager) runsOn(ctx context.Context, r executors.Record, since int64) {
	s := m.stretch(r)
	s.Since = since
	if err := m.began(ctx, s, false); err != nil {
		m.cfg.Log.Error("a sandbox that costs money runs and the ledger does not know", "sandbox_id", s.SandboxID, "error", err)
	}
}

// settled notes that a live place is in its room: one that was just made is known to run, one that was found again is asked since when.
func (m *Manager) settled(ctx context.Context, p *place) {
	if p.Asleep() {
		return // it was found as it stood
	}
	t := &m.metering
	t.mu.Lock()
	r := t.runs[p.SandboxID]
	fresh := r != nil && r.making
	if fresh {
		r.making, r.seen = false, true
	}
	t.mu.Unlock()
	if fresh {
		return
	}
	if p.record.State == executors.Paused { // it stood still until it was woken to be found
		m.stoodGone(ctx, p.record)
	}
	m.runsOn(ctx, p.record, m.ranSince(ctx, p.record.Handle))
}

// reckon ends the stretches of sandboxes nobody knows any more. It comes after all of them were looked for.
func (m *Manager) reckon(ctx context.Context) {
	if m.cfg.Ledger == nil {
		return
	}
	open, err := m.cfg.Store.OpenSandboxes(ctx)
	var ids []string
	if err == nil {
		ids, err = m.pool().ids(ctx)
	}
	for _, r := range open {
		ids = append(ids, r.Handle.ID)
	}
	if err == nil {
		err = m.cfg.Ledger.Settle(ctx, ids)
	}
	if err != nil {
		m.cfg.Log.Error("stretches of sandboxes nobody knows could not be ended", "error", err)
	}
}

// saw notes that a sandbox was known to run just now.
func (m *Manager) saw(sandboxID string) {
	m.metering.mu.Lock()
	defer m.metering.mu.Unlock()
	if r := m.metering.runs[sandboxID]; r != nil {
		r.seen = true
	}
}

// stood notes that a sandbox does not run any more.
func (m *Manager) stood(ctx context.Context, s executors.Stretch, at int64, by executors.StillBy) {
	sandboxID := s.SandboxID
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	m.metering.mu.Lock()
	delete(m.metering.runs, sandboxID)
	m.metering.mu.Unlock()
	if m.cfg.Ledger == nil {
		return
	}
	if err := m.cfg.Ledger.Still(ctx, s, at, by); err != nil {
		m.cfg.Log.Error("the ledger could not be told that a sandbox does not run any more", "sandbox_id", sandboxID, "error", err)
	}
}

// stoodGone notes that a sandbox was found not to run: since when, its place may know.
func (m *Manager) stoodGone(ctx context.Context, rec executors.Record) {
	h, s := rec.Handle, m.stretch(rec)
	if e, ok := m.witness(ctx, h.Kind); ok {
		wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessTimeout)
		ran, err := e.Ran(wctx, h)
		cancel()
		if err == nil && ran.EndedAt > 0 {
			if rec.State != executors.Paused { // the end of that run was noted already
				s.Since = ran.BeganAt
			}
			m.stood(ctx, s, ran.EndedAt, executors.ByPlace)
			return
		}
		if err != nil && !errors.Is(err, executors.ErrGone) {
			m.cfg.Log.Debug("a place did not say when a sandbox ran", "sandbox_id", h.ID, "error", err)
		}
	}
	m.stood(ctx, s, 0, executors.ByHeartbeat)
}

// ranSince is since when a sandbox runs that was found running, by its place's own record; 0 = it does not say.
func (m *Manager) ranSince(ctx context.Context, h executors.Handle) int64 {
	e, ok := m.witness(ctx, h.Kind)
	if !ok {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	ran, err := e.Ran(ctx, h)
	if err != nil || ran.EndedAt > 0 {
		return 0
	}
	return ran.BeganAt
}

// beat tells the ledger which sandboxes were known to run since the last time, and the counters whether they had anything to do.
func (m *Manager) beat(ctx context.Context) {
	t := &m.metering
	now := m.now()
	t.mu.Lock()
	passed := int64(0)
	if t.at != 0 {
		passed = min(max(now-t.at, 0), 2*m.cfg.HealthEvery.Milliseconds())
	}
	t.at = now
	var ids []string
	kinds := make(map[string]executors.Kind, len(t.runs))
	for id, r := range t.runs {
		if r.seen || r.making {
			ids = append(ids, id)
			kinds[id] = r.kind
		}
		r.seen = false
	}
	t.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	resting := m.resting()
	for id, k := range kinds {
		m.cfg.Counters.Ran(k, passed, resting[id])
	}
	if m.cfg.Ledger == nil {
		return
	}
	if err := m.cfg.Ledger.Beat(ctx, ids); err != nil && ctx.Err() == nil {
		m.cfg.Log.Warn("the ledger could not be told which sandboxes run", "error", err)
	}
}

// resting are the sandboxes that have nothing to do now.
func (m *Manager) resting() map[string]bool {
	out := make(map[string]bool)
	for _, p := range m.places() {
		r := m.room(p.WorkspaceID)
		r.mu.Lock()
		if p.idleAt != 0 {
			out[p.SandboxID] = true
		}
		r.mu.Unlock()
	}
	return out
}

// Counters tell what happened in the places of this process.
func (m *Manager) Counters() *executors.Counters { return m.cfg.Counters }

// witness is a place that keeps a record of when sandboxes run, where somebody wants to know.
func (m *Manager) witness(ctx context.Context, k executors.Kind) (executors.Witness, bool) {
	e, ok := m.executor(ctx, k)
	if !ok || m.cfg.Ledger == nil {
		return nil, false
	}
	w, ok := e.(executors.Witness)
	return w, ok
}

// Active is how many sandboxes run now, by kind or family.
func (m *Manager) Active() map[executors.Kind]int64 {
	m.metering.mu.Lock()
	defer m.metering.mu.Unlock()
	out := make(map[executors.Kind]int64)
	for _, r := range m.metering.runs {
		out[r.kind.Base()]++
	}
	return out
}

// Kinds are the kinds of place of this server, and its families.
func (m *Manager) Kinds() []executors.Kind {
	out := make([]executors.Kind, 0, len(m.cfg.Executors))
	for _, e := range m.cfg.Executors {
		out = append(out, e.Kind())
	}
	return slices.AppendSeq(out, maps.Keys(m.families))
}
