package app

import (
	"context"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/demo"
	apisandboxes "github.com/parawork/parawork/tools/sandboxes"
)

// newSandboxService makes what gives out sandboxes without a repository.
func newSandboxService(a *App) *apisandboxes.Service {
	return apisandboxes.New(apisandboxes.Config{Store: toolstore.NewSandboxes(a.db), Workspaces: a.workspaces.ForSandboxes(), Places: a.places, Sessions: sandboxSessions{a.sessions},
		Rules: apisandboxes.NewRules(a.choice, a.executors, a.images, a.network), Actor: a.directory.Actor, Log: a.logOf("sandboxes")})
}

// newDemo makes the public demo; nil where it is off.
func newDemo(a *App, t *toolbox) *demo.Service {
	if !a.cfg.Demo.Enabled {
		return nil
	}
	return demo.New(demo.Config{Executor: executors.Kind(a.cfg.Demo.Executor), Limits: fromconfig.DemoLimits(a.cfg.Demo), Key: a.key, Teams: store.NewAccounts(a.db), Sandboxes: t.sandboxes, Code: t.code,
		Confine: a.workspaces.ForSandboxes().Confine, Place: a.choice.Place, Log: a.logOf("demo")})
}

type sandboxSessions struct{ *sessions.Service }

func (s sandboxSessions) Ended(ctx context.Context, teamID, sessionID string) (bool, error) {
	v, err := s.Get(ctx, sessionID)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return v.TeamID != teamID || v.EndedAt != 0, err
}
