package manager_test

import (
	"context"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
)

func TestAPlaceThatCannotServeIsLeftOnlyWhereThatWasAgreed(t *testing.T) {
	s := newStreet(t)
	s.kind = "container"
	cannot := fault.New(fault.Unavailable, manager.CannotServe, "It has no capacity.").With("reason", "capacity")
	s.places["container"].Set(fake.Knobs{Kind: "container", Boundary: executors.ContainerBoundary, CreateErr: cannot})
	asked := 0
	agreed := false
	s.m.UseFallback(func(_ context.Context, workspaceID string, cause error) (bool, error) {
		asked++
		if code := fault.CodeOf(cause); workspaceID != s.ws || code != manager.CannotServe && code != "quota_exceeded" {
			t.Errorf("asked for %s because of %v", workspaceID, cause)
		}
		if agreed {
			s.kind = "process"
		}
		return agreed, nil
	})
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != manager.CannotServe || detail(err, "reason") != "capacity" || asked != 1 {
		t.Errorf("nobody agreed: %v, asked %d times", err, asked)
	}
	agreed = true
	p, err := s.m.Ensure(s.ctx, s.ws)
	if err != nil || p.Kind != "process" || asked != 2 {
		t.Fatalf("agreed: %+v, %v, asked %d times", p, err, asked)
	}
	if n := s.m.Counters().Counts()["container"].Fallbacks; n != 1 {
		t.Errorf("%d fallbacks were counted", n)
	}
	// A place of this server is no way on where it counts like the one that was refused.
	if err := s.m.Destroy(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
	s.kind, asked = "container", 0
	for want, ways := range [][]string{{"upgrade"}, {executors.FreePlace, "upgrade"}} {
		refused := fault.New(fault.Quota, "quota_exceeded", "Your hours are used up.").With("ways", ways)
		s.places["container"].Set(fake.Knobs{Kind: "container", Boundary: executors.ContainerBoundary, CreateErr: refused})
		if _, err := s.m.Ensure(s.ctx, s.ws); asked != want {
			t.Errorf("ways %v: asked %d times to fall back: %v", ways, asked, err)
		}
	}
	asked = 2
	// Another failure than that of its place is nobody's reason to go elsewhere.
	if err := s.m.Destroy(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
	s.places["process"].Set(fake.Knobs{Kind: "process", Boundary: executors.ProcessBoundary, CreateErr: fault.New(fault.Conflict, "disk_full", "The disk is full.")})
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "disk_full" || asked != 2 {
		t.Errorf("another failure: %v, asked %d times", err, asked)
	}
}

func TestATeamWhoseMembersDoNotChoose(t *testing.T) {
	s := newStreet(t)
	s.team.NoChoice, s.team.Default = true, "container"
	for _, test := range []struct {
		wish, project, want executors.Kind
		code                string
	}{
		{"", "", "container", ""},
		{"container", "", "container", ""},
		{"process", "", "", "executor_fixed_by_team"},
		{"", "process", "process", ""},
		{"process", "process", "process", ""},
		{"container", "process", "", "executor_fixed_by_team"},
	} {
		got, err := s.m.Choose(s.ctx, s.harness.team, test.wish, test.project)
		if got != test.want || fault.CodeOf(err) != test.code && test.code != "" || test.code == "" && err != nil {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
	// Auto means what it comes to now.
	s.team.Default = executors.Auto
	if got, err := s.m.Choose(s.ctx, s.harness.team, "process"); err != nil || got != "process" {
		t.Errorf("what auto comes to, by name: %q, %v", got, err)
	}
	if got, err := s.m.ChooseHere(s.ctx, s.harness.team); err != nil || got != "process" {
		t.Errorf("the strongest here: %q, %v", got, err)
	}
}

func TestRulesOfTheInstanceChangeWhileItRuns(t *testing.T) {
	now := choice.Rules{Default: "container", Fixed: true}
	s := newStreet(t, func(c *executortest.ManagerConfig) { c.Rules = func() choice.Rules { return now } })
	if got, err := s.m.Choose(s.ctx, s.harness.team); err != nil || got != "container" || !s.m.Fixed() {
		t.Errorf("fixed: %q, %v", got, err)
	}
	if _, err := s.m.Choose(s.ctx, s.harness.team, "process"); fault.CodeOf(err) != "executor_fixed" {
		t.Errorf("another: %v", err)
	}
	now = choice.Rules{}
	if got, err := s.m.Choose(s.ctx, s.harness.team); err != nil || got != "process" || s.m.Fixed() {
		t.Errorf("free again: %q, %v", got, err)
	}
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
