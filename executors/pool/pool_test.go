package pool_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger records its calls, and may refuse.
type ledger struct {
	mu     sync.Mutex
	runs   map[string]executors.UsageInterval
	ends   map[string]executors.StopSource
	refuse error // of Afford
}

func (l *ledger) Afford(context.Context, executors.UsageInterval) error { return l.refuse }
func (l *ledger) Release(context.Context, string) error                 { return nil }
func (l *ledger) Beat(context.Context, []string) error                  { return nil }
func (l *ledger) Settle(context.Context, []string) error                { return nil }
func (l *ledger) Began(_ context.Context, s executors.UsageInterval) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[s.SandboxID] = s
	return nil
}
func (l *ledger) Stopped(_ context.Context, s executors.UsageInterval, _ int64, by executors.StopSource) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, s.SandboxID)
	l.ends[s.SandboxID] = by
	return nil
}

// poolHarness is a Pool over the real store and an executor that makes sandboxes ahead of time.
type poolHarness struct {
	t        *testing.T
	ctx      context.Context
	store    *store.Executors
	world    *fake.World
	ex       *fake.Pooled
	l        *ledger
	counters *executors.Counters
	p        *pool.Pool
	root     string

	mu    sync.Mutex
	now   time.Time
	rules pool.Rules
}

var poolSizes = []executors.Size{{CPUs: 1, MemoryMB: 1024, PriceNano: 66, Available: true}, {CPUs: 2, MemoryMB: 2048, PriceNano: 133, Available: true, Default: true}}

func newPoolHarness(t *testing.T) *poolHarness {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	h := &poolHarness{t: t, ctx: ctx, store: store.NewExecutors(storetest.SQLite(t)), world: fake.NewWorld(t.TempDir(), nil), root: executortest.GitRoot(t),
		l: &ledger{runs: make(map[string]executors.UsageInterval), ends: make(map[string]executors.StopSource)}, counters: &executors.Counters{},
		now: time.UnixMilli(1_800_000_000_000), rules: pool.Rules{Enabled: true, Min: 2, Max: 4}}
	t.Cleanup(h.world.Close)
	h.world.Now = h.clock
	h.restart()
	return h
}

func (h *poolHarness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *poolHarness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// restart makes the Pool of a new server over what is stored.
func (h *poolHarness) restart() {
	h.ex = fake.NewPooled(h.world)
	h.ex.Set(fake.Knobs{Sizes: poolSizes, Lease: 10 * time.Minute})
	all := executors.NewRegistry([]executors.Executor{h.ex})
	m := metering.New(metering.Config{Ledger: h.l, Executors: all, Counters: h.counters, Now: h.clock})
	ch := choice.New(choice.Config{Executors: all, ProbeFresh: time.Nanosecond, Now: h.clock})
	h.t.Cleanup(ch.Close)
	h.p = pool.New(pool.Config{Executors: all, Choice: ch, Metering: m, Store: h.store, Rules: func(context.Context) pool.Rules { return h.rules },
		DialTimeout: 30 * time.Second, Counters: h.counters, Now: h.clock})
}

func (h *poolHarness) status(ready int) {
	h.t.Helper()
	got, err := h.p.Status(h.ctx)
	if err != nil || got.Ready != ready {
		h.t.Fatalf("the pool is %+v, %v; want %d ready", got, err, ready)
	}
}

// warm are the ids of the warm sandboxes that exist.
func (h *poolHarness) warm() []string {
	h.t.Helper()
	all, err := h.ex.List(h.ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		if strings.HasPrefix(s.ID, pool.IDPrefix+"_") {
			out = append(out, s.ID)
		}
	}
	return out
}

// take asks for a sandbox of the default size.
func (h *poolHarness) take(id string) (executors.Sandbox, bool) {
	return h.p.Take(h.ctx, h.ex, executors.Spec{ID: id, WorkspaceID: "ws_a", TeamID: "team_a", Root: h.root, Size: poolSizes[1]})
}

func TestWhatIsTakenIsNobodysElse(t *testing.T) {
	h := newPoolHarness(t)
	h.p.Tend(h.ctx)
	before := h.warm()
	for _, id := range before {
		if s := h.l.runs[id]; s.TeamID != "" || s.WorkspaceID != "" || s.Purpose != "pool" || s.PriceNano != 133 || s.CPUs != 2 {
			t.Errorf("the ledger recorded %+v", s)
		}
	}
	sb, pooled := h.take("sbx_a")
	if sb == nil || !pooled || sb.Handle().ID != "sbx_a" {
		t.Fatalf("taken: %v, %v", sb, pooled)
	}
	h.status(1)
	if left := h.warm(); len(left) != 1 || h.l.ends[before[0]] != executors.ByServer || h.l.ends[left[0]] != "" {
		t.Errorf("%v was left of %v", left, before)
	}
	if ids, err := h.p.IDs(h.ctx); err != nil || !slices.Equal(ids, h.warm()) {
		t.Errorf("IDs: %v, %v", ids, err)
	}
	if _, pooled := h.take("sbx_b"); !pooled {
		t.Error("the second was not taken")
	}
	if sb, pooled := h.take("sbx_c"); sb != nil || pooled {
		t.Error("a third was there")
	}
	if c := h.counters.Counts()[fake.Kind]; c.WarmHits != 2 || c.WarmMisses != 1 {
		t.Errorf("counted %+v", c)
	}
	h.p.Tend(h.ctx)
	h.status(4) // two, and as many as were asked for lately: at most four
}

func TestWhatDoesNotServeIsEnded(t *testing.T) {
	h := newPoolHarness(t)
	h.p.Tend(h.ctx)
	h.ex.Set(fake.Knobs{Sizes: poolSizes, TakeErr: errors.New("broken")})
	if sb, pooled := h.take("sbx_a"); sb != nil || pooled {
		t.Errorf("taken: %v, %v", sb, pooled)
	}
	if left := h.warm(); len(left) != 1 {
		t.Errorf("what did not serve is there: %v", left)
	}
	if c := h.counters.Counts()[fake.Kind]; c.WarmHits != 0 || c.WarmMisses != 1 {
		t.Errorf("counted %+v", c)
	}
}

func TestWhatAnEarlierServerWasAtIsEnded(t *testing.T) {
	h := newPoolHarness(t)
	h.p.Tend(h.ctx)
	keep := h.warm()
	// A server that died while it made one, and another while it took one.
	for state, id := range map[string]string{pool.Making: "wrm_made", pool.Taken: "wrm_taken"} {
		if _, err := h.ex.Warm(h.ctx, id, "2-2048"); err != nil {
			t.Fatal(err)
		}
		if err := h.store.InsertWarm(h.ctx, pool.Record{Handle: executors.Handle{Kind: fake.Kind, ID: id}, Class: "2-2048", State: state,
			CreatedAt: h.clock().UnixMilli()}); err != nil {
			t.Fatal(err)
		}
	}
	h.restart()
	h.p.Tend(h.ctx)
	h.status(2)
	if got := h.warm(); !slices.Equal(got, keep) {
		t.Errorf("there are %v, not %v", got, keep)
	}
}

func TestANilPoolHasNothing(t *testing.T) {
	t.Parallel()
	var p *pool.Pool
	if sb, pooled := p.Take(t.Context(), nil, executors.Spec{}); sb != nil || pooled {
		t.Error("it gave a sandbox")
	}
	if ids, err := p.IDs(t.Context()); ids != nil || err != nil {
		t.Errorf("IDs: %v, %v", ids, err)
	}
	if s, err := p.Status(t.Context()); s != (pool.Status{}) || err != nil {
		t.Errorf("Status: %+v, %v", s, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	h := newPoolHarness(t)
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan struct{})
	go func() { defer close(done); h.p.Run(ctx) }()
	for {
		if got, err := h.p.Status(h.ctx); err != nil || got.Ready == 2 {
			break
		}
		if h.ctx.Err() != nil {
			t.Fatal("nothing is made")
		}
	}
	cancel()
	<-done
	h.status(2)
}

func TestManyMayAskForTheLastWarmSandbox(t *testing.T) {
	h := newPoolHarness(t)
	h.p.Tend(h.ctx)
	var mu sync.Mutex
	got := make(map[string]int)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			w, ok, err := h.store.TakeWarm(h.ctx, fake.Kind, "2-2048", "sbx_x")
			if err != nil {
				t.Errorf("TakeWarm: %v", err)
			}
			if ok {
				mu.Lock()
				got[w.Handle.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(got) != 2 {
		t.Errorf("%d of 2 were taken", len(got))
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was taken %d times", id, n)
		}
	}
}

func TestThePoolFollowsItsRules(t *testing.T) {
	h := newPoolHarness(t)
	h.p.Tend(h.ctx)
	first := h.warm()
	// Leases are extended for as long as somebody sweeps.
	for range 6 {
		h.pass(8 * time.Minute)
		h.p.Tend(h.ctx)
	}
	if got := h.warm(); len(got) != 2 || got[0] != first[0] {
		t.Errorf("there are %v, not %v", got, first)
	}
	// What its place has paused is of no use.
	h.pass(11 * time.Minute)
	h.p.Tend(h.ctx)
	second := h.warm()
	if len(second) != 2 || second[0] == first[0] {
		t.Errorf("there are %v after %v fell asleep", second, first)
	}
	// They grow old.
	for range 31 {
		h.pass(8 * time.Minute)
		h.p.Tend(h.ctx)
	}
	if got := h.warm(); len(got) != 2 || got[0] == second[0] {
		t.Errorf("there are %v after %v grew old", got, second)
	}
	// One is lost.
	h.world.Vanish(h.warm()[0])
	h.p.Tend(h.ctx)
	h.status(2)
	// No money, no more; and after a failure not at once again.
	h.rules.Min = 3
	h.l.refuse = errors.New("no money")
	h.p.Tend(h.ctx)
	h.status(2)
	h.l.refuse = nil
	h.p.Tend(h.ctx)
	h.status(2)
	h.pass(2 * time.Minute)
	h.p.Tend(h.ctx)
	h.status(3)
	// Never more than the most.
	h.rules = pool.Rules{Enabled: true, Min: 1, Max: 1}
	h.p.Tend(h.ctx)
	h.status(1)
	h.rules.Enabled = false
	h.p.Tend(h.ctx)
	h.status(0)
	if left := h.warm(); len(left) != 0 {
		t.Errorf("switched off, and there are %v", left)
	}
}
