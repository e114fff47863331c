package running

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
)

func (h Jobs) CreateJob(ctx context.Context, req api.CreateJobRequestObject) (api.CreateJobResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	if err := call.Can(accounts.TypeTerminal); err != nil {
		return nil, err
	}
	kind, err := places.PlaceKind(b.Executor, b.RunnerId)
	if err != nil {
		return nil, err
	}
	r := jobs.Request{Prompt: b.Prompt, Agent: b.Agent, Argv: rest.Val(b.Argv), Model: rest.Val(b.Model), AccountID: rest.Val(b.Account), ProjectID: rest.Val(b.ProjectId), SandboxID: rest.Val(b.SandboxId), Executor: kind,
		Base: rest.Val(b.Base), Branch: rest.Val(b.Branch), TimeoutMs: rest.Val(b.TimeoutMs), Artifacts: rest.Val(b.Artifacts), Keep: rest.Val(b.Keep), ConfirmNoBoundary: rest.Val(b.ConfirmNoBoundary)}
	if w := b.Webhook; w != nil {
		r.Webhook = &jobs.Webhook{URL: w.Url, Secret: w.Secret}
	}
	j, made, err := h.cfg.Jobs.Create(ctx, call.Actor, call.Team.ID, rest.Val(req.Params.IdempotencyKey), r)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "job", j.ID, j.Request.Agent)
	out, err := h.one(ctx, j)
	switch {
	case err != nil:
		return nil, err
	case made:
		return api.CreateJob201JSONResponse(out), nil
	}
	return api.CreateJob200JSONResponse(out), nil
}

func (h Jobs) ListJobs(ctx context.Context, req api.ListJobsRequestObject) (api.ListJobsResponseObject, error) {
	call := rest.CallOf(ctx)
	all, next, err := h.cfg.Jobs.List(ctx, call.Team.ID, jobs.Filter{Viewer: call.Actor.User.ID, Status: jobs.Status(rest.Val(req.Params.Status))}, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	return api.ListJobs200JSONResponse{Items: rest.List(all, func(j jobs.Job) api.Job { return h.shown(ctx, j) }), NextCursor: rest.Text(next)}, err
}

func (h Jobs) GetJob(ctx context.Context, _ api.GetJobRequestObject) (api.GetJobResponseObject, error) {
	out, err := h.one(ctx, rest.CallOf(ctx).Job)
	return api.GetJob200JSONResponse(out), err
}

func (h Jobs) CancelJob(ctx context.Context, req api.CancelJobRequestObject) (api.CancelJobResponseObject, error) {
	j, err := h.cfg.Jobs.Cancel(ctx, req.Id, rest.CallOf(ctx).Actor.User.Name)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "job", j.ID, j.Request.Agent)
	out, err := h.one(ctx, j)
	return api.CancelJob200JSONResponse(out), err
}

func (h Jobs) DeleteJob(ctx context.Context, req api.DeleteJobRequestObject) (api.DeleteJobResponseObject, error) {
	call := rest.CallOf(ctx)
	audit.Target(ctx, "job", call.Job.ID, call.Job.Request.Agent)
	return api.DeleteJob204Response{}, h.cfg.Jobs.Delete(ctx, req.Id, call.Actor.User.Name)
}

// one is a job with the deliveries of its report.
func (h Jobs) one(ctx context.Context, j jobs.Job) (api.Job, error) {
	out := h.shown(ctx, j)
	if out.Webhook == nil {
		return out, nil
	}
	sent, err := h.cfg.Jobs.Deliveries(ctx, j)
	out.Webhook.Deliveries = rest.List(sent, jobDeliveryOf)
	return out, err
}

// shown is a job as the API shows it to the caller.
func (h Jobs) shown(ctx context.Context, j jobs.Job) api.Job {
	r := j.Request
	out := api.Job{Id: j.ID, Status: api.JobStatus(j.Status), Agent: r.Agent, Prompt: r.Prompt, Model: r.Model, ProjectId: rest.Text(r.ProjectID), SandboxId: rest.Text(j.SandboxID), WorkspaceId: rest.Text(j.WorkspaceID),
		Output: j.Output, Reason: j.Reason, Warnings: append([]string{}, j.Warnings...), Artifacts: rest.List(j.Files, h.artifact), TimeoutMs: r.TimeoutMs, Keep: r.Keep, CreatedBy: j.CreatedBy, CreatedAt: j.CreatedAt,
		StartedAt: rest.Ptr(j.StartedAt)}
	if j.StartedAt != 0 {
		out.SessionId = &j.SessionID
	}
	if j.Status.Ended() {
		out.Code, out.Error, out.EndedAt = j.Code, j.Error, rest.Ptr(j.EndedAt)
	}
	if j.HookURL != "" {
		out.Webhook = &api.JobWebhook{Url: j.HookURL, Deliveries: []api.JobDelivery{}}
	}
	if rest.CallOf(ctx).Can(accounts.ViewCosts) == nil {
		out.CostNano = h.cfg.Jobs.Spent(ctx, j)
	}
	return out
}

func (h Jobs) artifact(a jobs.Artifact) api.JobArtifact {
	return api.JobArtifact{Id: a.ID, Name: a.Name, Size: a.Size, Mime: a.MIME, Url: h.cfg.Jobs.ContentURL(a)}
}

func jobDeliveryOf(d notify.Delivery) api.JobDelivery {
	out := api.JobDelivery{Id: d.ID, State: api.JobDeliveryState(d.State), Attempts: d.Attempts, Error: d.Error, CreatedAt: d.CreatedAt, DoneAt: rest.Ptr(d.DoneAt)}
	if d.State == notify.Pending {
		out.NextAt = rest.Ptr(d.NextAt)
	}
	if d.Status != 0 {
		out.Status = &d.Status
	}
	return out
}

// jobStream streams what happens to a job.
type jobStream struct {
	h         Jobs
	ctx       context.Context
	id, after string
}

func (h Jobs) FollowJob(ctx context.Context, req api.FollowJobRequestObject) (api.FollowJobResponseObject, error) {
	return jobStream{h, ctx, req.Id, rest.Val(req.Params.LastEventID)}, nil
}

// VisitFollowJobResponse writes events until the job has ended, the client has left, or for followFor.
func (f jobStream) VisitFollowJobResponse(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, followFor)
	defer stop()
	out := &eventStream{w: w, rc: http.NewResponseController(w), failed: cancel}
	quiet := out.beat(ctx)
	err := f.h.cfg.Jobs.Follow(ctx, f.id, f.after, func(e jobs.Event) error {
		data, err := f.data(ctx, e)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(data)
		if err != nil {
			return err
		}
		return out.raw(fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, raw))
	})
	quiet()
	if err != nil && !out.begun() {
		return err
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) && !fault.Is(err, fault.NotFound) {
		f.h.Log.Debug("the stream of a job was interrupted", "job_id", f.id, "error", err)
	}
	return nil
}

func (f jobStream) data(ctx context.Context, e jobs.Event) (any, error) {
	switch e.Kind {
	case jobs.TextEvent:
		return map[string]string{"id": e.Text.ID, "text": e.Text.Text}, nil
	case jobs.ArtifactsEvent:
		return map[string]any{"items": rest.List(e.Job.Files, f.h.artifact)}, nil
	}
	return f.h.one(ctx, e.Job)
}
