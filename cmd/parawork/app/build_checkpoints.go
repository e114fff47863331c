package app

import (
	"context"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces"
)

// newCheckpoints makes checkpoints, which hold what a workspace's project has of tasks and what the workspace has of artifacts.
func newCheckpoints(a *App, t *toolbox) *checkpoints.Service {
	have := checkpointed{a.workspaces.Records, t.tasks, t.artifacts}
	return checkpoints.New(checkpoints.Config{Store: toolstore.NewCheckpoints(a.db), Snapshots: a.workspaces.Snapshots, Trees: a.workspaces.Repo, Restorer: a.workspaces.Lifecycle,
		Workspaces: a.workspaces.Records, Sessions: a.sessions, Actor: a.directory.Actor, Secrets: a.secrets, Tasks: have.openTasks, Artifacts: have.artifactIDs, Events: a.events, Log: a.logOf("checkpoints")})
}

// checkpointed is what checkpoints hold besides files and messages.
type checkpointed struct {
	records   *workspaces.Records
	tasks     *tasks.Service
	artifacts *artifacts.Service
}

// openTasks returns the tasks of the workspace's project that are not closed.
func (c checkpointed) openTasks(ctx context.Context, workspaceID string) ([]checkpoints.Task, error) {
	w, err := c.records.Workspace(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	open, _, err := c.tasks.List(ctx, tasks.Who{TeamID: w.TeamID, WorkspaceID: w.ID, ProjectID: w.ProjectID},
		tasks.Query{TeamID: w.TeamID, ProjectID: w.ProjectID, Page: page.Page{Limit: page.MaxLimit}})
	if err != nil {
		return nil, err
	}
	out := make([]checkpoints.Task, len(open))
	for i, t := range open {
		out[i] = checkpoints.Task{ID: t.ID, Title: t.Title, Status: string(t.Status)}
	}
	return out, nil
}

// artifactIDs returns the newest version of each artifact of the workspace.
func (c checkpointed) artifactIDs(ctx context.Context, workspaceID string) ([]string, error) {
	newest, _, err := c.artifacts.List(ctx, artifacts.Filter{WorkspaceID: workspaceID}, page.Page{Limit: page.MaxLimit})
	if err != nil {
		return nil, err
	}
	out := make([]string, len(newest))
	for i, a := range newest {
		out[i] = a.ID
	}
	return out, nil
}
