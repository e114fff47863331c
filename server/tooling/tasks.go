package tooling

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
)

// ByTask finds a task that a path names.
func (h Tasks) ByTask(ctx context.Context, _ *rest.Call, id string) (accounts.Object, error) {
	t, err := h.cfg.Tasks.Locate(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	return accounts.InTeam(t.TeamID), nil
}

// actor is who calls. A person sees the tasks of all projects.
func actor(ctx context.Context) tasks.Who {
	call := rest.CallOf(ctx)
	return tasks.Who{TeamID: call.Object.TeamID, UserID: call.Actor.User.ID}
}

// TaskOf shows a task. hidden are the workspaces that the caller may not see: of a task that is worked on there, no more is shown.
func TaskOf(t tasks.Task, hidden map[string]bool) api.Task {
	out := api.Task{Id: t.ID, Uid: t.UID, ProjectId: t.ProjectID, Title: t.Title, Description: t.Description, Type: api.TaskType(t.Type), Priority: t.Priority, Status: api.TaskStatus(t.Status),
		Reason: t.Reason, Labels: append([]string{}, t.Labels...), Parent: t.Parent, BlockedBy: append([]string{}, t.BlockedBy...), Assignee: t.Assignee, AssigneeName: t.AssigneeName,
		WorkspaceId: t.WorkspaceID, Files: append([]string{}, t.Files...), ExternalId: t.ExternalID, ExternalRef: t.ExternalRef, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt,
		UpdatedAt: t.UpdatedAt, ClosedAt: rest.Ptr(t.ClosedAt), Version: t.Version}
	if hidden[t.WorkspaceID] {
		out.WorkspaceId, out.Files = "", []string{}
	}
	return out
}

func (h Tasks) show(ctx context.Context, t tasks.Task) (api.Task, error) {
	call := rest.CallOf(ctx)
	audit.Target(ctx, "task", t.UID, t.ID)
	hidden, err := h.HiddenIn(ctx, call.Actor, call.Object.TeamID)
	return TaskOf(t, hidden), err
}

func taskBriefs(list []tasks.Brief) []api.TaskBrief {
	return rest.List(list, func(b tasks.Brief) api.TaskBrief {
		out := api.TaskBrief{Id: b.ID, Title: b.Title, Status: api.TaskStatus(b.Status), Priority: b.Priority}
		if b.Type != "" {
			as := api.TaskRelation(b.Type)
			out.Type = &as
		}
		return out
	})
}

func (h Tasks) showDetail(ctx context.Context, d tasks.Detail, err error) (api.TaskDetail, error) {
	if err != nil {
		return api.TaskDetail{}, err
	}
	state, err := h.cfg.Issues.StateOf(ctx, d.UID)
	if err != nil {
		return api.TaskDetail{}, err
	}
	t, err := h.show(ctx, d.Task)
	out := api.TaskDetail{Task: t, Dependencies: taskBriefs(d.Dependencies), Dependents: taskBriefs(d.Dependents), Children: taskBriefs(d.Children), Artifacts: rest.List(d.Artifacts, taskArtifact)}
	out.History = rest.List(state.History, func(e issues.Event) api.TaskEvent {
		return api.TaskEvent{Kind: api.TaskEventKind(e.Kind), Text: e.Text, At: e.At}
	})
	if l := state.Link; l != nil {
		out.Issue = &api.TaskIssue{Forge: string(l.Forge), Host: l.Host, Repository: l.Repository, Number: l.Number, Url: l.URL, Assignee: l.Assignee, SyncedAt: l.SyncedAt}
	}
	if state.Entry != nil {
		change := issueChange(*state.Entry)
		out.IssueChange = &change
	}
	return out, err
}

func (h Tasks) ListTasks(ctx context.Context, req api.ListTasksRequestObject) (api.ListTasksResponseObject, error) {
	p := req.Params
	q := tasks.Query{ProjectID: rest.Val(p.ProjectId), Type: rest.Val(p.Type), Priority: p.Priority, Label: rest.Val(p.Label), Assignee: rest.Val(p.Assignee), Parent: rest.Val(p.Parent),
		Ready: rest.Val(p.Ready), Text: rest.Val(p.Q), Page: rest.PageOf(p.Limit, p.Cursor)}
	for _, st := range strings.Split(rest.Val(p.Status), ",") {
		if st = strings.TrimSpace(st); st != "" {
			q.Statuses = append(q.Statuses, tasks.Status(st))
		}
	}
	items, next, err := h.cfg.Tasks.List(ctx, actor(ctx), q)
	if err != nil {
		return nil, err
	}
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	return api.ListTasks200JSONResponse{NextCursor: rest.Text(next), Items: rest.List(items, func(t tasks.Task) api.Task { return TaskOf(t, hidden) })}, err
}

func (h Tasks) CreateTask(ctx context.Context, req api.CreateTaskRequestObject) (api.CreateTaskResponseObject, error) {
	b := req.Body
	t, err := h.cfg.Tasks.Create(ctx, actor(ctx), tasks.New{ProjectID: b.ProjectId, Title: b.Title, Description: rest.Val(b.Description), Type: rest.Val(b.Type), Priority: b.Priority,
		Labels: rest.Val(b.Labels), Parent: rest.Val(b.Parent), BlockedBy: rest.Val(b.BlockedBy), Assignee: rest.Val(b.Assignee), ExternalRef: rest.Val(b.ExternalRef), From: rest.Val(b.DiscoveredFrom)})
	if err != nil {
		return nil, err
	}
	out, err := h.show(ctx, t)
	return api.CreateTask201JSONResponse(out), err
}

func (h Tasks) GetTask(ctx context.Context, req api.GetTaskRequestObject) (api.GetTaskResponseObject, error) {
	d, err := h.cfg.Tasks.Get(ctx, actor(ctx), req.Id)
	out, err := h.showDetail(ctx, d, err)
	return api.GetTask200JSONResponse(out), err
}

func (h Tasks) UpdateTask(ctx context.Context, req api.UpdateTaskRequestObject) (api.UpdateTaskResponseObject, error) {
	b := req.Body
	c := tasks.Change{Title: b.Title, Description: b.Description, Type: b.Type, Priority: b.Priority, Reason: b.Reason, Labels: b.Labels, Parent: b.Parent, Assignee: b.Assignee,
		ExternalRef: b.ExternalRef, Version: rest.Val(b.Version)}
	if b.Status != nil {
		to := tasks.Status(*b.Status)
		c.Status = &to
		audit.Note(ctx, "status", string(to))
	}
	t, err := h.cfg.Tasks.Update(ctx, actor(ctx), req.Id, c)
	if err != nil {
		return nil, err
	}
	out, err := h.show(ctx, t)
	return api.UpdateTask200JSONResponse(out), err
}

func (h Tasks) ClaimTask(ctx context.Context, req api.ClaimTaskRequestObject) (api.ClaimTaskResponseObject, error) {
	t, err := h.cfg.Tasks.Claim(ctx, actor(ctx), req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.show(ctx, t)
	return api.ClaimTask200JSONResponse(out), err
}

func (h Tasks) CloseTask(ctx context.Context, req api.CloseTaskRequestObject) (api.CloseTaskResponseObject, error) {
	o, err := h.cfg.Tasks.Close(ctx, actor(ctx), req.Id, rest.Val(req.Body.Reason), rest.Val(req.Body.Strict))
	if err != nil {
		return nil, err
	}
	t, err := h.show(ctx, o.Task)
	return api.CloseTask200JSONResponse{Task: t, NowReady: taskBriefs(o.NowReady), OpenChildren: taskBriefs(o.OpenChildren), Warning: o.Warning}, err
}

func (h Tasks) AddTaskDependency(ctx context.Context, req api.AddTaskDependencyRequestObject) (api.AddTaskDependencyResponseObject, error) {
	as := tasks.Blocks
	if req.Body.Type != nil {
		as = tasks.Relation(*req.Body.Type)
	}
	d, err := h.cfg.Tasks.Depend(ctx, actor(ctx), req.Id, req.Body.DependsOn, as)
	out, err := h.showDetail(ctx, d, err)
	return api.AddTaskDependency200JSONResponse(out), err
}

func (h Tasks) RemoveTaskDependency(ctx context.Context, req api.RemoveTaskDependencyRequestObject) (api.RemoveTaskDependencyResponseObject, error) {
	d, err := h.cfg.Tasks.Undepend(ctx, actor(ctx), req.Id, req.Other)
	out, err := h.showDetail(ctx, d, err)
	return api.RemoveTaskDependency200JSONResponse(out), err
}

func (h Tasks) ImportTasks(ctx context.Context, req api.ImportTasksRequestObject) (api.ImportTasksResponseObject, error) {
	audit.Target(ctx, "project", req.Body.ProjectId, "")
	done, err := h.cfg.Tasks.Import(ctx, actor(ctx), req.Body.ProjectId, []byte(req.Body.Jsonl))
	return api.ImportTasks200JSONResponse{Created: done.Created, Updated: done.Updated, Skipped: done.Skipped}, err
}

func (h Tasks) ExportTasks(ctx context.Context, req api.ExportTasksRequestObject) (api.ExportTasksResponseObject, error) {
	return taskFile{ctx, h.cfg.Tasks, req.Params.ProjectId}, nil
}

// taskFile is a download that is read from the database while it is sent.
type taskFile struct {
	ctx       context.Context
	tasks     *tasks.Service
	projectID string
}

// VisitExportTasksResponse streams the file. What fails before its first piece is a proper error; what fails later cuts the connection,
// since a short file must not look like a whole one.
func (f taskFile) VisitExportTasksResponse(w http.ResponseWriter) error {
	out := &rest.Download{Writer: w, Name: "issues.jsonl", MIME: "application/x-ndjson"}
	err := f.tasks.Export(f.ctx, actor(f.ctx), f.projectID, out)
	if err != nil && out.Begun {
		panic(http.ErrAbortHandler)
	}
	if err == nil && !out.Begun {
		_, err = out.Write(nil)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return err
}
