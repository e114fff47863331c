package app

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store/automationstore"
	"github.com/parawork/parawork/store/jobstore"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// automations do work that no person waits at.
type automations struct {
	jobs     *jobs.Service
	triggers *triggers.Service
}

func newAutomations(a *App) *automations {
	work := jobs.New(jobs.Config{Store: jobstore.New(a.db), Sessions: a.sessions, Terminals: a.sessions.Recordings, Workspaces: jobWorkspaces{a.workspaces}, Sandboxes: a.toolbox.sandboxes,
		Places: jobPlaces{a.choice, a.places}, Artifacts: a.artifacts, Hooks: a.notify, Actor: a.directory.Actor, Admit: a.admits,
		Asks:  func(agent string) bool { return a.agents.CheckPermissions(agent, agents.AllPermissions) == nil },
		Spent: spent{a.tokens}.of, Secrets: a.secrets, PublicURL: a.cfg.Server.PublicURL, Bus: a.bus, Events: a.events, Log: a.logOf("jobs")})
	return &automations{work, triggers.New(triggers.Config{Store: automationstore.New(a.db), Jobs: work, Secrets: a.vault, Actor: a.directory.Actor, Events: a.events, PublicURL: a.cfg.Server.PublicURL,
		Log: a.logOf("automations")})}
}

// jobWorkspaces makes the workspaces of jobs in projects.
type jobWorkspaces struct{ w *assembly.Workspaces }

func (j jobWorkspaces) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	return j.w.Records.Workspace(ctx, id)
}

func (j jobWorkspaces) Project(ctx context.Context, id string) (workspaces.Project, error) {
	return j.w.Records.Project(ctx, id)
}

func (j jobWorkspaces) Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	return j.w.Lifecycle.Create(ctx, actor, teamID, n)
}

func (j jobWorkspaces) RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error) {
	return j.w.Lifecycle.RetryCreate(ctx, id)
}

// jobPlaces says where jobs run.
type jobPlaces struct {
	choice *choice.Chooser
	places *manager.Manager
}

func (p jobPlaces) Choose(ctx context.Context, teamID, userID string, wishes ...executors.Kind) (executors.Kind, error) {
	return p.choice.Choose(executors.As(ctx, "", userID), teamID, wishes...)
}

func (p jobPlaces) Isolates(ctx context.Context, kind executors.Kind) bool {
	c, ok := p.choice.Place(ctx, kind)
	return ok && c.Boundary != "" && c.Boundary != executors.NoBoundary
}

const findMs = 20_000

func (p jobPlaces) Find(ctx context.Context, workspaceID, userID, pattern string, limit int) ([]string, error) {
	place, err := p.places.EnsureFor(ctx, workspaceID, executors.ForAgent, userID)
	if err != nil {
		return nil, err
	}
	found, err := place.Guest.Search(ctx, guest.SearchRequest{Glob: pattern, Hidden: true, Ignored: true, Limit: limit, TimeoutMs: findMs})
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(found.Items))
	for i, f := range found.Items {
		paths[i] = f.Path
	}
	return paths, nil
}
