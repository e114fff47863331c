package running

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Commands) ExecCommand(ctx context.Context, req api.ExecCommandRequestObject) (api.ExecCommandResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	r := command.Request{WorkspaceID: req.Id, ActorID: call.Actor.User.ID, Argv: rest.Val(b.Argv), Command: rest.Val(b.Command), Cwd: rest.Val(b.Cwd),
		Env: rest.Val(b.Env), TimeoutMs: rest.Val(b.TimeoutMs), Background: rest.Val(b.Background), Sudo: rest.Val(b.Sudo)}
	if b.TimeoutMs != nil && *b.TimeoutMs <= 0 {
		return nil, fault.New(fault.Invalid, "invalid_timeout", "timeout_ms must be 1 or more.").With("field", "timeout_ms")
	}
	if WantsStream(call.Request) {
		if r.Background {
			return nil, fault.New(fault.Invalid, "invalid_command", "A background command cannot be streamed. Leave out background, or request JSON and poll GET /commands/{id}.")
		}
		return execStream{h, ctx, r}, nil
	}
	c, err := h.cfg.Commands.Exec(ctx, r)
	if err != nil {
		return nil, err
	}
	return api.ExecCommand200JSONResponse(h.command(c)), nil
}

func (h Commands) GetCommand(ctx context.Context, _ api.GetCommandRequestObject) (api.GetCommandResponseObject, error) {
	return api.GetCommand200JSONResponse(h.command(rest.CallOf(ctx).Command)), nil
}

func (h Commands) CancelCommand(ctx context.Context, req api.CancelCommandRequestObject) (api.CancelCommandResponseObject, error) {
	c, err := h.cfg.Commands.Cancel(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.CancelCommand200JSONResponse(h.command(c)), nil
}

func (h Commands) command(c command.Command) api.Command {
	return api.Command{CommandId: c.ID, WorkspaceId: c.WorkspaceID, State: api.CommandState(c.State), StateReason: c.Reason, ExitCode: c.ExitCode,
		Stdout: strings.ToValidUTF8(string(c.Stdout), "\uFFFD"), Stderr: strings.ToValidUTF8(string(c.Stderr), "\uFFFD"),
		DurationMs: c.DurationMs(h.cfg.Now().UnixMilli()), Truncated: c.Truncated, CreatedAt: c.CreatedAt}
}

// WantsStream reports whether the client asks for server-sent events rather than for JSON.
func WantsStream(r *http.Request) bool {
	for _, accept := range r.Header["Accept"] {
		for part := range strings.SplitSeq(accept, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err == nil && kind == "text/event-stream" {
				return params["q"] != "0"
			}
		}
	}
	return false
}

// execStream runs a command while its answer is being written.
type execStream struct {
	h   Commands
	ctx context.Context
	req command.Request
}

// heartbeat is how often a quiet stream says that it lives: proxies cut silent connections, and a client that has left shows
// only when something is written.
const heartbeat = 15 * time.Second

// VisitExecCommandResponse runs the command. Until its first event a failure is a proper error answer; after that it is an event.
func (e execStream) VisitExecCommandResponse(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	out := &eventStream{w: w, rc: http.NewResponseController(w), failed: func(err error) { cancel(err) }}
	stop := out.beat(ctx)
	c, err := e.h.cfg.Commands.ExecStream(ctx, e.req, func(ev command.Event) error {
		switch ev.Type {
		case command.EventQueued:
			return out.send("queued", map[string]any{"command_id": ev.Command.ID, "state_reason": ev.Command.Reason})
		case command.EventStarted:
			return out.send("started", map[string]any{"command_id": ev.Command.ID})
		case command.EventStdout, command.EventStderr:
			return out.send(ev.Type, map[string]any{"data": ev.Data, "offset": ev.Offset})
		}
		return nil // the end is reported below, with the stored record
	})
	stop()
	switch {
	case err != nil && !out.begun():
		return err
	case e.ctx.Err() != nil && c.ID == "":
		return nil // the client disconnected
	case err != nil && c.ID == "":
		p := rest.Translate(err)
		p.Body.RequestId = rest.CallOf(e.ctx).ID
		return out.send("error", p.Body)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		e.h.Log.Debug("the stream of a command was interrupted", "command_id", c.ID, "error", err)
	}
	return out.send("command", e.h.command(c))
}

// eventStream writes server-sent events; the first begins the answer.
type eventStream struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	rc     *http.ResponseController
	open   bool
	failed func(error)
}

func (s *eventStream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// send writes one event. []byte in v becomes base64.
func (s *eventStream) send(event string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.raw(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, raw))
}

func (s *eventStream) write(p []byte) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(rest.StreamPatience))
	_, err := s.w.Write(p)
	if err == nil {
		err = s.rc.Flush()
	}
	_ = s.rc.SetWriteDeadline(time.Time{})
	return err
}

// beat keeps the stream alive until the returned func is called, which waits for it to stop.
func (s *eventStream) beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(heartbeat)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			s.mu.Lock()
			var err error
			if s.open {
				err = s.write([]byte(": still running\n\n"))
			}
			s.mu.Unlock()
			if err != nil {
				s.failed(err)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Events is a stream of server-sent events that an operation of another package writes.
type Events struct {
	out  *eventStream
	stop func()
}

// NewEvents returns a stream on w, which its first event begins. failed is called when nobody reads it any more. End it.
func NewEvents(ctx context.Context, w http.ResponseWriter, failed func(error)) *Events {
	out := &eventStream{w: w, rc: http.NewResponseController(w), failed: failed}
	return &Events{out, out.beat(ctx)}
}

// Send writes one event.
func (e *Events) Send(event string, v any) error { return e.out.send(event, v) }

// Begun reports whether an event was sent: until then a failure is a proper error answer.
func (e *Events) Begun() bool { return e.out.begun() }

// End ends the stream's heartbeat.
func (e *Events) End() { e.stop() }
