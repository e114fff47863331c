package running

import (
	"context"
	"net/http"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/sandboxes"
)

// demoCookie holds the token of a visitor's sandbox. It opens nothing else.
const demoCookie = "parawork-demo"

// The guard has answered that there is no such route where the demo is off.

func (h Demo) GetDemo(ctx context.Context, _ api.GetDemoRequestObject) (api.GetDemoResponseObject, error) {
	l := h.cfg.Demo.Limits()
	out := api.Demo{Now: h.cfg.Now().UnixMilli(), Minutes: int(l.Life / time.Minute), IdleSeconds: int(l.Idle / time.Second), RunsPerMinute: l.RunsPerMinute, RunSeconds: int(l.RunTime / time.Second),
		OutputBytes: l.OutputBytes, Cpus: l.Sandbox.CPUs, MemoryMb: l.Sandbox.MemoryMB, Languages: rest.List(code.Languages, func(l code.Language) api.CodeLanguage { return api.CodeLanguage(l) })}
	sb, ok, err := h.cfg.Demo.Find(ctx, h.ReadCookie(rest.CallOf(ctx).Request, demoCookie))
	if err != nil {
		return nil, err
	}
	if ok {
		mine := demoSandboxOf(sb)
		out.Sandbox = &mine
	}
	return api.GetDemo200JSONResponse(out), nil
}

func demoSandboxOf(sb sandboxes.Sandbox) api.DemoSandbox {
	return api.DemoSandbox{Id: sb.ID, CreatedAt: sb.CreatedAt, EndsBy: sb.EndsBy}
}

func (h Demo) StartDemoSandbox(ctx context.Context, _ api.StartDemoSandboxRequestObject) (api.StartDemoSandboxResponseObject, error) {
	call := rest.CallOf(ctx)
	had := h.ReadCookie(call.Request, demoCookie)
	sb, token, err := h.cfg.Demo.Start(ctx, had, h.AddressOf(call.Request))
	if err != nil {
		return nil, err
	}
	if token == had {
		return api.StartDemoSandbox200JSONResponse(demoSandboxOf(sb)), nil
	}
	h.SetCookie(call, demoCookie, token, time.UnixMilli(sb.EndsBy))
	return api.StartDemoSandbox201JSONResponse(demoSandboxOf(sb)), nil
}

func (h Demo) EndDemoSandbox(ctx context.Context, req api.EndDemoSandboxRequestObject) (api.EndDemoSandboxResponseObject, error) {
	call := rest.CallOf(ctx)
	err := h.cfg.Demo.End(ctx, h.ReadCookie(call.Request, demoCookie), req.Id)
	switch {
	case err == nil:
		h.DropCookie(call, demoCookie)
	case !fault.Is(err, fault.NotFound): // else it has ended, and the cookie may be that of a newer one
		return nil, err
	}
	return api.EndDemoSandbox204Response{}, nil
}

func (h Demo) RunDemoCode(ctx context.Context, req api.RunDemoCodeRequestObject) (api.RunDemoCodeResponseObject, error) {
	call := rest.CallOf(ctx)
	token := h.ReadCookie(call.Request, demoCookie)
	run := func(ctx context.Context, fn func(code.Event) error) (code.Run, error) {
		return h.cfg.Demo.Run(ctx, token, req.Id, code.Language(req.Body.Language), req.Body.Code, fn)
	}
	if WantsStream(call.Request) {
		return demoCode{Code{h.group}.stream(ctx, run)}, nil
	}
	r, err := run(ctx, nil)
	if err != nil {
		return nil, err
	}
	return api.RunDemoCode200JSONResponse(runOf(r)), nil
}

type demoCode struct{ codeStream }

// VisitRunDemoCodeResponse runs the code.
func (e demoCode) VisitRunDemoCodeResponse(w http.ResponseWriter) error {
	return e.VisitRunCodeResponse(w)
}
