package executors

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
)

// Ticket names the sandbox a gate is opened for and what the sandbox may reach through it.
type Ticket struct {
	SandboxID   string
	WorkspaceID string
	TeamID      string
	Network     Network
}

// Gate opens the only way out for sandboxes that have no network of their own: one folder with a socket per sandbox. The socket identifies
// the sandbox, so nothing inside holds a secret. Safe for concurrent use.
type Gate interface {
	// Open listens in the folder it returns, which is mounted read-only at InsideGate. Idempotent: after a restart it listens in the same
	// folder again, and the sandbox that has it mounted notices nothing.
	Open(ctx context.Context, t Ticket) (dir string, err error)
	// Close ends every connection through the sandbox's gate and removes its folder. Idempotent.
	Close(sandboxID string)
	// Has reports whether the sandbox has a gate, opened by this process or an earlier one.
	Has(sandboxID string) bool
}

// Networks says which part of the network a workspace may reach.
type Networks interface {
	Network(ctx context.Context, workspaceID string) (Network, error)
}

// Gated returns a Participant that opens a gate for every isolated sandbox before it is made, opens it again before the sandbox is
// recovered, and closes it when the sandbox has ended.
func Gated(g Gate, n Networks) Participant {
	open := func(ctx context.Context, t Ticket) (string, error) {
		dir, err := g.Open(ctx, t)
		if err != nil {
			return "", fmt.Errorf("opening the gate of sandbox %s: %w", t.SandboxID, err)
		}
		return dir, nil
	}
	making := func(ctx context.Context, c Capabilities, s *Spec) error {
		if !c.Isolated {
			return nil
		}
		network, err := n.Network(ctx, s.WorkspaceID)
		if err != nil {
			return fmt.Errorf("reading which network workspace %s may reach: %w", s.WorkspaceID, err)
		}
		s.Network = network
		if c.OwnDisk && !c.Gated { // on another machine, whose executor isolates it
			return nil
		}
		s.Gate, err = open(ctx, Ticket{SandboxID: s.ID, WorkspaceID: s.WorkspaceID, TeamID: s.TeamID, Network: network})
		return err
	}
	found := func(ctx context.Context, r Record) error {
		if !g.Has(r.Handle.ID) {
			return nil // it never had one
		}
		network, err := n.Network(ctx, r.WorkspaceID)
		if fault.Is(err, fault.NotFound) { // the workspace is being deleted: recovery finds that its sandbox has ended
			network, err = Network{Mode: NetworkNone}, nil
		}
		if err != nil {
			return fmt.Errorf("reading which network workspace %s may reach: %w", r.WorkspaceID, err)
		}
		_, err = open(ctx, Ticket{SandboxID: r.Handle.ID, WorkspaceID: r.WorkspaceID, TeamID: r.TeamID, Network: network})
		return err
	}
	return Participant{Name: "network", Making: making, Found: found, Ended: func(r Record) { g.Close(r.Handle.ID) }}
}

// Enforcer is an optional ability of an Executor that itself enforces what its sandboxes reach, in the place of a gate of this server.
type Enforcer interface {
	// NetworkChanged has a sandbox reach what n says from now on, also where that cannot be done at once. It does not block. A sandbox the
	// executor does not know is none of its business.
	NetworkChanged(sandboxID string, n Network)
}
