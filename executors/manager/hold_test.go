package manager_test

import (
	"errors"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

const limitWords = "The team's budget is spent."

func (s *sleeper) pausedFor(want executors.PausedFor) {
	s.t.Helper()
	if r := s.last(); r.State != executors.Paused || r.PausedFor != want {
		s.t.Fatalf("it is %s for %q, want %q", r.State, r.PausedFor, want)
	}
}

func TestAPersonsPauseIsNotALimits(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	must(t, s.m.Pause(s.ctx, s.ws, "It was paused by Ana."))
	if _, err := s.m.Hold(s.ctx, s.ws, p.SandboxID, limitWords); !errors.Is(err, executors.ErrGone) {
		t.Errorf("a limit took what a person had paused: %v", err)
	}
	s.pausedFor(executors.ByPerson)
	must(t, s.m.Unhold(s.ctx, s.ws))
	s.pausedFor(executors.ByPerson)
	must(t, s.m.Wake(s.ctx, s.ws))

	paused, err := s.m.Hold(s.ctx, s.ws, p.SandboxID, limitWords)
	if _, held := s.m.Held(s.ws); err != nil || !paused || !held {
		t.Fatalf("held: %v, %v, %v", paused, held, err)
	}
	must(t, s.m.Pause(s.ctx, s.ws, "It was paused by Ana.")) // from here on it is to wait for a person
	s.pausedFor(executors.ByPerson)
	if _, held := s.m.Held(s.ws); held {
		t.Error("it goes on once the limit allows it, although a person paused it")
	}
	must(t, s.m.Unhold(s.ctx, s.ws))
	s.pausedFor(executors.ByPerson)
	s.runs(p, 2)
}

func TestWhatALimitHoldsIsKnownWhileItCannotBeReached(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	if _, err := s.m.Hold(s.ctx, s.ws, p.SandboxID, limitWords); err != nil {
		t.Fatal(err)
	}
	s.restart(fake.Knobs{AsleepErr: errors.New("its place does not answer")})
	must(t, s.m.Recover(s.ctx))
	if s.m.UnreachableSandbox(s.ws) != p.SandboxID {
		t.Fatal("it was reached")
	}
	if _, held := s.m.Held(s.ws); !held {
		t.Error("it is forgotten that a limit paused it")
	}
	if err := s.m.Unhold(s.ctx, s.ws); fault.CodeOf(err) != "sandbox_unreachable" {
		t.Errorf("it is said to go on: %v", err)
	}
	s.cloud.Set(fake.Knobs{})
	s.m.CheckHealth(s.ctx)
	if _, held := s.m.Held(s.ws); !held || s.m.UnreachableSandbox(s.ws) != "" {
		t.Fatal("it was not found again as it was")
	}
	must(t, s.m.Unhold(s.ctx, s.ws))
	s.ensure()
	s.runs(p, 2)
}
