package manager_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

// says is what one team says about its places.
type says struct{ choice.Policy }

func (s *says) PlacePolicy(context.Context, string) (choice.Policy, error) { return s.Policy, nil }

// street is a Manager with a place of each kind: "none", "process", "container".
type street struct {
	*house
	places map[executors.Kind]*fake.Executor
	team   says
	count  int
	kind   executors.Kind // what the workspace names
}

func (s *street) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: s.house.team, WorkspaceID: workspaceID, Root: s.root}, s.kind, nil
}

func newStreet(t *testing.T, change ...func(*executortest.ManagerConfig)) *street {
	s := &street{house: newHouse(t), places: make(map[executors.Kind]*fake.Executor), count: 1}
	cfg := executortest.ManagerConfig{Order: []executors.Kind{"process", "none"}, Store: s.store, Workspaces: s, Policies: &s.team,
		Teams: func(context.Context) (int, error) { return s.count, nil }}
	for _, b := range []executors.Boundary{executors.NoBoundary, executors.ProcessBoundary, executors.ContainerBoundary} {
		e := fake.New(s.world)
		e.Set(fake.Knobs{Kind: executors.Kind(b), Boundary: b})
		s.places[executors.Kind(b)] = e
		cfg.Executors = append(cfg.Executors, e)
	}
	for _, fn := range change {
		fn(&cfg)
	}
	s.m = executortest.NewManager(cfg)
	return s
}

// close makes one place unavailable.
func (s *street) close(kind executors.Kind, reason string) {
	s.places[kind].Set(fake.Knobs{Kind: kind, Boundary: executors.Boundary(kind), Unavailable: reason})
	s.m.Reprobe()
}

func detail(err error, key string) any {
	for e := err; e != nil; {
		if f, ok := e.(*fault.Error); ok {
			return f.Details[key]
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			return nil
		}
		e = u.Unwrap()
	}
	return nil
}

func TestWhoNamesAPlaceFirstDecides(t *testing.T) {
	s := newStreet(t)
	for _, test := range []struct {
		team, project, workspace, want executors.Kind
	}{
		{"", "", "", "process"},
		{"container", "", "", "container"},
		{"container", "none", "", "none"},
		{"container", "none", "process", "process"},
		{"container", "", "auto", "process"},
		{"auto", "", "", "process"},
	} {
		s.team.Default = test.team
		if got, err := s.m.Choose(s.ctx, s.house.team, test.workspace, test.project); err != nil || got != test.want {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

func TestAPlaceThatCannotWorkIsNeverReplacedSilently(t *testing.T) {
	s := newStreet(t)
	s.close("container", "the daemon does not answer")
	_, err := s.m.Choose(s.ctx, s.house.team, "container")
	if fault.CodeOf(err) != "executor_unavailable" || !strings.Contains(err.Error(), "the daemon does not answer") || !strings.Contains(err.Error(), "Turn the knob.") {
		t.Errorf("the error: %v", err)
	}
	if would, _ := detail(err, "places").([]string); !slices.Equal(would, []string{"process", "none"}) {
		t.Errorf("what would do: %v", would)
	}
	s.kind = "container"
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "executor_unavailable" {
		t.Errorf("Ensure: %v", err)
	}
	if _, err := s.m.Choose(s.ctx, s.house.team, "kvm"); fault.CodeOf(err) != "executor_unknown" || detail(err, "places") == nil {
		t.Errorf("a place that is not there: %v", err)
	}
}

func TestAutoTakesNoPlaceByNameOnlyAndNoOpenOneWithSeveralTeams(t *testing.T) {
	s := newStreet(t)
	s.close("process", "the kernel forbids it")
	if got, err := s.m.Choose(s.ctx, s.house.team); err != nil || got != "none" {
		t.Errorf("with one team: %q, %v", got, err)
	}
	s.count = 2
	_, err := s.m.Choose(s.ctx, s.house.team)
	if fault.CodeOf(err) != "no_executor" || !strings.Contains(err.Error(), "more than one team") || !strings.Contains(err.Error(), "the kernel forbids it") {
		t.Errorf("with two teams: %v", err)
	}
	if would, _ := detail(err, "places").([]string); !slices.Equal(would, []string{"none", "container"}) {
		t.Errorf("what would do: %v", would)
	}
	if got, err := s.m.Choose(s.ctx, s.house.team, "none"); err != nil || got != "none" {
		t.Errorf("by name: %q, %v", got, err)
	}
}

func TestTheWeakestBoundaryHolds(t *testing.T) {
	s := newStreet(t, func(c *executortest.ManagerConfig) { c.Weakest = executors.ProcessBoundary })
	_, err := s.m.Choose(s.ctx, s.house.team, "none")
	if fault.CodeOf(err) != "place_too_weak" || !strings.Contains(err.Error(), "a process sandbox") {
		t.Errorf("below the instance's: %v", err)
	}
	if would, _ := detail(err, "places").([]string); !slices.Equal(would, []string{"process", "container"}) {
		t.Errorf("what would do: %v", would)
	}
	s.team.Weakest = executors.NoBoundary // a team cannot go below the instance
	if _, err := s.m.Choose(s.ctx, s.house.team, "none"); fault.CodeOf(err) != "place_too_weak" {
		t.Errorf("a team below the instance: %v", err)
	}
	s.team.Weakest = executors.ContainerBoundary
	if _, err := s.m.Choose(s.ctx, s.house.team); fault.CodeOf(err) != "no_executor" || !strings.Contains(err.Error(), "container") {
		t.Errorf("auto takes a container although nobody named it: %v", err)
	}
	all, pol, err := s.m.Options(s.ctx, s.house.team)
	if err != nil || pol.Weakest != executors.ContainerBoundary || len(all) != 3 {
		t.Fatalf("Standings: %+v, %+v, %v", all, pol, err)
	}
	for _, p := range all {
		if p.Allowed != (p.Kind == "container") || p.Allowed != (p.Forbidden == "") {
			t.Errorf("%s: allowed %v, %q", p.Kind, p.Allowed, p.Forbidden)
		}
	}
	if err := s.m.CheckWish(s.ctx, s.house.team, "process"); fault.CodeOf(err) != "place_too_weak" {
		t.Errorf("as a project's place: %v", err)
	}
}

func TestARaisedBoundaryLeavesRunningWorkAloneButStartsNothing(t *testing.T) {
	s := newStreet(t)
	s.kind = "process"
	p := s.ensure()
	if err := s.m.Permit(s.ctx, s.ws); err != nil {
		t.Fatalf("before: %v", err)
	}
	s.team.Weakest = executors.ContainerBoundary
	if err := s.m.Permit(s.ctx, s.ws); fault.CodeOf(err) != "place_too_weak" || !strings.Contains(err.Error(), "Move it") {
		t.Errorf("Permit: %v", err)
	}
	if again := s.ensure(); again != p {
		t.Error("what runs was ended")
	}
	if err := s.m.Destroy(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "place_too_weak" {
		t.Errorf("a new one: %v", err)
	}
}

func TestPlacesThatAreFixed(t *testing.T) {
	s := newStreet(t, func(c *executortest.ManagerConfig) { c.Fixed, c.Default = true, "process" })
	s.team.Default = "container" // from before
	if got, err := s.m.Choose(s.ctx, s.house.team); err != nil || got != "process" {
		t.Errorf("without a wish: %q, %v", got, err)
	}
	if got, err := s.m.Choose(s.ctx, s.house.team, "process"); err != nil || got != "process" {
		t.Errorf("the place it is: %q, %v", got, err)
	}
	if _, err := s.m.Choose(s.ctx, s.house.team, "container"); fault.CodeOf(err) != "executor_fixed" {
		t.Errorf("another: %v", err)
	}
	if err := s.m.CheckWish(s.ctx, s.house.team, "container"); fault.CodeOf(err) != "executor_fixed" {
		t.Errorf("as a team's: %v", err)
	}
}

func TestLeavingAPlaceThatIsGone(t *testing.T) {
	s := newStreet(t)
	s.kind = "container"
	p := s.ensure()
	// The server starts again without that place.
	m := executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{s.places["process"]}, Store: s.store, Workspaces: s, Events: s.bus})
	if err := m.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	if got := m.Astray(s.ws); got != p.SandboxID {
		t.Fatalf("astray: %q", got)
	}
	if r := s.last(); !strings.Contains(r.Reason, "container") || r.EndedAt != 0 {
		t.Errorf("stored %+v", r)
	}
	if err := m.Destroy(s.ctx, s.ws); fault.CodeOf(err) != "executor_unavailable" {
		t.Errorf("Destroy: %v", err)
	}
	if err := m.Leave(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
	if r := s.last(); r.State != executors.Gone || !strings.Contains(r.Reason, "not part of this server any more") {
		t.Errorf("stored %+v", r)
	}
	s.kind = "process"
	next, err := m.Ensure(s.ctx, s.ws)
	if err != nil || next.Kind != "process" {
		t.Fatalf("in its new place: %+v, %v", next, err)
	}
	// The place is back: what was left there is reaped, what lives elsewhere is not.
	back := executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{s.places["process"], s.places["container"]}, Store: s.store, Workspaces: s})
	if err := back.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- back.Run(ctx) }()
	for {
		left, err := s.places["container"].List(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 1 && left[0].ID == next.SandboxID {
			break
		}
		if s.ctx.Err() != nil {
			t.Fatalf("what was left behind stays: %+v", left)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAnotherMachineIsSaidBeforeWorkGoesThere(t *testing.T) {
	here := executors.Capabilities{Kind: "process", Name: "Process sandbox", Boundary: executors.ProcessBoundary, Isolated: true, Host: true}
	cloud := executors.Capabilities{Kind: "e2b", Name: "E2B", Boundary: executors.MachineBoundary, Isolated: true, OwnDisk: true, PriceNano: 133_200_000}
	there, back := strings.Join(executors.Differences(here, cloud), " "), strings.Join(executors.Differences(cloud, here), " ")
	for _, want := range []string{"sent to another machine (E2B)", "It costs $0.133 an hour while it runs.", "stronger"} {
		if !strings.Contains(there, want) {
			t.Errorf("%q is not said in %q", want, there)
		}
	}
	for _, want := range []string{"on this server alone", "costs nothing", "weaker"} {
		if !strings.Contains(back, want) {
			t.Errorf("%q is not said in %q", want, back)
		}
	}
}
