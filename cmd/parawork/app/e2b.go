package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// e2bSettings puts together what operators say of E2B in the browser, which config.json goes before, and what only config.json says.
func e2bSettings(cfg *config.Config, v settings.E2B) e2b.Settings {
	c := cfg.Sandboxing.E2B
	s := e2b.Settings{APIKey: v.APIKey, Domain: v.Domain, APIURL: v.APIURL, SandboxURL: v.SandboxURL, Debug: c.Debug, Template: v.Template,
		CPUs: int(v.DefaultCPUs), MemoryMB: int(v.DefaultMemoryMB), MaxRun: time.Duration(v.MaxSessionMinutes) * time.Minute,
		PriceVCPU: c.PriceVCPU, PriceGiB: c.PriceGiB, RequestTimeout: time.Duration(c.RequestTimeout) * time.Second, Retries: c.Retries, Proxy: c.Proxy, Headers: c.Headers}
	if s.Retries == 0 {
		s.Retries = -1 // none, where the room's 0 means its usual number
	}
	return s
}

// E2bFromFile is how E2B is used without what is kept in the database.
func E2bFromFile(cfg *config.Config) e2b.Settings {
	v, _ := baseSettings(cfg) // which of them config.json says is for who changes them
	return e2bSettings(cfg, v.E2B)
}

// newE2B makes the executor, which is there with a key or without: without one it says so.
func newE2B(cfg *config.Config, guest string, ask func(context.Context) e2b.Settings, log *slog.Logger) (*e2b.Executor, error) {
	return e2b.New(e2b.Config{Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: guest, Log: log,
		Settings: func(ctx context.Context) (e2b.Settings, error) { return ask(ctx), nil }})
}

// e2bTrial tries a key and addresses before they are kept.
type e2bTrial struct{ cfg *config.Config }

func (t e2bTrial) try(ctx context.Context, with settings.E2B) (string, error) {
	running, err := e2b.Check(ctx, e2bSettings(t.cfg, with))
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
