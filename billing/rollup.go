package billing

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/tenant"
)

// The roll-up sums the ledger by UTC hour (usage_hours). An hour is frozen once it has been over for a while; from then on its rows never
// change, so that it can be reported and billed. A segment's cost is spread by what it had cost at each hour's end, so that its hours
// add up to it to the nano-dollar. Usage that was not known when its hour was frozen is booked in the first hour that is not frozen.
//
// It may be cut short anywhere: a segment remembers how much of it is there, in the transaction that put it there, and the hour is
// frozen last.

const (
	// settling is how long after its end an hour is frozen: heartbeats and executors' own records have arrived by then, ms.
	settling = 5 * 60_000
	// rollsAtOnce is how many segments one transaction of the roll-up reads.
	rollsAtOnce = 500
	// rollEvery is how often it is looked whether an hour is over.
	rollEvery = time.Minute
	// markFrozen names the mark that says up to when hours are frozen.
	markFrozen = "rollup"
)

// Unrolled is a segment that is not wholly in the hours, and how much of it is.
type Unrolled struct {
	Segment
	RolledMs   int64
	RolledNano int64
}

// Hour is what one segment came to in one hour.
type Hour struct {
	Segment  // of which: whose it is, where, and whether it is metered
	Hour     int64
	RunMs    int64
	CostNano int64
}

// Rolls is what the roll-up needs of the storage.
type Rolls interface {
	// FirstUnrolled is when the earliest segment began that is not wholly in the hours; false when all are.
	FirstUnrolled(ctx context.Context) (startedAt int64, ok bool, err error)
	// UnrolledSegments returns some that began before a time, the earliest first, behind one that began at afterAt.
	UnrolledSegments(ctx context.Context, before, afterAt int64, afterID string, most int) ([]Unrolled, error)
	// AddHours adds to hours, and notes how much of their segments is there.
	AddHours(ctx context.Context, hours []Hour) error
	// Mark returns what was noted under a name, "" = nothing.
	Mark(ctx context.Context, name string) (string, error)
	SetMark(ctx context.Context, name, value string) error
}

// hourOf is when the hour of a time began.
func hourOf(ms int64) int64 { return ms - ms%hourMs }

// Frozen is up to when hours are frozen: those that began before it never change.
func (l *Ledger) Frozen(ctx context.Context) (int64, error) {
	v, err := l.cfg.Store.Mark(ctx, markFrozen)
	if err != nil {
		return 0, fmt.Errorf("reading how far the hours are: %w", err)
	}
	if v == "" {
		return 0, nil
	}
	at, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading how far the hours are: %w", err)
	}
	return at, nil
}

// RollUp freezes the hours that are over.
func (l *Ledger) RollUp(ctx context.Context) error {
	ctx = tenant.All(ctx, oneLedger)
	l.rollMu.Lock()
	defer l.rollMu.Unlock()
	due := hourOf(l.clock.Now() - settling) // hours that began before this are over
	next, err := l.Frozen(ctx)
	if err != nil {
		return err
	}
	for next < due && ctx.Err() == nil {
		first, ok, err := l.cfg.Store.FirstUnrolled(ctx)
		if err != nil {
			return fmt.Errorf("reading what is not in the hours: %w", err)
		}
		hour := due // nothing ran in those before
		if ok {
			hour = min(max(next, hourOf(first)), due)
		}
		if hour < due {
			if err := l.rollHour(ctx, hour); err != nil {
				return fmt.Errorf("adding up the hour of %s: %w", time.UnixMilli(hour).UTC().Format(time.RFC3339), err)
			}
			hour += hourMs
		}
		next = hour
		if err := l.cfg.Store.SetMark(ctx, markFrozen, strconv.FormatInt(next, 10)); err != nil {
			return fmt.Errorf("freezing hours: %w", err)
		}
	}
	return ctx.Err()
}

// rollHour puts all that is known up to an hour's end, and not in the hours yet, into it.
func (l *Ledger) rollHour(ctx context.Context, hour int64) error {
	end := hour + hourMs
	var last Unrolled
	for {
		var some []Unrolled
		err := l.cfg.Store.Tx(ctx, func(ctx context.Context) error {
			var err error
			some, err = l.cfg.Store.UnrolledSegments(ctx, end, last.StartedAt, last.ID, rollsAtOnce)
			if err != nil {
				return err
			}
			var add []Hour
			for _, s := range some {
				known := s.SeenAt
				if s.EndedAt != 0 {
					known = s.EndedAt
				}
				ran := min(known, end) - s.StartedAt
				if ran > s.RolledMs {
					add = append(add, Hour{Segment: s.Segment, Hour: hour, RunMs: ran - s.RolledMs, CostNano: cost(s.PriceNano, ran) - s.RolledNano})
				}
			}
			return l.cfg.Store.AddHours(ctx, add)
		})
		if err != nil || len(some) == 0 {
			return err
		}
		failpoint.Reach(failpoint.HourRolled)
		if len(some) < rollsAtOnce {
			return nil
		}
		last = some[len(some)-1]
	}
}

// Run adds up hours until ctx ends, and tells teams whose sandboxes cost something that there is more to see.
func (l *Ledger) Run(ctx context.Context) error {
	for {
		if err := l.RollUp(ctx); err != nil && ctx.Err() == nil {
			l.cfg.Log.Error("roll-up of the ledger failed; the server will retry in a minute", "error", err)
		}
		l.announce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-l.cfg.After(rollEvery):
		}
	}
}

// announce tells the teams with paid sandboxes that run that their usage has grown.
func (l *Ledger) announce(ctx context.Context) {
	if l.cfg.Events == nil || ctx.Err() != nil {
		return
	}
	teams, err := l.cfg.Store.TeamsRunning(ctx)
	if err != nil {
		l.cfg.Log.Warn("teams with paid sandboxes not read", "error", err)
		return
	}
	now := l.clock.Now()
	for _, team := range teams {
		l.cfg.Events.Publish(ctx, events.Event{Type: "usage.updated", ID: team, TeamID: team, Version: now})
	}
}
