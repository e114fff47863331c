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
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// farm is a village whose workspace is on a machine with something that runs.
type farm struct {
	*village
	machine *fake.Machine
	p       *executors.Place
	proc    string
	kept    []string // sandboxes whose work was kept
	keepErr error
	mu      sync.Mutex
}

func newFarm(t *testing.T) *farm {
	f := &farm{village: newVillage(t)}
	f.machine = f.laptop()
	f.kind = laptop
	f.again()
	p, err := f.m.Ensure(f.as("ann"), f.ws)
	if err != nil {
		t.Fatal(err)
	}
	f.p, f.proc = p, id.New("p")
	if _, err := p.Guest.Start(f.ctx, guest.ProcessSpec{ID: f.proc, Argv: []string{"sleep", "600"}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// again makes the Manager of a server that was started again.
func (f *farm) again() {
	f.t.Helper()
	m := executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{f.places["process"]}, Families: []executors.Family{f.family}, Store: f.store,
		Workspaces: f.street, Events: f.bus, After: soon, DialTimeout: 5 * time.Second})
	m.Attach(executors.Participant{Left: func(ctx context.Context, p *executors.Place) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.keepErr != nil {
			return f.keepErr
		}
		if proc, err := p.Guest.Process(ctx, f.proc); err == nil && proc.State == guest.Running {
			f.t.Error("it is kept while something runs in it")
		}
		if got, err := m.Ensure(ctx, p.WorkspaceID); err != nil || got != p {
			f.t.Errorf("the place while it is kept: %v, %v", got, err)
		}
		f.kept = append(f.kept, p.SandboxID)
		return nil
	}})
	if err := m.Recover(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	f.m = m
}

func (f *farm) keptNow() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.kept)
}

// run runs the Manager until the test ends.
func (f *farm) run() {
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = f.m.Run(ctx) }()
	f.t.Cleanup(func() { cancel(); <-done })
}

func (f *farm) until(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("still not so: %s", what)
		}
	}
}

// Work leaves a machine that is away only where that was agreed, and what the machine alone holds is fetched when it is back.
func TestWorkLeavesAMachineThatIsAwayWhereThatWasAgreed(t *testing.T) {
	f := newFarm(t)
	f.machine.GoAway("offline since 14:02")
	agreed := false
	f.m.UseFallback(func(_ context.Context, workspaceID string, cause error) (bool, error) {
		if agreed {
			f.kind = "process"
		}
		return agreed, nil
	})
	if _, err := f.m.Ensure(f.as("ann"), f.ws); fault.CodeOf(err) != "runner_offline" {
		t.Errorf("nobody agreed: %v", err)
	}
	agreed = true
	p, err := f.m.Ensure(f.as("ann"), f.ws)
	if err != nil || p.Kind != "process" || p == f.p {
		t.Fatalf("agreed: %+v, %v", p, err)
	}
	f.run()
	f.machine.ComeBack()
	f.until("what only the machine held is kept", func() bool { return f.keptNow() == 1 })
}

func TestAMachineThatIsAwayKeepsItsSandboxes(t *testing.T) {
	f := newFarm(t)
	f.machine.GoAway("offline since 14:02")
	for range 5 { // however often nobody answers
		if err := f.m.Check(f.ctx, f.ws); fault.CodeOf(err) != "runner_offline" {
			t.Fatalf("Check: %v", err)
		}
	}
	if p, ok := f.m.Live(f.ws); !ok || p != f.p || !p.Asleep() || f.m.Awake(f.ws) {
		t.Error("it is no longer the workspace's place, or may be asked")
	}
	if _, ok := f.m.LiveAwake(f.ws); ok {
		t.Error("it is awake")
	}
	if r := f.last(); r.State != executors.Running || !strings.Contains(r.Reason, "offline since 14:02") {
		t.Errorf("stored %+v", r)
	}
	if _, err := f.m.Ensure(f.as("ann"), f.ws); fault.CodeOf(err) != "runner_offline" || !strings.Contains(err.Error(), "offline since 14:02") {
		t.Errorf("Ensure: %v", err)
	}
	if _, err := f.p.Guest.Stats(f.ctx); fault.CodeOf(err) != "runner_offline" {
		t.Errorf("the guest: %v", err)
	}
	if err := f.m.Pause(f.ctx, f.ws, "so"); fault.CodeOf(err) != "runner_offline" {
		t.Errorf("Pause: %v", err)
	}
	if err := f.m.Destroy(f.ctx, f.ws); fault.CodeOf(err) != "runner_offline" {
		t.Errorf("Destroy: %v", err)
	}
	if err := f.m.Away(f.ctx, f.ws); fault.CodeOf(err) != "runner_offline" || !f.m.Lost(f.ctx, f.ws) {
		t.Errorf("Away: %v", err)
	}
	awake := f.p.Awake()
	f.machine.ComeBack()
	if err := f.m.Check(f.ctx, f.ws); err != nil {
		t.Fatalf("Check: %v", err)
	}
	select {
	case <-awake:
	case <-f.ctx.Done():
		t.Error("nobody is notified that it is back")
	}
	if got, err := f.m.Ensure(f.as("ann"), f.ws); err != nil || got != f.p {
		t.Errorf("Ensure: %v", err)
	}
	if proc, err := f.p.Guest.Process(f.ctx, f.proc); err != nil || proc.State != guest.Running {
		t.Errorf("what ran there: %+v, %v", proc, err)
	}
	if r := f.last(); r.Reason != "" {
		t.Errorf("stored %+v", r)
	}
}

func TestAServerThatStartsWhileAMachineIsAwayTakesItUpLater(t *testing.T) {
	f := newFarm(t)
	f.machine.GoAway("offline since 14:02")
	f.again()
	f.run()
	if f.m.UnreachableSandbox(f.ws) != f.p.SandboxID {
		t.Fatal("its sandbox is not unreachable")
	}
	if _, err := f.m.Ensure(f.as("ann"), f.ws); fault.CodeOf(err) != "runner_offline" {
		t.Errorf("Ensure: %v", err)
	}
	if r := f.last(); !strings.Contains(r.Reason, "offline since 14:02") {
		t.Errorf("stored %+v", r)
	}
	f.machine.ComeBack()
	f.m.Look(laptop)
	f.until("it is taken up", func() bool { p, ok := f.m.Live(f.ws); return ok && p.SandboxID == f.p.SandboxID })
	if f.keptNow() != 0 {
		t.Error("it was taken for one that was left behind")
	}
}

func TestWhatWasLeftBehindIsKeptBeforeItEnds(t *testing.T) {
	f := newFarm(t)
	f.run()
	f.machine.GoAway("offline since 14:02")
	if err := f.m.Leave(f.ctx, f.ws); err != nil {
		t.Fatalf("Leave: %v", err)
	}
	f.ended(f.p)
	if r := f.last(); r.EndedAt == 0 || r.State != executors.Gone || !strings.Contains(r.Reason, "left behind") {
		t.Errorf("stored %+v", r)
	}
	f.kind = "process" // it goes on elsewhere
	elsewhere, err := f.m.Ensure(f.as("ann"), f.ws)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.keepErr = errors.New("the disk is full")
	f.mu.Unlock()
	f.machine.ComeBack()
	f.m.Look(laptop)
	f.m.Reap(f.ctx)
	if all, err := f.machine.List(f.ctx); err != nil || len(all) != 1 {
		t.Fatalf("it was ended although its work could not be kept: %v, %v", all, err)
	}
	f.mu.Lock()
	f.keepErr = nil
	f.mu.Unlock()
	f.m.Look(laptop)
	f.until("it is ended", func() bool { all, err := f.machine.List(f.ctx); return err == nil && len(all) == 0 })
	if f.keptNow() == 0 || f.kept[0] != f.p.SandboxID {
		t.Errorf("kept: %v", f.kept)
	}
	if p, ok := f.m.Live(f.ws); !ok || p != elsewhere {
		t.Error("where it goes on was touched")
	}
}

func TestNothingBeginsBesideWhatWasLeftBehind(t *testing.T) {
	f := newFarm(t)
	f.machine.GoAway("offline since 14:02")
	if err := f.m.Destroy(executors.Discard(f.ctx), f.ws); err != nil {
		t.Fatal(err)
	}
	f.machine.ComeBack()
	f.keepErr = errors.New("the disk is full")
	if _, err := f.m.Ensure(f.as("ann"), f.ws); fault.CodeOf(err) != "remnant_not_saved" {
		t.Errorf("Ensure: %v", err)
	}
	f.keepErr = nil
	p, err := f.m.Ensure(f.as("ann"), f.ws)
	if err != nil || p.SandboxID == f.p.SandboxID {
		t.Fatalf("Ensure: %v", err)
	}
	if all, err := f.machine.List(f.ctx); err != nil || len(all) != 1 || all[0].ID != p.SandboxID || f.keptNow() != 1 {
		t.Errorf("there are %v, %v; kept %v", all, err, f.kept)
	}
}

// Nor does a server whose database came back older end on a member's machine what it has forgotten.
func TestAMachineKeepsWhatTheDatabaseHasForgotten(t *testing.T) {
	f := newFarm(t)
	for _, id := range []string{"sbx_forgotten", "try_forgotten"} {
		if _, err := f.machine.Create(f.ctx, executors.Spec{ID: id, Root: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.m.Recover(f.ctx); err != nil {
		t.Fatal(err)
	}
	f.m.Reap(f.ctx)
	all, err := f.machine.List(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, h := range all {
		ids[h.ID] = true
	}
	if len(ids) != 2 || !ids[f.p.SandboxID] || !ids["sbx_forgotten"] {
		t.Errorf("there are %v", ids)
	}
}

// liar is a machine that claims a sandbox of another one.
type liar struct {
	*fake.Machine
	id string
}

func (l liar) List(context.Context) ([]executors.Handle, error) {
	return []executors.Handle{{Kind: l.Kind(), ID: l.id, Version: 1}}, nil
}

func TestAMachineHasNoBusinessWithAnothersSandboxes(t *testing.T) {
	f := newFarm(t)
	if err := f.m.Destroy(executors.Discard(f.ctx), f.ws); err != nil {
		t.Fatal(err)
	}
	other := liar{f.family.Add("other", executors.Owner{TeamID: "another team", UserID: "eve"}), f.p.SandboxID}
	m := executortest.NewManager(executortest.ManagerConfig{Families: []executors.Family{only{other}}, Store: f.store, Workspaces: f.street})
	m.Attach(executors.Participant{Left: func(context.Context, *executors.Place) error {
		t.Error("it brings its work into the workspace of another team")
		return nil
	}})
	if err := m.Recover(f.ctx); err != nil {
		t.Fatal(err)
	}
	m.Reap(f.ctx)
}

// only is a family of one.
type only struct{ e executors.Executor }

func (o only) Base() executors.Kind { return executors.Runner }
func (o only) Members(context.Context, string) []executors.Executor {
	return []executors.Executor{o.e}
}
func (o only) Member(_ context.Context, k executors.Kind) (executors.Executor, bool) {
	return o.e, k == o.e.Kind()
}

func TestAMachineThatGoesForGoodIsEmptied(t *testing.T) {
	f := newFarm(t)
	if left := f.m.Evict(f.ctx, laptop); left != 0 {
		t.Errorf("%d are left", left)
	}
	f.ended(f.p)
	if all, err := f.machine.List(f.ctx); err != nil || len(all) != 0 {
		t.Errorf("there are %v, %v", all, err)
	}
}
