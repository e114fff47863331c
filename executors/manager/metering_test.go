package manager_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

// ledger records its calls.
type ledger struct {
	mu      sync.Mutex
	began   []executors.UsageInterval
	beats   map[string]int
	still   map[string]executors.StopSource
	settled []string

	released []string
	refuse   error  // of Afford
	asked    func() // called by Afford
	unwrite  error  // of Began
}

func newLedger() *ledger {
	return &ledger{beats: make(map[string]int), still: make(map[string]executors.StopSource)}
}

func (l *ledger) Afford(context.Context, executors.UsageInterval) error {
	if l.asked != nil {
		l.asked()
	}
	return l.refuse
}

func (l *ledger) Began(_ context.Context, s executors.UsageInterval) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = append(l.began, s)
	return l.unwrite
}

func (l *ledger) Beat(_ context.Context, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.beats[id]++
	}
	return nil
}

func (l *ledger) Stopped(_ context.Context, s executors.UsageInterval, _ int64, by executors.StopSource) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.still[s.SandboxID]; !known {
		l.still[s.SandboxID] = by
	}
	return nil
}

func (l *ledger) Release(_ context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = append(l.released, id)
	return nil
}

func (l *ledger) Settle(_ context.Context, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = ids
	return nil
}

func (l *ledger) began1(t *testing.T, id string, team, ws string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.began, func(s executors.UsageInterval) bool {
		return s.SandboxID == id && s.TeamID == team && s.WorkspaceID == ws && s.Kind == fake.Kind
	}) {
		t.Errorf("the ledger recorded %+v, not that %s began", l.began, id)
	}
}

func (l *ledger) beaten(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beats[id]
}

func (l *ledger) by(id string) executors.StopSource {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.still[id]
}

// metered makes the harness's Manager one with a ledger.
func (h *harness) metered(l *ledger) {
	h.ex = fake.New(h.world)
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store, Ledger: l,
		Workspaces: specs{team: h.team, root: h.root}, Events: h.bus, DialTimeout: 5 * time.Second})
}

func TestTheLedgerHearsOfASandboxesLife(t *testing.T) {
	h := newHarness(t)
	l := newLedger()
	h.metered(l)
	p := h.ensure()
	l.began1(t, p.SandboxID, h.team, h.ws)
	h.m.CheckHealth(h.ctx)
	h.m.CheckHealth(h.ctx)
	if n := l.beaten(p.SandboxID); n != 2 {
		t.Errorf("%d beats of two health checks", n)
	}
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	if by := l.by(p.SandboxID); by != executors.ByServer {
		t.Errorf("ended by the word of %q", by)
	}
	h.m.CheckHealth(h.ctx)
	if n := l.beaten(p.SandboxID); n != 2 {
		t.Errorf("a beat of a sandbox that was destroyed")
	}
	c := h.m.Counters().Counts()[fake.Kind]
	if c.Created != 1 || c.Create.Count != 1 || c.Failed != 0 {
		t.Errorf("counted %+v", c)
	}
}

func TestWhatIsFoundGoneEndedWithItsLastBeat(t *testing.T) {
	h := newHarness(t)
	l := newLedger()
	h.metered(l)
	p := h.ensure()
	h.world.Vanish(p.SandboxID)
	if err := h.m.Check(h.ctx, h.ws); !errors.Is(err, executors.ErrGone) {
		t.Fatalf("Check: %v", err)
	}
	if by := l.by(p.SandboxID); by != executors.ByHeartbeat {
		t.Errorf("ended by the word of %q", by)
	}

	// The same after a restart of the server.
	p = h.ensure()
	h.metered(l)
	h.world.Vanish(p.SandboxID)
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if by := l.by(p.SandboxID); by != executors.ByHeartbeat {
		t.Errorf("ended by the word of %q", by)
	}
}

// placeRecord is a place that knows when its sandboxes ran.
type placeRecord struct {
	*fake.Executor
	ran executors.Ran
}

func (p placeRecord) Ran(context.Context, executors.Handle) (executors.Ran, error) { return p.ran, nil }

func TestAPlacesOwnRecordDecidesTheEnd(t *testing.T) {
	h := newHarness(t)
	l := newLedger()
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{placeRecord{h.ex, executors.Ran{BeganAt: 4711, EndedAt: 4712}}},
		Store: h.store, Ledger: l, Workspaces: specs{team: h.team, root: h.root}, Events: h.bus, DialTimeout: 5 * time.Second})
	p := h.ensure()
	h.world.Vanish(p.SandboxID)
	if err := h.m.Check(h.ctx, h.ws); !errors.Is(err, executors.ErrGone) {
		t.Fatalf("Check: %v", err)
	}
	if by := l.by(p.SandboxID); by != executors.ByExecutor {
		t.Errorf("ended by the word of %q", by)
	}

	// A restarted server learns since when it runs.
	h.ensure()
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{placeRecord{h.ex, executors.Ran{BeganAt: 4711}}},
		Store: h.store, Ledger: l, Workspaces: specs{team: h.team, root: h.root}, Events: h.bus, DialTimeout: 5 * time.Second})
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	p = h.ensure()
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.began[len(l.began)-1]; last.SandboxID != p.SandboxID || last.Since != 4711 {
		t.Errorf("the ledger recorded %+v", last)
	}
}

func TestAFailedMakingIsCountedAndLeavesNoStretch(t *testing.T) {
	h := newHarness(t)
	l := newLedger()
	h.metered(l)
	h.ex.Set(fake.Knobs{CreateErr: fault.New(fault.Unsupported, "no", "No.")})
	if _, err := h.m.Ensure(h.ctx, h.ws); err == nil {
		t.Fatal("Ensure did not fail")
	}
	l.mu.Lock()
	if len(l.began) != 0 {
		t.Errorf("the ledger recorded %+v", l.began)
	}
	l.mu.Unlock()
	if c := h.m.Counters().Counts()[fake.Kind]; c.Failed != 1 || c.Created != 0 {
		t.Errorf("counted %+v", c)
	}
}
