// Package desktop gives a workspace one desktop: a screen in its sandbox with windows and a mouse, which agents use by
// tools. The program in the sandbox is guest/desktop; the Service speaks RFB with its VNC server through the guest. Nothing starts until
// somebody asks, and the desktop goes on while the server restarts: every call finds it again by the processes of the sandbox.
//
// What the sandbox says is untrusted: rfb bounds it. No goroutine is started.
package desktop

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/workspaces"
)

// Bounds of a desktop.
const (
	DefaultMemory = 2 << 30
	DefaultIdle   = 15 * time.Minute

	startTimeout = 40 * time.Second
	callTimeout  = 20 * time.Second
	lookEvery    = 100 * time.Millisecond // while a desktop starts
	processLog   = 64 << 10
)

// processPrefix begins the ids of desktops' processes, by which they are found again.
const processPrefix = "dsk"

// Sandboxes finds and makes sandboxes.
type Sandboxes interface {
	// Ensure returns the workspace's live sandbox, and wakes or makes it when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	// Live returns the workspace's live sandbox, which may be suspended, without making one.
	Live(workspaceID string) (*executors.Place, bool)
	// Place returns what a kind of executor can do now.
	Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Picture is a screenshot to be saved as an artifact.
type Picture struct {
	TeamID, WorkspaceID, SessionID, UserID string
	Name, MIME                             string
	Data                                   []byte
}

// Config is what a Service is made of. Sandboxes and Workspaces are required.
type Config struct {
	Sandboxes  Sandboxes
	Workspaces Workspaces
	Save       func(ctx context.Context, p Picture) (artifactID string, err error) // nil: screenshots cannot be saved

	Memory    int64         // bytes that the programs of a desktop may use; 0 = DefaultMemory
	Idle      time.Duration // a desktop that nobody uses for this long ends; 0 = DefaultIdle
	AllowBare bool          // also in places that do not isolate, Chromium may run without a sandbox of its own
	Log       *slog.Logger
}

// Service has the desktops. Safe for concurrent use.
type Service struct {
	cfg    Config
	starts locks.Keyed // by workspace: one start at a time
	turns  locks.Keyed // by workspace: one action at a time
}

// New returns a Service.
func New(cfg Config) *Service {
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory)
	cfg.Idle = cmp.Or(cfg.Idle, DefaultIdle)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg}
}

var errNotRunning = fault.New(fault.Conflict, "desktop_not_running", "No desktop runs in this workspace. Start it first: desktop_open.")

// check refuses a workspace of another team.
func (s *Service) check(ctx context.Context, teamID, workspaceID string) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	if w.TeamID != teamID {
		return fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return nil
}

// clean makes a text of the sandbox safe to show.
func clean(text string, n int) string { return safetext.Cut(safetext.Line(text), n) }

// process finds the process of the desktop that runs in a sandbox; "" when there is none.
func (s *Service) process(ctx context.Context, place *executors.Place) (string, error) {
	list, err := place.Guest.Processes(ctx)
	if err != nil {
		return "", err
	}
	found := ""
	for _, p := range list {
		switch {
		case !strings.HasPrefix(p.ID, processPrefix+"_"):
		case p.State == guest.Running:
			found = p.ID
		default:
			_ = place.Guest.Remove(ctx, p.ID) // an earlier one; the guest forgets it at some time anyway
		}
	}
	return found, nil
}

// display is what DISPLAY may be.
var display = regexp.MustCompile(`^:\d{1,5}$`)

// ask has the desktop do something.
func (s *Service) ask(ctx context.Context, place *executors.Place, req guest.DesktopRequest) (a guest.DesktopAnswer, err error) {
	conn, err := place.Guest.DialDesktop(ctx, place.WorkspaceID, guest.DesktopControl)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	raw, err := json.Marshal(req)
	if err != nil {
		return a, fmt.Errorf("encoding a request: %w", err)
	}
	if _, err := conn.Write(append(raw, '\n')); err != nil {
		return a, failed(ctx, err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, guest.MaxDesktopAnswer)).ReadBytes('\n')
	if err != nil {
		return a, failed(ctx, err)
	}
	if err := json.Unmarshal(line, &a); err != nil || !display.MatchString(a.Display) {
		return guest.DesktopAnswer{}, failed(ctx, fmt.Errorf("a wrong answer: %.200q", line))
	}
	a.XAuthority = clean(a.XAuthority, 200)
	if a.Error != "" {
		return a, fault.New(fault.Invalid, "desktop_program_failed", "The program could not be started: %s.", strings.TrimSuffix(clean(a.Error, 500), "."))
	}
	return a, nil
}

// failed describes why a desktop did not answer.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.Wrap(err, fault.Unavailable, "desktop_failed", "The desktop does not answer as it should. Try again, or close it with desktop_close.")
}

// open returns the place in which the workspace's desktop runs. With start it starts it there.
func (s *Service) open(ctx context.Context, teamID, workspaceID string, start bool) (*executors.Place, error) {
	if err := s.check(ctx, teamID, workspaceID); err != nil {
		return nil, err
	}
	place, live := s.cfg.Sandboxes.Live(workspaceID)
	if start || live && place.Asleep() {
		var err error
		if place, err = s.cfg.Sandboxes.Ensure(ctx, workspaceID); err != nil {
			return nil, err
		}
	} else if !live {
		return nil, errNotRunning
	}
	unlock, err := s.starts.LockContext(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fault.New(fault.Timeout, "desktop_failed", "The desktop did not start within %s.", startTimeout))
	defer cancel()
	process, err := s.process(ctx, place)
	if err != nil {
		return nil, err
	}
	if process == "" {
		if !start {
			return nil, errNotRunning
		}
		if process, err = s.launch(ctx, place); err != nil {
			return nil, err
		}
	}
	return place, s.ready(ctx, place, process)
}

// launch starts the desktop's program.
func (s *Service) launch(ctx context.Context, place *executors.Place) (process string, err error) {
	argv := []string{guest.Self, "desktop", "--id", place.WorkspaceID, "--memory", strconv.FormatInt(s.cfg.Memory, 10), "--idle", s.cfg.Idle.String()}
	if caps, ok := s.cfg.Sandboxes.Place(ctx, place.Kind); s.cfg.AllowBare || ok && caps.Isolated {
		argv = append(argv, "--no-sandbox")
	}
	p, err := place.Guest.Start(ctx, guest.ProcessSpec{ID: id.New(processPrefix), Argv: argv, MaxLog: processLog, Helper: true})
	return p.ID, err
}

// ready waits until the desktop of a process can be used.
func (s *Service) ready(ctx context.Context, place *executors.Place, process string) error {
	for {
		conn, err := place.Guest.DialDesktop(ctx, place.WorkspaceID, guest.DesktopControl)
		if err == nil {
			return conn.Close()
		}
		if fault.CodeOf(err) != "desktop_not_running" {
			return err
		}
		p, err := place.Guest.Process(ctx, process)
		if err != nil {
			return err
		}
		if p.State != guest.Running {
			return s.startError(ctx, place, p)
		}
		if !tasks.Sleep(ctx, lookEvery) {
			return context.Cause(ctx)
		}
	}
}

// startError explains why a desktop ended while it was started.
func (s *Service) startError(ctx context.Context, place *executors.Place, p guest.Process) error {
	why := p.Reason
	if out, err := place.Guest.Output(ctx, p.ID, guest.Stdout, 0); err == nil {
		said, _ := io.ReadAll(io.LimitReader(out, 4<<10))
		_ = out.Close()
		why = cmp.Or(clean(strings.TrimSpace(string(said)), 1000), why)
	}
	if strings.Contains(why, "are missing here") {
		return fault.New(fault.Unsupported, "desktop_missing", "This sandbox cannot have a desktop: %s.", strings.TrimSuffix(why, "."))
	}
	return fault.New(fault.Unavailable, "desktop_failed", "The desktop could not be started: %s.", strings.TrimSuffix(why, "."))
}

// Close ends the workspace's desktop. It reports whether there was one.
func (s *Service) Close(ctx context.Context, teamID, workspaceID string) (bool, error) {
	if err := s.check(ctx, teamID, workspaceID); err != nil {
		return false, err
	}
	place, live := s.cfg.Sandboxes.Live(workspaceID)
	if !live || place.Asleep() {
		return false, nil // it ends with the sandbox, or by itself once that is awake
	}
	unlock, err := s.starts.LockContext(ctx, workspaceID)
	if err != nil {
		return false, err
	}
	defer unlock()
	process, err := s.process(ctx, place)
	if err != nil || process == "" {
		return false, err
	}
	_, err = place.Guest.Stop(ctx, process, 3*time.Second)
	return true, err
}

// vnc connects to the VNC server of a running desktop.
func (s *Service) vnc(ctx context.Context, place *executors.Place) (net.Conn, error) {
	return place.Guest.DialDesktop(ctx, place.WorkspaceID, guest.DesktopVNC)
}
