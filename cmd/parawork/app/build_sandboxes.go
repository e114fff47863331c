package app

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store/toolstore"
	apisandboxes "github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// newSandboxService makes what gives out sandboxes without a repository.
func newSandboxService(a *App) *apisandboxes.Service {
	return apisandboxes.New(apisandboxes.Config{Store: toolstore.NewSandboxes(a.db), Workspaces: sandboxWorkspaces{a.workspaces}, Places: a.places, Sessions: sandboxSessions{a.sessions},
		Actor: a.directory.Actor, Log: a.logOf("sandboxes")})
}

// sandboxWorkspaces are the workspaces that sandboxes without a repository are.
type sandboxWorkspaces struct{ *assembly.Workspaces }

func (w sandboxWorkspaces) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	return w.Records.Workspace(ctx, id)
}

func (w sandboxWorkspaces) Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	return w.Lifecycle.Create(ctx, actor, teamID, n)
}

func (w sandboxWorkspaces) RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error) {
	return w.Lifecycle.RetryCreate(ctx, id)
}

func (w sandboxWorkspaces) Delete(ctx context.Context, actor accounts.Actor, id string) (workspaces.Workspace, error) {
	return w.Lifecycle.Delete(ctx, actor, id)
}

func (w sandboxWorkspaces) Purge(ctx context.Context, id string) error {
	return w.Reclaim.Purge(ctx, reclaim.TrashWorkspace, id)
}

func (w sandboxWorkspaces) Sandboxes(ctx context.Context, teamID, userID string) (workspaces.Project, error) {
	return w.Projects.Sandboxes(ctx, teamID, userID)
}

type sandboxSessions struct{ *sessions.Service }

func (s sandboxSessions) Ended(ctx context.Context, teamID, sessionID string) (bool, error) {
	v, err := s.Get(ctx, sessionID)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return v.TeamID != teamID || v.EndedAt != 0, err
}
