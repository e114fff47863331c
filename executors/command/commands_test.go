package command_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

func (h *harness) commands(cfg command.Config) *command.Commands {
	cfg.Places, cfg.Store = h.m, h.store
	return command.New(cfg)
}

// run runs c until the returned func is called.
func (h *harness) run(c *command.Commands) (stop func()) {
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("Run: %v", err)
		}
	}
}

func (h *harness) insert(c command.Command) {
	h.t.Helper()
	c.TeamID, c.WorkspaceID, c.ActorID, c.Argv = h.team, h.ws, "usr_1", []string{"true"}
	if err := h.store.InsertCommand(h.ctx, c); err != nil {
		h.t.Fatal(err)
	}
}

// until asks for a command until it satisfies ok.
func (h *harness) until(c *command.Commands, id string, ok func(command.Command, error) bool) command.Command {
	h.t.Helper()
	for {
		got, err := c.Command(h.ctx, id)
		if ok(got, err) {
			return got
		}
		select {
		case <-time.After(5 * time.Millisecond): // only the record shows its change
		case <-h.ctx.Done():
			h.t.Fatalf("command %s stays %+v, %v", id, got, err)
		}
	}
}

func isEnded(c command.Command, err error) bool { return err == nil && c.State.Ended() }

func TestSweepDropsOldRecords(t *testing.T) {
	h := newHarness(t)
	now := time.Now()
	for id, age := range map[string]time.Duration{"cmd_old": 49 * time.Hour, "cmd_young": 47 * time.Hour} {
		h.insert(command.Command{ID: id, State: command.Completed, CreatedAt: 1, EndedAt: now.Add(-age).UnixMilli()})
	}
	c := h.commands(command.Config{Keep: 48 * time.Hour, Now: func() time.Time { return now }})
	defer h.run(c)()
	h.until(c, "cmd_old", func(_ command.Command, err error) bool { return fault.Is(err, fault.NotFound) })
	if _, err := c.Command(h.ctx, "cmd_young"); err != nil {
		t.Errorf("a record that is to be kept: %v", err)
	}
}

func TestOpenCommandsOfADeadServerAreClosedHonestly(t *testing.T) {
	h := newHarness(t)
	h.insert(command.Command{ID: "cmd_pending", State: command.Pending, CreatedAt: 1})
	h.insert(command.Command{ID: "cmd_gone", SandboxID: "sbx_gone", State: command.Executing, Background: true, CreatedAt: 1, StartedAt: 1})
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	c := h.commands(command.Config{})
	if err := c.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	defer h.run(c)()
	for id, want := range map[string]string{"cmd_pending": "before this command was started", "cmd_gone": "no longer exists"} {
		got := h.until(c, id, isEnded)
		if got.State != command.Failed || !strings.Contains(got.Reason, want) || got.EndedAt == 0 || got.ExitCode != nil {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

func TestBackgroundCommandWaitsForAnUnreachableSandbox(t *testing.T) {
	h := newHarness(t)
	first := h.commands(command.Config{})
	stop := h.run(first)
	cmd, err := first.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "while ! [ -e go ]; do sleep 0.05; done; exit 6", Background: true})
	if err != nil || cmd.State != command.Executing {
		t.Fatalf("Exec: %+v, %v", cmd, err)
	}
	stop()

	h.restart()
	h.ex.Set(fake.Knobs{RecoverErr: errors.New("no line now")})
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	sweeps := make(chan time.Time)
	second := h.commands(command.Config{After: func(time.Duration) <-chan time.Time { return sweeps }})
	if err := second.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	defer h.run(second)()
	if got, err := second.Command(h.ctx, cmd.ID); err != nil || got.State != command.Executing {
		t.Fatalf("while its sandbox cannot be reached: %+v, %v", got, err)
	}
	h.ex.Set(fake.Knobs{})
	h.m.CheckHealth(h.ctx)
	sweeps <- time.Time{}
	p := h.ensure()
	if _, err := p.Run(h.ctx, executors.SandboxCommand{Argv: []string{"touch", "go"}}); err != nil {
		t.Fatal(err)
	}
	got := h.until(second, cmd.ID, isEnded)
	if got.State != command.Completed || got.ExitCode == nil || *got.ExitCode != 6 {
		t.Errorf("command %+v", got)
	}
}

func TestCommandsOfAPlaceThatCannotBeMade(t *testing.T) {
	h := newHarness(t)
	h.ex.Set(fake.Knobs{Unavailable: "the kernel forbids it"})
	c := h.commands(command.Config{})
	defer h.run(c)()
	got, err := c.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "true"})
	if err != nil || got.State != command.Failed || !strings.Contains(got.Reason, "the kernel forbids it") || got.StartedAt != 0 {
		t.Errorf("command %+v, %v", got, err)
	}
}

// Root inside is for places that isolate: elsewhere it would be root of the machine.
func TestCommandsAsRoot(t *testing.T) {
	h := newHarness(t)
	c := h.commands(command.Config{Timeout: 7 * time.Second})
	defer h.run(c)()
	req := command.Request{WorkspaceID: h.ws, Argv: []string{"sh", "-c", "id -u; echo \"$1\"", "x", "a b"}, Sudo: true}
	if _, err := c.Exec(h.ctx, req); fault.CodeOf(err) != "sudo_not_isolated" {
		t.Errorf("in a place that does not isolate: %v", err)
	}
	h.ex.Set(fake.Knobs{Isolated: true})
	h.at(h.ex.Kind()) // what a place can do is asked anew
	c = h.commands(command.Config{})
	defer h.run(c)()
	got, err := c.Exec(h.ctx, req)
	if err != nil || got.ExitCode == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	// Whether this machine has sudo for this user is its own business; what is refused says so.
	if os.Getuid() == 0 && string(got.Stdout) != "0\na b\n" || *got.ExitCode != 0 && !strings.Contains(string(got.Stderr), "sudo") {
		t.Errorf("%+v: %s %s", got, got.Stdout, got.Stderr)
	}
	if !slices.Equal(got.Argv, req.Argv) {
		t.Errorf("the record says %q", got.Argv)
	}
}

func TestCancelWhileItsPlaceIsMade(t *testing.T) {
	h := newHarness(t)
	ctx, cancel := context.WithCancel(h.ctx)
	made := make(chan struct{})
	h.ex.Set(fake.Knobs{Creating: func(context.Context) { cancel(); <-made }})
	c := h.commands(command.Config{})
	defer h.run(c)()
	got, err := c.Exec(ctx, command.Request{WorkspaceID: h.ws, Command: "true"})
	if !errors.Is(err, context.Canceled) || got.State != command.Cancelled {
		t.Errorf("command %+v, %v", got, err)
	}
	if kept, err := c.Command(h.ctx, got.ID); err != nil || kept.State != command.Cancelled {
		t.Errorf("stored %+v, %v", kept, err)
	}
	close(made)
	h.ensure()
}
