package work

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/tooling"
	"github.com/parawork/parawork/sessions/runs"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces"
)

// WorkOnTask claims a task, creates its workspace, and starts the agent there. Each step is stored before the next: who repeats the
// call after a crash in between continues with what is there.
func (h Runs) WorkOnTask(ctx context.Context, req api.WorkOnTaskRequestObject) (api.WorkOnTaskResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	agent := rest.Val(b.Agent)
	if agent != "" {
		if err := call.Can(accounts.TypeTerminal); err != nil {
			return nil, err
		}
		if err := h.cfg.Sessions.CheckAgent(ctx, agent); err != nil {
			return nil, err
		}
	}
	who := tasks.Who{TeamID: call.Object.TeamID, UserID: call.Actor.User.ID}
	d, err := h.cfg.Tasks.Get(ctx, who, req.Id)
	if err != nil {
		return nil, err
	}
	kind, err := places.PlaceKind(b.Executor, b.RunnerId)
	if err != nil {
		return nil, err
	}
	if err := h.checkPlace(ctx, d.ProjectID, kind, false); err != nil {
		return nil, err
	}
	t, err := h.cfg.Tasks.Begin(ctx, who, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "task", t.UID, t.ID)
	w, err := h.workspaceOf(ctx, t, kind, rest.Val(b.Base))
	if err != nil {
		if was := d.Status; was != tasks.InProgress { // it is as free as before
			before := d.Assignee
			if _, undo := h.cfg.Tasks.Update(context.WithoutCancel(ctx), who, t.UID, tasks.Change{Status: &was, Assignee: &before}); undo != nil {
				h.Log.WarnContext(ctx, "a claimed task could not be given back", "task", t.ID, "error", undo)
			}
		}
		return nil, err
	}
	if t, err = h.cfg.Tasks.Link(ctx, who, t.UID, w.ID); err != nil {
		return nil, err
	}
	out := api.WorkOnTask201JSONResponse{Task: tooling.TaskOf(t, nil), WorkspaceId: w.ID}
	if agent == "" {
		return out, nil
	}
	r, err := h.cfg.Runs.Create(ctx, call.Actor, t.TeamID, runs.Request{ProjectID: t.ProjectID, Name: w.Name, Prompt: tasks.Prompt(t),
		Attempts: []runs.AttemptRequest{{Agent: agent, AccountID: rest.Val(b.AccountId), WorkspaceID: w.ID}}})
	out.RunId = rest.Text(r.ID)
	return out, err
}

// workspaceOf creates the workspace of a task, unless an earlier call did and could not link it.
func (h Runs) workspaceOf(ctx context.Context, t tasks.Task, kind executors.Kind, base string) (workspaces.Workspace, error) {
	call, name := rest.CallOf(ctx), tasks.WorkspaceName(t)
	newest, _, err := h.cfg.Workspaces.Records.List(ctx, t.TeamID, workspaces.Filter{ProjectID: t.ProjectID}, page.Page{Limit: page.MaxLimit})
	if err != nil {
		return workspaces.Workspace{}, err
	}
	for _, w := range newest {
		if w.Name == name && w.CreatedBy == call.Actor.User.ID && w.MergedAt == 0 {
			return w, nil
		}
	}
	w, err := h.cfg.Workspaces.Lifecycle.Create(ctx, call.Actor, t.TeamID, workspaces.NewWorkspace{ProjectID: t.ProjectID, Name: name, Base: base, Executor: string(kind)})
	if err == nil {
		h.cfg.MachineViews.Remember(ctx, t.ProjectID, kind)
	}
	return w, err
}
