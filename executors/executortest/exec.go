package executortest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Workspaces is a Manager's view of workspaces that need only a root: workspace id to root.
type Workspaces map[string]string

// Spec returns the root of a known workspace.
func (w Workspaces) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	root, ok := w[workspaceID]
	if !ok {
		return executors.Spec{}, "", fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace.")
	}
	return executors.Spec{TeamID: "team_1", WorkspaceID: workspaceID, Root: root}, executors.Auto, nil
}

// shop is a Manager with Commands over one executor and one workspace.
type shop struct {
	ctx      context.Context
	dir, ws  string
	root     string
	store    *MemStore
	m        *Managed
	commands *command.Commands
	stop     func()
}

func newShop(t *testing.T, cfg Config) *shop {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	s := &shop{ctx: ctx, dir: t.TempDir(), ws: id.New("ws"), root: cfg.Root(t), store: &MemStore{}}
	s.open(t, cfg)
	t.Cleanup(func() {
		if err := s.m.Destroy(ctx, s.ws); err != nil {
			t.Errorf("Destroy: %v", err)
		}
		s.stop()
	})
	return s
}

// open makes a server's Manager and Commands over the stored state, recovers and runs them.
func (s *shop) open(t *testing.T, cfg Config) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s.m = NewManager(ManagerConfig{Executors: []executors.Executor{cfg.New(t, s.dir)}, Store: s.store,
		Workspaces: Workspaces{s.ws: s.root}, Log: log})
	if cfg.Deliver != nil {
		s.m.Attach(executors.Participant{Arriving: func(ctx context.Context, a executors.Arrival) error { return cfg.Deliver(ctx, a.Place.Guest, s.root) }})
	}
	s.commands = command.New(command.Config{Places: s.m, Store: s.store, Log: log})
	if err := s.m.Recover(s.ctx); err != nil {
		t.Fatalf("Manager.Recover: %v", err)
	}
	if err := s.commands.Recover(s.ctx); err != nil {
		t.Fatalf("Commands.Recover: %v", err)
	}
	run, cancel := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.m.Run(run) })
	wg.Go(func() { _ = s.commands.Run(run) })
	s.stop = func() { cancel(); wg.Wait() }
}

func (s *shop) exec(t *testing.T, req command.Request) command.Command {
	t.Helper()
	req.WorkspaceID, req.ActorID = s.ws, "usr_1"
	c, err := s.commands.Exec(s.ctx, req)
	if err != nil {
		t.Fatalf("Exec %+v: %v", req, err)
	}
	return c
}

// ended waits for the end of a command.
func (s *shop) ended(t *testing.T, commandID string) command.Command {
	t.Helper()
	var c command.Command
	eventually(t, "the command ended", func() bool {
		var err error
		if c, err = s.commands.Command(s.ctx, commandID); err != nil {
			t.Fatalf("Command: %v", err)
		}
		return c.State.Ended()
	})
	return c
}

func testExec(t *testing.T, cfg Config) {
	t.Run("argv, code, outputs", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Argv: []string{"/bin/sh", "-c", "printf out; printf err >&2; exit 43"}})
		if c.State != command.Completed || c.ExitCode == nil || *c.ExitCode != 43 || string(c.Stdout) != "out" ||
			string(c.Stderr) != "err" || c.Truncated || c.StartedAt == 0 || c.EndedAt < c.StartedAt {
			t.Errorf("command %+v", c)
		}
		kept, err := s.store.Command(s.ctx, c.ID)
		if err != nil || kept.State != c.State || string(kept.Stdout) != "out" || kept.TeamID != "team_1" || kept.ActorID != "usr_1" {
			t.Errorf("stored %+v, %v", kept, err)
		}
	})
	t.Run("a line, its folder and environment", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Command: "pwd | sed 's|.*/||'; echo $PW_X | tr a-z A-Z", Cwd: "dir",
			Env: map[string]string{"PW_X": "hello"}})
		if string(c.Stdout) != "dir\nHELLO\n" {
			t.Errorf("command %+v", c)
		}
	})
	t.Run("wrong requests", func(t *testing.T) {
		s := newShop(t, cfg)
		for name, req := range map[string]command.Request{
			"nothing":      {},
			"both":         {Argv: []string{"true"}, Command: "true"},
			"NUL":          {Argv: []string{"a\x00b"}},
			"cwd out":      {Command: "pwd", Cwd: "../.."},
			"bad name":     {Command: "true", Env: map[string]string{"A=B": "c"}},
			"bad time":     {Command: "true", TimeoutMs: -1},
			"empty in run": {Argv: []string{""}},
		} {
			req.WorkspaceID = s.ws
			if c, err := s.commands.Exec(s.ctx, req); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		}
		if _, err := s.commands.Exec(s.ctx, command.Request{WorkspaceID: "ws_none", Command: "true"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("an unknown workspace: %v", err)
		}
		for _, cwd := range []string{"/etc", "leads-out", "nowhere", "a.txt"} {
			s.exec(t, command.Request{Command: "ln -sf /etc leads-out"})
			c := s.exec(t, command.Request{Command: "pwd", Cwd: cwd})
			if c.State != command.Failed || c.Reason == "" {
				t.Errorf("cwd %q: %+v", cwd, c)
			}
		}
	})
	t.Run("a missing program fails", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Argv: []string{"no-such-program"}})
		if c.State != command.Failed || c.Reason == "" || c.ExitCode != nil {
			t.Errorf("command %+v", c)
		}
	})
	t.Run("a foreign signal fails", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Command: "kill -KILL $$"})
		if c.State != command.Failed || !strings.Contains(c.Reason, "SIGKILL") || c.ExitCode != nil {
			t.Errorf("command %+v", c)
		}
	})
	t.Run("time", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Command: "echo begin; sleep 1000", TimeoutMs: 300})
		if c.State != command.TimedOut || string(c.Stdout) != "begin\n" {
			t.Errorf("command %+v", c)
		}
	})
	t.Run("the middle of a long output is left out", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Command: "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last"})
		if c.State != command.Completed || !c.Truncated || len(c.Stdout) != 2*command.OutputKeep ||
			!bytes.HasPrefix(c.Stdout, []byte("first\nxxx")) || !bytes.HasSuffix(c.Stdout, []byte("xxxlast\n")) {
			t.Errorf("state %s, truncated %v, %d bytes", c.State, c.Truncated, len(c.Stdout))
		}
	})
	t.Run("a request that goes away cancels", func(t *testing.T) {
		s := newShop(t, cfg)
		ctx, cancel := context.WithCancel(s.ctx)
		var commandID string
		c, err := s.commands.ExecStream(ctx, command.Request{WorkspaceID: s.ws, Command: "echo go; sleep 1000"},
			func(e command.Event) error {
				if e.Type == command.EventStarted {
					commandID = e.Command.ID
				}
				if e.Type == command.EventStdout {
					cancel()
				}
				return nil
			})
		if !errors.Is(err, context.Canceled) || c.State != command.Cancelled {
			t.Errorf("command %+v, %v", c, err)
		}
		if kept := s.ended(t, commandID); kept.State != command.Cancelled {
			t.Errorf("stored %+v", kept)
		}
	})
	t.Run("stream", func(t *testing.T) {
		s := newShop(t, cfg)
		var order []string
		var out, errs bytes.Buffer
		c, err := s.commands.ExecStream(s.ctx, command.Request{WorkspaceID: s.ws,
			Command: "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo oops >&2; exit 3"},
			func(e command.Event) error {
				order = append(order, e.Type)
				switch e.Type {
				case command.EventStdout:
					if e.Offset != int64(out.Len()) {
						t.Errorf("offset %d after %d bytes", e.Offset, out.Len())
					}
					out.Write(e.Data)
				case command.EventStderr:
					errs.Write(e.Data)
				}
				return nil
			})
		if err != nil || c.ExitCode == nil || *c.ExitCode != 3 {
			t.Fatalf("command %+v, %v", c, err)
		}
		if !bytes.Equal(out.Bytes(), c.Stdout) || !strings.HasSuffix(out.String(), "line 19999\n") || errs.String() != "oops\n" {
			t.Errorf("streamed %d bytes, kept %d; stderr %q", out.Len(), len(c.Stdout), errs.String())
		}
		if order[0] != command.EventStarted || order[len(order)-1] != command.EventEnded {
			t.Errorf("events %v ... %v", order[0], order[len(order)-1])
		}
	})
	t.Run("background and cancel", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Command: "echo here; sleep 1000", Background: true})
		if c.State != command.Executing || c.ID == "" {
			t.Fatalf("command %+v", c)
		}
		eventually(t, "the output so far is shown", func() bool {
			now, err := s.commands.Command(s.ctx, c.ID)
			return err == nil && string(now.Stdout) == "here\n"
		})
		for range 2 {
			if got, err := s.commands.Cancel(s.ctx, c.ID); err != nil || got.State != command.Cancelled {
				t.Errorf("Cancel: %+v, %v", got, err)
			}
		}
		if _, err := s.commands.Cancel(s.ctx, "cmd_none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("Cancel of none: %v", err)
		}
	})
	t.Run("a background command is followed after a restart", func(t *testing.T) {
		s := newShop(t, cfg)
		bg := s.exec(t, command.Request{Command: "echo before; while ! [ -e go ]; do sleep 0.05; done; echo after; exit 5",
			Background: true, TimeoutMs: 60_000})
		fgDone := make(chan command.Command, 1)
		started := make(chan string, 1)
		go func() {
			c, _ := s.commands.ExecStream(s.ctx, command.Request{WorkspaceID: s.ws, Command: "sleep 1000", TimeoutMs: 60_000},
				func(e command.Event) error {
					if e.Type == command.EventStarted {
						started <- e.Command.ID
					}
					return nil
				})
			fgDone <- c
		}()
		fg := <-started
		s.stop()
		<-fgDone
		s.open(t, cfg)
		if got := s.ended(t, fg); got.State != command.Failed || !strings.Contains(got.Reason, "server stopped") {
			t.Errorf("the foreground command: %+v", got)
		}
		s.exec(t, command.Request{Command: "touch go"})
		got := s.ended(t, bg.ID)
		if got.State != command.Completed || got.ExitCode == nil || *got.ExitCode != 5 || string(got.Stdout) != "before\nafter\n" {
			t.Errorf("the background command: %+v", got)
		}
	})
	t.Run("a command of a destroyed sandbox fails", func(t *testing.T) {
		s := newShop(t, cfg)
		c := s.exec(t, command.Request{Command: "sleep 1000", Background: true, TimeoutMs: 60_000})
		if err := s.m.Destroy(s.ctx, s.ws); err != nil {
			t.Fatalf("Destroy: %v", err)
		}
		if got := s.ended(t, c.ID); got.State != command.Failed || got.Reason == "" {
			t.Errorf("command %+v", got)
		}
	})
	t.Run("a bounded tool for other packages", func(t *testing.T) {
		s := newShop(t, cfg)
		res, err := s.m.RunInSandbox(s.ctx, s.ws, executors.SandboxCommand{Argv: []string{"/bin/sh", "-c", "cat; echo e >&2; exit 4"},
			Stdin: bytes.Repeat([]byte("in"), 100_000)})
		if err != nil || res.ExitCode != 4 || len(res.Stdout) != 200_000 || string(res.Stderr) != "e\n" {
			t.Errorf("code %d, %d bytes, %q, %v", res.ExitCode, len(res.Stdout), res.Stderr, err)
		}
		if _, err := s.m.RunInSandbox(s.ctx, s.ws, executors.SandboxCommand{Argv: []string{"yes"}, MaxOutput: 1000}); !fault.Is(err, fault.TooLarge) {
			t.Errorf("too much: %v", err)
		}
		if _, err := s.m.RunInSandbox(s.ctx, s.ws, executors.SandboxCommand{Argv: []string{"sleep", "1000"}, TimeoutMs: 200}); !fault.Is(err, fault.Timeout) {
			t.Errorf("too long: %v", err)
		}
		if _, err := s.m.RunInSandbox(s.ctx, s.ws, executors.SandboxCommand{Argv: []string{"true"}, Stdin: []byte("unread")}); err != nil {
			t.Errorf("unread stdin: %v", err)
		}
		p, err := s.m.Ensure(s.ctx, s.ws)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := p.Guest.Processes(s.ctx); err != nil || len(list) != 0 {
			t.Errorf("left in the guest: %+v, %v", list, err)
		}
	})
	t.Run("the sandbox describes itself", func(t *testing.T) {
		s := newShop(t, cfg)
		if _, err := s.m.Sandbox(s.ctx, s.ws); !fault.Is(err, fault.NotFound) {
			t.Errorf("before there is one: %v", err)
		}
		s.exec(t, command.Request{Command: "true"})
		info, err := s.m.Sandbox(s.ctx, s.ws)
		if err != nil || info.State != executors.Running || info.Usage == nil || info.Isolation == "" ||
			time.Since(time.UnixMilli(info.LastHealthAt)) > time.Hour {
			t.Errorf("info %+v, %v", info, err)
		}
	})
}
