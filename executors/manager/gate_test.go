package manager_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

// gates notes what is asked of it.
type gates struct {
	known map[string]bool
	asked []string
	err   error
}

func (g *gates) Open(_ context.Context, t executors.Ticket) (string, error) {
	g.asked = append(g.asked, "open "+t.SandboxID+" "+t.WorkspaceID+" "+t.TeamID+" "+string(t.Network.Mode))
	g.known[t.SandboxID] = true
	return "/gates/" + t.SandboxID, g.err
}

func (g *gates) Close(sandboxID string) {
	g.asked = append(g.asked, "close "+sandboxID)
	delete(g.known, sandboxID)
}

func (g *gates) Has(sandboxID string) bool { return g.known[sandboxID] }

type networks struct{ mode executors.NetworkMode }

func (n networks) Network(context.Context, string) (executors.Network, error) {
	if n.mode == "deleted" {
		return executors.Network{}, fault.New(fault.NotFound, "not_found", "It is gone.")
	}
	return executors.Network{Mode: n.mode}, nil
}

func TestASandboxThatIsolatesHasAGateAllItsLife(t *testing.T) {
	h := newHarness(t)
	g := &gates{known: map[string]bool{}}
	h.ex.Set(fake.Knobs{Isolated: true})
	h.m.Attach(executors.Gated(g, networks{executors.NetworkAllow}))
	var spec executors.Spec
	h.m.Attach(executors.Participant{Making: func(_ context.Context, _ executors.Capabilities, s *executors.Spec) error { spec = *s; return nil }})
	p := h.ensure()
	if spec.Gate != "/gates/"+p.SandboxID || spec.Network.Mode != executors.NetworkAllow {
		t.Errorf("%+v", spec)
	}
	h.restart()
	h.m.Attach(executors.Gated(g, networks{executors.NetworkNone}))
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	who := p.SandboxID + " " + h.ws + " " + h.team + " "
	if want := []string{"open " + who + "allow", "open " + who + "none", "close " + p.SandboxID}; !slices.Equal(g.asked, want) {
		t.Errorf("asked %q, want %q", g.asked, want)
	}
}

// The sandbox of a workspace that is being deleted is found again too: it must be ended.
func TestTheGateOfAWorkspaceThatIsGone(t *testing.T) {
	h := newHarness(t)
	g := &gates{known: map[string]bool{}}
	h.ex.Set(fake.Knobs{Isolated: true})
	h.m.Attach(executors.Gated(g, networks{executors.NetworkOpen}))
	p := h.ensure()
	h.restart()
	h.m.Attach(executors.Gated(g, networks{"deleted"}))
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.m.Live(h.ws); !ok || g.asked[len(g.asked)-1] != "open "+p.SandboxID+" "+h.ws+" "+h.team+" none" {
		t.Errorf("asked %q", g.asked)
	}
}

func TestASandboxOnTheServersOwnNetworkHasNoGate(t *testing.T) {
	h := newHarness(t)
	g := &gates{known: map[string]bool{}}
	h.m.Attach(executors.Gated(g, networks{}))
	h.ensure()
	if len(g.asked) != 0 {
		t.Errorf("asked %q", g.asked)
	}
}

// Without its gate a sandbox would have no way out and nobody would know why.
func TestAGateThatDoesNotOpenStopsTheMaking(t *testing.T) {
	h := newHarness(t)
	g := &gates{known: map[string]bool{}, err: errors.New("no room")}
	h.ex.Set(fake.Knobs{Isolated: true})
	h.m.Attach(executors.Gated(g, networks{}))
	if _, err := h.m.Ensure(h.ctx, h.ws); err == nil {
		t.Error("it was made")
	}
	if h.ex.Creates() != 0 || len(g.known) != 0 {
		t.Errorf("%d makings, gates %v", h.ex.Creates(), g.known)
	}
}
