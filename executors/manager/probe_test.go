package manager_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
)

func TestAFailedMakingHasThePlaceAskedAgain(t *testing.T) {
	h := newHarness(t)
	var asked atomic.Int64
	knobs := fake.Knobs{Boundary: executors.ProcessBoundary, CreateErr: errors.New("no room"), Probe: func(context.Context) error { asked.Add(1); return nil }}
	h.ex.Set(knobs)
	if _, err := h.m.Ensure(h.ctx, h.ws); err == nil {
		t.Fatal("it was made")
	}
	knobs.Unavailable = "the disk is full"
	h.ex.Set(knobs)
	for h.m.Capabilities(h.ctx)[0].Available {
		if h.ctx.Err() != nil {
			t.Fatal("what the place says now is not heard")
		}
		h.m.Reprobe()
	}
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	knobs.Unavailable, knobs.CreateErr = "", nil
	h.ex.Set(knobs)
	h.m.Reprobe()
	for h.m.Capabilities(h.ctx)[0].Available == false {
		if h.ctx.Err() != nil {
			t.Fatal("it stays unavailable")
		}
	}
	h.ensure()
	if c := h.m.Capabilities(h.ctx)[0]; c.StartMs <= 0 {
		t.Errorf("how long it took is not reported: %+v", c)
	}
}
