// Package metering tells a ledger when sandboxes begin to run, that they still do, and when they stop, with what that costs. It asks before
// anything begins (Afford) and finds out from an executor's own record when a sandbox stopped that nobody saw stop.
//
// It starts no goroutine. Lock: Metering.mu guards which sandboxes run, and is not held while the ledger or an executor is asked.
package metering

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
)

// Ledger keeps what sandboxes cost. Safe for concurrent use; its calls are bounded by their context.
type Ledger interface {
	// Afford refuses what may not begin, or begin again, and holds back what it may cost until it has begun, or Release says that it did not.
	Afford(ctx context.Context, s executors.UsageInterval) error
	// Release notes that a sandbox that Afford let in did not begin after all.
	Release(ctx context.Context, sandboxID string) error
	// Began notes that a sandbox runs. One that is known to run goes on.
	Began(ctx context.Context, s executors.UsageInterval) error
	// Beat notes that these still run.
	Beat(ctx context.Context, sandboxIDs []string) error
	// Stopped notes that a sandbox does not run any more, since at (ms UTC; 0 = now, or as far as by knows). Without a stretch under way it
	// does nothing, but where the place tells when its last run began (Since) and nobody noted that.
	Stopped(ctx context.Context, s executors.UsageInterval, at int64, by executors.StopSource) error
	// Settle ends the stretches of all sandboxes but these, by their last heartbeats.
	Settle(ctx context.Context, sandboxIDs []string) error
}

// recorderTimeout bounds how long a place is asked for its record.
const recorderTimeout = 5 * time.Second

// Pricing says what an hour of a sandbox of a size costs now in a kind of place, nano-USD, and whether its time is metered: counts in
// people's hours and in how many run at once.
type Pricing func(k executors.Kind, cpus int, memoryMB int64) (hourNano int64, metered bool)

// Of is what an hour costs now. Without a price book what the place says itself holds.
func (p Pricing) Of(k executors.Kind, cpus int, memoryMB, itself int64) (hourNano int64, metered bool) {
	if p == nil {
		return itself, itself > 0
	}
	return p(k.Base(), cpus, memoryMB)
}

// Config is what a Metering is made of.
type Config struct {
	Ledger    Ledger  // what sandboxes cost; nil = nobody keeps that
	Price     Pricing // default: what executors say themselves
	Executors *executors.Registry
	Counters  *executors.Counters // what happens; nil = nobody counts
	Now       func() time.Time
	Log       *slog.Logger
}

// Metering knows which sandboxes run, and tells the ledger. Safe for concurrent use.
type Metering struct {
	cfg Config

	mu   sync.Mutex
	runs map[string]*run // by sandbox id
	at   int64           // ms UTC of the last beat
}

// New makes a Metering. It starts nothing.
func New(cfg Config) *Metering {
	if cfg.Executors == nil {
		cfg.Executors = executors.NewRegistry(nil)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Metering{cfg: cfg, runs: make(map[string]*run)}
}

func (t *Metering) now() int64 { return t.cfg.Now().UnixMilli() }

// run is a sandbox that runs.
type run struct {
	kind   executors.Kind
	making bool // it is being made: whoever makes it would know if it were gone
	seen   bool // it was known to run since the last beat
}

// Afford refuses to let something begin that its people may not have, or that there is no money for.
func (t *Metering) Afford(ctx context.Context, s executors.UsageInterval) error {
	if t.cfg.Ledger == nil { // what costs nothing is asked for, too: it may count in people's hours
		return nil
	}
	return t.cfg.Ledger.Afford(ctx, s)
}

// Release gives back what Afford held back for a sandbox that did not begin.
func (t *Metering) Release(ctx context.Context, sandboxID string) {
	if t.cfg.Ledger == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	if err := t.cfg.Ledger.Release(ctx, sandboxID); err != nil {
		t.cfg.Log.Warn("what was held back for a sandbox that did not begin stays so for a while", "sandbox_id", sandboxID, "error", err)
	}
}

// Began notes that a sandbox runs. Where running costs money, what cannot be noted is an error.
func (t *Metering) Began(ctx context.Context, s executors.UsageInterval, making bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	t.mu.Lock()
	t.runs[s.SandboxID] = &run{kind: s.Kind, making: making, seen: true}
	t.mu.Unlock()
	if t.cfg.Ledger == nil {
		return nil
	}
	err := t.cfg.Ledger.Began(ctx, s)
	if err != nil && s.PriceNano <= 0 && !s.Metered {
		t.cfg.Log.Warn("a sandbox runs that the ledger does not know", "sandbox_id", s.SandboxID, "error", err)
		return nil
	}
	return err
}

// RunsOn is Began for a sandbox that runs already, whatever the ledger says of it: the health check tries again.
func (t *Metering) RunsOn(ctx context.Context, r executors.Record, since int64) {
	s := t.UsageInterval(r)
	s.Since = since
	if err := t.Began(ctx, s, false); err != nil {
		t.cfg.Log.Error("a sandbox that costs money runs and the ledger does not know", "sandbox_id", s.SandboxID, "error", err)
	}
}

// Seen notes that a sandbox was known to run just now.
func (t *Metering) Seen(sandboxID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.runs[sandboxID]; r != nil {
		r.seen = true
	}
}

// Stopped notes that a sandbox does not run any more.
func (t *Metering) Stopped(ctx context.Context, s executors.UsageInterval, at int64, by executors.StopSource) {
	sandboxID := s.SandboxID
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	t.mu.Lock()
	delete(t.runs, sandboxID)
	t.mu.Unlock()
	if t.cfg.Ledger == nil {
		return
	}
	if err := t.cfg.Ledger.Stopped(ctx, s, at, by); err != nil {
		t.cfg.Log.Error("the ledger could not be told that a sandbox does not run any more", "sandbox_id", sandboxID, "error", err)
	}
}

// FoundStopped notes that a sandbox was found not to run: since when, its place may know.
func (t *Metering) FoundStopped(ctx context.Context, rec executors.Record) {
	h, s := rec.Handle, t.UsageInterval(rec)
	if e, ok := t.runRecorder(ctx, h.Kind); ok {
		wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recorderTimeout)
		ran, err := e.Ran(wctx, h)
		cancel()
		if err == nil && ran.EndedAt > 0 {
			if rec.State != executors.Paused { // the end of that run was noted already
				s.Since = ran.BeganAt
			}
			t.Stopped(ctx, s, ran.EndedAt, executors.ByExecutor)
			return
		}
		if err != nil && !errors.Is(err, executors.ErrGone) {
			t.cfg.Log.Debug("a place did not say when a sandbox ran", "sandbox_id", h.ID, "error", err)
		}
	}
	t.Stopped(ctx, s, 0, executors.ByHeartbeat)
}

// RunningSince is since when a sandbox runs that was found running, by its place's own record; 0 = it does not say.
func (t *Metering) RunningSince(ctx context.Context, h executors.Handle) int64 {
	e, ok := t.runRecorder(ctx, h.Kind)
	if !ok {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, recorderTimeout)
	defer cancel()
	ran, err := e.Ran(ctx, h)
	if err != nil || ran.EndedAt > 0 {
		return 0
	}
	return ran.BeganAt
}

// Beat tells the ledger which sandboxes were known to run since the last time, and the counters whether they had anything to do: resting names
// those that do not. It is called every so often; a longer pause, as of a machine that slept, counts as two.
func (t *Metering) Beat(ctx context.Context, every time.Duration, resting func() map[string]bool) {
	now := t.now()
	t.mu.Lock()
	passed := int64(0)
	if t.at != 0 {
		passed = min(max(now-t.at, 0), 2*every.Milliseconds())
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
	idle := resting()
	for id, k := range kinds {
		t.cfg.Counters.Ran(k, passed, idle[id])
	}
	if t.cfg.Ledger == nil {
		return
	}
	if err := t.cfg.Ledger.Beat(ctx, ids); err != nil && ctx.Err() == nil {
		t.cfg.Log.Warn("the ledger could not be told which sandboxes run", "error", err)
	}
}

// witness is a place that keeps a record of when sandboxes run, where somebody wants to know.
func (t *Metering) runRecorder(ctx context.Context, k executors.Kind) (executors.RunRecorder, bool) {
	e, ok := t.cfg.Executors.Find(ctx, k)
	if !ok || t.cfg.Ledger == nil {
		return nil, false
	}
	w, ok := e.(executors.RunRecorder)
	return w, ok
}

// Active is how many sandboxes run now, by kind or family.
func (t *Metering) Active() map[executors.Kind]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[executors.Kind]int64)
	for _, r := range t.runs {
		out[r.kind.Base()]++
	}
	return out
}

// Known reports whether a sandbox is known to run, or to be being made.
func (t *Metering) Known(sandboxID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[sandboxID] != nil
}

// Made notes that a sandbox whose making was told with Began is in use, and reports whether that was so. One that was found again was not: it
// is asked since when it runs.
func (t *Metering) Made(sandboxID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[sandboxID]
	if r == nil || !r.making {
		return false
	}
	r.making, r.seen = false, true
	return true
}

// Settle ends the stretches of all sandboxes but those that known names, by their last heartbeats. It comes after all of them were looked for.
func (t *Metering) Settle(ctx context.Context, known func(context.Context) ([]string, error)) {
	if t.cfg.Ledger == nil {
		return
	}
	ids, err := known(ctx)
	if err == nil {
		err = t.cfg.Ledger.Settle(ctx, ids)
	}
	if err != nil {
		t.cfg.Log.Error("stretches of sandboxes nobody knows could not be ended", "error", err)
	}
}

// UsageInterval is what the ledger is told of a sandbox, with what it costs now.
func (t *Metering) UsageInterval(r executors.Record) executors.UsageInterval {
	s := executors.UsageInterval{SandboxID: r.Handle.ID, TeamID: r.TeamID, WorkspaceID: r.WorkspaceID, UserID: r.UserID, Kind: r.Handle.Kind.Base(),
		Purpose: string(r.Purpose), CPUs: r.CPUs, MemoryMB: r.MemoryMB}
	s.PriceNano, s.Metered = t.cfg.Price.Of(s.Kind, s.CPUs, s.MemoryMB, r.PriceNano)
	return s
}

// Price is what an hour of a sandbox costs now; itself is what its executor says.
func (t *Metering) Price(k executors.Kind, cpus int, memoryMB, itself int64) (hourNano int64, metered bool) {
	return t.cfg.Price.Of(k, cpus, memoryMB, itself)
}
