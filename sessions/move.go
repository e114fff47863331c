package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// mover is an optional ability of Workspaces: it says why nothing may start in a workspace that is being moved.
type mover interface {
	Moving(ctx context.Context, workspaceID string) error
}

// homeOf identifies the home that agents have with an executor: between two executors with the same home, nothing needs to be
// copied.
func homeOf(c executors.Capabilities) string {
	switch {
	case c.SharedHome:
		return "own " + string(c.Kind)
	case c.Isolated || c.OwnDisk:
		return "box"
	}
	return "here"
}

// MovePlan says for each running session of a workspace what happens to it when the workspace moves from one executor to another.
func (s *Service) MovePlan(ctx context.Context, workspaceID string, from, to executors.Capabilities) ([]workspaces.MovedSession, error) {
	rows, err := s.cfg.Store.Sessions(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	var out []workspaces.MovedSession
	for _, row := range slices.Backward(rows) {
		if row.State.Ended() {
			continue
		}
		row = s.fresh(row)
		m := workspaces.MovedSession{ID: row.ID, Agent: row.Agent, Name: s.cfg.Agents.Name(row.Agent), Title: row.Title, Busy: row.State == state.Working}
		switch {
		case !s.cfg.Agents.Continues(row.Agent):
			m.How, m.Busy = workspaces.MoveEnds, false
		case homeOf(from) == homeOf(to), s.cfg.Agents.Hosted(row.Agent), s.cfg.Agents.Carries(row.Agent) && !from.SharedHome && len(s.cfg.Key) > 0:
			m.How = workspaces.MoveResumes
		default:
			m.How = workspaces.MoveRestarts
		}
		s.movesTo(&m, to)
		out = append(out, m)
	}
	return out, nil
}

// movesTo reports whether a session's agent can continue with an executor: it may lack the agent's program.
func (s *Service) movesTo(m *workspaces.MovedSession, to executors.Capabilities) {
	if m.How == workspaces.MoveEnds {
		return
	}
	var in *agents.Inside
	if to.Isolated || to.OwnDisk || !to.Host {
		in = &agents.Inside{Host: to.Host, Machine: to.Kind.Base() == executors.Runner && to.Boundary != executors.ContainerBoundary}
	}
	program, why, known := s.cfg.Agents.Lacks(m.Agent, in, to.Programs)
	name, where := s.cfg.Agents.Name(m.Agent), cmp.Or(to.Name, string(to.Kind))
	m.Program = program
	if why == "" {
		why = fmt.Sprintf("%s is not installed there.", name)
		if install := s.cfg.Agents.Install(m.Agent); install != "" {
			why = fmt.Sprintf("%s is not installed there: install it with: %s.", name, install)
		}
	} else {
		m.How, m.Busy = workspaces.MoveWaits, false
	}
	m.Lacking = fmt.Sprintf("%s lacks the agent. %s The conversation is copied, and can be resumed there once the agent is installed.", where, why)
	switch {
	case m.How == workspaces.MoveWaits:
		m.Reason = m.Lacking
	case !known:
		m.Reason = fmt.Sprintf("Whether %s has %s is checked when the new sandbox is tried, before anything is stopped.", where, name)
	}
}

// Halt ends a session so that it can continue elsewhere, and waits until it has ended.
func (s *Service) Halt(ctx context.Context, id, reason string) error {
	_, err := s.stop(ctx, id, reason, 0)
	return err
}

// GoOn resumes a halted session, as the person who started it, and tells an agent that was working to continue. It returns the
// new session's ID, also when an earlier, interrupted try created it; for a session that has not ended it returns its own.
func (s *Service) GoOn(ctx context.Context, m workspaces.MovedSession, words string) (string, error) {
	old, err := s.Get(ctx, m.ID)
	if err != nil {
		return "", err
	}
	if !old.State.Ended() {
		return old.ID, nil
	}
	actor, err := s.cfg.Accounts.Actor(ctx, old.CreatedBy)
	if err != nil {
		return "", err
	}
	next, found, err := s.follower(ctx, old)
	if err != nil {
		return "", err
	}
	if !found {
		if next, err = s.Resume(ctx, actor, old.ID); err != nil {
			return "", err
		}
		if next.State.Ended() {
			return next.ID, fault.New(fault.Unavailable, "session_failed", "%s could not be started again: %s.", s.cfg.Agents.Name(old.Agent), next.StateReason)
		}
	}
	if m.Busy && words != "" {
		_, err := s.Queue.AddPrompt(ctx, actor, next.ID, prompt.Request{ID: "prm_" + old.ID, Text: words})
		if err != nil && !fault.Is(err, fault.Conflict) {
			s.cfg.Log.Warn("an agent could not be asked to continue", "session_id", next.ID, "error", err)
		}
	}
	return next.ID, nil
}

// follower finds a running session that continues an ended one.
func (s *Service) follower(ctx context.Context, old Session) (Session, bool, error) {
	rows, err := s.cfg.Store.Sessions(ctx, old.WorkspaceID)
	if err != nil {
		return Session{}, false, err
	}
	i := slices.IndexFunc(rows, func(r Session) bool {
		return r.ID != old.ID && r.Agent == old.Agent && r.CreatedBy == old.CreatedBy && !r.State.Ended() && r.StartedAt >= old.EndedAt && r.Conversation == old.Conversation
	})
	if i < 0 {
		return Session{}, false, nil
	}
	return rows[i], true, nil
}

// Halted waits until a session has ended that the server was stopping when it died; it leaves alone one that nobody stops.
func (s *Service) Halted(ctx context.Context, id string) error {
	row, err := s.cfg.Store.Session(ctx, id)
	if err != nil || row.State.Ended() {
		return err
	}
	l, err := s.acquire(ctx, id)
	if err != nil {
		return err
	}
	l.mu.Lock()
	stopped := l.stopper
	l.mu.Unlock()
	s.release(l)
	if stopped == "" {
		return nil
	}
	_, err = s.stop(ctx, id, stopped, 0)
	return errors.Join(err, ctx.Err())
}

// ForWorkspaces is a Service in the form workspaces use it. They discover some optional abilities of sessions by its methods.
type ForWorkspaces struct {
	*Service
	*masks.Masks
	*history.Recordings
}

var (
	_ workspaces.Sessions = ForWorkspaces{}
	_ workspaces.Movers   = ForWorkspaces{}
	_ reclaim.Forgetter   = ForWorkspaces{}
	_ interface {
		Working(ctx context.Context, workspaceID string) (bool, error)
	} = ForWorkspaces{}
)

// ForWorkspaces returns the form in which workspaces use s.
func (s *Service) ForWorkspaces() ForWorkspaces { return ForWorkspaces{s, s.Masks, s.Recordings} }
