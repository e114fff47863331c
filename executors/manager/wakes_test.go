package manager_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/fake"
)

// A caller that needs a sandbox that somebody is waking gets it, instead of an error that it is paused.
func TestWhoNeedsASandboxThatIsBeingWokenWaits(t *testing.T) {
	s := newSleeper(t)
	s.restart(fake.Knobs{PriceNano: 100})
	p := s.ensure()
	must(t, s.m.Pause(s.ctx, s.ws, "It was paused by Ana."))
	s.restart(fake.Knobs{PriceNano: 100})
	must(t, s.m.Recover(s.ctx))
	var early error
	s.ledger.asked = func() { // it is being woken now
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
		defer cancel()
		_, early = s.m.Ensure(ctx, s.ws)
	}
	must(t, s.m.Wake(s.ctx, s.ws))
	s.ledger.asked = nil
	if !errors.Is(early, context.DeadlineExceeded) {
		t.Errorf("while it was woken: %v", early)
	}
	s.ensure()
	s.runs(p, 2)
}
