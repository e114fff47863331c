package manager_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

// village is a street to which machines of members belong.
type village struct {
	*street
	family *fake.Family
	bill   *bill
}

// bill is a Ledger that records its calls.
type bill struct {
	mu    sync.Mutex
	kinds []executors.Kind
}

func (b *bill) Afford(context.Context, executors.UsageInterval) error { return nil }
func (b *bill) Began(_ context.Context, s executors.UsageInterval) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kinds = append(b.kinds, s.Kind)
	return nil
}
func (b *bill) Beat(context.Context, []string) error { return nil }
func (b *bill) Stopped(context.Context, executors.UsageInterval, int64, executors.StopSource) error {
	return nil
}
func (b *bill) Release(context.Context, string) error  { return nil }
func (b *bill) Settle(context.Context, []string) error { return nil }

func newVillage(t *testing.T, change ...func(*executortest.ManagerConfig)) *village {
	w := fake.NewWorld(t.TempDir(), nil)
	t.Cleanup(w.Close)
	v := &village{bill: &bill{}, family: fake.NewFamily(w)}
	v.street = newStreet(t, append(change, func(c *executortest.ManagerConfig) {
		c.Families = []executors.Family{v.family}
		c.Ledger = v.bill
	})...)
	return v
}

func (v *village) as(user string) context.Context {
	return executors.As(v.ctx, executors.ForAgent, user)
}

const laptop executors.Kind = "runner:laptop"

func (v *village) laptop() *fake.Machine {
	return v.family.Add("laptop", executors.Owner{TeamID: v.harness.team, UserID: "ann", Name: "Ann"})
}

func TestASandboxOnAMachineIsTheTeamsAndCountsAsTheFamilys(t *testing.T) {
	var asked sync.Map
	v := newVillage(t, func(c *executortest.ManagerConfig) {
		c.IdleAfter = func(k executors.Kind, _ executors.Purpose) time.Duration {
			asked.Store(k, true)
			return 0
		}
	})
	v.laptop()
	v.kind = laptop
	if _, err := v.m.Ensure(v.as("bob"), v.ws); fault.CodeOf(err) != "runner_not_yours" {
		t.Errorf("somebody else has it made: %v", err)
	}
	p, err := v.m.Ensure(v.as("ann"), v.ws)
	if err != nil || p.Kind != laptop || !p.OwnDisk {
		t.Fatalf("Ensure: %+v, %v", p, err)
	}
	if _, err := v.m.Ensure(v.as("bob"), v.ws); fault.CodeOf(err) != "runner_not_yours" {
		t.Errorf("somebody else in a live one: %v", err)
	}
	if err := v.m.Permit(v.as("bob"), v.ws); fault.CodeOf(err) != "runner_not_yours" {
		t.Errorf("somebody else is permitted: %v", err)
	}
	if _, err := v.m.Ensure(v.ctx, v.ws); err != nil { // the server itself
		t.Errorf("the server: %v", err)
	}
	if got := v.last(); got.Handle.Kind != laptop {
		t.Errorf("stored as of %q", got.Handle.Kind)
	}
	v.m.CheckHealth(v.ctx)
	if len(v.bill.kinds) != 1 || v.bill.kinds[0] != executors.Runner {
		t.Errorf("the ledger recorded %v", v.bill.kinds)
	}
	if n := v.m.Metering.Active(); n[executors.Runner][executors.ForAgent] != 1 || len(n) != 1 {
		t.Errorf("active: %v", n)
	}
	if c := v.m.Counters().Counts(); c[executors.Runner].Created != 1 || len(c) != 1 {
		t.Errorf("counted: %v", c)
	}
	if _, ok := asked.Load(executors.Runner); !ok {
		t.Error("the rules of idleness were not asked for the family")
	}
	if _, ok := asked.Load(laptop); ok {
		t.Error("the rules of idleness were asked for a machine")
	}
	if live := v.m.OfKind(executors.Runner); len(live) != 1 || len(v.m.OfKind(laptop)) != 1 || len(v.m.OfKind("container")) != 0 {
		t.Errorf("of the family live %d", len(live))
	}
	if err := v.m.Destroy(v.ctx, v.ws); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

func TestAMachineThatIsRevokedLeavesItsWorkspaceBehind(t *testing.T) {
	v := newVillage(t)
	v.laptop()
	v.kind = laptop
	p, err := v.m.Ensure(v.as("ann"), v.ws)
	if err != nil {
		t.Fatal(err)
	}
	v.family.Remove("laptop")
	if err := v.m.Check(v.ctx, v.ws); err != nil && errors.Is(err, executors.ErrGone) {
		t.Errorf("it is taken for gone: %v", err)
	}
	if _, ok := v.m.Place(v.ctx, laptop); ok {
		t.Error("it is a place still")
	}
	v.m = executortest.NewManager(executortest.ManagerConfig{Store: v.store, Workspaces: v.street, Families: []executors.Family{v.family}, After: soon})
	if err := v.m.Recover(v.ctx); err != nil {
		t.Fatal(err)
	}
	if v.m.UnreachableSandbox(v.ws) != p.SandboxID || !v.m.Lost(v.ctx, v.ws) {
		t.Error("its sandbox is not unreachable")
	}
	if err := v.m.Leave(v.ctx, v.ws); err != nil || v.last().EndedAt == 0 {
		t.Errorf("Leave: %v", err)
	}
}
