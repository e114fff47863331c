package running

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// followFor is how long a stream of a thread lasts: who connects again is asked for their rights again.
const followFor = 10 * time.Minute

// ThreadWorkspace returns the workspace of a thread.
func (h Threads) ThreadWorkspace(ctx context.Context, id string) (string, error) {
	t, err := h.cfg.Agent.Thread(ctx, id)
	return t.WorkspaceID, err
}

func (h Threads) GetSessionThread(ctx context.Context, _ api.GetSessionThreadRequestObject) (api.GetSessionThreadResponseObject, error) {
	t, err := h.cfg.Agent.ThreadOf(ctx, rest.CallOf(ctx).Session)
	return api.GetSessionThread200JSONResponse(threadOf(t)), err
}

func (h Threads) GetThread(ctx context.Context, req api.GetThreadRequestObject) (api.GetThreadResponseObject, error) {
	w := agent.Window{Since: rest.Val(req.Params.Since), Before: rest.Val(req.Params.Before), Limit: 200}
	if n := req.Params.Limit; n != nil {
		w.Limit = min(max(*n, 1), 500)
	}
	v, err := h.cfg.Agent.View(ctx, req.Id, w)
	return api.GetThread200JSONResponse(threadViewOf(v)), err
}

func (h Threads) SendToThread(ctx context.Context, req api.SendToThreadRequestObject) (api.SendToThreadResponseObject, error) {
	p := agent.Prompt{Text: req.Body.Text, Replaces: rest.Val(req.Body.Replaces), UserID: rest.CallOf(ctx).Actor.User.ID}
	for _, a := range rest.Val(req.Body.Attachments) {
		p.Attachments = append(p.Attachments, agent.Attachment{Name: a.Name, Data: a.Data})
	}
	m, err := h.cfg.Agent.Send(ctx, req.Id, p)
	return api.SendToThread201JSONResponse(threadMessageOf(m)), err
}

func (h Threads) GetThreadMedia(ctx context.Context, req api.GetThreadMediaRequestObject) (api.GetThreadMediaResponseObject, error) {
	m, err := h.cfg.Agent.Media(ctx, req.Id, req.Media)
	return threadMedia{m, rest.CallOf(ctx).Request}, err
}

// threadMedia sends what a conversation refers to.
type threadMedia struct {
	media.Content
	request *http.Request
}

// VisitGetThreadMediaResponse writes the answer. What an agent made gets no origin, and reaches nothing.
func (m threadMedia) VisitGetThreadMediaResponse(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("ETag", `"`+m.ID+`"`)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
	switch {
	case slices.Contains(media.Pictures, m.MIME):
		h.Set("Content-Type", m.MIME)
	case m.MIME == media.Text:
		h.Set("Content-Type", "text/plain; charset=utf-8")
	default:
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", "attachment")
	}
	http.ServeContent(w, m.request, "", time.Time{}, bytes.NewReader(m.Data))
	return nil
}

func (h Threads) InterruptThread(_ context.Context, req api.InterruptThreadRequestObject) (api.InterruptThreadResponseObject, error) {
	return api.InterruptThread200JSONResponse{Interrupted: h.cfg.Agent.Interrupt(req.Id)}, nil
}

func (h Threads) ListThreadCommands(ctx context.Context, req api.ListThreadCommandsRequestObject) (api.ListThreadCommandsResponseObject, error) {
	all, err := h.cfg.Agent.Commands(ctx, req.Id)
	return api.ListThreadCommands200JSONResponse{Items: rest.List(all, func(c agent.Command) api.ThreadCommand {
		return api.ThreadCommand{Name: c.Name, Description: c.Description, ArgumentHint: c.Hint, Source: api.ThreadCommandSource(c.Source)}
	})}, err
}

// threadStream streams what changes in a thread.
type threadStream struct {
	h     Threads
	ctx   context.Context
	id    string
	since int64
}

func (h Threads) FollowThread(ctx context.Context, req api.FollowThreadRequestObject) (api.FollowThreadResponseObject, error) {
	since := rest.Val(req.Params.Since)
	if last := rest.Val(req.Params.LastEventID); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "Last-Event-ID must be the ID of an earlier event.").With("field", "Last-Event-ID")
		}
		since = n
	}
	return threadStream{h, ctx, req.Id, since}, nil
}

// VisitFollowThreadResponse writes events until the client has left, or for followFor.
func (f threadStream) VisitFollowThreadResponse(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, followFor)
	defer stop()
	out := &eventStream{w: w, rc: http.NewResponseController(w), failed: cancel}
	quiet := out.beat(ctx)
	err := f.h.cfg.Agent.Follow(ctx, f.id, f.since, func(u agent.Update) error {
		if d := u.Delta; d != nil {
			return out.send("delta", map[string]any{"message_id": d.MessageID, "part": d.Part, "kind": d.Kind, "offset": d.Offset, "text": d.Text, "tool": d.Tool})
		}
		raw, err := json.Marshal(threadViewOf(u.View))
		if err != nil {
			return err
		}
		return out.raw(fmt.Appendf(nil, "id: %d\nevent: view\ndata: %s\n\n", u.Thread.Version, raw))
	})
	quiet()
	if err != nil && !out.begun() {
		return err
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		f.h.Log.Debug("the stream of a thread was interrupted", "thread_id", f.id, "error", err)
	}
	return nil
}

func threadOf(t agent.Thread) api.Thread {
	return api.Thread{Id: t.ID, ProjectId: t.ProjectID, WorkspaceId: t.WorkspaceID, SessionId: t.SessionID, ParentId: rest.Text(t.ParentID), CreatedBy: t.CreatedBy, Model: t.Model, Mode: api.ThreadMode(t.Mode),
		State: api.ThreadState(t.State), Reason: t.Reason, Code: t.Code, Version: t.Version, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}
}

func threadViewOf(v agent.View) api.ThreadView {
	out := api.ThreadView{Thread: threadOf(v.Thread), Messages: rest.List(v.Messages, threadMessageOf), Calls: rest.List(v.Calls, threadCallOf), More: v.More}
	if t := v.Turn; t != nil {
		out.Turn = &api.ThreadTurn{Id: t.ID, State: api.ThreadTurnState(t.State), Reason: t.Reason, Code: t.Code, Steps: t.Steps, StartedAt: t.StartedAt, EndedAt: t.EndedAt}
	}
	return out
}

func threadMessageOf(m agent.Message) api.ThreadMessage {
	u := m.Usage
	return api.ThreadMessage{Id: m.ID, TurnId: m.TurnID, Seq: m.Seq, Role: api.ThreadMessageRole(m.Role), State: api.ThreadMessageState(m.State), UserId: m.UserID, Parts: rest.List(m.Parts, threadPartOf),
		Model: m.Model, Note: m.Note, Version: m.Version, CreatedAt: m.CreatedAt, DoneAt: m.DoneAt,
		Usage: api.TokenUsage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning, Model: m.Model, CostNanoUsd: u.CostNano, Estimated: rest.NonZero(u.Estimated)}}
}

func threadCallOf(c agent.Call) api.ThreadCall {
	return api.ThreadCall{Id: c.ID, TurnId: c.TurnID, MessageId: c.MessageID, Ordinal: c.Ordinal, CallId: c.CallID, Tool: c.Tool, Title: c.Title(), Arguments: string(c.Args), State: api.ThreadCallState(c.State),
		Content: rest.List(c.Content, threadPartOf), Truncated: c.Cut, Details: threadDetailsOf(c.Details), Version: c.Version, StartedAt: c.StartedAt, EndedAt: c.EndedAt}
}

func threadDetailsOf(d agent.Details) api.ThreadCallDetails {
	return api.ThreadCallDetails{Path: rest.Text(d.Path), Diff: rest.Text(d.Diff), DiffTruncated: rest.NonZero(d.DiffCut), Added: rest.NonZero(d.Added), Removed: rest.NonZero(d.Removed), Hash: rest.Text(d.Hash),
		Run: rest.Text(d.Run), Command: rest.Text(d.Command), Artifact: rest.Text(d.Artifact)}
}

// threadPartOf shows a part without what is only for models.
func threadPartOf(p providers.Part) api.ThreadPart {
	out := api.ThreadPart{Kind: api.ThreadPartKind(p.Kind), Text: rest.Text(p.Text), CallId: rest.Text(p.CallID), Name: rest.Text(p.Name), Mime: rest.Text(p.MIME)}
	out.Media, out.Size, out.Width, out.Height = rest.Text(p.Ref), rest.NonZero(int64(p.Size)), rest.NonZero(p.Width), rest.NonZero(p.Height)
	return out
}
