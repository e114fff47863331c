package choice_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

const laptop executors.Kind = "runner:laptop"

func as(t *testing.T, user string) context.Context {
	return executors.As(t.Context(), executors.ForAgent, user)
}

// laptop is a machine of a member.
func (s *street) laptop() *fake.Machine {
	return s.family.Add("laptop", executors.Owner{TeamID: team, UserID: "ann", Name: "Ann"})
}

func TestAMembersMachineIsChosenByItsOwnerAlone(t *testing.T) {
	v := newStreet(t)
	v.laptop()
	if k, err := v.ch.Choose(as(t, "ann"), team, laptop); err != nil || k != laptop {
		t.Errorf("its owner: %q, %v", k, err)
	}
	for _, ctx := range []context.Context{as(t, "bob"), t.Context()} {
		if _, err := v.ch.Choose(ctx, team, laptop); fault.CodeOf(err) != "runner_not_yours" || !strings.Contains(err.Error(), "Ann") {
			t.Errorf("somebody else: %v", err)
		}
	}
	if _, err := v.ch.Choose(as(t, "ann"), "another team", laptop); fault.CodeOf(err) != "runner_not_found" {
		t.Errorf("from another team: %v", err)
	}
	if _, err := v.ch.Choose(as(t, "ann"), team, "runner:other"); fault.CodeOf(err) != "runner_not_found" {
		t.Errorf("one that never was: %v", err)
	}
	if _, err := v.ch.Choose(as(t, "ann"), team, "runner"); fault.CodeOf(err) != "runner_not_found" {
		t.Errorf("none named: %v", err)
	}
	v.family.Add("laptop", executors.Owner{TeamID: team, UserID: "ann", Shared: true})
	if _, err := v.ch.Choose(as(t, "bob"), team, laptop); err != nil {
		t.Errorf("one that is shared: %v", err)
	}
}

func TestAMachineIsNobodysDefault(t *testing.T) {
	v := newStreet(t)
	v.laptop()
	for _, k := range []executors.Kind{laptop, "runner"} {
		if err := v.ch.CheckWish(as(t, "ann"), team, k); fault.CodeOf(err) != "executor_personal" {
			t.Errorf("%q as a default: %v", k, err)
		}
	}
	for k := range v.places {
		v.close(k, "it rains")
	}
	if _, err := v.ch.Choose(as(t, "ann"), team); fault.CodeOf(err) != "no_executor" {
		t.Errorf("auto: %v", err)
	}
}

func TestMachinesStandBesideTheTeamsPlaces(t *testing.T) {
	v := newStreet(t)
	m := v.laptop()
	v.family.Add("elsewhere", executors.Owner{TeamID: "another team", UserID: "eve"})
	m.Set(fake.Knobs{Boundary: executors.ProcessBoundary, Unavailable: "offline since 14:02"})
	v.team.Weakest = executors.ContainerBoundary
	all, _, err := v.ch.Options(t.Context(), team)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d places, %v", len(all), err)
	}
	s := all[3]
	if s.Kind != laptop || s.Owner.UserID != "ann" || s.Allowed || s.Available || s.Reason != "offline since 14:02" || s.Default {
		t.Errorf("the machine: %+v", s)
	}
	m.Set(fake.Knobs{})
	if c, ok := v.ch.Place(t.Context(), laptop); !ok || !c.Available { // it came back this moment
		t.Errorf("back again: %+v, %v", c, ok)
	}
	if n := len(v.ch.Capabilities(t.Context())); n != 3 {
		t.Errorf("%d places of the server", n)
	}
}

// A person's own machine comes first where they said so, and never isolates less than what it replaces. While it is away, work goes where
// they agreed, at the cost they agreed to.
func TestAPersonsOwnMachineFirstAndWhereWorkGoesWithoutIt(t *testing.T) {
	var wants choice.Person
	var hour int64 // what the container costs
	v := newStreet(t, func(c *choice.Config) {
		c.Price = func(k executors.Kind, _ int, _ int64) (int64, bool) {
			if k == "container" {
				return hour, hour > 0
			}
			return 0, false
		}
		c.People = func(context.Context, string, string) (choice.Person, error) { return wants, nil }
	})
	m := v.laptop()
	m.Set(fake.Knobs{Boundary: executors.ProcessBoundary})
	wants.Trusted = true
	if k, err := v.ch.Choose(as(t, "ann"), team); err != nil || k != "process" {
		t.Errorf("nothing said: %q, %v", k, err)
	}
	wants.MachineFirst = true
	d, err := v.ch.Explain(as(t, "ann"), team, "", "none")
	if err != nil || d.Kind != laptop || !d.Steps[1].Decided || d.Steps[3].Words != "The project's place. Not reached." {
		t.Errorf("the machine first: %+v, %v", d, err)
	}
	if d, err := v.ch.Explain(as(t, "ann"), team, "", "container"); err != nil || d.Kind != "container" || !strings.Contains(d.Steps[1].Words, "isolates less") {
		t.Errorf("never a weaker boundary: %+v, %v", d, err)
	}
	if k, err := v.ch.Choose(as(t, "bob"), team); err != nil || k != "process" {
		t.Errorf("somebody else's: %q, %v", k, err)
	}
	wants.Trusted = false
	if _, err := v.ch.Choose(as(t, "bob"), team, "none"); fault.CodeOf(err) != "unisolated_not_allowed" {
		t.Errorf("who may not work without isolation: %v", err)
	}
	wants.Trusted = true

	wants.Fallback = "container"
	if k, err := v.ch.ChooseAway(t.Context(), team, "ann", laptop); k != "" || err != nil {
		t.Errorf("it is there: %q, %v", k, err)
	}
	m.GoAway("offline since 14:02")
	for fallback, want := range map[executors.Kind]string{"container": "container", "process": "process", "none": "", "": ""} {
		wants.Fallback = fallback
		k, err := v.ch.ChooseAway(t.Context(), team, "ann", laptop)
		if string(k) != want || (fault.CodeOf(err) == "fallback_too_weak") != (fallback == "none") {
			t.Errorf("away, agreed to %q: %q, %v", fallback, k, err)
		}
	}
	wants.Fallback = "container"
	if k, _ := v.ch.ChooseAway(t.Context(), team, "bob", laptop); k != "" {
		t.Errorf("for somebody else: %q", k)
	}
	hour = 5
	if _, err := v.ch.ChooseAway(t.Context(), team, "ann", laptop); fault.CodeOf(err) != "fallback_costs_more" {
		t.Errorf("dearer than agreed: %v", err)
	}
}

// A region in which a sandbox cannot be made offers the nearest other one that serves and is allowed, and keeps what the error said.
func TestARegionThatFailsOffersTheNext(t *testing.T) {
	const eu, us = executors.Kind("container@eu"), executors.Kind("container@us")
	s := newStreet(t, func(c *choice.Config) {
		for _, k := range []executors.Kind{eu, us} {
			e := fake.New(fake.NewWorld(t.TempDir(), nil))
			e.Set(fake.Knobs{Kind: k, Boundary: executors.ContainerBoundary})
			c.Executors.Add(e)
		}
	})
	ctx := executors.WithLatencies(t.Context(), map[executors.Kind]int64{"container@main": 10, eu: 40, us: 20})
	full := fault.New(fault.Unavailable, "place_cannot_serve", "No capacity.").With("reason", "capacity")
	err := s.ch.OfferNext(ctx, team, "container", full)
	if fault.CodeOf(err) != "place_cannot_serve" || detail(err, "next_region") != string(us) || detail(err, "reason") != "capacity" ||
		!strings.HasPrefix(err.Error(), "No capacity. The next region is ") {
		t.Errorf("from the place's own: %v, %v", err, detail(err, "next_region"))
	}
	if err := s.ch.OfferNext(ctx, team, us, full); detail(err, "next_region") != "container@main" {
		t.Errorf("from another: %v", detail(err, "next_region"))
	}
	if err := s.ch.OfferNext(ctx, team, "process", full); err != full {
		t.Errorf("a place without regions: %v", err)
	}
	s.team.Weakest = executors.MachineBoundary // none of them is allowed
	if err := s.ch.OfferNext(ctx, team, "container", full); err != full {
		t.Errorf("no region is allowed: %v", err)
	}
}
