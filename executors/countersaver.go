package executors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// CounterRow is one count as it is stored.
type CounterRow struct {
	Kind    Kind
	Purpose Purpose // "" = counted for all purposes together
	Name    string
	Value   int64
	Since   int64 // when counting began, ms UTC
}

type counterKey struct {
	kind    Kind
	purpose Purpose
	name    string
}

// counts returns every count of a tally by its stored name.
func (t *tally) counts(k Kind) map[counterKey]*int64 {
	out := map[counterKey]*int64{{k, "", "fallbacks"}: &t.fallbacks, {k, "", "warm_hits"}: &t.warmHits, {k, "", "warm_misses"}: &t.warmMisses,
		{k, "", "run_ms"}: &t.runMs, {k, "", "idle_ms"}: &t.idleMs}
	for p, n := range t.purposes {
		out[counterKey{k, p, "created"}] = &n.Created
		out[counterKey{k, p, "failed"}] = &n.Failed
		out[counterKey{k, p, "cleaned"}] = &n.Cleaned
		out[counterKey{k, p, "reused"}] = &n.Reused
		out[counterKey{k, p, "health_failures"}] = &n.HealthFailures
	}
	for name, d := range map[string]*timing{"create": &t.create, "lag": &t.lag, "command": &t.command} {
		out[counterKey{k, "", name + "_count"}] = &d.count
		out[counterKey{k, "", name + "_sum_ms"}] = &d.sum
		for i, top := range TimingBounds {
			out[counterKey{k, "", fmt.Sprintf("%s_to_%d_ms", name, top)}] = &d.buckets[i]
		}
	}
	return out
}

// restore adds what was counted before a restart. The quantiles of timings begin anew.
func (c *Counters) restore(rows []CounterRow) {
	for _, r := range rows {
		c.count(r.Kind, func(t *tally) {
			if r.Purpose != "" {
				t.purpose(r.Purpose)
			}
			if n := t.counts(r.Kind)[counterKey{r.Kind, r.Purpose, r.Name}]; n != nil {
				*n += r.Value
			}
			if r.Since != 0 && (c.since == 0 || r.Since < c.since) {
				c.since = r.Since
			}
		})
	}
}

// rows returns the counts that differ from the saved ones.
func (c *Counters) rows(saved map[counterKey]int64) []CounterRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []CounterRow
	for k, t := range c.kinds {
		for key, n := range t.counts(k) {
			if *n != saved[key] {
				out = append(out, CounterRow{Kind: k, Purpose: key.purpose, Name: key.name, Value: *n, Since: c.since})
			}
		}
	}
	return out
}

// CounterStore keeps counts.
type CounterStore interface {
	// Counts returns the stored counts.
	Counts(ctx context.Context) ([]CounterRow, error)
	// SaveCounts stores all of these counts, or none. It never lowers a stored count.
	SaveCounts(ctx context.Context, rows []CounterRow) error
}

// CounterSaver keeps Counters over restarts. It stores totals, not differences: storing the same totals again, after an answer that was
// lost, counts nothing twice. After a kill -9, what was counted since the last save is missing.
type CounterSaver struct {
	cfg   CounterSaverConfig
	saved map[counterKey]int64 // nil until Recover
}

// CounterSaverConfig configures a CounterSaver.
type CounterSaverConfig struct {
	Counters *Counters
	Store    CounterStore
	Every    time.Duration                        // default 10 s
	After    func(time.Duration) <-chan time.Time // default time.After
	Log      *slog.Logger
}

// NewCounterSaver makes a CounterSaver. It starts nothing.
func NewCounterSaver(cfg CounterSaverConfig) *CounterSaver {
	cfg.Every = cmp.Or(cfg.Every, 10*time.Second)
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &CounterSaver{cfg: cfg}
}

// Recover adds the stored counts to the Counters. It is called once, before Run.
func (s *CounterSaver) Recover(ctx context.Context) error {
	if s.saved != nil {
		return errors.New("executors: stored counts are added once")
	}
	rows, err := s.cfg.Store.Counts(ctx)
	if err != nil {
		return err
	}
	s.saved = make(map[counterKey]int64)
	for _, r := range rows {
		s.saved[counterKey{r.Kind, r.Purpose, r.Name}] = r.Value
	}
	s.cfg.Counters.restore(rows)
	return nil
}

// Run saves the counts that changed, at intervals and when ctx ends.
func (s *CounterSaver) Run(ctx context.Context) error {
	for {
		select {
		case <-s.cfg.After(s.cfg.Every):
			s.save(ctx)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SettleTimeout)
			defer cancel()
			s.save(ctx)
			return nil
		}
	}
}

func (s *CounterSaver) save(ctx context.Context) {
	if s.saved == nil { // without the stored counts, these are too low
		return
	}
	rows := s.cfg.Counters.rows(s.saved)
	if len(rows) == 0 {
		return
	}
	if err := s.cfg.Store.SaveCounts(ctx, rows); err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Warn("the counts of sandboxes could not be stored; the next attempt stores them", "error", err)
		}
		return
	}
	for _, r := range rows {
		s.saved[counterKey{r.Kind, r.Purpose, r.Name}] = r.Value
	}
}
