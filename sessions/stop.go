package sessions

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/masks"
)

// DefaultGrace is how long a session's processes have between TERM and KILL.
const DefaultGrace = 5 * time.Second

// stopping is a running session's ExitSignal once somebody requested its end; it is never shown.
const stopping = "stopping"

// endWait is how long to wait, after the processes have ended, for their last output.
const endWait = 15 * time.Second

// Stop ends a session: TERM to every descendant, grace (0 = DefaultGrace), KILL. It returns the ended session; one that had
// already ended is returned unchanged. Errors: not_found, session_unreachable.
func (s *Service) Stop(ctx context.Context, actor accounts.Actor, id string, grace time.Duration) (Session, error) {
	return s.stop(ctx, id, "stopped by "+cmp.Or(safetext.Cut(safetext.Line(actor.User.Name), 80), "a member"), grace)
}

// End is Stop for a reason of the server's own, such as "stopped: the team is suspended".
func (s *Service) End(ctx context.Context, id, reason string) (Session, error) {
	return s.stop(ctx, id, reason, 0)
}

func (s *Service) stop(ctx context.Context, id, reason string, grace time.Duration) (Session, error) {
	if grace <= 0 {
		grace = DefaultGrace
	}
	l, err := s.acquire(ctx, id)
	if st := s.stranded.of(id); st != nil && err != nil {
		if err = st.end(reason); err == nil {
			l, err = s.acquire(ctx, id)
		}
	}
	if err != nil {
		return Session{}, err
	}
	defer s.release(l)
	row, g, undo := l.intendStop(reason)
	if row.State.Ended() {
		return s.hydrate(row), nil
	}
	err = nil
	if g == nil {
		err = notRunning(row)
	} else if err = s.wakeWorkspace(ctx, row.WorkspaceID); err == nil { // suspended processes cannot end
		err = s.cfg.Store.UpdateSession(ctx, row)
	}
	if err != nil {
		undo()
		return Session{}, err
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace+endWait)
	defer cancel()
	failpoint.Reach(failpoint.SessionStopping)
	if _, err := g.Stop(wait, l.id, grace); err != nil && !fault.Is(err, fault.NotFound) && !errors.Is(err, executors.ErrGone) {
		if reason := l.gone(err); reason == "" {
			return Session{}, fault.Wrap(err, fault.Unavailable, "session_unreachable", "The session could not be stopped: its sandbox does not answer. Try again.")
		}
	}
	select {
	case <-l.done:
	case <-wait.Done():
		return Session{}, fault.New(fault.Timeout, "session_not_stopped", "The session did not end in time. Try again.")
	}
	return s.hydrate(l.snapshot()), nil
}

// intendStop records in memory that a session is to end, and returns the row that says so, to be stored in case the server dies
// before the end. undo reverts it where the row cannot be stored, as on a full disk: a session that continues must not be marked
// as stopped.
func (l *live) intendStop(reason string) (row Session, g *client.Client, undo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.row.State.Ended() {
		return l.row, nil, func() {}
	}
	stopper, was, signal := l.stopper, l.row.StateReason, l.row.ExitSignal
	l.stopper = cmp.Or(l.stopper, reason)
	l.row.StateReason, l.row.ExitSignal = l.stopper, stopping
	l.bump()
	return l.row, l.guest, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.row.State.Ended() {
			l.stopper, l.row.StateReason, l.row.ExitSignal = stopper, was, signal
			l.bump()
		}
	}
}

// StopAll stops every session of the workspace and waits until all have ended. It first stores for all at once that they are to
// end: when that fails, it stops none.
func (s *Service) StopAll(ctx context.Context, workspaceID string) error {
	const reason = "stopped with its workspace"
	rows, err := s.cfg.Store.Sessions(ctx, workspaceID)
	if err != nil {
		return err
	}
	var ending []Session
	undone := func() {}
	for _, row := range rows {
		if row.State.Ended() {
			continue
		}
		l, err := s.acquire(ctx, row.ID)
		if err != nil && s.stranded.of(row.ID) != nil { // it is reconnected below in order to stop it
			row.StateReason, row.ExitSignal = reason, stopping
			ending = append(ending, row)
			continue
		}
		if err != nil {
			undone()
			return err
		}
		row, _, undo := l.intendStop(reason)
		s.release(l)
		if !row.State.Ended() {
			ending = append(ending, row)
		}
		before := undone
		undone = func() { undo(); before() }
	}
	if err := s.cfg.Store.UpdateSessions(ctx, ending); err != nil {
		undone()
		return err
	}
	fails := make(chan error, len(ending))
	for _, row := range ending {
		go func() {
			_, err := s.stop(ctx, row.ID, reason, 0)
			fails <- err
		}()
	}
	var all error
	for range ending {
		all = errors.Join(all, <-fails)
	}
	return all
}

// Running counts the sessions of a workspace that have not ended.
func (s *Service) Running(ctx context.Context, workspaceID string) (int, error) {
	rows, err := s.cfg.Store.Sessions(ctx, workspaceID)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, row := range rows {
		if !row.State.Ended() {
			n++
		}
	}
	return n, nil
}

// WaitEnd waits until the session has ended and returns its exit code (-1 when it has none, such as after a signal) and the
// reason as text.
func (s *Service) WaitEnd(ctx context.Context, id string) (exitCode int, reason string, err error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return 0, "", err
	}
	defer s.release(l)
	select {
	case <-l.done:
	case <-ctx.Done():
		return 0, "", ctx.Err()
	case <-s.hard.Done():
		return 0, "", ErrRestarting
	}
	row := l.snapshot()
	if row.ExitCode == nil {
		return -1, row.StateReason, nil
	}
	return *row.ExitCode, row.StateReason, nil
}

// Resume continues an ended session in a new one: with the agent's own conversation where it is known and still exists, otherwise
// the agent starts anew. Errors: not_found, session_running, and those of Start.
func (s *Service) Resume(ctx context.Context, actor accounts.Actor, id string) (Session, error) {
	old, err := s.Get(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if !old.State.Ended() {
		return Session{}, fault.New(fault.Conflict, "session_running", "The session is still running: type into it, or stop it first.")
	}
	if !old.CanResume {
		return Session{}, fault.New(fault.Conflict, "session_not_resumable", "A setup script cannot be resumed. Create the workspace again to run it again.")
	}
	next, err := s.start(ctx, actor, old.WorkspaceID, like(s, old), &old)
	if err == nil && !next.State.Ended() {
		s.Queue.Inherit(context.WithoutCancel(ctx), promptedAbout(old), promptedAbout(next))
	}
	return next, err
}

// like returns the request for a session as another was started.
func like(s *Service, of Session) StartRequest {
	kept, err := s.launches.Recall(of.ID)
	if err != nil {
		s.cfg.Log.Warn("launch of a session could not be read", "session_id", of.ID, "error", err)
	}
	return StartRequest{Agent: of.Agent, Argv: argsOf(kept, of), Cols: of.Cols, Rows: of.Rows, Env: kept.Env, AccountID: of.AccountID, Permissions: of.Permissions, ConfirmNoBoundary: kept.NoWall}
}

// argsOf returns the arguments of the old session's request. For a plain command they are its whole command line.
func argsOf(k masks.Launch, old Session) []string {
	if len(k.Args) == 0 && old.Agent == commandAgent {
		return old.Argv
	}
	return k.Args
}
