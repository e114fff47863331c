package executors_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
)

// counts is a CounterStore in memory. It stores what it is given even when its answer is lost.
type counts struct {
	rows map[[3]string]executors.CounterRow
	lost bool
}

func (s *counts) Counts(context.Context) (out []executors.CounterRow, err error) {
	for _, r := range s.rows {
		out = append(out, r)
	}
	return out, nil
}

func (s *counts) SaveCounts(_ context.Context, rows []executors.CounterRow) error {
	for _, r := range rows {
		key := [3]string{string(r.Kind), string(r.Purpose), r.Name}
		if s.rows[key].Value < r.Value {
			s.rows[key] = r
		}
	}
	if s.lost {
		return errors.New("the answer was lost")
	}
	return nil
}

func TestCountsOutliveRestarts(t *testing.T) {
	t.Parallel()
	store := &counts{rows: make(map[[3]string]executors.CounterRow)}
	start := func(now int64) (c *executors.Counters, tick func(), stop func()) {
		c = &executors.Counters{}
		c.Begin(now)
		ticks := make(chan time.Time)
		s := executors.NewCounterSaver(executors.CounterSaverConfig{Counters: c, Store: store, After: func(time.Duration) <-chan time.Time { return ticks }})
		if err := s.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx) }()
		return c, func() { ticks <- time.Time{} }, func() { cancel(); <-done }
	}
	c, tick, stop := start(1000)
	c.Created("docker", executors.ForApp, 70)
	c.Reused("docker", executors.ForExecution)
	store.lost = true
	tick()
	c.Created("docker", executors.ForApp, 70)
	tick() // stores both again
	c.Unhealthy("docker", executors.ForApp)
	stop()
	store.lost = false

	c, _, stop = start(9000)
	c.Created("docker", executors.ForApp, 90_000)
	c.Ran("docker", 500, true)
	stop()
	c, tick, stop = start(10_000)
	got := c.Counts()["docker"]
	if got.Purposes[executors.ForApp] != (executors.PurposeCounts{Created: 3, HealthFailures: 1}) || got.Purposes[executors.ForExecution].Reused != 1 || got.Created != 3 || got.Create.Count != 3 ||
		got.Create.Buckets[1] != 2 || got.Create.SumMs != 90_140 || got.RunMs != 500 || c.Since() != 1000 {
		t.Errorf("after two restarts: %+v since %d", got, c.Since())
	}
	stop()
	c, tick, _ = start(11_000) // a server that is killed: Run is not told
	c.Failed("docker", executors.ForApp)
	tick()
	tick() // the first was stored when the second is taken
	c, _, stop = start(12_000)
	if n := c.Counts()["docker"].Failed; n != 1 {
		t.Errorf("%d failures after a kill", n)
	}
	stop()
}
