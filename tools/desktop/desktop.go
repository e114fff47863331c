// Package desktop gives a workspace one desktop: a screen in its sandbox with windows and a mouse, which agents use by tools and people see
// in the app. The program in the sandbox is guest/desktop; the Service speaks RFB with its VNC server through the guest. Nothing starts until
// somebody asks, and the desktop goes on while the server restarts: every call finds it again by the processes of the sandbox.
//
// Agents use the desktop unless a person has taken over: see tools/control.
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
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/workspaces"
)

// Bounds of a desktop.
const (
	DefaultMemory = 2 << 30
	DefaultIdle   = 15 * time.Minute

	startTimeout = 40 * time.Second
	callTimeout  = 20 * time.Second
	lookEvery    = 100 * time.Millisecond // while a desktop starts
	probeEvery   = 15 * time.Second       // people's tabs ask more often
	probeLog     = 64 << 10
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

	Audit     audit.Appender // nil: nothing is recorded
	Memory    int64          // bytes that the programs of a desktop may use; 0 = DefaultMemory
	Idle      time.Duration  // a desktop that nobody uses for this long ends; 0 = DefaultIdle
	AllowBare bool           // also in places that do not isolate, Chromium may run without a sandbox of its own
	Log       *slog.Logger
}

// Service has the desktops. Safe for concurrent use.
type Service struct {
	cfg    Config
	starts locks.Keyed // by workspace: one start at a time
	turns  locks.Keyed // by workspace: one action at a time

	mu       sync.Mutex
	controls map[string]*controlled // by workspace: those that somebody looks at or has taken over
	probed   map[string]probed      // by workspace
}

// probed is what a sandbox can do.
type probed struct {
	sandboxID string
	missing   string // "" = nothing
	at        time.Time
}

// maxProbed bounds how many answers are remembered.
const maxProbed = 1000

// New returns a Service.
func New(cfg Config) *Service {
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory)
	cfg.Idle = cmp.Or(cfg.Idle, DefaultIdle)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, controls: map[string]*controlled{}, probed: map[string]probed{}}
}

// Status is whether a workspace has a desktop.
type Status string

// The statuses.
const (
	Unknown Status = "unknown" // the sandbox does not run, so that nobody knows
	Missing Status = "missing" // the sandbox lacks programs
	Stopped Status = "stopped"
	Running Status = "running"
)

// State describes a workspace's desktop.
type State struct {
	Status     Status
	Reason     string // what is missing
	Width      int
	Height     int
	Display    string // of a running one: DISPLAY and XAUTHORITY of its programs
	XAuthority string
	Chromium   bool // a running one can open pages
}

var errNotRunning = fault.New(fault.Conflict, "desktop_not_running", "No desktop runs in this workspace: nobody has started one, or it has ended. Start one with desktop_open, or in the app's Desktop tab.")

var errTooMany = fault.New(fault.Conflict, "desktop_viewers_full", "%d connections show this desktop already, which is the limit. Close one first.", MaxViewers)

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

// State returns the state of a workspace's desktop, and wakes no sandbox.
func (s *Service) State(ctx context.Context, teamID, workspaceID string) (State, error) {
	if err := s.check(ctx, teamID, workspaceID); err != nil {
		return State{}, err
	}
	out := State{Status: Unknown, Width: guest.DesktopWidth, Height: guest.DesktopHeight}
	place, live := s.cfg.Sandboxes.Live(workspaceID)
	if !live || place.Asleep() {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p, err := s.process(ctx, place)
	if err != nil {
		return State{}, err
	}
	if p != "" {
		a, err := s.ask(ctx, place, guest.DesktopRequest{}, true)
		if err == nil {
			return running(a), nil
		}
		return State{Status: Stopped, Width: out.Width, Height: out.Height}, nil // it starts or ends just now
	}
	missing, err := s.probe(ctx, place)
	if err != nil {
		return State{}, err
	}
	out.Status = Stopped
	if missing != "" {
		out.Status, out.Reason = Missing, missing
	}
	return out, nil
}

func running(a guest.DesktopAnswer) State {
	return State{Status: Running, Width: guest.DesktopWidth, Height: guest.DesktopHeight, Display: a.Display, XAuthority: a.XAuthority, Chromium: a.Chromium}
}

// probe asks a sandbox what it lacks: once, or now and then while something is missing, which somebody may install.
func (s *Service) probe(ctx context.Context, place *executors.Place) (missing string, err error) {
	s.mu.Lock()
	known, ok := s.probed[place.WorkspaceID]
	s.mu.Unlock()
	if ok && known.sandboxID == place.SandboxID && (known.missing == "" || time.Since(known.at) < probeEvery) {
		return known.missing, nil
	}
	p, err := place.Guest.Start(ctx, guest.ProcessSpec{ID: id.New("prb"), Argv: []string{guest.Self, "desktop", "--probe"}, MaxLog: probeLog, SettleMs: guest.MaxSettle, Helper: true})
	if err != nil {
		return "", err
	}
	said := strings.TrimSpace(string(p.Early[guest.Stdout]))
	_ = place.Guest.Remove(ctx, p.ID) // the guest forgets it at some time anyway
	if said == "" {
		return "", fault.New(fault.Unavailable, "desktop_failed", "The sandbox did not say whether it can have a desktop. Try again in a moment.")
	}
	if said == guest.DesktopReady {
		said = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.probed) >= maxProbed {
		clear(s.probed)
	}
	s.probed[place.WorkspaceID] = probed{place.SandboxID, clean(said, 500), time.Now()}
	return clean(said, 500), nil
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

// ask has the desktop do something. A look does not count as use.
func (s *Service) ask(ctx context.Context, place *executors.Place, req guest.DesktopRequest, look bool) (a guest.DesktopAnswer, err error) {
	req.Look = look
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

// vnc connects to the VNC server of a running desktop.
func (s *Service) vnc(ctx context.Context, place *executors.Place) (net.Conn, error) {
	return place.Guest.DialDesktop(ctx, place.WorkspaceID, guest.DesktopVNC)
}
