package choice_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
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
