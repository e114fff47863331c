package choice_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// team is who chooses.
const team = "team_a"

// says is what one team says about its places.
type says struct{ choice.Policy }

func (s *says) PlacePolicy(context.Context, string) (choice.Policy, error) { return s.Policy, nil }

// street has a place of each kind: "none", "process", "container", and machines of members.
type street struct {
	ch     *choice.Chooser
	places map[executors.Kind]*fake.Executor
	family *fake.Family
	team   says
	count  int
}

func newStreet(t *testing.T, change ...func(*choice.Config)) *street {
	t.Helper()
	t.Parallel()
	world := fake.NewWorld(t.TempDir(), nil)
	t.Cleanup(world.Close)
	s := &street{places: make(map[executors.Kind]*fake.Executor), family: fake.NewFamily(world), count: 1}
	var all []executors.Executor
	for _, b := range []executors.Boundary{executors.NoBoundary, executors.ProcessBoundary, executors.ContainerBoundary} {
		e := fake.New(world)
		e.Set(fake.Knobs{Kind: executors.Kind(b), Boundary: b})
		s.places[executors.Kind(b)] = e
		all = append(all, e)
	}
	cfg := choice.Config{Executors: executors.NewRegistry(all, s.family), Order: []executors.Kind{"process", "none"}, Policies: &s.team,
		Teams: func(context.Context) (int, error) { return s.count, nil }}
	for _, fn := range change {
		fn(&cfg)
	}
	s.ch = choice.New(cfg)
	t.Cleanup(s.ch.Close)
	return s
}

// close makes one place unavailable.
func (s *street) close(kind executors.Kind, reason string) {
	s.places[kind].Set(fake.Knobs{Kind: kind, Boundary: executors.Boundary(kind), Unavailable: reason})
	s.ch.Reprobe()
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
		if got, err := s.ch.Choose(t.Context(), team, test.workspace, test.project); err != nil || got != test.want {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

func TestAPlaceThatCannotWorkIsNeverReplacedSilently(t *testing.T) {
	s := newStreet(t)
	s.close("container", "the daemon does not answer")
	_, err := s.ch.Choose(t.Context(), team, "container")
	if fault.CodeOf(err) != "executor_unavailable" || !strings.Contains(err.Error(), "the daemon does not answer") || !strings.Contains(err.Error(), "Turn the knob.") {
		t.Errorf("the error: %v", err)
	}
	if would, _ := detail(err, "places").([]string); !slices.Equal(would, []string{"process", "none"}) {
		t.Errorf("what would do: %v", would)
	}
	if _, err := s.ch.Choose(t.Context(), team, "kvm"); fault.CodeOf(err) != "executor_unknown" || detail(err, "places") == nil {
		t.Errorf("a place that is not there: %v", err)
	}
}

func TestAutoTakesNoPlaceByNameOnlyAndNoOpenOneWithSeveralTeams(t *testing.T) {
	s := newStreet(t)
	s.close("process", "the kernel forbids it")
	if got, err := s.ch.Choose(t.Context(), team); err != nil || got != "none" {
		t.Errorf("with one team: %q, %v", got, err)
	}
	s.count = 2
	_, err := s.ch.Choose(t.Context(), team)
	if fault.CodeOf(err) != "no_executor" || !strings.Contains(err.Error(), "more than one team") || !strings.Contains(err.Error(), "the kernel forbids it") {
		t.Errorf("with two teams: %v", err)
	}
	if would, _ := detail(err, "places").([]string); !slices.Equal(would, []string{"none", "container"}) {
		t.Errorf("what would do: %v", would)
	}
	if got, err := s.ch.Choose(t.Context(), team, "none"); err != nil || got != "none" {
		t.Errorf("by name: %q, %v", got, err)
	}
}

func TestTheWeakestBoundaryHolds(t *testing.T) {
	s := newStreet(t, func(c *choice.Config) { c.Weakest = executors.ProcessBoundary })
	_, err := s.ch.Choose(t.Context(), team, "none")
	if fault.CodeOf(err) != "place_too_weak" || !strings.Contains(err.Error(), "a process sandbox") {
		t.Errorf("below the instance's: %v", err)
	}
	if would, _ := detail(err, "places").([]string); !slices.Equal(would, []string{"process", "container"}) {
		t.Errorf("what would do: %v", would)
	}
	s.team.Weakest = executors.NoBoundary // a team cannot go below the instance
	if _, err := s.ch.Choose(t.Context(), team, "none"); fault.CodeOf(err) != "place_too_weak" {
		t.Errorf("a team below the instance: %v", err)
	}
	s.team.Weakest = executors.ContainerBoundary
	if _, err := s.ch.Choose(t.Context(), team); fault.CodeOf(err) != "no_executor" || !strings.Contains(err.Error(), "container") {
		t.Errorf("auto takes a container although nobody named it: %v", err)
	}
	all, pol, err := s.ch.Options(t.Context(), team)
	if err != nil || pol.Weakest != executors.ContainerBoundary || len(all) != 3 {
		t.Fatalf("Options: %+v, %+v, %v", all, pol, err)
	}
	for _, p := range all {
		if p.Allowed != (p.Kind == "container") || p.Allowed != (p.Forbidden == "") {
			t.Errorf("%s: allowed %v, %q", p.Kind, p.Allowed, p.Forbidden)
		}
	}
	if err := s.ch.CheckWish(t.Context(), team, "process"); fault.CodeOf(err) != "place_too_weak" {
		t.Errorf("as a project's place: %v", err)
	}
}

func TestPlacesThatAreFixed(t *testing.T) {
	s := newStreet(t, func(c *choice.Config) { c.Fixed, c.Default = true, "process" })
	s.team.Default = "container" // from before
	if got, err := s.ch.Choose(t.Context(), team); err != nil || got != "process" {
		t.Errorf("without a wish: %q, %v", got, err)
	}
	if got, err := s.ch.Choose(t.Context(), team, "process"); err != nil || got != "process" {
		t.Errorf("the place it is: %q, %v", got, err)
	}
	if _, err := s.ch.Choose(t.Context(), team, "container"); fault.CodeOf(err) != "executor_fixed" {
		t.Errorf("another: %v", err)
	}
	if err := s.ch.CheckWish(t.Context(), team, "container"); fault.CodeOf(err) != "executor_fixed" {
		t.Errorf("as a team's: %v", err)
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
	for _, want := range []string{"The code stays on this server", "costs nothing", "weaker"} {
		if !strings.Contains(back, want) {
			t.Errorf("%q is not said in %q", want, back)
		}
	}
}

// Who is alone on a server works there as in their own terminal, until somebody says another default. Programs never do by default.
func TestWhoIsAloneWorksWithoutIsolation(t *testing.T) {
	alone, rules := true, choice.Rules{Default: executors.Auto}
	s := newStreet(t, func(c *choice.Config) {
		c.Alone = func(context.Context) (bool, error) { return alone, nil }
		c.Rules = func() choice.Rules { return rules }
	})
	hand := choice.ByHand(executors.As(t.Context(), "", "ann"))
	is := func(what string, ctx context.Context, want executors.Kind) {
		t.Helper()
		if d, err := s.ch.Explain(ctx, team); err != nil || d.Kind != want {
			t.Errorf("%s: %s, %v", what, d.Kind, err)
		}
	}
	is("by hand", hand, "none")
	is("by a program", executors.As(t.Context(), "", "ann"), "process")
	if k, err := s.ch.Alone(t.Context(), team); k != "none" || err != nil {
		t.Errorf("offered isolation: %s, %v", k, err)
	}
	if all, _, err := s.ch.Options(hand, team); err != nil || !slices.ContainsFunc(all, func(o choice.Option) bool { return o.Kind == "none" && o.Default }) {
		t.Errorf("the dialog begins elsewhere: %+v, %v", all, err)
	}
	if k, err := s.ch.ChooseHere(hand, team); k != "process" || err != nil {
		t.Errorf("what stands in for another place: %s, %v", k, err)
	}
	s.team.Weakest = executors.ProcessBoundary
	is("the team asks for isolation", hand, "process")
	s.team.Weakest, s.team.Default = "", "container"
	is("the team has a default", hand, "container")
	s.team.Default, rules.Default = "", "container"
	is("the operator says one", hand, "container")
	rules.Default, alone = executors.Auto, false
	is("somebody else joined, or the operator said auto", hand, "process")
}
