package assembly

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// Sandboxes makes and removes the workspaces that are sandboxes without a repository.
type Sandboxes struct{ w *Workspaces }

// ForSandboxes returns w for the service that gives out sandboxes without a repository.
func (w *Workspaces) ForSandboxes() Sandboxes { return Sandboxes{w} }

// Workspace returns a workspace.
func (s Sandboxes) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	return s.w.Records.Workspace(ctx, id)
}

// Create begins to make a workspace.
func (s Sandboxes) Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	return s.w.Lifecycle.Create(ctx, actor, teamID, n)
}

// RetryCreate begins anew to make a workspace that could not be made.
func (s Sandboxes) RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error) {
	return s.w.Lifecycle.RetryCreate(ctx, id)
}

// Delete puts a workspace into the trash.
func (s Sandboxes) Delete(ctx context.Context, actor accounts.Actor, id string) (workspaces.Workspace, error) {
	return s.w.Lifecycle.Delete(ctx, actor, id)
}

// Purge removes a deleted workspace for good.
func (s Sandboxes) Purge(ctx context.Context, id string) error {
	return s.w.Reclaim.Purge(ctx, reclaim.TrashWorkspace, id)
}

// Sandboxes returns the team's hidden project, and makes it when there is none.
func (s Sandboxes) Sandboxes(ctx context.Context, teamID, userID string) (workspaces.Project, error) {
	return s.w.Projects.Sandboxes(ctx, teamID, userID)
}

// Confine bounds all sandboxes of a team and what they reach.
func (s Sandboxes) Confine(ctx context.Context, teamID, userID string, l executors.Limits, n executors.Network) error {
	return s.w.Projects.Confine(ctx, teamID, userID, l, n)
}
