package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
)

func TestHooksAreCalledAtTheTurnsOfALife(t *testing.T) {
	h := newHarness(t)
	var reported []string
	var spec executors.Spec
	h.m.Attach(executors.Participant{Making: func(_ context.Context, c executors.Capabilities, s *executors.Spec) error {
		reported = append(reported, "making in "+string(c.Kind))
		s.Env = map[string]string{"CACHE": "/c"}
		return nil
	}})
	h.m.Attach(executors.Participant{Making: func(_ context.Context, _ executors.Capabilities, s *executors.Spec) error { spec = *s; return nil }})
	h.m.Attach(executors.Participant{Live: func(*executors.Place) { reported = append(reported, "live") }})
	h.m.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) {
		if _, err := p.Run(ctx, executors.SandboxCommand{Argv: []string{"true"}}); err != nil {
			t.Errorf("the guest does not answer before its end: %v", err)
		}
		reported = append(reported, "ending")
	}})
	h.m.Attach(executors.Participant{Ended: func(r executors.Record) { reported = append(reported, "ended "+string(r.State)) }})
	p := h.ensure()
	if spec.ID != p.SandboxID || spec.Env["CACHE"] != "/c" {
		t.Errorf("the second is given %+v", spec)
	}
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	if want := []string{"making in fake", "live", "ending", "ended gone"}; !slices.Equal(reported, want) {
		t.Errorf("told %q, want %q", reported, want)
	}
}

func TestARefusalBeforeTheMakingIsReported(t *testing.T) {
	h := newHarness(t)
	var ended []executors.State
	h.m.Attach(executors.Participant{Making: func(context.Context, executors.Capabilities, *executors.Spec) error { return errors.New("no box") }})
	h.m.Attach(executors.Participant{Ended: func(r executors.Record) { ended = append(ended, r.State) }})
	if _, err := h.m.Ensure(h.ctx, h.ws); err == nil {
		t.Error("it was made")
	}
	if r := h.last(); r.State != executors.Failed || !strings.Contains(r.Reason, "no box") || h.ex.Creates() != 0 {
		t.Errorf("stored %+v after %d makings", r, h.ex.Creates())
	}
	if !slices.Equal(ended, []executors.State{executors.Failed}) {
		t.Errorf("ended: %v", ended)
	}
}

func TestWhatASandboxNeedsIsReadyBeforeItIsFoundAgain(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	h.restart()
	gate := errors.New("no gate")
	var asked string
	h.m.Attach(executors.Participant{Found: func(_ context.Context, r executors.Record) error { asked = r.Handle.ID; return gate }})
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.m.Live(h.ws); ok || asked != p.SandboxID || h.m.UnreachableSandbox(h.ws) != p.SandboxID {
		t.Errorf("asked for %q; unreachable %q", asked, h.m.UnreachableSandbox(h.ws))
	}
	gate = nil
	h.m.CheckHealth(h.ctx)
	if got, ok := h.m.Live(h.ws); !ok || got.SandboxID != p.SandboxID {
		t.Errorf("Live: %+v, %v", got, ok)
	}
}

func TestAGuestThatDoesNotAnswerCanBeEnded(t *testing.T) {
	h := newHarness(t)
	h.ensure()
	h.m.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("what is done before an end has no bound")
		}
	}})
	h.ex.Set(fake.Knobs{DialErr: errors.New("no line")})
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
}
