package app

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/resets"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/automationstore"
	"github.com/parawork/parawork/store/jobstore"
	"github.com/parawork/parawork/store/tendingstore"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// automations do work that no person waits at.
type automations struct {
	jobs     *jobs.Service
	triggers *triggers.Service
	tending  *tending.Service
	resets   *resets.Service
}

func newAutomations(a *App) *automations {
	work := jobs.New(jobs.Config{Store: jobstore.New(a.db), Sessions: a.sessions, Terminals: a.sessions.Recordings, Workspaces: jobWorkspaces{a.workspaces}, Sandboxes: a.toolbox.sandboxes,
		Places: jobPlaces{a.choice, a.places}, Artifacts: a.artifacts, Hooks: a.notify, Actor: a.directory.Actor, Admit: a.admits,
		Asks:  func(agent string) bool { return a.agents.CheckPermissions(agent, agents.AllPermissions) == nil },
		Spent: spent{a.tokens}.of, Secrets: a.secrets, PublicURL: a.cfg.Server.PublicURL, Bus: a.bus, Events: a.events, Log: a.logOf("jobs")})
	tended := tending.New(tending.Config{Store: tendingstore.New(a.db), Forge: a.forge, Branch: branches{pusher{a.origin}, a.workspaces}, Sessions: a.sessions, Prompts: a.sessions.Queue, Workspaces: a.workspaces.Records,
		Actor: a.directory.Actor, Admit: a.admits, Announce: needs{a.directory, a.workspaces, a.notify}.tell, Spent: spent{a.tokens}.of, Secrets: a.secrets, Bus: a.bus, Events: a.events, Log: a.logOf("tending")})
	return &automations{work, triggers.New(triggers.Config{Store: automationstore.New(a.db), Jobs: work, Secrets: a.vault, Actor: a.directory.Actor, Events: a.events, PublicURL: a.cfg.Server.PublicURL,
		Happened: tended.Happened, Log: a.logOf("automations")}), tended, resets.New(resets.Config{Open: store.NewSessions(a.db).OpenSessions, Get: a.sessions.Get, Prompts: a.sessions.Queue, Answer: a.sessions.Board.Answer,
		Actor: a.directory.Actor, Admit: a.admitsTo, Log: a.logOf("resets")})}
}

// admitsTo returns why a user may not have an agent work in a workspace, by their role and by what holds besides.
func (a *App) admitsTo(ctx context.Context, actor accounts.Actor, workspaceID string) error {
	w, err := a.workspaces.Records.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	if err := accounts.Can(actor, accounts.TypeTerminal, accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private}); err != nil {
		return err
	}
	return a.admits(ctx, actor, w)
}

// branches are the branches of workspaces whose pull requests are tended.
type branches struct {
	pusher
	w *assembly.Workspaces
}

func (b branches) Push(ctx context.Context, actor accounts.Actor, workspaceID string) (string, error) {
	p, err := b.push(ctx, actor, workspaceID)
	return p.Commit, err
}

func (b branches) Update(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.UpdateRequest) (workspaces.UpdateResult, error) {
	return b.w.Merging.Update(ctx, actor, workspaceID, r)
}

func (b branches) BeginResolve(ctx context.Context, actor accounts.Actor, workspaceID, strategy string) (workspaces.Resolve, error) {
	return b.w.Conflicts.BeginResolve(ctx, actor, workspaceID, strategy)
}

func (b branches) FinishResolve(ctx context.Context, actor accounts.Actor, workspaceID string) (string, []string, error) {
	return b.w.Conflicts.FinishResolve(ctx, actor, workspaceID)
}

// needs tells people that a pull request needs them: who switched it on, and who made the workspace.
type needs struct {
	directory *directory.Service
	w         *assembly.Workspaces
	notify    *notify.Service
}

func (n needs) tell(ctx context.Context, t tending.Tending, id, words string) error {
	w, err := n.w.Records.Workspace(ctx, t.WorkspaceID)
	if err != nil {
		return err
	}
	team, err := n.directory.TeamByID(ctx, t.TeamID)
	if err != nil {
		return err
	}
	p, err := n.w.Records.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	people := []string{w.CreatedBy}
	if t.CreatedBy != w.CreatedBy && !w.Private {
		people = append(people, t.CreatedBy)
	}
	return n.notify.Announce(ctx, notify.Item{ID: id, Kind: notify.Stuck, TeamID: team.ID, TeamSlug: team.Slug, TeamName: team.Name, WorkspaceID: w.ID, WorkspaceKey: w.Key(), WorkspaceName: w.Name,
		ProjectName: p.Name, AgentName: tending.Called, Reason: words, Since: t.Since}, people)
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
