package manager_test

import (
	"context"
	"testing"

	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

func TestNothingBeginsOnceTheManagerHasEnded(t *testing.T) {
	h := newHarness(t)
	asked := 0
	h.ex.Set(fake.Knobs{Probe: func(context.Context) error { asked++; return nil }})
	ended, end := context.WithCancel(h.ctx)
	end()
	must(t, h.m.Run(ended))
	asked = 0
	c, ok := h.m.Place(h.ctx, fake.Kind)
	if !ok || c.Available || c.Reason == "" || asked != 0 {
		t.Errorf("a place was asked %d times by a server that has ended: %+v", asked, c)
	}
	if _, err := h.m.Ensure(h.ctx, h.ws); fault.CodeOf(err) != "stopping" {
		t.Errorf("Ensure of a server that has ended: %v", err)
	}
	commands := command.New(command.Config{Places: h.m, Store: h.store})
	must(t, commands.Run(ended))
	if _, err := commands.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Argv: []string{"true"}}); fault.CodeOf(err) != "stopping" {
		t.Errorf("a command of a server that has ended: %v", err)
	}
}
