package billing_test

import (
	"context"
	"testing"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// rolled is one row of the hours.
type rolled struct{ runMs, vcpuMs, mibMs, costNano int64 }

type segmentHour struct {
	segment string
	hour    int64
}

// hours hold what was added up to its rules: what is frozen never changes, and is a whole hour at most.
type hours struct {
	h      *harness
	frozen int64
	seen   map[segmentHour]rolled
}

func newHours(h *harness) *hours { return &hours{h: h, seen: make(map[segmentHour]rolled)} }

// rows are all there are.
func (hs *hours) rows() map[segmentHour]rolled {
	hs.h.t.Helper()
	rows, err := hs.h.db.Query(hs.h.ctx, `SELECT segment_id, hour, run_ms, vcpu_ms, mib_ms, cost_nano FROM usage_hours`)
	hs.h.do(err)
	defer rows.Close()
	out := make(map[segmentHour]rolled)
	for rows.Next() {
		var k segmentHour
		var v rolled
		hs.h.do(rows.Scan(&k.segment, &k.hour, &v.runMs, &v.vcpuMs, &v.mibMs, &v.costNano))
		out[k] = v
	}
	hs.h.do(rows.Err())
	return out
}

func (hs *hours) rollUp() {
	t := hs.h.t
	t.Helper()
	hs.h.do(hs.h.l.RollUp(hs.h.ctx))
	frozen, err := hs.h.l.Frozen(hs.h.ctx)
	hs.h.do(err)
	if frozen < hs.frozen || frozen%hour != 0 {
		t.Fatalf("hours were frozen up to %d, and now up to %d", hs.frozen, frozen)
	}
	now := hs.rows()
	for k, v := range hs.seen {
		if now[k] != v {
			t.Fatalf("a frozen hour was %+v and is %+v", v, now[k])
		}
	}
	for k, v := range now {
		if _, ok := hs.seen[k]; !ok && k.hour < hs.frozen {
			t.Fatalf("a row came to a frozen hour: %+v %+v", k, v)
		}
		if k.hour >= frozen || k.hour%hour != 0 || v.runMs <= 0 || v.costNano < 0 {
			t.Fatalf("an hour that cannot be, frozen up to %d: %+v %+v", frozen, k, v)
		}
	}
	hs.frozen, hs.seen = frozen, now
}

// complete fails unless the hours of each segment add up to it, to the nano-dollar.
func (hs *hours) complete() {
	t := hs.h.t
	t.Helper()
	sums := make(map[string]rolled)
	for k, v := range hs.rows() {
		s := sums[k.segment]
		sums[k.segment] = rolled{s.runMs + v.runMs, s.vcpuMs + v.vcpuMs, s.mibMs + v.mibMs, s.costNano + v.costNano}
	}
	rows, err := hs.h.db.Query(hs.h.ctx, `SELECT id, ended_at - started_at, (ended_at - started_at) * cpus, (ended_at - started_at) * memory_mb, cost_nano FROM segments WHERE ended_at <> 0`)
	hs.h.do(err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id string
		var want rolled
		hs.h.do(rows.Scan(&id, &want.runMs, &want.vcpuMs, &want.mibMs, &want.costNano))
		if sums[id] != want {
			t.Errorf("the hours of segment %s add up to %+v, not %+v", id, sums[id], want)
		}
		n++
	}
	hs.h.do(rows.Err())
	if n == 0 {
		t.Error("nothing was added up")
	}
}

func TestHoursAddUpToTheLedger(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db).withBook() // 21:00, three hours before the month ends
		hs := newHours(h)
		h.do(h.l.Began(h.ctx, run("a")))
		h.clock.at += 20*minute + 1
		h.do(h.l.Began(h.ctx, run("b")))
		free := run("c")
		free.Kind, free.CPUs, free.MemoryMB = "local", 0, 0
		h.do(h.l.Began(h.ctx, free))
		beat := func(ms int64) {
			for ; ms > 0; ms -= 15 * second {
				h.clock.at += min(ms, 15*second)
				h.do(h.l.Beat(h.ctx, []string{"a", "b", "c"}))
			}
		}
		beat(42 * minute)
		hs.rollUp()
		if len(hs.rows()) != 0 {
			t.Fatal("an hour was frozen before it settled")
		}
		beat(3 * minute) // 22:05 and a bit
		hs.rollUp()
		hs.rollUp()
		if rows := hs.rows(); len(rows) != 3 {
			t.Fatalf("%d rows of an hour with three sandboxes", len(rows))
		}
		h.do(h.l.Stopped(h.ctx, run("b"), 0, executors.ByServer))
		beat(3 * hour) // into December
		hs.rollUp()
		h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
		h.do(h.l.Stopped(h.ctx, free, 0, executors.ByServer))
		h.clock.at += 2 * hour
		h.restart()
		hs.rollUp()
		hs.complete()
		_, nov, dec := billing.Month(h.clock.at - 6*hour)
		spent, err := h.store.Spent(h.ctx, nov, dec)
		h.do(err)
		sum := int64(0)
		for k, v := range hs.rows() {
			if k.hour < dec {
				sum += v.costNano
			}
		}
		if sum != spent || spent == 0 {
			t.Errorf("November is %d by the hour and %d in the ledger", sum, spent)
		}
	})
}

// Usage that was not known when its hour was frozen is booked in the hour in which it became known.
func TestLateUsageIsReportedInTheHourItArrives(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t)).withBook()
	hs := newHours(h)
	began := h.clock.at
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += 10 * minute
	h.do(h.l.Beat(h.ctx, []string{"a"}))
	h.clock.at += hour // and no heartbeat arrives
	hs.rollUp()
	if rows := hs.rows(); len(rows) != 1 || rows[segmentHour{h.segments("a")[0].ID, began}].runMs != 10*minute {
		t.Fatalf("%+v", rows)
	}
	h.do(h.l.Stopped(h.ctx, run("a"), began+50*minute, executors.ByExecutor)) // its place knows better
	h.clock.at += hour
	hs.rollUp()
	hs.complete()
	if v := hs.rows()[segmentHour{h.segments("a")[0].ID, began + hour}]; v.runMs != 40*minute {
		t.Errorf("the rest came as %+v", v)
	}
}

// A run whose end was taken to be the last heartbeat, and whose place says later that it went on, is corrected by a segment of its own.
func TestALaterWordOfThePlaceCorrects(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t)).withBook()
	began := h.clock.at
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += 10 * minute
	h.do(h.l.Beat(h.ctx, []string{"a"}))
	h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByHeartbeat)) // its place did not answer
	h.clock.at += hour
	s := run("a")
	s.Since = began
	h.do(h.l.Stopped(h.ctx, s, began+30*minute, executors.ByExecutor))
	if ms, _ := h.check("a"); ms != 30*minute {
		t.Errorf("%d ms, not 30 minutes", ms)
	}
	var adjusts string
	h.do(h.db.QueryRow(h.ctx, `SELECT adjusts_id FROM segments WHERE sandbox_id = 'a' AND adjusts_id <> ''`).Scan(&adjusts))
	if first := h.segments("a")[0].ID; adjusts != first {
		t.Errorf("it corrects %q, not %q", adjusts, first)
	}
}

// A price that changes while a sandbox runs parts its segment to the millisecond, and what was is charged as it was.
func TestAPriceHoldsFromItsTimeOn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db).withBook()
		began := h.clock.at
		h.do(h.l.Began(h.ctx, run("a")))
		h.clock.at += minute
		row, err := h.book.Add(h.ctx, price.Row{Executor: "e2b", VCPUSecondNano: 28_000, GiBSecondNano: 9_000, CreatedBy: "usr_1", EffectiveFrom: began + 30*minute + 7})
		h.do(err)
		h.clock.at += 40 * minute
		h.do(h.l.Beat(h.ctx, []string{"a"}))
		h.clock.at += 19 * minute
		h.restart() // the book is read anew
		h.do(h.l.Began(h.ctx, run("a")))
		h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
		got := h.segments("a")
		if len(got) != 2 || got[0].EndedAt != began+30*minute+7 || got[0].EndSource != "price" || !got[0].Metered || got[1].Metered || got[1].PriceNano != 2*hourNano {
			t.Fatalf("%+v", got)
		}
		if _, nano := h.check("a"); nano != billing.Cost(hourNano, 30*minute+7)+billing.Cost(2*hourNano, 30*minute-7) {
			t.Errorf("%d nano-USD", nano)
		}
		if row.ID == "" || h.book.Quote("e2b", 2, 2048, began).HourNano != hourNano {
			t.Errorf("the past has another price: %+v", h.book.List())
		}
	})
}

// Run adds up what was left when a server died, at once.
func TestRunAddsUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t)).withBook()
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += 10 * minute
	h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
	h.clock.at += 50 * hour
	ctx, cancel := context.WithCancel(h.ctx)
	waits := make(chan time.Duration)
	l := billing.New(billing.Config{Store: h.store, Prices: h.book, Clock: billing.NewClock(h.clock.now, h.clock.elapsed), After: func(d time.Duration) <-chan time.Time {
		waits <- d
		return nil
	}})
	h.do(l.Recover(ctx))
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	<-waits
	cancel()
	h.do(<-done)
	hs := newHours(h)
	hs.complete()
	if frozen, err := l.Frozen(h.ctx); err != nil || frozen != h.clock.at-h.clock.at%hour {
		t.Errorf("frozen up to %d, %v", frozen, err)
	}
}
