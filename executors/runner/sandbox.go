package runner

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Create asks the machine for a sandbox and follows the making.
func (e *member) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := checkID(s.ID); err != nil {
		return nil, err
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() { // what will be sent there
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q does not exist.", s.Root)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	ctx = executors.As(ctx, askedFor(ctx), s.UserID)
	executors.SayStep(ctx, executors.StepCreate, "", "")
	sb, err := e.create(ctx, s)
	if err == nil {
		return sb, nil
	}
	// The machine may have made half of it, and the answer been lost. The reaper looks at an unreachable machine once it is back: the
	// sandbox is unknown then.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortTime)
	defer cancel()
	if rerr := e.Remove(rctx, executors.Handle{ID: s.ID}); rerr != nil && e.away() == nil {
		err = errors.Join(err, fmt.Errorf("removing what was made of it: %w", rerr))
	}
	return nil, err
}

// askedFor puts the purpose of the sandbox into the order.
func askedFor(ctx context.Context) executors.Purpose {
	p, _ := executors.AskerOf(ctx)
	return p
}

func (e *member) create(ctx context.Context, s executors.Spec) (*sandbox, error) {
	l := s.Limits
	resp, err := e.send(ctx, http.MethodPost, "/v1/sandboxes", wire.Make{ID: s.ID, TeamID: s.TeamID, WorkspaceID: s.WorkspaceID, Key: s.Key, Slug: slug(s.Inside),
		Folder: s.Folder, Env: s.Env, Limits: wire.Limits{CPUs: l.CPUs, MemoryMB: l.MemoryMB, DiskMB: l.DiskMB, Processes: l.Processes}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	stop := context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
	defer stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for n := 0; lines.Scan(); n++ {
		var p wire.Progress
		switch {
		case n == maxLines:
			return nil, e.wrong(errTooMuch)
		case len(lines.Bytes()) == 0:
			continue // it lives
		}
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, e.wrong(err)
		}
		switch {
		case p.Error != nil:
			return nil, e.remoteError(*p.Error)
		case p.Sandbox != nil:
			return e.sandbox(s.ID, *p.Sandbox)
		case p.Step != "" && plainCode.MatchString(p.Step):
			executors.SayProgress(ctx, p.Step, clean(p.Title, maxName), "", max(p.Done, 0), max(p.All, 0))
		}
	}
	err = lines.Err()
	err = cmp.Or(err, io.ErrUnexpectedEOF)
	if errors.Is(err, bufio.ErrTooLong) {
		return nil, e.wrong(err)
	}
	return nil, e.cut(ctx, err)
}

// slug returns the name of the worktree's folder.
func slug(inside string) string {
	if b := path.Base(inside); b != "." && b != "/" {
		return b
	}
	return "project"
}

// sandbox makes the value of a sandbox the machine reported.
func (e *member) sandbox(id string, got wire.Sandbox) (*sandbox, error) {
	switch {
	case got.ID != id:
		return nil, e.wrong(fmt.Errorf("asked for sandbox %s, the machine returned %q", id, clean(got.ID, maxName)))
	case got.State == wire.Gone:
		return nil, executors.GoneBecause(cmp.Or(clean(got.Reason, maxWords), "It was ended on the machine."))
	case got.State != wire.Running && got.State != wire.Paused:
		return nil, e.wrong(fmt.Errorf("sandbox %s is %q", id, clean(got.State, maxName)))
	case got.Token == "" || len(got.Token) > maxToken || clean(got.Token, maxToken) != got.Token:
		return nil, e.wrong(fmt.Errorf("sandbox %s has an invalid token", id))
	}
	return &sandbox{e: e, id: id, token: got.Token, onePipe: got.OnePipe}, nil
}

// sandbox is one on the machine.
type sandbox struct {
	e     *member
	id    string
	token string

	onePipe bool
}

var (
	_ executors.Sandbox    = (*sandbox)(nil)
	_ executors.Pauser     = (*sandbox)(nil)
	_ executors.Limiter    = (*sandbox)(nil)
	_ executors.Metered    = (*sandbox)(nil)
	_ executors.SinglePipe = (*sandbox)(nil)
)

// OnePipe reports whether pipes are expensive, as where each is a program in a container the machine reaches over a network.
func (s *sandbox) OnePipe() bool { return s.onePipe }

// Handle names the machine and the sandbox: the machine stores all else.
func (s *sandbox) Handle() executors.Handle { return s.e.handle(s.id) }

// Token is the guest's.
func (s *sandbox) Token() string { return s.token }

func (s *sandbox) path(rest string) string { return "/v1/sandboxes/" + s.id + rest }

// Dial opens a stream to the guest. Requests over it that change something are signed.
func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	l, err := s.e.link()
	if err != nil {
		return nil, err
	}
	conn, err := l.Stream(ctx, s.path("/pipe"), http.Header{})
	if err == nil {
		return &pipe{conn, s}, nil
	}
	// A failed pipe does not tell whether the sandbox is gone: other calls ask for that.
	if f, ok := errors.AsType[*fault.Error](err); ok && ctx.Err() == nil && s.e.away() == nil && slices.Contains(kinds, f.Kind) && f.Kind != fault.NotFound && f.Kind != fault.Gone {
		return nil, s.e.remoteError(wire.Error{Kind: string(f.Kind), Code: f.Code, Message: f.Message})
	}
	return nil, s.e.cut(ctx, err)
}

// pipe is a stream to a guest behind the machine's guard, which requires a signature on every change.
type pipe struct {
	net.Conn
	s *sandbox
}

var _ client.Signer = (*pipe)(nil)

// CloseWrite closes the sending direction, and leaves the other open.
func (p *pipe) CloseWrite() error {
	if c, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return p.Conn.Close()
}

// Sign signs a request to the guest as a command, for this sandbox alone.
func (p *pipe) Sign(r *http.Request, body []byte) error {
	e := p.s.e
	return e.f.cfg.Machines.Sign(e.ordered(r.Context()), e.m.ID, wire.InPipe(p.s.id, r), body)
}

// Destroy ends it on the machine.
func (s *sandbox) Destroy(ctx context.Context) error {
	return s.e.Remove(ctx, s.Handle())
}

// Pause suspends everything in it.
func (s *sandbox) Pause(ctx context.Context) error {
	return gone(s.e.ask(ctx, http.MethodPost, s.path("/pause"), none{}, nil))
}

// Resume resumes it.
func (s *sandbox) Resume(ctx context.Context) error {
	return gone(s.e.ask(ctx, http.MethodPost, s.path("/resume"), none{}, nil))
}

// figuresWithin bounds how long a machine may take to report a sandbox's figures: they are read every few seconds.
const figuresWithin = 3 * time.Second

// Figures returns them as the machine measures them.
func (s *sandbox) Figures() (executors.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), figuresWithin) // Figures has no context: this is the time limit
	defer cancel()
	var f wire.Figures
	if err := s.e.ask(ctx, http.MethodGet, s.path("/figures"), nil, &f); err != nil {
		return executors.Figures{}, err
	}
	return executors.Figures{CPUMs: max(f.CPUMs, 0), MemoryBytes: max(f.MemoryBytes, 0), MemoryPeak: max(f.MemoryPeak, 0), Processes: max(f.Processes, 0),
		OOMKills: max(f.OOMKills, 0), ThrottledMs: max(f.ThrottledMs, 0)}, nil
}

// SetLimits sets new limits; the machine owner's limits hold where they are smaller.
func (s *sandbox) SetLimits(l executors.Limits) error {
	ctx, cancel := context.WithTimeout(context.Background(), shortTime)
	defer cancel()
	return gone(s.e.ask(ctx, http.MethodPut, s.path("/limits"), wire.Limits{CPUs: l.CPUs, MemoryMB: l.MemoryMB, DiskMB: l.DiskMB, Processes: l.Processes}, nil))
}
