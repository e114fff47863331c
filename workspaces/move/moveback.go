package move

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
)

// moveBack resumes a workspace where it was.
func (s *Service) moveBack(ctx context.Context, j *moveJob, switched bool, cause error) {
	was := ctx
	ctx, stop := unlessStopped(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, moveEndTime)
	defer cancel()
	m := j.of(s)
	state := workspaces.MoveFailed
	if errors.Is(context.Cause(was), workspaces.ErrCancelled) {
		state = workspaces.MoveCancelled
	}
	stopped := switched
	for _, one := range m.Sessions {
		stopped = stopped || one.How != workspaces.MoveEnds
	}
	if !stopped {
		s.endMove(ctx, j, state, cause)
		return
	}
	name := s.placeTitle(ctx, s.records.Chooser(), executors.Kind(m.From))
	_ = s.changeMove(ctx, j, func(m *workspaces.Moving) {
		for i := range m.Sessions {
			if m.Sessions[i].State != "ended" {
				m.Sessions[i].State, m.Sessions[i].Next, m.Sessions[i].Reason = "stopped", "", ""
			}
		}
		for i := range m.Steps {
			if m.Steps[i].State == lifecycle.StepPending {
				m.Steps[i].State = lifecycle.StepSkipped
			}
		}
		m.Steps = append(m.Steps, workspaces.Step{Name: moveBack, Title: "Resume in " + name, State: lifecycle.StepPending})
	})
	err := s.moveStep(ctx, j, moveBack, func(ctx context.Context) (lifecycle.Outcome, error) {
		w, err := s.store.Workspace(ctx, m.WorkspaceID)
		if err != nil {
			return lifecycle.Outcome{}, err
		}
		if w.Executor != m.From {
			if err := s.shift(ctx, w, m.From, m.FromFolder); err != nil {
				return lifecycle.Outcome{}, err
			}
		}
		if !j.lost {
			s.awaitMachines(ctx, m.From)
		}
		return s.moveResume(ctx, j, m.From)
	})
	if errors.Is(context.Cause(ctx), workspaces.ErrShutdown) {
		s.leaveMove(j)
		return
	}
	if err != nil {
		cause = fault.Wrap(cause, fault.Unavailable, "move_back_failed", "%s It could not be resumed in %s either: %s", git.Reason(cause), name, git.Reason(err))
	}
	s.endMove(ctx, j, state, cause)
}

// endMove stores how a move ended and unlocks the workspace.
func (s *Service) endMove(ctx context.Context, j *moveJob, state string, cause error) {
	ctx = context.WithoutCancel(ctx)
	s.movings.mu.Lock()
	j.m.State, j.m.EndedAt = state, s.now()
	if cause != nil {
		j.m.Reason = git.Reason(cause)
	}
	for i := range j.m.Steps {
		if j.m.Steps[i].State == lifecycle.StepPending {
			j.m.Steps[i].State = lifecycle.StepSkipped
		}
	}
	m := j.m.Clone()
	s.movings.mu.Unlock()
	if err := s.store.UpdateMove(ctx, m); err != nil {
		s.cfg.Log.ErrorContext(ctx, "the end of a move could not be stored: the next start tries again", "workspace_id", m.WorkspaceID, "error", err)
	}
	s.movings.mu.Lock()
	delete(s.movings.jobs, m.WorkspaceID)
	s.movings.mu.Unlock()
	j.release()
	w, err := s.store.Workspace(ctx, m.WorkspaceID)
	if err != nil {
		return
	}
	c := s.records.Chooser()
	a := workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: m.ActorID, Kind: "workspace.moved", Data: map[string]any{"from": m.From, "to": m.To, "move_id": m.ID}}
	from, to := s.placeWords(ctx, c, executors.Kind(m.From)), s.placeWords(ctx, c, executors.Kind(m.To))
	switch state {
	case workspaces.MoveDone:
		a.Text = fmt.Sprintf("Moved from %s to %s. %s", from, to, strings.Join(s.changes(ctx, c, executors.Kind(m.From), executors.Kind(m.To)), " "))
	case workspaces.MoveCancelled:
		a.Kind, a.Text = "workspace.move_failed", fmt.Sprintf("The move from %s to %s was cancelled: the workspace continues in %s.", from, to, from)
	default:
		a.Kind, a.Text = "workspace.move_failed", fmt.Sprintf("The move from %s to %s failed: the workspace continues in %s. %s", from, to, from, m.Reason)
	}
	s.records.Note(ctx, a)
	s.records.PublishWorkspace(ctx, w)
}

// Recover takes up the moves an earlier server left unfinished: forward to the new executor if the row names that, else back to the old
// one.
func (s *Service) Recover(ctx context.Context) error {
	open, err := s.store.OpenMoves(ctx)
	if err != nil {
		return fmt.Errorf("listing interrupted moves: %w", err)
	}
	for _, m := range open {
		release, ok := s.locks.Busy.TryLock(m.WorkspaceID)
		if !ok {
			return fmt.Errorf("workspace %s of an interrupted move is busy", m.WorkspaceID)
		}
		j := &moveJob{m: m, release: release}
		s.movings.mu.Lock()
		s.movings.jobs[m.WorkspaceID] = j
		s.movings.mu.Unlock()
		if err := s.jobs.Add(m.ID, func(ctx context.Context) { s.takeUpMove(ctx, j) }); err != nil {
			return err
		}
	}
	return nil
}

// machineBack is how long a recovered or reverted move waits for a member's machine that is offline.
const machineBack = time.Minute

// awaitMachines waits until the machines of a move are online again, for at most machineBack.
func (s *Service) awaitMachines(ctx context.Context, kinds ...string) {
	ctx, cancel := context.WithTimeout(ctx, machineBack)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	c := s.records.Chooser()
	for _, kind := range kinds {
		if c == nil || executors.Kind(kind).Member() == "" {
			continue
		}
		for caps, ok := c.Place(ctx, executors.Kind(kind)); ok && caps.Away; caps, ok = c.Place(ctx, executors.Kind(kind)) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (s *Service) takeUpMove(ctx context.Context, j *moveJob) {
	m := j.of(s)
	ctx = executors.As(context.WithValue(ctx, movingCtx{}, true), executors.ForAgent, m.ActorID)
	s.awaitMachines(ctx, m.From, m.To)
	w, err := s.store.Workspace(ctx, m.WorkspaceID)
	if err != nil || w.DeletedAt != 0 || w.State != workspaces.Ready && w.State != workspaces.Paused {
		s.endMove(ctx, j, workspaces.MoveFailed, workspaces.ErrShutdown)
		return
	}
	if _, sessions, err := s.records.Connected(); err == nil {
		if movers, ok := sessions.(workspaces.Movers); ok {
			for _, one := range m.Sessions {
				if err := movers.Halted(ctx, one.ID); err != nil {
					s.cfg.Log.WarnContext(ctx, "a session that was being stopped did not end", "session_id", one.ID, "error", err)
				}
			}
		}
	}
	err = error(fault.New(fault.Unavailable, "move_interrupted", "The server was stopped in the middle of the move. The workspace is where it was: move it again."))
	_ = s.changeMove(ctx, j, func(m *workspaces.Moving) {
		m.Steps = withoutStep(m.Steps, moveBack)
		for i := range m.Steps {
			switch st := &m.Steps[i]; {
			case w.Executor == m.To && st.Name == moveSwitch:
				st.State = lifecycle.StepDone
			case st.State == lifecycle.StepRunning && w.Executor != m.To:
				st.State, st.Detail, st.EndedAt = lifecycle.StepFailed, "The server was stopped.", s.now()
			}
		}
	})
	if w.Executor == m.To {
		if err = s.moveIn(ctx, j); err == nil {
			s.endMove(ctx, j, workspaces.MoveDone, nil)
			return
		}
		if errors.Is(context.Cause(ctx), workspaces.ErrShutdown) {
			s.leaveMove(j)
			return
		}
	}
	s.moveBack(ctx, j, w.Executor == m.To, err)
}

func withoutStep(steps []workspaces.Step, name string) []workspaces.Step {
	var out []workspaces.Step
	for _, st := range steps {
		if st.Name != name {
			out = append(out, st)
		}
	}
	return out
}
