package executors

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
)

// Ticket names the sandbox a gate is opened for and what it may reach through it.
type Ticket struct {
	SandboxID   string
	WorkspaceID string
	TeamID      string
	Network     Network
}

// Gate opens the only way out of sandboxes that have no network of their own: a folder with a socket each. Who speaks on a socket is
// the sandbox it was made for, so nothing inside holds a secret. Safe for concurrent use.
type Gate interface {
	// Open listens in the folder it returns, which is shown read-only at InsideGate. Idempotent: after a restart the same folder is
	// listened in again, and the sandbox that has it mounted need not know.
	Open(ctx context.Context, t Ticket) (dir string, err error)
	// Close ends every connection through the sandbox's gate and removes its folder. Idempotent.
	Close(sandboxID string)
	// Has reports whether the sandbox has a gate, of this process or of one before it.
	Has(sandboxID string) bool
}

// Networks says what of the network a workspace reaches.
type Networks interface {
	Network(ctx context.Context, workspaceID string) (Network, error)
}

// Gated has every sandbox that isolates given a gate before it is made, opened again before it is found again, and closed when it has ended.
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
			return fmt.Errorf("reading what of the network workspace %s reaches: %w", s.WorkspaceID, err)
		}
		s.Network = network
		if c.OwnDisk && !c.Gated { // on another machine, whose place has walls of its own
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
		if fault.Is(err, fault.NotFound) { // it is being deleted: its sandbox is found to be ended
			network, err = Network{Mode: NetworkNone}, nil
		}
		if err != nil {
			return fmt.Errorf("reading what of the network workspace %s reaches: %w", r.WorkspaceID, err)
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
