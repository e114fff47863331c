package sessions

import (
	"cmp"
	"context"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// pausedLook is how often a session whose workspace is suspended checks whether it is resumed.
const pausedLook = 2 * time.Second

// paused reports why the session's workspace is suspended, and whether it is.
func (l *live) paused() (string, bool) { return l.svc.cfg.Places.Paused(l.workspaceID) }

// asleep reports whether the session's workspace is suspended until somebody needs it.
func (l *live) asleep() bool { return l.svc.cfg.Places.WakesItself(l.workspaceID) }

// awake returns an error where a running program is needed and its workspace is suspended. It wakes a workspace that sleeps.
func (l *live) awake(ctx context.Context) error {
	why, paused := l.paused()
	if !paused {
		return nil
	}
	if l.asleep() {
		return l.svc.cfg.Places.Wake(ctx, l.workspaceID)
	}
	if err := l.svc.cfg.Places.Away(ctx, l.workspaceID); err != nil {
		return err
	}
	return fault.New(fault.Conflict, "workspace_paused", "%s Wake the workspace to continue.", cmp.Or(why, "It is paused.")).With("reason", why)
}

// wakeWorkspace wakes the workspace, for work that must be done in it although it is suspended.
func (s *Service) wakeWorkspace(ctx context.Context, workspaceID string) error {
	if _, paused := s.cfg.Places.Paused(workspaceID); !paused {
		return nil
	}
	return s.cfg.Places.Wake(ctx, workspaceID)
}

// stir wakes a sleeping workspace for queued prompts, one attempt at a time. The caller holds mu.
func (l *live) stir() {
	if l.stirring {
		return
	}
	l.stirring = l.svc.run(func() {
		if err := l.svc.cfg.Places.Wake(l.svc.hard, l.workspaceID); err != nil && l.svc.hard.Err() == nil {
			l.svc.cfg.Log.Warn("workspace could not be woken for a queued prompt", "session_id", l.id, "error", err)
		}
		l.mu.Lock()
		l.stirring = false
		l.mu.Unlock()
	})
}

// sleepsOn waits while the session's workspace is suspended, and notifies viewers when that begins and ends. slept is false where
// it was not suspended, or ctx ended first.
func (l *live) sleepsOn(ctx context.Context) (slept bool) {
	p, ok := l.svc.cfg.Places.Live(l.workspaceID)
	if !ok || !p.Asleep() {
		return false
	}
	l.turned()
	select {
	case <-p.Awake():
	case <-p.Done():
	case <-ctx.Done():
		return false
	}
	l.mu.Lock()
	if z := &l.size; z.want.Cols > 0 && (z.want.Cols != l.row.Cols || z.want.Rows != l.row.Rows) {
		l.resize(z.want) // somebody resized it meanwhile
	}
	l.mu.Unlock()
	l.turned()
	return true
}

// turned notifies viewers that the workspace fell asleep or woke.
func (l *live) turned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judge()
	l.bump()
}

// isSuspended reports whether the session's state must not be evaluated now: silence says nothing about a suspended program. The
// caller holds mu.
func (l *live) isSuspended() bool {
	_, still := l.paused()
	if still {
		if l.recheck.timer != nil {
			l.recheck.timer.Stop()
		}
		l.recheck.at = time.Now().Add(pausedLook)
		l.recheck.timer = l.svc.after(pausedLook, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.recheck.timer = nil
			l.judge()
		})
	} else if l.recheck.still {
		l.machine.Resumed(time.Now())
	}
	l.recheck.still = still
	return still
}

// killedCode is the exit code of a process killed by SIGKILL, by the kernel or an unknown process.
const killedCode = 128 + 9

// autopsy explains, better than the guest can, why a process ended that nobody stopped: the host knows what the kernel did.
func (l *live) autopsy(e ending) ending {
	l.mu.Lock()
	sandboxID := l.row.SandboxID
	l.mu.Unlock()
	if words := l.svc.cfg.Places.EndOf(sandboxID); words != "" {
		e.reason = words
		return e
	}
	if e.signal != "SIGKILL" && (e.code == nil || *e.code != killedCode) {
		return e
	}
	if words := l.svc.cfg.Places.KilledBy(l.workspaceID, sandboxID); words != "" {
		e.reason = "killed: " + words
	}
	return e
}

// graceOf returns how long the work of a workspace may still continue; false when nothing ends it.
func (s *Service) graceOf(workspaceID string) (Grace, bool) {
	if s.cfg.Grace == nil {
		return Grace{}, false
	}
	return s.cfg.Grace(workspaceID)
}

// Turned notifies the viewers of a workspace's terminals that its grace began, changed or is over.
func (s *Service) Turned(workspaceID string) {
	for _, l := range s.all() {
		if l.workspaceID != workspaceID {
			continue
		}
		l.turned()
	}
}
