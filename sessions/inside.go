package sessions

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// inside is what a session remembers about a sandbox with its own home. Nil: the home is on this server, one per user.
type inside struct {
	key, home      string
	host, boundary bool
	far            bool // on another machine
	own            bool // the home is the machine owner's own
	machine        bool // a member's own machine, whose programs come from no image
}

// in converts it for the agents' adapters, for work that ends with ctx.
func (i *inside) in(ctx context.Context, g *client.Client) *agents.Inside {
	if i == nil || g == nil {
		return nil
	}
	return &agents.Inside{Key: i.key, Home: i.home, Files: g.Home(ctx), Host: i.host, Machine: i.machine, Boundary: i.boundary, Own: i.own}
}

// insideOf finds out where the home of a sandbox is. A sandbox that isolates agents has its own home, whatever its guest says:
// files an agent writes there must never be mistaken for a user's home.
func (r *roster) insideOf(ctx context.Context, p *executors.Place) (*inside, error) {
	caps, _ := r.kinds.Place(ctx, p.Kind)
	bounded := caps.Boundary != "" && caps.Boundary != executors.NoBoundary
	if p.Hello.Home == "" {
		if bounded || p.OwnDisk {
			return nil, fault.New(fault.Unavailable, "sandbox_has_no_home", "The sandbox reported no home for its agents. Destroy the sandbox to get a new one.")
		}
		return nil, nil
	}
	return &inside{key: p.WorkspaceID, home: p.Hello.Home, host: caps.Host, boundary: bounded, far: p.OwnDisk, own: p.SharedHome,
		machine: p.Kind.Base() == executors.Runner && caps.Boundary != executors.ContainerBoundary}, nil
}

// brief describes the sandbox to an agent.
func (r *roster) brief(ctx context.Context, p *executors.Place) string {
	caps, _ := r.kinds.Place(ctx, p.Kind)
	return caps.Brief
}

// checkAgent checks whether an agent can be started in any existing executor, before a sandbox is created. An agent missing on
// this server may be in the image of a sandbox with its own programs.
func (r *roster) checkAgent(ctx context.Context, name string, kind executors.Kind) error {
	err := r.agents.Check(name, nil)
	if fault.CodeOf(err) != "agent_not_installed" {
		return err
	}
	if c, ok := r.kinds.Place(ctx, kind); ok && c.OwnDisk {
		return nil // on another machine, which reports itself what it lacks
	}
	if r.ownPrograms(ctx) {
		return nil
	}
	return err
}

// ownPrograms reports whether some executor uses programs other than this server's.
func (r *roster) ownPrograms(ctx context.Context) bool {
	return slices.ContainsFunc(r.kinds.Capabilities(ctx), func(c executors.Capabilities) bool {
		return c.Available && c.Isolated && !c.Host
	})
}

// DefaultPermissions returns how an agent is started by default in a sandbox that isolates it.
func (r *roster) DefaultPermissions(agent string) string { return r.agents.Permissions(agent, true) }

// permissions returns with which permissions an agent is started. A resumed agent that is no longer isolated, without a
// confirmation, asks again: dropped.
func (r *roster) permissions(req StartRequest, in *inside, resumed bool) (permissions string, dropped bool, err error) {
	bounded := in != nil && in.boundary
	permissions = req.Permissions
	if permissions == "" {
		permissions = r.agents.Permissions(req.Agent, bounded)
	}
	if err := r.agents.CheckPermissions(req.Agent, permissions); err != nil {
		return "", false, err
	}
	if permissions != agents.AllPermissions || bounded || req.ConfirmNoBoundary {
		return permissions, false, nil
	}
	if resumed {
		return agents.AskPermissions, true, nil
	}
	whose := "server's user"
	if in != nil && in.far {
		whose = "machine's owner"
	}
	return "", false, fault.New(fault.Conflict, "no_boundary",
		"%s would do everything without asking, and nothing isolates it here: it has the rights of the %s. Choose an executor that isolates, let it ask, or confirm it (confirm_no_boundary).",
		r.agents.Name(req.Agent), whose).With("field", "permissions")
}

// notThere reports whether a process could not be started because its program is not in the sandbox.
func notThere(reason string) bool {
	return strings.Contains(reason, guest.NotInPath) || strings.HasSuffix(reason, ": no such file or directory")
}

// lookedFor names the folders in which the guest looked for a missing program, as a further sentence.
func lookedFor(reason string) string {
	if _, where, ok := strings.Cut(reason, guest.NotInPath); ok {
		return " The guest looked for it in" + strings.NewReplacer("(", "", ")", "").Replace(where) + "."
	}
	return ""
}

// Leaving reads what the agents of a sandbox have not reported yet, before the sandbox is ended deliberately: their home is lost
// with it.
func (s *Service) Leaving(ctx context.Context, p *executors.Place) {
	for _, l := range s.all() {
		l.mu.Lock()
		mine := l.row.SandboxID == p.SandboxID && l.inside != nil
		l.mu.Unlock()
		if mine {
			l.transcript.Read(ctx)
		}
	}
}
