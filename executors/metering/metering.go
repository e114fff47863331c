// Package metering reports to a ledger when sandboxes begin to run, that they still do, and when they stop, with what that costs. It asks
// the
// ledger before anything begins (Afford), and finds out from an executor's own record when a sandbox stopped that nobody saw stop.
//
// It starts no goroutine. Lock: Metering.mu guards the set of running sandboxes, and is not held during a call to the ledger or an executor.
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

// Ledger records what sandboxes cost. Safe for concurrent use; its calls are bounded by their context.
type Ledger interface {
	// Afford refuses what may not begin, or begin again, and reserves what it may cost until Began, or until Release says that it did not
	// begin.
	Afford(ctx context.Context, s executors.UsageInterval) error
	// Release releases the reservation of a sandbox that Afford admitted and that did not begin after all.
	Release(ctx context.Context, sandboxID string) error
	// Began records that a sandbox runs. For one already known to run it changes nothing.
	Began(ctx context.Context, s executors.UsageInterval) error
	// Beat records that these still run.
	Beat(ctx context.Context, sandboxIDs []string) error
	// Stopped records that a sandbox stopped running at a time (ms UTC; 0 = now, or as far as by knows). Without an open usage interval it
	// does nothing, unless the executor says when its last run began (Since) and nobody recorded that run.
	Stopped(ctx context.Context, s executors.UsageInterval, at int64, by executors.StopSource) error
	// Settle ends the usage intervals of all sandboxes except these, by their last heartbeats.
	Settle(ctx context.Context, sandboxIDs []string) error
}

// recorderTimeout bounds a call to an executor for its record.
const recorderTimeout = 5 * time.Second

// Pricing returns the current price of an hour of a sandbox of a size in a kind of executor, nano-USD, and whether its time counts towards
// people's quotas.
type Pricing func(k executors.Kind, cpus int, memoryMB int64) (hourNano int64, metered bool)

// Of returns the current price of an hour. Without a price book, the executor's own price holds.
func (p Pricing) Of(k executors.Kind, cpus int, memoryMB, itself int64) (hourNano int64, metered bool) {
	if p == nil {
		return itself, itself > 0
	}
	return p(k.Base(), cpus, memoryMB)
}

// Config configures a Metering.
type Config struct {
	Ledger    Ledger  // records what sandboxes cost; nil = nothing does
	Price     Pricing // default: what executors report themselves
	Executors *executors.Registry
	Counters  *executors.Counters // counts what happens; nil = not counted
	Now       func() time.Time
	Log       *slog.Logger
}

// Metering tracks the running sandboxes and reports to the ledger. Safe for concurrent use.
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

// run is a running sandbox.
type run struct {
	kind   executors.Kind
	use    executors.Purpose
	making bool // it is being made: its maker would know if it were gone
	seen   bool // it was known to run since the last beat
}

// Afford refuses a start that the user's quota does not allow, or that no money is left for.
func (t *Metering) Afford(ctx context.Context, s executors.UsageInterval) error {
	if t.cfg.Ledger == nil { // also for what costs nothing: it may count towards people's quotas
		return nil
	}
	return t.cfg.Ledger.Afford(ctx, s)
}

// Release releases the reservation of a sandbox that did not begin.
func (t *Metering) Release(ctx context.Context, sandboxID string) {
	if t.cfg.Ledger == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	if err := t.cfg.Ledger.Release(ctx, sandboxID); err != nil {
		t.cfg.Log.Warn("the reservation of a sandbox that did not begin stays for a while", "sandbox_id", sandboxID, "error", err)
	}
}

// Began records that a sandbox runs. Where running costs money, failing to record it is an error.
func (t *Metering) Began(ctx context.Context, s executors.UsageInterval, making bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	t.mu.Lock()
	t.runs[s.SandboxID] = &run{kind: s.Kind, use: executors.Purpose(s.Purpose), making: making, seen: true}
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

// RunsOn is Began for a sandbox that already runs, whatever the ledger answers: the health check tries again.
func (t *Metering) RunsOn(ctx context.Context, r executors.Record, since int64) {
	s := t.UsageInterval(r)
	s.Since = since
	if err := t.Began(ctx, s, false); err != nil {
		t.cfg.Log.Error("a sandbox that costs money runs and the ledger does not know", "sandbox_id", s.SandboxID, "error", err)
	}
}

// Seen records that a sandbox was known to run just now.
func (t *Metering) Seen(sandboxID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.runs[sandboxID]; r != nil {
		r.seen = true
	}
}

// Stopped records that a sandbox no longer runs.
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
		t.cfg.Log.Error("the ledger could not record that a sandbox no longer runs", "sandbox_id", sandboxID, "error", err)
	}
}

// FoundStopped records that a sandbox was found stopped: its executor may know since when.
func (t *Metering) FoundStopped(ctx context.Context, rec executors.Record) {
	h, s := rec.Handle, t.UsageInterval(rec)
	if e, ok := t.runRecorder(ctx, h.Kind); ok {
		wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recorderTimeout)
		ran, err := e.Ran(wctx, h)
		cancel()
		if err == nil && ran.EndedAt > 0 {
			if rec.State != executors.Paused { // the end of that run was recorded already
				s.Since = ran.BeganAt
			}
			t.Stopped(ctx, s, ran.EndedAt, executors.ByExecutor)
			return
		}
		if err != nil && !errors.Is(err, executors.ErrGone) {
			t.cfg.Log.Debug("an executor did not say when a sandbox ran", "sandbox_id", h.ID, "error", err)
		}
	}
	t.Stopped(ctx, s, 0, executors.ByHeartbeat)
}

// RunningSince returns when a sandbox that was found running began to run, by its executor's own record; 0 = it does not say.
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

// Beat reports to the ledger which sandboxes were known to run since the last beat, and to the counters whether they were idle: resting
// names those that are. It is called at regular intervals; a longer gap, as on a machine that slept, counts as two intervals.
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
		t.cfg.Log.Warn("the ledger could not record which sandboxes run", "error", err)
	}
}

// runRecorder returns an executor's RunRecorder, where it has one and somebody needs it.
func (t *Metering) runRecorder(ctx context.Context, k executors.Kind) (executors.RunRecorder, bool) {
	e, ok := t.cfg.Executors.Find(ctx, k)
	if !ok || t.cfg.Ledger == nil {
		return nil, false
	}
	w, ok := e.(executors.RunRecorder)
	return w, ok
}

// UsedFor records that a sandbox has another purpose now.
func (t *Metering) UsedFor(sandboxID string, p executors.Purpose) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.runs[sandboxID]; r != nil {
		r.use = p
	}
}

// Active returns how many sandboxes run now, by kind or family and purpose.
func (t *Metering) Active() map[executors.Kind]map[executors.Purpose]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[executors.Kind]map[executors.Purpose]int64)
	for _, r := range t.runs {
		of := out[r.kind.Base()]
		if of == nil {
			of = make(map[executors.Purpose]int64)
			out[r.kind.Base()] = of
		}
		of[cmp.Or(r.use, executors.ForAgent)]++
	}
	return out
}

// Known reports whether a sandbox is known to run, or to be in the making.
func (t *Metering) Known(sandboxID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[sandboxID] != nil
}

// Made records that a sandbox reported with Began while in the making is now in use, and reports whether it was. For a recovered one it was
// not: the executor is asked since when it runs.
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

// Settle ends the usage intervals of all sandboxes except those that known names, by their last heartbeats. Call it after all of them were
// looked for.
func (t *Metering) Settle(ctx context.Context, known func(context.Context) ([]string, error)) {
	if t.cfg.Ledger == nil {
		return
	}
	ids, err := known(ctx)
	if err == nil {
		err = t.cfg.Ledger.Settle(ctx, ids)
	}
	if err != nil {
		t.cfg.Log.Error("usage intervals of unknown sandboxes could not be ended", "error", err)
	}
}

// UsageInterval returns a sandbox's interval for the ledger, with its current price.
func (t *Metering) UsageInterval(r executors.Record) executors.UsageInterval {
	s := executors.UsageInterval{SandboxID: r.Handle.ID, TeamID: r.TeamID, WorkspaceID: r.WorkspaceID, UserID: r.UserID, Kind: r.Handle.Kind.Base(),
		Purpose: string(r.Purpose), CPUs: r.CPUs, MemoryMB: r.MemoryMB}
	s.PriceNano, s.Metered = t.cfg.Price.Of(s.Kind, s.CPUs, s.MemoryMB, r.PriceNano)
	return s
}

// Price returns the current price of an hour of a sandbox; itself is what its executor reports.
func (t *Metering) Price(k executors.Kind, cpus int, memoryMB, itself int64) (hourNano int64, metered bool) {
	return t.cfg.Price.Of(k, cpus, memoryMB, itself)
}
