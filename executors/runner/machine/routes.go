package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/guard"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// maxCommand limits the body of a command: an environment at its limit, escaped.
const maxCommand = 4 * guest.MaxJSON

// Handler serves the server's requests (wire/routes.go). The tunnel authenticates the server.
func (m *Machine) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/hello":                  m.serveHello,
		"GET /v1/events":                 m.serveEvents,
		"GET /v1/sandboxes":              m.serveSandboxes,
		"GET /v1/sandboxes/{id}":         m.serveSandbox,
		"POST /v1/sandboxes":             m.serveMake,
		"DELETE /v1/sandboxes/{id}":      m.serveRemove,
		"POST /v1/sandboxes/{id}/pause":  m.servePause,
		"POST /v1/sandboxes/{id}/resume": m.serveResume,
		"PUT /v1/sandboxes/{id}/limits":  m.serveLimits,
		"GET /v1/sandboxes/{id}/figures": m.serveFigures,
		"POST /v1/sandboxes/{id}/pipe":   m.servePipe,
		"GET /v1/folders":                m.serveFolders,
		"POST /v1/folders/bundle":        m.serveBundle,
		"POST /v1/folders/borrow":        m.serveLend,
		"POST /v1/folders/copy":          m.serveCopy,
		"POST /v1/folders/deliver":       m.serveDeliver,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				m.refuse(w, r, err)
			}
		})
	}
	return mux
}

var (
	// errHungUp says that nobody listens any more.
	errHungUp = errors.New("hung up")
	// errCut makes a response that has begun end as cut off, not as complete.
	errCut = errors.New("a response was cut off")
)

func (m *Machine) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errHungUp) {
		return
	}
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler)
	}
	if r.Context().Err() != nil {
		return // nobody listens
	}
	e := remoteError(err)
	if e.Code == codeFailed {
		m.cfg.Log.Warn("a request of the server failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	answer(w, wire.Status(fault.Kind(e.Kind)), e)
}

// codeFailed is the code of internal errors.
const codeFailed = "runner_failed"

// remoteError converts an error for the server.
func remoteError(err error) wire.Error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return wire.Error{Kind: string(fault.DiskFull), Code: "disk_full", Message: "The machine's disk is full. Make room there and try again."}
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return wire.Error{Kind: string(f.Kind), Code: f.Code, Message: f.Message, Details: f.Details}
	}
	if errors.Is(err, executors.ErrGone) {
		return wire.Error{Kind: string(fault.Gone), Code: errGone.Code, Message: errGone.Message}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return wire.Error{Kind: string(fault.Unavailable), Code: wire.CodeUnavailable, Message: "The machine stopped the request before it was done."}
	}
	// The system's own message: the owner sees it, and it helps to find the cause.
	return wire.Error{Kind: string(fault.Unavailable), Code: codeFailed, Message: "It failed on the machine: " + policy.Clean(err.Error(), 400)}
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // encoding our own types cannot fail
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a server that is gone needs no answer
}

// command reads a request that changes something: its body, and the server's signature for it. It decodes the body into v, nil = no body.
func (m *Machine) command(r *http.Request, v any) (wire.Command, error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxCommand+1))
	if err != nil {
		return wire.Command{}, errHungUp
	}
	if len(b) > maxCommand {
		return wire.Command{}, fault.New(fault.TooLarge, "request_too_large", "A command has at most %d bytes.", maxCommand)
	}
	cmd, err := m.cfg.Checker.Check(r, b)
	if err == nil && v != nil {
		if jerr := json.NewDecoder(bytes.NewReader(b)).Decode(v); jerr != nil {
			err = fault.Wrap(jerr, fault.Invalid, "invalid_request", "The command cannot be read: %v.", jerr)
		}
	}
	if err != nil {
		m.cfg.Keeper.Refused(policy.Ask{Kind: policy.KindSandbox, Command: cmd, SandboxID: policy.Clean(r.PathValue("id"), 64), Text: r.Method + " " + policy.Clean(r.URL.Path, 200)}, err)
	}
	return cmd, err
}

// asked finds the box a request names.
func (m *Machine) asked(r *http.Request) (*box, error) {
	b := m.box(r.PathValue("id"))
	if b == nil {
		return nil, errUnknown
	}
	return b, nil
}

func (m *Machine) serveHello(w http.ResponseWriter, r *http.Request) error {
	answer(w, http.StatusOK, m.hello(r.Context()))
	return nil
}

type list[T any] struct {
	Items []T `json:"items"`
}

func (m *Machine) serveSandboxes(w http.ResponseWriter, _ *http.Request) error {
	out := list[wire.Sandbox]{Items: []wire.Sandbox{}}
	for _, b := range m.all() {
		s := b.status()
		s.Token = ""
		out.Items = append(out.Items, s)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// serveSandbox returns one usable sandbox: it restarts a dead one over its files.
func (m *Machine) serveSandbox(w http.ResponseWriter, r *http.Request) error {
	b, err := m.asked(r)
	if err != nil {
		return err
	}
	if b.get().State != paused {
		if _, err := b.reach(r.Context()); err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	answer(w, http.StatusOK, b.status())
	return nil
}

// lineEach is the longest time between two lines of a making that goes on.
const lineEach = 10 * time.Second

func (m *Machine) serveMake(w http.ResponseWriter, r *http.Request) error {
	var ask wire.Make
	cmd, err := m.command(r, &ask)
	if err != nil {
		return err
	}
	f, done, err := m.begin(r.Context(), cmd, ask)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	send := func(p *wire.Progress) error {
		var b []byte
		if p != nil {
			if b, err = json.Marshal(p); err != nil {
				return err
			}
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
		return rc.Flush()
	}
	if done != nil {
		err = send(&wire.Progress{Sandbox: done})
	} else {
		err = f.listen(r.Context(), lineEach, send)
	}
	if err != nil {
		return errHungUp
	}
	return nil
}

func (m *Machine) serveRemove(w http.ResponseWriter, r *http.Request) error {
	if _, err := m.command(r, nil); err != nil {
		return err
	}
	if err := m.remove(context.WithoutCancel(r.Context()), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// change handles a command to one sandbox without a response body.
func (m *Machine) change(w http.ResponseWriter, r *http.Request, v any, do func(context.Context, *box) error) error {
	if _, err := m.command(r, v); err != nil {
		return err
	}
	b, err := m.asked(r)
	if err != nil {
		return err
	}
	if err := do(context.WithoutCancel(r.Context()), b); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (m *Machine) servePause(w http.ResponseWriter, r *http.Request) error {
	return m.change(w, r, nil, m.pause)
}

func (m *Machine) serveResume(w http.ResponseWriter, r *http.Request) error {
	return m.change(w, r, nil, m.resume)
}

func (m *Machine) serveLimits(w http.ResponseWriter, r *http.Request) error {
	var ask wire.Limits
	return m.change(w, r, &ask, func(ctx context.Context, b *box) error {
		if err := checkMake(&wire.Make{ID: "x", WorkspaceID: "x", TeamID: "x", Slug: "x", Limits: ask}); err != nil {
			return err
		}
		sb, err := b.reach(ctx)
		if err != nil {
			return err
		}
		limiter, ok := sb.(executors.Limiter)
		if !ok {
			return fault.New(fault.Unsupported, "runner_limits_unsupported", "This machine cannot change the limits of a running sandbox.")
		}
		l := executors.Limits{CPUs: ask.CPUs, MemoryMB: ask.MemoryMB, DiskMB: ask.DiskMB, Processes: ask.Processes}
		if err := limiter.SetLimits(l.AtMost(m.cfg.Keeper.Policy().Limits.Executors())); err != nil {
			return fmt.Errorf("limiting sandbox %s: %w", b.page.ID, err)
		}
		return b.set(func(p *page) { p.Limits = l })
	})
}

func (m *Machine) serveFigures(w http.ResponseWriter, r *http.Request) error {
	b, err := m.asked(r)
	if err != nil {
		return err
	}
	sb := b.sandbox()
	if sb == nil {
		if sb, err = b.reach(r.Context()); err != nil {
			return err
		}
	}
	metered, ok := sb.(executors.Metered)
	if !ok {
		return fault.New(fault.Unsupported, "runner_usage_unsupported", "This machine does not measure its sandboxes.")
	}
	f, err := metered.Figures()
	if err != nil {
		return fmt.Errorf("reading the figures of sandbox %s: %w", b.page.ID, err)
	}
	answer(w, http.StatusOK, wire.Figures{CPUMs: f.CPUMs, MemoryBytes: f.MemoryBytes, MemoryPeak: f.MemoryPeak, Processes: f.Processes, OOMKills: f.OOMKills, ThrottledMs: f.ThrottledMs})
	return nil
}

// servePipe connects the server to a guest, through the guard.
func (m *Machine) servePipe(w http.ResponseWriter, r *http.Request) error {
	b, err := m.asked(r)
	if err != nil {
		return err
	}
	if _, err := b.reach(r.Context()); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	defer context.AfterFunc(m.life, func() { end(errEnding) })()
	if !b.addPipe(&end) {
		return fault.New(fault.RateLimited, "too_many_streams", "The sandbox already has %d pipes.", maxPipes)
	}
	defer b.dropPipe(&end)
	p := b.get()
	w.Header().Set("Content-Type", "application/octet-stream")
	conn, err := tunnel.Conn(w, r)
	if err != nil {
		return errHungUp
	}
	err = m.guard.Serve(ctx, conn, guard.Target{SandboxID: p.ID, WorkspaceID: p.WorkspaceID, Token: p.Token, Root: m.tree(p),
		Dial: b.dial, Start: b.began, Ended: b.quit})
	if err != nil && ctx.Err() == nil {
		m.cfg.Log.Debug("a pipe ended", "sandbox_id", p.ID, "error", err)
		return errCut
	}
	return errHungUp
}
