package desktop

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/tools/control"
)

// Program is what Start starts on a desktop: a page in Chromium or a program, or nothing.
type Program struct {
	URL  string
	Argv []string
}

// request returns what the guest is asked for.
func (p Program) request() (guest.DesktopRequest, error) {
	req := guest.DesktopRequest{Run: p.Argv}
	if p.URL != "" && len(p.Argv) > 0 {
		return req, fault.New(fault.Invalid, "invalid_field", "Give either url or argv.").With("field", "argv")
	}
	if len(p.Argv) > 0 && p.Argv[0] == "" {
		return req, fault.New(fault.Invalid, "invalid_field", "argv begins with the name of a program.").With("field", "argv")
	}
	if p.URL != "" {
		u, err := url.Parse(p.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return req, fault.New(fault.Invalid, "invalid_url", "The address must begin with http:// or https://.").With("field", "url")
		}
		req.URL = u.String()
	}
	return req, nil
}

// Start starts the workspace's desktop, and its sandbox, where it does not run, and a program on it. The program is refused while another
// person than userID has control; agents have no userID.
func (s *Service) Start(ctx context.Context, teamID, workspaceID, userID string, p Program) (State, error) {
	req, err := p.request()
	if err != nil {
		return State{}, err
	}
	if err := s.check(ctx, teamID, workspaceID); err != nil {
		return State{}, err
	}
	if userID == "" || req.URL != "" || len(req.Run) > 0 {
		if err := s.mayUse(workspaceID, userID); err != nil {
			return State{}, err
		}
	}
	place, err := s.open(ctx, teamID, workspaceID, true)
	if err != nil {
		return State{}, err
	}
	defer place.Use()()
	a, err := s.ask(ctx, place, req, false)
	return running(a), err
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
	p, err := place.Guest.Start(ctx, guest.ProcessSpec{ID: id.New(processPrefix), Argv: argv, MaxLog: probeLog, Helper: true})
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

// Close ends the workspace's desktop, and control of it. It reports whether there was one, and is refused while another person than userID has
// control; agents have no userID.
func (s *Service) Close(ctx context.Context, teamID, workspaceID, userID string) (bool, error) {
	if err := s.check(ctx, teamID, workspaceID); err != nil {
		return false, err
	}
	if err := s.mayUse(workspaceID, userID); err != nil {
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
	if _, err = place.Guest.Stop(ctx, process, 3*time.Second); err != nil {
		return false, err
	}
	if lock := s.known(workspaceID); lock != nil && userID != "" {
		_ = lock.Give(userID, control.Gave) // refused unless it is theirs
	}
	return true, nil
}
