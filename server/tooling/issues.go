package tooling

import (
	"context"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
)

func taskArtifact(a tasks.Attachment) api.TaskArtifact {
	return api.TaskArtifact{Id: a.ID, Name: a.Name, Version: a.Version, Mime: a.MIME, Size: a.Size, WorkspaceId: a.WorkspaceID, CreatedAt: a.CreatedAt}
}

func issueChange(e issues.Entry) api.IssueChange {
	return api.IssueChange{Task: e.Task, Uid: e.TaskID, Title: e.Title, ChangedAt: e.ChangedAt, Attempts: e.Attempts, NextAt: e.NextAt, Failed: e.Failed, Error: e.Error}
}

// taskSettings shows what a project has set about its tasks, and how its sync goes.
func (h Tasks) taskSettings(ctx context.Context, s issues.Settings, err error) (api.TaskSettings, error) {
	if err != nil {
		return api.TaskSettings{}, err
	}
	n, err := h.cfg.Issues.Counts(ctx, s.ProjectID)
	return api.TaskSettings{Direction: api.IssueDirection(s.Direction), Label: s.Label, AllTasks: s.AllTasks, File: s.File, SyncedAt: rest.Ptr(s.SyncedAt), NextAt: rest.Ptr(s.NextAt), Error: s.Error,
		Issues: n.Issues, Pending: n.Pending, Failed: n.Failed}, err
}

func (h Tasks) GetTaskSettings(ctx context.Context, req api.GetTaskSettingsRequestObject) (api.GetTaskSettingsResponseObject, error) {
	s, err := h.cfg.Issues.Settings(ctx, req.Id)
	out, err := h.taskSettings(ctx, s, err)
	return api.GetTaskSettings200JSONResponse(out), err
}

func (h Tasks) UpdateTaskSettings(ctx context.Context, req api.UpdateTaskSettingsRequestObject) (api.UpdateTaskSettingsResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	c := issues.Change{Label: b.Label, AllTasks: b.AllTasks, File: b.File}
	if b.Direction != nil {
		to := issues.Direction(*b.Direction)
		c.Direction = &to
		audit.Note(ctx, "direction", string(to))
	}
	audit.Target(ctx, "project", call.Project.ID, call.Project.Name)
	s, err := h.cfg.Issues.Set(ctx, call.Object.TeamID, req.Id, c)
	out, err := h.taskSettings(ctx, s, err)
	return api.UpdateTaskSettings200JSONResponse(out), err
}

func (h Tasks) SyncIssues(ctx context.Context, req api.SyncIssuesRequestObject) (api.SyncIssuesResponseObject, error) {
	s, err := h.cfg.Issues.SyncNow(ctx, req.Id)
	out, err := h.taskSettings(ctx, s, err)
	return api.SyncIssues202JSONResponse(out), err
}

func (h Tasks) ListIssueOutbox(ctx context.Context, req api.ListIssueOutboxRequestObject) (api.ListIssueOutboxResponseObject, error) {
	list, err := h.cfg.Issues.Outbox(ctx, req.Id)
	return api.ListIssueOutbox200JSONResponse{Items: rest.List(list, issueChange)}, err
}

func (h Tasks) RetryTaskIssue(ctx context.Context, req api.RetryTaskIssueRequestObject) (api.RetryTaskIssueResponseObject, error) {
	d, err := h.cfg.Tasks.Get(ctx, actor(ctx), req.Id)
	if err == nil {
		err = h.cfg.Issues.Retry(ctx, d.Task)
	}
	out, err := h.showDetail(ctx, d, err)
	return api.RetryTaskIssue200JSONResponse(out), err
}

func (h Tasks) AttachTaskArtifact(ctx context.Context, req api.AttachTaskArtifactRequestObject) (api.AttachTaskArtifactResponseObject, error) {
	d, err := h.cfg.Tasks.Attach(ctx, actor(ctx), req.Id, req.Artifact)
	out, err := h.showDetail(ctx, d, err)
	return api.AttachTaskArtifact200JSONResponse(out), err
}

func (h Tasks) DetachTaskArtifact(ctx context.Context, req api.DetachTaskArtifactRequestObject) (api.DetachTaskArtifactResponseObject, error) {
	d, err := h.cfg.Tasks.Detach(ctx, actor(ctx), req.Id, req.Artifact)
	out, err := h.showDetail(ctx, d, err)
	return api.DetachTaskArtifact200JSONResponse(out), err
}

func (h Tasks) WriteTasksFile(ctx context.Context, req api.WriteTasksFileRequestObject) (api.WriteTasksFileResponseObject, error) {
	w, err := h.cfg.Tasks.ExportTo(ctx, actor(ctx), req.Id, rest.Val(req.Body.Path))
	return api.WriteTasksFile200JSONResponse{Path: w.Path, Tasks: w.Tasks, Size: w.Size}, err
}
