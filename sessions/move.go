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

// mover is an optional ability of Workspaces: it says why nothing may start in a workspace that is on its way to another place.
type mover interface {
	Moving(ctx context.Context, workspaceID string) error
}

// homeOf names the home that agents have in a place: of two places with the same one, nothing needs to be carried.
func homeOf(c executors.Capabilities) string {
	switch {
	case c.SharedHome:
		return "own " + string(c.Kind)
	case c.Isolated || c.OwnDisk:
		return "box"
	}
	return "here"
}

// MovePlan says of each session that runs in a workspace what becomes of it when the workspace goes from one place to another.
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
		case homeOf(from) == homeOf(to), s.cfg.Agents.Carries(row.Agent) && !from.SharedHome && len(s.cfg.Key) > 0:
			m.How = workspaces.MoveResumes
		default:
			m.How = workspaces.MoveRestarts
		}
		s.movesTo(&m, to)
		out = append(out, m)
	}
	return out, nil
}

// movesTo says of a session whether its agent can go on in a place: it may lack the agent's program.
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
	m.Lacking = fmt.Sprintf("%s lacks the agent. %s Its conversation comes along, and can be resumed there once it is.", where, why)
	switch {
	case m.How == workspaces.MoveWaits:
		m.Reason = m.Lacking
	case !known:
		m.Reason = fmt.Sprintf("Whether %s has %s is seen when the place is tried, before anything is stopped.", where, name)
	}
}

// Halt ends a session so that it can go on in another place, and waits until it has ended.
func (s *Service) Halt(ctx context.Context, id, reason string) error {
	_, err := s.stop(ctx, id, reason, 0)
	return err
}

// GoOn resumes a session that was halted, as the person who started it, and tells an agent that was at work to go on. It returns the new
// session's id, also when an earlier try that was cut made it; a session that has not ended is its own.
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
			s.cfg.Log.Warn("an agent was not told to go on", "session_id", next.ID, "error", err)
		}
	}
	return next.ID, nil
}

// follower finds a running session that goes on from an ended one.
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

// Halted waits until a session has ended that a server died over stopping; one that nobody stops is left alone.
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

// ForWorkspaces is a Service as workspaces know it. Some of what they ask of sessions is optional there and found by its methods.
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

// ForWorkspaces returns what workspaces are connected to.
func (s *Service) ForWorkspaces() ForWorkspaces { return ForWorkspaces{s, s.Masks, s.Recordings} }
