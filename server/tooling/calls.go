package tooling

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/calllog"
)

// ListToolCalls answers with a page of a workspace's calls.
func (h Calls) ListToolCalls(ctx context.Context, req api.ListToolCallsRequestObject) (api.ListToolCallsResponseObject, error) {
	p := req.Params
	list, err := h.list(ctx, calllog.Query{WorkspaceID: req.Id, SessionID: rest.Val(p.Session), Tool: rest.Val(p.Tool)}, p.Outcome, p.Limit, p.Cursor)
	return api.ListToolCalls200JSONResponse(list), err
}

// ListSessionToolCalls answers with a page of the calls of a session's agent.
func (h Calls) ListSessionToolCalls(ctx context.Context, req api.ListSessionToolCallsRequestObject) (api.ListSessionToolCallsResponseObject, error) {
	p := req.Params
	list, err := h.list(ctx, calllog.Query{WorkspaceID: rest.CallOf(ctx).Session.WorkspaceID, SessionID: req.Id, Tool: rest.Val(p.Tool)}, p.Outcome, p.Limit, p.Cursor)
	return api.ListSessionToolCalls200JSONResponse(list), err
}

func (h Calls) list(ctx context.Context, q calllog.Query, outcome *api.ToolOutcome, limit *int, cursor *string) (api.ToolCallList, error) {
	var err error
	if q.Outcome, err = outcomeOf(outcome); err != nil {
		return api.ToolCallList{}, err
	}
	calls, next, err := h.cfg.Calls.List(ctx, q, rest.PageOf(limit, cursor))
	return api.ToolCallList{Items: rest.List(calls, toolCallOf), NextCursor: rest.Text(next)}, err
}

// ExportToolCalls answers with a file of a workspace's calls.
func (h Calls) ExportToolCalls(ctx context.Context, req api.ExportToolCallsRequestObject) (api.ExportToolCallsResponseObject, error) {
	p := req.Params
	outcome, err := outcomeOf(p.Outcome)
	if err != nil {
		return nil, err
	}
	q := calllog.Query{WorkspaceID: req.Id, SessionID: rest.Val(p.Session), Tool: rest.Val(p.Tool), Outcome: outcome}
	return callFile{ctx: ctx, calls: h.cfg.Calls, q: q, name: "parawork-tool-calls-" + rest.CallOf(ctx).Workspace.Key() + ".jsonl"}, nil
}

// callFile is a download that is read from the database while it is sent.
type callFile struct {
	ctx   context.Context
	calls *calllog.Service
	q     calllog.Query
	name  string
}

// VisitExportToolCallsResponse sends the file. What fails before its first piece is a proper error; what fails later cuts the connection,
// since a short file must not look like a whole one. Each call is written at once: secrets that were entered after it was recorded are masked
// piece by piece.
func (f callFile) VisitExportToolCallsResponse(w http.ResponseWriter) error {
	out := &rest.Download{Writer: w, Name: f.name, MIME: "application/jsonl"}
	lines := json.NewEncoder(out)
	err := f.calls.Each(f.ctx, f.q, func(c calllog.Call) error { return lines.Encode(toolCallOf(c)) })
	switch {
	case err != nil && out.Begun:
		panic(http.ErrAbortHandler)
	case err == nil && !out.Begun:
		_, err = out.Write(nil)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return err
}

func outcomeOf(p *api.ToolOutcome) (tools.Outcome, error) {
	if p != nil && !p.Valid() {
		return "", fault.New(fault.Invalid, "invalid_parameter", "outcome is running, done, failed, refused, broken, cancelled, timed_out or unknown.").With("field", "outcome")
	}
	return tools.Outcome(rest.Val(p)), nil
}

func toolCallOf(c calllog.Call) api.ToolCallRecord {
	return api.ToolCallRecord{Id: c.ID, WorkspaceId: c.WorkspaceID, SessionId: c.SessionID, UserId: c.UserID, Agent: c.Agent, Client: c.Client, Tool: c.Tool, Arguments: c.Arguments, Result: c.Result,
		Success: c.Success(), Outcome: api.ToolOutcome(c.Outcome), Code: c.Code, Cause: c.Cause, ResultBytes: c.ResultBytes, Truncated: c.Truncated, StartedAt: c.StartedAt, DurationMs: c.DurationMs}
}
