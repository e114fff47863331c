package manager_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/pool"
)

// poolHarness is a harness whose place makes sandboxes ahead of time.
type poolHarness struct {
	*harness
	ex    *fake.Pooled
	l     *ledger
	mu    sync.Mutex
	now   time.Time
	rules pool.Rules
}

var poolSizes = []executors.Size{{CPUs: 1, MemoryMB: 1024, PriceNano: 66, Available: true}, {CPUs: 2, MemoryMB: 2048, PriceNano: 133, Available: true, Default: true}}

func newPoolHarness(t *testing.T) *poolHarness {
	t.Helper()
	h := &poolHarness{harness: newHarness(t), l: newLedger(), now: time.UnixMilli(1_800_000_000_000), rules: pool.Rules{Enabled: true, Min: 2, Max: 4}}
	h.world.Now = h.clock
	h.restart()
	h.ex.Set(fake.Knobs{Sizes: poolSizes, Lease: 10 * time.Minute})
	return h
}

func (h *poolHarness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *poolHarness) restart() {
	knobs := fake.Knobs{Sizes: poolSizes, Lease: 10 * time.Minute}
	h.ex = fake.NewPooled(h.world)
	h.ex.Set(knobs)
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store, Ledger: h.l, Now: h.clock,
		Workspaces: specs{team: h.team, root: h.root}, Events: h.bus, DialTimeout: 30 * time.Second, ProbeFresh: time.Nanosecond,
		Warm: h.store, PoolRules: func(context.Context) pool.Rules { return h.rules }})
}

func (h *poolHarness) status(ready, taken int) {
	h.t.Helper()
	got, err := h.m.Pool(h.ctx)
	if err != nil || got.Ready != ready || got.Taken != taken {
		h.t.Fatalf("the pool is %+v, %v; want %d ready and %d taken", got, err, ready, taken)
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
		if strings.HasPrefix(s.ID, "wrm_") {
			out = append(out, s.ID)
		}
	}
	return out
}

func TestAWarmSandboxIsTakenOnce(t *testing.T) {
	h := newPoolHarness(t)
	h.m.Warm.Tend(h.ctx)
	h.status(2, 0)
	before := h.warm()
	for _, id := range before {
		h.l.began1OfPool(t, id)
	}
	p := h.ensure()
	h.status(1, 1)
	if r := h.last(); !r.Pooled || r.PriceNano != 133 || r.State != executors.Running {
		t.Errorf("stored %+v", r)
	}
	after := h.warm()
	if len(after) != 1 || h.l.by(before[0]) != executors.ByServer || h.l.by(after[0]) != "" {
		t.Errorf("%v was left of %v", after, before)
	}
	if c := h.m.Counters().Counts()[fake.Kind]; c.WarmHits != 1 || c.WarmMisses != 0 {
		t.Errorf("counted %+v", c)
	}
	// Made up for, and one more since it is asked for.
	h.m.Warm.Tend(h.ctx)
	h.status(3, 1)
	// One that served is never warm again.
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	h.m.Warm.Tend(h.ctx)
	h.status(3, 0)
	for _, id := range h.warm() {
		if id == p.SandboxID {
			t.Error("a sandbox that served is in the pool")
		}
	}
}

func (l *ledger) began1OfPool(t *testing.T, id string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.began {
		if s.SandboxID == id && s.TeamID == "" && s.WorkspaceID == "" && s.Purpose == "pool" && s.PriceNano == 133 && s.CPUs == 2 {
			return
		}
	}
	t.Errorf("the ledger recorded %+v, not that %s runs for the instance", l.began, id)
}

func TestAWarmSandboxThatDoesNotServeCostsNobodyTheirWork(t *testing.T) {
	h := newPoolHarness(t)
	h.m.Warm.Tend(h.ctx)
	k := fake.Knobs{Sizes: poolSizes, TakeErr: errors.New("broken")}
	h.ex.Set(k)
	h.ensure()
	if r := h.last(); r.Pooled || r.State != executors.Running {
		t.Errorf("stored %+v", r)
	}
	if left := h.warm(); len(left) != 1 {
		t.Errorf("what did not serve is there: %v", left)
	}
	if c := h.m.Counters().Counts()[fake.Kind]; c.WarmHits != 0 || c.WarmMisses != 1 {
		t.Errorf("counted %+v", c)
	}
}

func TestThePoolIsSweptAtStart(t *testing.T) {
	h := newPoolHarness(t)
	h.m.Warm.Tend(h.ctx)
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
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.l.mu.Lock()
	settled := len(h.l.settled)
	h.l.mu.Unlock()
	if settled != 4 {
		t.Errorf("%d intervals are known", settled)
	}
	h.m.Warm.Tend(h.ctx)
	h.status(2, 0)
	if got := h.warm(); len(got) != 2 || got[0] != keep[0] || got[1] != keep[1] {
		t.Errorf("there are %v, not %v", got, keep)
	}
	// The reaper knows them.
	ctx, cancel := context.WithCancel(h.ctx)
	ran := make(chan struct{})
	go func() { defer close(ran); _ = h.m.Run(ctx) }()
	h.ensure()
	cancel()
	<-ran
	if got := h.warm(); len(got) == 0 {
		t.Error("the reaper took warm sandboxes for unknown ones")
	}
}
