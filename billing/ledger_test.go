package billing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour

	// hourNano is E2B's price for 2 vCPU and 2 GiB: $0.1332 an hour.
	hourNano = 133_200_000
)

// clocks are a true time and a server's clock that may be wrong.
type clocks struct {
	at  int64 // true ms UTC
	off int64 // what the server's clock is ahead by
}

func (c *clocks) now() time.Time         { return time.UnixMilli(c.at + c.off) }
func (c *clocks) elapsed() time.Duration { return time.Duration(c.at) * time.Millisecond }

type harness struct {
	t         testing.TB
	ctx       context.Context
	db        *store.DB
	store     *store.Billing
	clock     *clocks
	limit     billing.Budget
	reported  []billing.Alert
	notifyErr error // why nobody can be notified
	l         *billing.Ledger
	book      *price.Book // nil = the prices of usage intervals
}

func newHarness(t testing.TB, db *store.DB) *harness {
	t.Helper()
	// Three hours before a month ends.
	start := time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC).UnixMilli()
	h := &harness{t: t, ctx: t.Context(), db: db, store: store.NewBilling(db), clock: &clocks{at: start}}
	h.restart()
	return h
}

// restart makes the ledger of a new server over what is stored.
func (h *harness) restart() {
	h.t.Helper()
	var prices billing.Prices
	if h.book != nil { // it is read anew
		h.book = h.newBook()
		prices = h.book
	}
	h.l = billing.New(billing.Config{Store: h.store, Prices: prices, Clock: billing.NewClock(h.clock.now, h.clock.elapsed),
		Budget: func(context.Context) (billing.Budget, error) { return h.limit, nil },
		Notify: func(_ context.Context, a billing.Alert) error {
			if h.notifyErr == nil {
				h.reported = append(h.reported, a)
			}
			return h.notifyErr
		}})
	if err := h.l.Recover(h.ctx); err != nil {
		h.t.Fatal(err)
	}
	if h.book != nil {
		h.do(h.book.Load(h.ctx))
	}
}

// newBook is the price book of a server, with E2B's prices from its config.json.
func (h *harness) newBook() *price.Book {
	return price.New(price.Config{Store: store.NewPrices(h.db), Now: func() int64 { return h.l.Now() },
		Defaults: []price.Row{{Executor: "e2b", VCPUSecondNano: 14_000, GiBSecondNano: 4_500, Metered: true}}})
}

// withBook has the harness charge by a price book.
func (h *harness) withBook() *harness {
	h.book = h.newBook()
	h.restart()
	return h
}

func (h *harness) do(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func run(sandboxID string) executors.UsageInterval {
	return executors.UsageInterval{SandboxID: sandboxID, TeamID: "tm_1", WorkspaceID: "ws_" + sandboxID, UserID: "usr_1", Kind: "e2b", Purpose: "agent",
		CPUs: 2, MemoryMB: 2048, PriceNano: hourNano}
}

// segments are all there are of a sandbox, in order.
func (h *harness) segments(sandboxID string) []billing.Segment {
	h.t.Helper()
	rows, err := h.db.Query(h.ctx, `SELECT id, team_id, workspace_id, executor, cpus, memory_mb, metered, price_nano, started_at, seen_at, ended_at, end_source, cost_nano FROM segments
		WHERE sandbox_id = ? ORDER BY started_at, id`, sandboxID)
	h.do(err)
	defer rows.Close()
	var out []billing.Segment
	for rows.Next() {
		var s billing.Segment
		h.do(rows.Scan(&s.ID, &s.TeamID, &s.WorkspaceID, &s.Executor, &s.CPUs, &s.MemoryMB, &s.Metered, &s.PriceNano, &s.StartedAt, &s.SeenAt, &s.EndedAt, &s.EndSource, &s.CostNano))
		out = append(out, s)
	}
	h.do(rows.Err())
	return out
}

// check holds a sandbox's segments to the rules and returns how long they are together.
func (h *harness) check(sandboxID string) (ms, nano int64) {
	h.t.Helper()
	last, open := int64(0), 0
	for _, s := range h.segments(sandboxID) {
		end := s.EndedAt
		if end == 0 {
			end = s.SeenAt
			open++
		}
		switch {
		case s.StartedAt < last:
			h.t.Fatalf("segment %s begins at %d, before the one before it ended at %d", s.ID, s.StartedAt, last)
		case end < s.StartedAt || s.SeenAt < s.StartedAt:
			h.t.Fatalf("segment %s ends before it begins: %+v", s.ID, s)
		case s.StartedAt/day != (max(end, s.StartedAt+1)-1)/day:
			h.t.Fatalf("segment %s lies in two days: %+v", s.ID, s)
		case s.EndedAt != 0 && s.EndSource == "" || s.EndedAt == 0 && s.EndSource != "":
			h.t.Fatalf("segment %s has the wrong end source: %+v", s.ID, s)
		}
		if want := billing.Cost(s.PriceNano, end-s.StartedAt); s.EndedAt != 0 && s.CostNano != want || abs(s.CostNano-want) > 1 {
			h.t.Fatalf("segment %s costs %d, not %d", s.ID, s.CostNano, want)
		}
		if h.book != nil {
			q := h.book.Quote(s.Executor, s.CPUs, s.MemoryMB, s.StartedAt)
			if next, ok := h.book.Next(s.Executor, s.StartedAt); q.HourNano != s.PriceNano || q.Metered != s.Metered || ok && end > next {
				h.t.Fatalf("segment %+v, which the book prices at %+v until %d", s, q, next)
			}
		}
		last, ms, nano = end, ms+end-s.StartedAt, nano+s.CostNano
	}
	if open > 1 {
		h.t.Fatalf("%d segments of %s are open", open, sandboxID)
	}
	return ms, nano
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func TestALifeOfASandbox(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		pass := func(ms int64) { h.clock.at += ms }
		h.do(h.l.Began(h.ctx, run("a")))
		h.do(h.l.Began(h.ctx, run("a"))) // told twice
		pass(10 * minute)
		h.do(h.l.Beat(h.ctx, []string{"a", "nobody"}))
		pass(7*minute + 123)
		h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer)) // paused
		h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
		pass(hour)
		h.do(h.l.Beat(h.ctx, []string{"a"})) // suspended: no heartbeat of its own
		h.do(h.l.Began(h.ctx, run("a")))
		pass(hour)
		h.do(h.l.Beat(h.ctx, []string{"a"}))
		pass(20 * second)
		h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByHeartbeat))
		ms, nano := h.check("a")
		if want := 17*minute + 123 + hour; ms != want {
			t.Errorf("%d ms, not %d", ms, want)
		}
		if want := billing.Cost(hourNano, 17*minute+123) + hourNano; nano != want {
			t.Errorf("%d nano-USD, not %d", nano, want)
		}
		got := h.segments("a")
		if len(got) != 2 || got[0].EndSource != "server" || got[1].EndSource != "heartbeat" || got[0].TeamID != "tm_1" || got[0].WorkspaceID != "ws_a" {
			t.Errorf("segments %+v", got)
		}
	})
}

func TestAnHourCostsItsPrice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ price, ms, want int64 }{
		{108_900_000, hour, 108_900_000}, {hourNano, hour, hourNano}, {hourNano, 30 * day, hourNano * 720}, {1, hour / 2, 0}, {3, hour / 2, 2}, {1, hour/2 + 1, 1},
		{100 * billing.Nano, 366 * day, 100 * billing.Nano * 24 * 366}, {hourNano, 0, 0}, {0, hour, 0}, {hourNano, -1, 0},
	} {
		if got := billing.Cost(c.price, c.ms); got != c.want {
			t.Errorf("%d ms at %d: %d, not %d", c.ms, c.price, got, c.want)
		}
	}
	for nano, want := range map[int64]string{0: "$0.00", 500 * billing.Nano: "$500.00", 12_345_678_901: "$12.35", 1_234_567: "$0.0012", -billing.Nano: "-$1.00", 99_999_999: "$0.1000", 100_000_000: "$0.10", 49_999: "under $0.0001"} {
		if got := billing.Dollars(nano); got != want {
			t.Errorf("%d nano-USD: %s, not %s", nano, got, want)
		}
	}
}

// A month's end parts a segment, also when nobody looked for days.
func TestMonthsArePartedToTheMillisecond(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		h.do(h.l.Began(h.ctx, run("a")))
		h.do(h.l.Began(h.ctx, run("b")))
		h.clock.at += 4*hour + 1 // one hour and 1 ms into December
		h.do(h.l.Beat(h.ctx, []string{"a"}))
		_, nov, dec := billing.Month(h.clock.at - 2*hour)
		if spent, err := h.store.Spent(h.ctx, nov, dec); err != nil || spent != 3*hourNano {
			t.Errorf("November: %d, %v", spent, err)
		}
		if st, err := h.l.Standing(h.ctx); err != nil || st.SpentNano != hourNano+billing.Cost(hourNano, 1) || st.ResetsAt != time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() {
			t.Errorf("December: %+v, %v", st, err)
		}
		// b was not heard of; the server was away for three days, and finds it running.
		h.clock.at += 3 * day
		h.restart()
		h.do(h.l.Began(h.ctx, run("b")))
		h.do(h.l.Stopped(h.ctx, run("b"), 0, executors.ByServer))
		if ms, nano := h.check("b"); ms != 3*day+4*hour+1 || abs(nano-billing.Cost(hourNano, ms)) > 3 {
			t.Errorf("b: %d ms for %d", ms, nano)
		}
		if n := len(h.segments("b")); n != 5 {
			t.Errorf("b has %d segments, not one a day", n)
		}
		h.check("a")
	})
}

func TestTheServersClockMayJump(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += 10 * minute
	h.clock.off = 2 * hour // forward
	h.do(h.l.Beat(h.ctx, []string{"a"}))
	h.clock.at += 10 * minute
	h.clock.off = -hour // and back
	h.do(h.l.Beat(h.ctx, []string{"a"}))
	h.clock.at += 10 * minute
	h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
	h.do(h.l.Began(h.ctx, run("a"))) // at once: it may not begin before it ended
	h.clock.at += 10 * minute
	// A restart while the clock is behind what is written.
	h.restart()
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += 10 * minute
	h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
	if ms, _ := h.check("a"); abs(ms-50*minute) > 10*minute {
		t.Errorf("%d minutes", ms/minute)
	}
	if got := h.segments("a"); got[0].EndSource != "clock" || got[0].EndedAt-got[0].StartedAt != 10*minute {
		t.Errorf("the clock was put forward in %+v", got[0])
	}
}

func TestThePlacesWordIsKeptWithinWhatWasSeen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	began := h.clock.at
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += 10 * minute
	h.do(h.l.Beat(h.ctx, []string{"a"}))
	h.clock.at += 10 * minute
	h.do(h.l.Stopped(h.ctx, run("a"), began+13*minute, executors.ByExecutor))
	h.do(h.l.Began(h.ctx, run("b")))
	h.do(h.l.Stopped(h.ctx, run("b"), began, executors.ByExecutor)) // its clock is behind
	s := run("c")
	s.Since = h.clock.at - 5*minute // it ran before the ledger was notified
	h.do(h.l.Began(h.ctx, s))
	h.do(h.l.Stopped(h.ctx, run("c"), h.clock.at+hour, executors.ByExecutor)) // its clock is ahead
	for id, want := range map[string]int64{"a": 13 * minute, "b": 0, "c": 5 * minute} {
		if ms, _ := h.check(id); ms != want {
			t.Errorf("%s: %d ms, not %d", id, ms, want)
		}
	}
}

// A crash is found some seconds after it, and a heartbeat may be written in between: what its place knows is what is charged.
func TestACrashEndsWhenItsPlaceSaysSo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		for _, c := range []struct {
			id         string
			at         int64 // the reported end, after the last heartbeat, which is written a minute after the beginning
			by         executors.StopSource
			want       int64
			foundAfter int64
		}{
			{"late", 7 * second, executors.ByExecutor, minute + 7*second, 9 * second},
			{"early", -4 * second, executors.ByExecutor, minute - 4*second, 5 * second},
			{"down", 2 * second, executors.ByExecutor, minute + 2*second, 40 * minute},
			{"slow", -10 * minute, executors.ByExecutor, minute, second}, // its clock is wrong: it was seen to run
			{"fast", hour, executors.ByExecutor, minute + second, second},
			{"unknown", 3 * second, executors.ByHeartbeat, minute, 9 * second},
		} {
			h.do(h.l.Began(h.ctx, run(c.id)))
			h.clock.at += minute
			h.do(h.l.Beat(h.ctx, []string{c.id}))
			beat := h.clock.at
			h.clock.at += c.foundAfter
			h.do(h.l.Stopped(h.ctx, run(c.id), beat+c.at, c.by))
			if ms, nano := h.check(c.id); ms != c.want || nano != billing.Cost(hourNano, c.want) {
				t.Errorf("%s: %d ms for %d, not %d ms", c.id, ms, nano, c.want)
			}
		}
	})
}

// An hour that is frozen is billed: an end that comes to be known later takes nothing out of it.
func TestAnEarlierEndLeavesAFrozenHourAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t)) // an hour begins
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += hour
	h.do(h.l.Beat(h.ctx, []string{"a"}))
	h.clock.at += 10 * minute
	h.do(h.l.RollUp(h.ctx))
	h.do(h.l.Stopped(h.ctx, run("a"), h.clock.at-10*minute-4*second, executors.ByExecutor))
	if ms, _ := h.check("a"); ms != hour {
		t.Errorf("%d ms, not %d", ms, hour)
	}
}

func TestWhatNobodyKnowsEndsWithItsLastBeat(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.do(h.l.Began(h.ctx, run("a")))
	h.do(h.l.Began(h.ctx, run("b")))
	h.clock.at += minute
	h.do(h.l.Beat(h.ctx, []string{"a", "b"}))
	h.clock.at += hour
	h.restart()
	h.do(h.l.Settle(h.ctx, []string{"b"}))
	if got := h.segments("a"); got[0].EndedAt != got[0].StartedAt+minute || got[0].EndSource != "heartbeat" {
		t.Errorf("a: %+v", got)
	}
	if got := h.segments("b"); got[0].EndedAt != 0 {
		t.Errorf("b: %+v", got)
	}
}

func TestAnotherPriceIsAnotherSegment(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += minute
	s := run("a")
	s.CPUs, s.PriceNano = 4, 2*hourNano
	h.do(h.l.Began(h.ctx, s))
	h.clock.at += minute
	h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
	if _, nano := h.check("a"); nano != 3*billing.Cost(hourNano, minute) {
		t.Errorf("%d nano-USD", nano)
	}
	for _, bad := range []int64{-1, 101 * billing.Nano} {
		s.SandboxID, s.PriceNano = "bad", bad
		if err := h.l.Began(h.ctx, s); err == nil {
			t.Errorf("a price of %d was taken", bad)
		}
	}
}

func TestTheBudgetWarnsOnceAndRefuses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		h.limit = billing.Budget{LimitNano: 2 * hourNano, Limited: true}
		h.do(h.l.Afford(h.ctx, run("a")))
		h.do(h.l.Began(h.ctx, run("a")))
		beat := func(ms int64) {
			h.clock.at += ms
			h.do(h.l.Beat(h.ctx, []string{"a"}))
		}
		beat(hour)
		if len(h.reported) != 0 {
			t.Fatalf("told %+v", h.reported)
		}
		h.notifyErr = errors.New("the outbox is full")
		beat(48 * minute) // 90 %
		if len(h.reported) != 0 {
			t.Fatalf("told %+v", h.reported)
		}
		h.notifyErr = nil // a failed notification is sent at the next check
		beat(minute)
		if len(h.reported) != 1 || h.reported[0].Percent != 90 || h.reported[0].Period != "2026-11" || h.reported[0].LimitNano != 2*hourNano {
			t.Fatalf("told %+v", h.reported)
		}
		h.do(h.l.Afford(h.ctx, run("b")))
		h.restart() // and not again
		h.do(h.l.Began(h.ctx, run("a")))
		beat(11 * minute)
		beat(minute)
		if len(h.reported) != 2 || h.reported[1].Percent != 100 {
			t.Fatalf("told %+v", h.reported)
		}
		err := h.l.Afford(h.ctx, run("b"))
		f, ok := err.(*fault.Error)
		if !ok || f.Code != "budget_exceeded" || f.Details["scope"] != "instance_budget" || f.Details["limit"] != int64(2*hourNano) {
			t.Fatalf("Afford: %v", err)
		}
		free := run("b")
		free.PriceNano = 0
		h.do(h.l.Afford(h.ctx, free))
		// Raised: it may go on, and tells anew.
		h.limit.LimitNano = 20 * hourNano
		h.do(h.l.Afford(h.ctx, run("b")))
		beat(minute)
		h.limit.LimitNano = 2 * hourNano
		beat(minute)
		if len(h.reported) != 3 || h.reported[2].Percent != 100 {
			t.Fatalf("told %+v", h.reported)
		}
		// A new month.
		beat(2 * hour)
		h.do(h.l.Afford(h.ctx, run("b")))
	})
}

// life is a sandbox as its provider knows it.
type life struct {
	id        string
	exists    bool
	running   bool
	since     int64 // true time
	known     bool  // the server believes that it runs
	unnoted   bool  // its run began and the server was killed before the ledger knew
	endSource bool  // its place keeps a record
	ended     int64 // true time of its last end
	true      int64 // how long it has truly run
}

// Whatever happens in whatever order: what the segments add up to is how long sandboxes truly ran, within one heartbeat for each time
// the server was killed; none is counted twice, none overlaps another, and none is open beside another.
func TestSegmentsAddUpToTheTruth(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	for round := range 3 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) { // a name by which it can be run again
			t.Parallel()
			t.Logf("seed %d", seed+uint64(round))
			if r := rand.New(rand.NewPCG(seed+uint64(round), 1)); round > 0 {
				addUp(t, storetest.SQLite(t), r)
			} else { // both databases
				storetest.Each(t, func(t *testing.T, db *store.DB) { addUp(t, db, rand.New(rand.NewPCG(seed, 1))) })
			}
		})
	}
}

const heartbeat = 15 * second

// A clock that was put back before anything ran concerns nothing that runs later, however often the server is started.
func TestAClockPutBackBeforeAnythingRan(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Config{URL: "sqlite", DataDir: filepath.Join(t.TempDir(), "d"), AllTeams: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	h := newHarness(t, db)
	h.do(h.l.Beat(h.ctx, nil))
	h.clock.at += minute
	h.clock.off -= 11 * minute
	h.do(h.l.Beat(h.ctx, nil))
	h.clock.at += minute
	h.restart()
	began := h.clock.at
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += minute
	h.restart()
	h.do(h.l.Began(h.ctx, run("a")))
	h.clock.at += minute
	h.do(h.l.Stopped(h.ctx, run("a"), 0, executors.ByServer))
	if got, _ := h.check("a"); abs(got-(h.clock.at-began)) > heartbeat {
		t.Errorf("it ran for %d ms; its segments last %d", h.clock.at-began, got)
	}
}

func addUp(t *testing.T, db *store.DB, r *rand.Rand) {
	h := newHarness(t, db).withBook()
	hours := newHours(h)
	lives := make([]*life, 4)
	for i := range lives {
		lives[i] = &life{id: fmt.Sprintf("s%d", i), endSource: i%2 == 0}
	}
	kills, jumps := int64(0), int64(0)
	still := func(l *life) { // truly
		if l.running {
			l.true += h.clock.at - l.since
			l.running, l.ended = false, h.clock.at
		}
	}
	begin := func(l *life) { l.running, l.exists, l.since = true, true, h.clock.at }
	// pass lets time go by, with heartbeats of what runs while the server lives.
	pass := func(ms int64, alive bool) {
		for ms > 0 {
			step := min(ms, heartbeat)
			h.clock.at += step
			ms -= step
			if !alive {
				continue
			}
			var ids []string
			for _, l := range lives {
				if l.known && l.running {
					ids = append(ids, l.id)
				}
			}
			h.do(h.l.Beat(h.ctx, ids))
		}
	}
	for range 60 {
		pass(r.Int64N(4*minute), true)
		l := lives[r.IntN(len(lives))]
		switch r.IntN(11) {
		case 9: // hours are added up
			hours.rollUp()
		case 10: // another price, from now or soon
			_, err := h.book.Add(h.ctx, price.Row{Executor: "e2b", VCPUSecondNano: r.Int64N(100_000), GiBSecondNano: r.Int64N(30_000), Metered: r.IntN(2) == 0, CreatedBy: "usr_1",
				EffectiveFrom: h.l.Now() + r.Int64N(30*minute)})
			h.do(err)
		case 0, 1: // start, or wake
			if l.running {
				break
			}
			begin(l)
			h.do(h.l.Began(h.ctx, run(l.id)))
			l.known = true
		case 2: // pause, or destroy
			if !l.running || !l.known {
				break
			}
			still(l)
			h.do(h.l.Stopped(h.ctx, run(l.id), 0, executors.ByServer))
			l.known = false
		case 3: // it vanishes; the health check finds it within one heartbeat
			if !l.running || !l.known {
				break
			}
			still(l)
			h.clock.at += r.Int64N(heartbeat)
			h.find(l)
			kills++ // as inexact as a kill
		case 4: // the server's clock is put forward
			h.clock.off += r.Int64N(3 * hour)
			jumps++
		case 5: // or back
			h.clock.off -= r.Int64N(20 * minute)
			jumps++
		case 6: // nobody looks for a month's end
			pass(r.Int64N(3*hour), true)
		case 7, 8: // the server is killed, at times between the place's deed and the ledger's word
			kills++
			switch r.IntN(4) {
			case 0:
				if !l.running {
					begin(l)
					l.unnoted = true
				}
			case 1:
				if l.running && l.endSource {
					still(l)
				}
			}
			pass(r.Int64N(20*minute), false)
			for _, o := range lives { // meanwhile some end: those whose place will say when
				if o.running && o.endSource && r.IntN(3) == 0 {
					still(o)
				}
			}
			pass(r.Int64N(20*minute), false)
			h.restart()
			var open []string
			for _, o := range lives {
				if !o.running {
					h.find(o)
					continue
				}
				open = append(open, o.id)
				s := run(o.id)
				if o.endSource || !o.known { // what was never noted begins where its place, or the sandbox's row, says
					s.Since = o.since + h.clock.off
				}
				h.do(h.l.Began(h.ctx, s))
				o.known, o.unnoted = true, false
			}
			h.do(h.l.Settle(h.ctx, open))
		}
	}
	for _, l := range lives {
		if l.running {
			still(l)
			h.do(h.l.Stopped(h.ctx, run(l.id), 0, executors.ByServer))
		}
		got, _ := h.check(l.id)
		// The clock's slack is what a jump may hide.
		if most := (kills + 1) * heartbeat; abs(got-l.true) > most+jumps*5*second {
			t.Errorf("%s ran for %d ms; its segments last %d: %d ms off after %d kills and %d jumps", l.id, l.true, got, got-l.true, kills, jumps)
		}
	}
	h.clock.at += 2 * hour
	hours.rollUp()
	hours.complete()
}

// find tells the ledger of a sandbox that is found not to run.
func (h *harness) find(l *life) {
	h.t.Helper()
	if l.endSource {
		s := run(l.id)
		if l.unnoted {
			s.Since = l.since + h.clock.off
		}
		h.do(h.l.Stopped(h.ctx, s, l.ended+h.clock.off, executors.ByExecutor))
	} else {
		h.do(h.l.Stopped(h.ctx, run(l.id), 0, executors.ByHeartbeat))
	}
	l.known, l.unnoted = false, false
}

// stuck is a store whose transactions for one sandbox do not end until they are let go.
type stuck struct {
	billing.Store
	sandbox string
	in, out chan struct{}
}

func (s stuck) OpenSegment(ctx context.Context, sandboxID string) (billing.Segment, bool, error) {
	if sandboxID == s.sandbox {
		close(s.in)
		<-s.out
		return billing.Segment{}, false, errors.New("let go")
	}
	return s.Store.OpenSegment(ctx, sandboxID)
}

// Tx is none: SQLite has one writer, and what is tested is who else is kept waiting.
func (s stuck) Tx(ctx context.Context, fn func(ctx context.Context) error) error { return fn(ctx) }

// While a write for one sandbox is blocked in the database, others begin, beat and end, and the clock and the budget can be read.
func TestASlowWriteKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	s := stuck{Store: h.store, sandbox: "slow", in: make(chan struct{}), out: make(chan struct{})}
	l := billing.New(billing.Config{Store: s, Clock: billing.NewClock(h.clock.now, h.clock.elapsed)})
	var slow sync.WaitGroup
	slow.Go(func() {
		if err := l.Began(h.ctx, run("slow")); err == nil {
			t.Error("the slow one was not let go")
		}
	})
	<-s.in
	done := make(chan error, 1)
	go func() {
		_, err := l.Standing(h.ctx)
		_ = l.Now()
		done <- errors.Join(err, l.Began(h.ctx, run("quick")), l.Beat(h.ctx, []string{"quick"}), l.Stopped(h.ctx, run("quick"), 0, executors.ByServer))
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("another sandbox waits for the slow one")
	}
	close(s.out)
	slow.Wait()
}
