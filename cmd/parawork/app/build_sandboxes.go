package app

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store/toolstore"
	apisandboxes "github.com/parawork/parawork/tools/sandboxes"
)

// newSandboxService makes what gives out sandboxes without a repository.
func newSandboxService(a *App) *apisandboxes.Service {
	return apisandboxes.New(apisandboxes.Config{Store: toolstore.NewSandboxes(a.db), Workspaces: a.workspaces.ForSandboxes(), Places: a.places, Sessions: sandboxSessions{a.sessions},
		Rules: apisandboxes.NewRules(a.choice, a.executors, a.images, a.network), Actor: a.directory.Actor, Log: a.logOf("sandboxes")})
}

type sandboxSessions struct{ *sessions.Service }

func (s sandboxSessions) Ended(ctx context.Context, teamID, sessionID string) (bool, error) {
	v, err := s.Get(ctx, sessionID)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return v.TeamID != teamID || v.EndedAt != 0, err
}
