package running

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/code"
)

func (h Code) RunCode(ctx context.Context, req api.RunCodeRequestObject) (api.RunCodeResponseObject, error) {
	call := rest.CallOf(ctx)
	r := code.Request{TeamID: call.Object.TeamID, WorkspaceID: req.Id, UserID: call.Actor.User.ID, Language: code.Language(req.Body.Language), Kernel: rest.Val(req.Body.Kernel),
		Code: req.Body.Code, TimeoutMs: rest.Val(req.Body.TimeoutMs)}
	audit.Note(ctx, "language", string(r.Language))
	if call.Request != nil && WantsStream(call.Request) {
		return h.stream(ctx, func(ctx context.Context, fn func(code.Event) error) (code.Run, error) {
			return h.cfg.Code.Stream(ctx, r, fn)
		}), nil
	}
	run, err := h.cfg.Code.Execute(ctx, r)
	if err != nil {
		return nil, err
	}
	return api.RunCode200JSONResponse(runOf(run)), nil
}

// codeStream runs code while its answer is being written.
type codeStream struct {
	h   Code
	ctx context.Context
	run func(ctx context.Context, fn func(code.Event) error) (code.Run, error)
}

func (h Code) stream(ctx context.Context, run func(context.Context, func(code.Event) error) (code.Run, error)) codeStream {
	return codeStream{h, ctx, run}
}

// VisitRunCodeResponse runs the code. Until its first event a failure is an ordinary error answer; after that it is an event.
func (e codeStream) VisitRunCodeResponse(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	out := &eventStream{w: w, rc: http.NewResponseController(w), failed: func(err error) { cancel(err) }}
	stop := out.beat(ctx)
	r, err := e.run(ctx, func(ev code.Event) error {
		switch o := ev.Output; {
		case ev.Begun:
			return out.send("started", map[string]any{"id": ev.RunID})
		case o.Type == "result":
			return out.send("result", outputOf(*o))
		default:
			return out.send(o.Type, map[string]any{"text": o.Text})
		}
	})
	stop()
	switch {
	case err != nil && !out.begun():
		return err
	case e.ctx.Err() != nil && r.ID == "":
		return nil // the client disconnected
	case err != nil && r.ID == "":
		p := rest.Translate(err)
		p.Body.RequestId = rest.CallOf(e.ctx).ID
		return out.send("error", p.Body)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		e.h.Log.Debug("the stream of a run of code was interrupted", "run_id", r.ID, "error", err)
	}
	return out.send("run", runOf(r))
}

func (h Code) ListCodeRuns(ctx context.Context, req api.ListCodeRunsRequestObject) (api.ListCodeRunsResponseObject, error) {
	items, next, err := h.cfg.Code.List(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	return api.ListCodeRuns200JSONResponse{Items: rest.List(items, runOf), NextCursor: rest.Text(next)}, err
}

func (h Code) GetCodeRun(ctx context.Context, _ api.GetCodeRunRequestObject) (api.GetCodeRunResponseObject, error) {
	return api.GetCodeRun200JSONResponse(runOf(rest.CallOf(ctx).CodeRun)), nil
}

func (h Code) InterruptCode(ctx context.Context, req api.InterruptCodeRequestObject) (api.InterruptCodeResponseObject, error) {
	r, err := h.cfg.Code.Interrupt(ctx, req.Id)
	return api.InterruptCode200JSONResponse(runOf(r)), err
}

func (h Code) ListKernels(ctx context.Context, req api.ListKernelsRequestObject) (api.ListKernelsResponseObject, error) {
	list, err := h.cfg.Code.Kernels(ctx, req.Id)
	return api.ListKernels200JSONResponse{Items: rest.List(list, func(k code.Kernel) api.Kernel {
		return api.Kernel{Language: string(k.Language), Kernel: k.Name, Version: k.Version, StartedAt: k.StartedAt, Busy: k.Busy}
	})}, err
}

func (h Code) StopKernel(ctx context.Context, req api.StopKernelRequestObject) (api.StopKernelResponseObject, error) {
	audit.Note(ctx, "language", string(req.Language))
	if err := h.cfg.Code.Stop(ctx, req.Id, code.Language(req.Language), req.Kernel); err != nil {
		return nil, err
	}
	return api.StopKernel204Response{}, nil
}

func outputOf(o code.Output) api.CodeOutput {
	out := api.CodeOutput{Type: api.CodeOutputType(o.Type)}
	if o.Type != "result" {
		out.Text = &o.Text
		return out
	}
	out.Main = &o.Main
	if len(o.Data) > 0 {
		data := make(map[string]any, len(o.Data))
		for mime, raw := range o.Data {
			data[mime] = raw
		}
		out.Data = &data
	}
	if len(o.Artifacts) > 0 {
		out.Artifacts = &o.Artifacts
	}
	return out
}

// runOf shows a run: its outputs in order, and the same by kind.
func runOf(r code.Run) api.CodeRun {
	out := api.CodeRun{Id: r.ID, WorkspaceId: r.WorkspaceID, SessionId: rest.Text(r.SessionID), UserId: r.UserID, Agent: r.Agent, Language: api.CodeLanguage(r.Language), Kernel: r.Kernel, Code: r.Code,
		State: api.CodeRunState(r.State), Cause: r.Cause, Fresh: r.Fresh, ExitCode: r.Exit, Outputs: rest.List(r.Outputs, outputOf), Results: []api.CodeResult{}, Truncated: r.Truncated,
		CreatedAt: r.CreatedAt, DurationMs: r.TookMs}
	if r.Error != nil {
		out.Error = &api.CodeError{Name: r.Error.Name, Value: r.Error.Value, Traceback: r.Error.Traceback}
	}
	var stdout, stderr strings.Builder
	for _, o := range r.Outputs {
		switch o.Type {
		case "stdout":
			stdout.WriteString(o.Text)
		case "stderr":
			stderr.WriteString(o.Text)
		case "result":
			out.Results = append(out.Results, resultsOf(o)...)
		}
	}
	out.Stdout, out.Stderr = stdout.String(), stderr.String()
	return out
}

func resultsOf(o code.Output) []api.CodeResult {
	var out []api.CodeResult
	for mime, raw := range o.Data {
		var data any = json.RawMessage(raw)
		out = append(out, api.CodeResult{Mime: mime, Data: &data, Main: o.Main})
	}
	for mime, id := range o.Artifacts {
		out = append(out, api.CodeResult{Mime: mime, ArtifactId: &id, Main: o.Main})
	}
	slices.SortFunc(out, func(a, b api.CodeResult) int { return cmp.Compare(a.Mime, b.Mime) })
	return out
}
