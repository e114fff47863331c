package app

import (
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// gates are where it is enforced what workspaces reach: our gate, and the walls of executors that enforce it themselves.
type gates struct {
	*gate.Gate
	places    *manager.Manager
	executors *executors.Registry
}

// enforcer is the executor of a kind, where it enforces itself what its sandboxes reach.
func (g gates) enforcer(k executors.Kind) (executors.Enforcer, bool) {
	e, _ := g.executors.OwnOf(k)
	f, ok := e.(executors.Enforcer)
	return f, ok
}

// Update changes what a workspace's sandboxes may reach.
func (g gates) Update(workspaceID string, n executors.Network) {
	g.Gate.Update(workspaceID, n)
	if p, ok := g.places.Live(workspaceID); ok {
		if e, ok := g.enforcer(p.Kind); ok {
			e.NetworkChanged(p.SandboxID, n)
		}
	}
}

// Workspaces are those with a sandbox whose network can be changed.
func (g gates) Workspaces() []string {
	out := g.Gate.Workspaces()
	for _, e := range g.executors.Own() {
		if _, ok := g.enforcer(e.Kind()); !ok {
			continue
		}
		for _, p := range g.places.OfKind(e.Kind()) {
			if !slices.Contains(out, p.WorkspaceID) {
				out = append(out, p.WorkspaceID)
			}
		}
	}
	return out
}

// enforceNetwork has a sandbox that was found again reach what its workspace reaches now, where its executor enforces that.
func (a *App) enforceNetwork(p *executors.Place) {
	e, ok := gates{a.gate, a.places, a.executors}.enforcer(p.Kind)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(tenant.All(context.Background(), "sandboxes that were found again, of every team"), 10*time.Second)
	defer cancel()
	n, err := a.network.Network(ctx, p.WorkspaceID)
	if fault.Is(err, fault.NotFound) { // it is being deleted
		return
	}
	if err != nil {
		a.log.Warn("what a workspace may reach could not be read", "workspace_id", p.WorkspaceID, "error", err)
		return
	}
	e.NetworkChanged(p.SandboxID, n)
}
