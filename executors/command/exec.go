// Package command runs plain commands in the sandboxes of workspaces and records them: the operations people know from other sandbox
// products, built on the guest's processes. A command runs once or not at all: it waits for an unreachable executor, survives a restart of
// the
// server in its guest, and ends when its sandbox ends. Secrets in its output are masked before anybody sees it.
//
// Goroutines: each command under way has one that drives it, which has two for its outputs while it runs; Commands.Run waits for them.
// Locks:
// Commands.mu guards which commands are under way, and a command's own locks its record and outputs; none is held during a call to the
// guest.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

// Sandboxes are the sandboxes commands run in: the Manager's.
type Sandboxes interface {
	// Spec returns the sandbox a workspace needs, and its kind.
	Spec(ctx context.Context, workspaceID string) (executors.Spec, executors.Kind, error)
	// Permit refuses a workspace whose executor its team no longer allows.
	Permit(ctx context.Context, workspaceID string) error
	// Ensure returns the workspace's live sandbox and makes one when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	// Live returns the workspace's live sandbox without making one.
	Live(workspaceID string) (*executors.Place, bool)
	// WakesItself reports whether the workspace's sandbox is suspended and wakes when its guest is needed.
	WakesItself(workspaceID string) bool
	// MayReturn reports whether the sandbox is stored as open but could not be reached yet.
	MayReturn(workspaceID, sandboxID string) bool
	// KindOf returns the kind of the workspace's sandbox, or of the one it would get; "" = not known.
	KindOf(ctx context.Context, workspaceID string) executors.Kind
	// Place returns what a kind of executor can do now.
	Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool)
	// Counters count what happens.
	Counters() *executors.Counters
}

// Config configures Commands.
type Config struct {
	Places     Sandboxes
	Store      Store
	Now        func() time.Time
	After      func(time.Duration) <-chan time.Time // the clock of the sweep; default time.After
	Keep       time.Duration                        // how long records of ended commands are stored; default 1 h
	Timeout    time.Duration                        // how long a command may take that says nothing; default executors.DefaultTimeout
	Queue      time.Duration                        // how long a command waits for an unreachable executor; default 10 min
	SweepEvery time.Duration                        // default 1 min
	// Secrets returns the secrets a command gets, and those its output must not show; an error prevents its start. Nil: none.
	Secrets func(ctx context.Context, c Command) (Secrets, error)
	// Guard refuses a command that may not run in this kind of executor, before anything is stored. Nil: all may.
	Guard func(ctx context.Context, kind executors.Kind, s executors.Spec, req Request) error
	Log   *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Places == nil || c.Store == nil {
		return errors.New("command: Commands needs Places and Store")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Keep <= 0 {
		c.Keep = time.Hour
	}
	if c.Timeout <= 0 {
		c.Timeout = executors.DefaultTimeout
	}
	if c.Queue <= 0 {
		c.Queue = 10 * time.Minute
	}
	if c.SweepEvery <= 0 {
		c.SweepEvery = time.Minute
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Commands runs plain commands in the sandboxes of workspaces and records them. Safe for concurrent use.
type Commands struct {
	cfg  Config
	life context.Context // ends with Run: followers return, the commands in the guests go on
	end  context.CancelFunc

	mu   sync.Mutex
	live map[string]*running
	work tasks.Group
}

// New makes Commands. It starts nothing and panics on a Config without Places or Store.
func New(cfg Config) *Commands {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	c := &Commands{cfg: cfg, live: make(map[string]*running)}
	c.life, c.end = context.WithCancel(tenant.All(context.Background(), "commands go on when their caller has left"))
	return c
}

// Exec runs a command. In the foreground it returns when the command has ended, and ctx's end cancels the command; in the background it
// returns once the command runs, waits for an unreachable executor, or could not be started. The result's State says how the command ended;
// the error is for invalid requests and for records that cannot be stored.
func (c *Commands) Exec(ctx context.Context, req Request) (Command, error) {
	r, err := c.launch(ctx, req, nil)
	if err != nil {
		return Command{}, err
	}
	if req.Background {
		select {
		case <-r.started:
		case <-r.queued:
		case <-r.done:
		case <-ctx.Done():
		}
		return r.snapshot(), nil
	}
	return c.await(ctx, r)
}

// ExecStream runs a command in the foreground and passes every event to fn as it happens: started, stdout and stderr, ended. fn is never
// called concurrently; while it blocks, the command's output waits. An error of fn cancels the command.
func (c *Commands) ExecStream(ctx context.Context, req Request, fn func(Event) error) (Command, error) {
	req.Background = false
	r, err := c.launch(ctx, req, fn)
	if err != nil {
		return Command{}, err
	}
	return c.await(ctx, r)
}

// await waits for a foreground command; ctx's end cancels it.
func (c *Commands) await(ctx context.Context, r *running) (Command, error) {
	select {
	case <-r.done:
		return r.snapshot(), nil
	case <-ctx.Done():
	case <-c.life.Done():
	}
	r.cancel()
	late := time.NewTimer(cancelPatience)
	defer late.Stop()
	select {
	case <-r.done:
	case <-late.C: // its executor is unreachable: the server ends it once that is back
	case <-c.life.Done():
		// The followers have returned; the next start closes the record.
		return r.snapshot(), executors.ErrStopping()
	}
	return r.snapshot(), context.Cause(ctx)
}

// Command returns a command's current record, with the output so far.
func (c *Commands) Command(ctx context.Context, commandID string) (Command, error) {
	c.mu.Lock()
	r := c.live[commandID]
	c.mu.Unlock()
	if r != nil {
		return r.snapshot(), nil
	}
	return c.cfg.Store.Command(ctx, commandID)
}

// Wait returns a command once it has ended; ctx's end, or the server's, ends only the waiting.
func (c *Commands) Wait(ctx context.Context, commandID string) (Command, error) {
	for {
		c.mu.Lock()
		r := c.live[commandID]
		c.mu.Unlock()
		if r == nil {
			cmd, err := c.cfg.Store.Command(ctx, commandID)
			if err != nil || cmd.State.Ended() {
				return cmd, err
			}
		}
		var done chan struct{}
		if r != nil {
			done = r.done
		}
		select {
		case <-done:
			return r.snapshot(), nil
		case <-ctx.Done():
			return Command{}, context.Cause(ctx)
		case <-c.life.Done():
			return Command{}, executors.ErrStopping()
		case <-c.cfg.After(waitAgain): // its sandbox could not be reached yet when this server started: the sweep takes over
		}
	}
}

// waitAgain is how often Wait checks whether the command is followed by now.
const waitAgain = 2 * time.Second

// Cancel ends a command and returns when it has ended: SIGTERM to the whole tree, a grace period, SIGKILL. A command that has already ended
// does not change. One whose executor is unreachable ends once that is back, and the result says so.
func (c *Commands) Cancel(ctx context.Context, commandID string) (Command, error) {
	c.mu.Lock()
	r := c.live[commandID]
	c.mu.Unlock()
	if r == nil {
		return c.cfg.Store.Command(ctx, commandID)
	}
	r.cancel()
	late := time.NewTimer(cancelPatience)
	defer late.Stop()
	select {
	case <-r.done:
		return r.snapshot(), nil
	case <-late.C:
		cmd := r.snapshot()
		cmd.Reason = "It is ended as soon as its place can be reached again."
		return cmd, nil
	case <-ctx.Done():
		return r.snapshot(), context.Cause(ctx)
	case <-c.life.Done():
		return r.snapshot(), executors.ErrStopping()
	}
}

// launch checks the request, stores the record and starts the command.
func (c *Commands) launch(ctx context.Context, req Request, fn func(Event) error) (*running, error) {
	if err := c.checkExec(&req); err != nil {
		return nil, err
	}
	if c.life.Err() != nil {
		return nil, executors.ErrStopping()
	}
	spec, kind, err := c.cfg.Places.Spec(ctx, req.WorkspaceID)
	if err != nil {
		return nil, err
	}
	if req.TeamID != "" && req.TeamID != spec.TeamID {
		return nil, fault.New(fault.NotFound, "not_found", "There is no such workspace, or it is not yours to see.")
	}
	if req.Sudo {
		// On the server itself, or a machine without isolation, root of the sandbox would be root of all.
		if can, ok := c.cfg.Places.Place(ctx, kind); !ok || !can.Isolated {
			return nil, fault.New(fault.Invalid, "sudo_not_isolated", "sudo is for places that isolate. This workspace's place does not.").With("field", "sudo")
		}
	}
	if c.cfg.Guard != nil {
		if err := c.cfg.Guard(ctx, kind, spec, req); err != nil {
			return nil, err
		}
	}
	r := newRunning(Command{ID: id.New("cmd"), TeamID: spec.TeamID, WorkspaceID: req.WorkspaceID, ActorID: req.ActorID,
		Argv: req.Argv, Cwd: req.Cwd, State: Pending, Background: req.Background, CreatedAt: c.now()}, fn)
	var given Secrets
	if c.cfg.Secrets != nil {
		if given, err = c.cfg.Secrets(ctx, r.cmd); err != nil {
			return nil, err
		}
		r.cmd.OwnSecrets = given.Own
		r.mask(given.Masks)
	}
	// Registered before it is stored, so that the sweep never takes it for one that nobody follows.
	c.mu.Lock()
	c.live[r.id] = r
	c.mu.Unlock()
	if err := c.cfg.Store.InsertCommand(ctx, r.snapshot()); err != nil {
		c.forget(r)
		return nil, fmt.Errorf("storing command: %w", err)
	}
	failpoint.Reach(failpoint.CommandStored)
	timeout := time.Duration(req.TimeoutMs) * time.Millisecond
	env := given.Env
	if env == nil {
		env = req.Env
	} else {
		env = maps.Clone(env)
		maps.Copy(env, req.Env)
	}
	proc := guest.ProcessSpec{ID: r.id, Argv: req.Argv, Cwd: req.Cwd, Env: env, TimeoutMs: req.TimeoutMs}
	if req.Sudo {
		proc.Argv = append([]string{"/bin/sh", "-c", asRoot, "sudo"}, req.Argv...)
	}
	proc.Stdin, r.stdin = len(req.Stdin) > 0, req.Stdin
	if req.Background {
		proc.MaxLog = backgroundLog
	}
	if !c.work.Go(func() { c.drive(r, proc, timeout) }) {
		c.forget(r) // the next start closes the record
		return nil, executors.ErrStopping()
	}
	return r, nil
}

func (c *Commands) forget(r *running) {
	c.mu.Lock()
	delete(c.live, r.id)
	c.mu.Unlock()
}

func (c *Commands) now() int64 { return c.cfg.Now().UnixMilli() }

// asRoot runs its arguments as root, and never asks for a password.
const asRoot = `[ "$(id -u)" = 0 ] && exec "$@"
command -v sudo >/dev/null 2>&1 || { echo "sudo: this sandbox's image has no sudo, and its user is not root" >&2; exit 126; }
exec sudo -n -E -- "$@"`

// checkExec rejects an invalid request and fills in the defaults.
func (c *Commands) checkExec(req *Request) error {
	switch {
	case req.Command != "" && len(req.Argv) > 0:
		return fault.New(fault.Invalid, "invalid_command", "Give either argv or command, not both.")
	case req.Command != "":
		req.Argv = []string{"/bin/sh", "-c", req.Command}
	}
	if err := executors.CheckArgv(req.Argv, req.Env); err != nil {
		return err
	}
	if err := executors.CheckCwd(req.Cwd); err != nil {
		return err
	}
	if len(req.Stdin) > MaxStdin {
		return fault.New(fault.TooLarge, "command_too_large", "The input of a command may have at most %d bytes. Write a file, and read it there.", MaxStdin).With("field", "stdin")
	}
	switch {
	case req.TimeoutMs < 0 || req.TimeoutMs > executors.MaxTimeout.Milliseconds():
		return fault.New(fault.Invalid, "invalid_timeout", "timeout_ms must be between 1 and %d.", executors.MaxTimeout.Milliseconds())
	case req.TimeoutMs == 0:
		req.TimeoutMs = c.cfg.Timeout.Milliseconds()
	}
	return nil
}
