package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// e2bTrial tries a key and addresses before they are kept.
type e2bTrial struct{ cfg *config.Config }

func (t e2bTrial) try(ctx context.Context, with settings.E2B) (string, error) {
	running, err := e2b.Check(ctx, fromconfig.E2BSettings(t.cfg, with))
	if err != nil {
		return "", err
	}
	switch running {
	case 0:
		return "no sandbox runs there now", nil
	case 1:
		return "1 sandbox runs there now", nil
	}
	return fmt.Sprintf("%d sandboxes run there now", running), nil
}

// gates are where it is enforced what workspaces reach: our gate, and E2B's own walls for what lives there.
type gates struct {
	*gate.Gate
	places *manager.Manager
	e2b    *e2b.Executor
}

// Update changes what a workspace's sandboxes may reach.
func (g gates) Update(workspaceID string, n executors.Network) {
	g.Gate.Update(workspaceID, n)
	if p, ok := g.places.Live(workspaceID); ok && p.Kind == e2b.Kind {
		g.e2b.NetworkChanged(p.SandboxID, n)
	}
}

// Workspaces are those with a sandbox whose network can be changed.
func (g gates) Workspaces() []string {
	out := g.Gate.Workspaces()
	for _, p := range g.places.OfKind(e2b.Kind) {
		if !slices.Contains(out, p.WorkspaceID) {
			out = append(out, p.WorkspaceID)
		}
	}
	return out
}

// e2bFound has a sandbox that was found again reach what its workspace reaches now.
func (a *App) e2bFound(p *executors.Place) {
	if p.Kind != e2b.Kind {
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
	a.e2b.NetworkChanged(p.SandboxID, n)
}
