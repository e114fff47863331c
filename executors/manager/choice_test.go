package manager_test

import (
	"context"
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
	*harness
	places map[executors.Kind]*fake.Executor
	team   says
	count  int
	kind   executors.Kind // what the workspace names
}

func (s *street) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: s.harness.team, WorkspaceID: workspaceID, Root: s.root}, s.kind, nil
}

func newStreet(t *testing.T, change ...func(*executortest.ManagerConfig)) *street {
	s := &street{harness: newHarness(t), places: make(map[executors.Kind]*fake.Executor), count: 1}
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

func TestLeavingAPlaceThatIsGone(t *testing.T) {
	s := newStreet(t)
	s.kind = "container"
	p := s.ensure()
	// The server starts again without that place.
	m := executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{s.places["process"]}, Store: s.store, Workspaces: s, Events: s.bus})
	if err := m.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	if got := m.UnreachableSandbox(s.ws); got != p.SandboxID {
		t.Fatalf("unreachable: %q", got)
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
	if r := s.last(); r.State != executors.Gone || !strings.Contains(r.Reason, "no longer part of this server") {
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

func TestAPlaceThatCannotWorkIsNotReplacedWhenASandboxIsMade(t *testing.T) {
	s := newStreet(t)
	s.close("container", "the daemon does not answer")
	s.kind = "container"
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "executor_unavailable" {
		t.Errorf("Ensure: %v", err)
	}
}
