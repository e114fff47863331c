package manager_test

import (
	"context"
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

// Sizes that somebody may not have are marked as such, are not made, and are not their default.
func TestSizesSomebodyMayNotHave(t *testing.T) {
	tooLarge := fault.New(fault.Quota, "size_not_in_plan", "1 CPU is the most for you.").With("hint", "Choose a larger plan.")
	bound := 1
	h := newCloudHarness(t, func(mc *executortest.ManagerConfig) {
		mc.Sizes = func(_ context.Context, _, _ string, c executors.Capabilities) ([]executors.Size, error) {
			out := slices.Clone(c.Sizes)
			for i := range out {
				if out[i].CPUs > bound {
					out[i].Refused, out[i].Default = tooLarge, false
				}
				if out[i].CPUs == bound {
					out[i].Default = true
				}
			}
			return out, nil
		}
	})
	h.cloud.Set(fake.Knobs{Sizes: []executors.Size{{CPUs: 1, MemoryMB: 1024, Available: true}, {CPUs: 2, MemoryMB: 2048, Available: true, Default: true},
		{CPUs: 4, MemoryMB: 4096, Available: true}}})
	asked := executors.Limits{}
	h.m.Attach(executors.Participant{Making: func(_ context.Context, _ executors.Capabilities, s *executors.Spec) error {
		s.Limits = asked
		return nil
	}})
	p, err := h.m.Ensure(h.ctx, h.ws)
	if err != nil || h.last().CPUs != 1 {
		t.Fatalf("the usual size: %+v, %v", p, err)
	}
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	asked = executors.Limits{CPUs: 2, MemoryMB: 2048}
	if _, err := h.m.Ensure(h.ctx, h.ws); fault.CodeOf(err) != "size_not_in_plan" || fault.KindOf(err) != fault.Quota {
		t.Errorf("a larger one: %v", err)
	}
	if err := h.m.CheckSize(h.ctx, h.team, h.cloud.Kind(), asked); fault.CodeOf(err) != "size_not_in_plan" {
		t.Errorf("asked for beforehand: %v", err)
	}
	all, _, err := h.m.Options(h.ctx, h.team)
	if err != nil || all[0].Sizes[0].Refused != nil || !all[0].Sizes[0].Default || all[0].Sizes[1].Refused == nil {
		t.Errorf("listed: %+v, %v", all, err)
	}
	bound = 2
	if _, err := h.m.Ensure(h.ctx, h.ws); err != nil || h.last().CPUs != 2 {
		t.Errorf("with a larger plan: %v", err)
	}
}

// What is held back for a start is given back when it does not come to anything, and only then.
func TestAStartThatFailsGivesBackWhatWasHeld(t *testing.T) {
	l := newLedger()
	h := newCloudHarness(t, func(mc *executortest.ManagerConfig) { mc.Ledger = l })
	free := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.released)
	}
	h.cloud.Set(fake.Knobs{CreateErr: fault.New(fault.Unavailable, "place_cannot_serve", "No key.").With("reason", "no_key")})
	if _, err := h.m.Ensure(h.ctx, h.ws); fault.CodeOf(err) != "place_cannot_serve" || free() != 1 {
		t.Fatalf("%v, given back %d times", err, free())
	}
	h.cloud.Set(fake.Knobs{})
	p, err := h.m.Ensure(h.ctx, h.ws)
	if err != nil || free() != 1 {
		t.Fatalf("%v, given back %d times", err, free())
	}
	if err := h.m.Pause(h.ctx, h.ws, "A rest."); err != nil {
		t.Fatal(err)
	}
	h.cloud.Set(fake.Knobs{ResumeErr: fault.New(fault.Unavailable, "place_cannot_serve", "It has no room.").With("reason", "capacity")})
	if err := h.m.Wake(h.ctx, h.ws); err == nil || free() != 2 || !slices.Contains(l.released, p.SandboxID) {
		t.Fatalf("%v, given back %v", err, l.released)
	}
	h.cloud.Set(fake.Knobs{})
	if err := h.m.Wake(h.ctx, h.ws); err != nil || free() != 2 {
		t.Errorf("%v, given back %d times", err, free())
	}
}
