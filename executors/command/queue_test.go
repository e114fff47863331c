package command_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

func TestACommandWaitsForAPlaceThatIsAway(t *testing.T) {
	h := newHarness(t)
	h.at(fake.Kind)
	h.ex.Set(fake.Knobs{Away: true})
	c := h.commands(command.Config{})
	defer h.run(c)()
	cmd, err := c.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "echo here", Background: true})
	if err != nil || cmd.State != command.Pending || !strings.Contains(cmd.Reason, "Fake cannot be reached") {
		t.Fatalf("command %+v, %v", cmd, err)
	}
	h.ex.Set(fake.Knobs{})
	got := h.until(c, cmd.ID, isEnded)
	if got.State != command.Completed || string(got.Stdout) != "here\n" || got.Reason != "" {
		t.Errorf("command %+v", got)
	}
}

func TestACommandThatWaitedTooLongIsNotRun(t *testing.T) {
	h := newHarness(t)
	h.at(fake.Kind)
	h.ex.Set(fake.Knobs{Away: true})
	var mu sync.Mutex
	now := time.Now()
	c := h.commands(command.Config{Queue: time.Minute, Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	defer h.run(c)()
	cmd, err := c.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "touch ran", Background: true})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	now = now.Add(2 * time.Minute)
	mu.Unlock()
	got := h.until(c, cmd.ID, isEnded)
	if got.State != command.TimedOut || !strings.Contains(got.Reason, "waited too long") || got.StartedAt != 0 {
		t.Errorf("command %+v", got)
	}
	h.ex.Set(fake.Knobs{})
	h.ensure()
	if _, err := os.Stat(filepath.Join(h.root, "ran")); err == nil {
		t.Error("it ran all the same")
	}
}

func TestCancelOfAWaitingCommand(t *testing.T) {
	h := newHarness(t)
	h.at(fake.Kind)
	h.ex.Set(fake.Knobs{Away: true})
	c := h.commands(command.Config{})
	defer h.run(c)()
	cmd, err := c.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "true", Background: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Cancel(h.ctx, cmd.ID); err != nil || got.State != command.Cancelled {
		t.Errorf("command %+v, %v", got, err)
	}
}

// deaf are pipes of which the answers can be kept from the host until they are cut.
type deaf struct {
	mu    sync.Mutex
	on    bool
	pipes []*deafPipe
}

type deafPipe struct {
	io.ReadWriteCloser
	d   *deaf
	cut chan struct{}
}

func (d *deaf) wrap(p io.ReadWriteCloser) io.ReadWriteCloser {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &deafPipe{p, d, make(chan struct{})}
	d.pipes = append(d.pipes, w)
	return w
}

func (p *deafPipe) Read(b []byte) (int, error) {
	n, err := p.ReadWriteCloser.Read(b)
	p.d.mu.Lock()
	on := p.d.on
	p.d.mu.Unlock()
	if on {
		<-p.cut
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (d *deaf) set(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
}

// cutAll cuts the pipes there are; later ones are heard again.
func (d *deaf) cutAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pipes {
		close(p.cut)
		_ = p.ReadWriteCloser.Close()
	}
	d.on, d.pipes = false, nil
}

// The answer to a start is lost, and the place with it for a while: the command was begun once, and is not begun again.
func TestACommandWhoseStartWasNotHeardRunsOnce(t *testing.T) {
	h := newHarness(t)
	h.at(fake.Kind)
	d := &deaf{}
	h.ex.Set(fake.Knobs{Wrap: d.wrap})
	c := h.commands(command.Config{})
	defer h.run(c)()
	h.ensure()
	d.set(true)
	ran := filepath.Join(h.root, "ran")
	done := make(chan command.Command, 1)
	go func() {
		cmd, err := c.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "echo once >> ran; while ! [ -e go ]; do sleep 0.02; done; exit 4", Background: true})
		if err != nil {
			t.Error(err)
		}
		done <- cmd
	}()
	for {
		if b, err := os.ReadFile(ran); err == nil && len(b) > 0 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond): // only a file shows that the command ran
		case <-h.ctx.Done():
			t.Fatal("it never began")
		}
	}
	h.ex.Set(fake.Knobs{Away: true, DialErr: errors.New("no line"), Wrap: d.wrap})
	d.cutAll()
	cmd := <-done
	if cmd.State != command.Pending || !strings.Contains(cmd.Reason, "waits") {
		t.Fatalf("while its place is away: %+v", cmd)
	}
	h.ex.Set(fake.Knobs{})
	h.until(c, cmd.ID, func(c command.Command, err error) bool { return err == nil && c.State == command.Executing })
	if err := os.WriteFile(filepath.Join(h.root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := h.until(c, cmd.ID, isEnded)
	if got.State != command.Completed || got.ExitCode == nil || *got.ExitCode != 4 {
		t.Errorf("command %+v", got)
	}
	if b, err := os.ReadFile(ran); err != nil || string(b) != "once\n" {
		t.Errorf("it ran %q, %v", b, err)
	}
}

// A command that is cancelled while its place is away is ended once that is back.
func TestCancelReachesACommandWhosePlaceWasAway(t *testing.T) {
	h := newHarness(t)
	h.at(fake.Kind)
	d := &deaf{}
	h.ex.Set(fake.Knobs{Wrap: d.wrap})
	c := h.commands(command.Config{})
	defer h.run(c)()
	cmd, err := c.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "sleep 600", Background: true, TimeoutMs: 700_000})
	if err != nil || cmd.State != command.Executing {
		t.Fatalf("command %+v, %v", cmd, err)
	}
	asked := make(chan struct{}, 100)
	h.ex.Set(fake.Knobs{Away: true, DialErr: errors.New("no line"), Probe: func(context.Context) error { asked <- struct{}{}; return nil }})
	d.cutAll()
	done := make(chan command.Command, 1)
	go func() {
		got, err := c.Cancel(h.ctx, cmd.ID)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	<-asked // it could not be ended, and it is known why
	<-asked
	h.ex.Set(fake.Knobs{})
	if got := <-done; got.State != command.Cancelled {
		t.Errorf("command %+v", got)
	}
}

// A machine that was away for a moment may be back before it is asked why nothing came of a command.
func TestACommandOutlivesACutItsMachineIsBackFrom(t *testing.T) {
	h := newHarness(t)
	kind := executors.Runner.Of("m1")
	cut := func() error { return fault.New(fault.Unavailable, "runner_connection_lost", "The connection was cut.") }
	h.ex.Set(fake.Knobs{Kind: kind, CreateErrs: []error{cut(), cut(), cut(), cut(), nil}})
	h.at(kind)
	c := h.commands(command.Config{})
	defer h.run(c)()
	cmd, err := c.Exec(h.ctx, command.Request{WorkspaceID: h.ws, Command: "echo here"})
	if err != nil || cmd.State != command.Completed || string(cmd.Stdout) != "here\n" {
		t.Errorf("command %+v, %v", cmd, err)
	}
}
