package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/killpoint"
)

// Steps of a move, in their order. The last one is there only where the move had begun to change something and went back.
const (
	moveKeep   = "keep"
	moveTry    = "try"
	moveStop   = "stop"
	moveHome   = "home"
	moveSwitch = "switch"
	moveStart  = "start"
	moveResume = "resume"
	moveBack   = "back"
)

// moveEndTime bounds what is done after a failed or cut move has to come to an end.
const moveEndTime = 10 * time.Minute

func moveSteps(to string) []Step {
	out := []Step{{Name: moveKeep, Title: "Keep a snapshot"}, {Name: moveTry, Title: "Try " + to}, {Name: moveStop, Title: "Stop the agents"},
		{Name: moveHome, Title: "Bring files and commits home"}, {Name: moveSwitch, Title: "Leave the old place"}, {Name: moveStart, Title: "Start in " + to},
		{Name: moveResume, Title: "Resume the agents"}}
	for i := range out {
		out[i].State = stepPending
	}
	return out
}

// MoveLive begins to move a workspace to another place with the agents that run in it, and returns with the move's row stored.
func (s *Service) MoveLive(ctx context.Context, actor accounts.Actor, workspaceID, to, folder string) (Workspace, error) {
	w, release, err := s.take(ctx, workspaceID)
	if err != nil {
		return Workspace{}, err
	}
	j := &moveJob{release: release}
	defer func() {
		if err != nil {
			release()
		}
	}()
	var kind executors.Kind
	if kind, folder, err = s.mayMove(ctx, actor, w, to, folder); err != nil {
		return Workspace{}, err
	}
	c := s.chooser()
	j.lost = c.Lost(ctx, w.ID)
	j.m = Moving{ID: id.New("mov"), TeamID: w.TeamID, WorkspaceID: w.ID, From: w.Executor, To: string(kind), Folder: folder, FromFolder: w.Folder, State: MoveRunning,
		Steps: moveSteps(s.placeTitle(ctx, c, kind)), ActorID: actor.User.ID, CreatedAt: s.now()}
	if err = s.store.InsertMove(ctx, j.m); err != nil {
		return Workspace{}, err
	}
	s.movings.mu.Lock()
	s.movings.jobs[w.ID] = j
	s.movings.mu.Unlock()
	killpoint.Reach(killpoint.MoveStored)
	if err = s.jobs.Add(j.m.ID, func(ctx context.Context) { s.runMove(ctx, j) }); err != nil {
		s.endMove(context.WithoutCancel(ctx), j, MoveFailed, err)
		return Workspace{}, err
	}
	s.publishWorkspace(ctx, w)
	return w, nil
}

// mayMove refuses a move that cannot be.
func (s *Service) mayMove(ctx context.Context, actor accounts.Actor, w Workspace, to, folder string) (executors.Kind, string, error) {
	c := s.chooser()
	switch {
	case w.DeletedAt != 0:
		return "", "", fault.New(fault.Conflict, "already_deleted", "%s is deleted. Restore it first.", w.Key())
	case w.State != Ready && w.State != Paused:
		return "", "", fault.New(fault.Conflict, "workspace_not_ready", "%s is %s: a workspace is moved when it is ready.", w.Key(), w.State)
	case c == nil:
		return "", "", fault.New(fault.Unsupported, "executor_fixed", "Places are not chosen on this server.")
	}
	kind, err := c.Choose(executors.As(ctx, "", actor.User.ID), w.TeamID, executors.Kind(to))
	if err != nil {
		return "", "", err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return "", "", err
	}
	if string(kind) == w.Executor {
		return "", "", fault.New(fault.Conflict, "already_there", "%s lives in %s already.", w.Key(), s.placeTitle(ctx, c, kind))
	}
	if folder, err = folderFor(p, string(kind), folder); err != nil || c.Lost(ctx, w.ID) {
		return kind, folder, err
	}
	caps, _ := c.Place(ctx, kind)
	if err := s.staysBehind(ctx, w); err != nil {
		return kind, folder, err
	}
	switch err := s.unfinished(ctx, w, caps); {
	case fault.CodeOf(err) == codeUnderWay:
		return kind, folder, err
	case err != nil: // it is asked again before it is left
		s.cfg.Log.InfoContext(ctx, "whether a merge is under way could not be seen before a move", "workspace_id", w.ID, "error", err)
	}
	return kind, folder, nil
}

// placeTitle is what people call a place, as a heading has it.
func (s *Service) placeTitle(ctx context.Context, c Chooser, kind executors.Kind) string {
	if caps, ok := c.Place(ctx, kind); ok && caps.Name != "" {
		return caps.Name
	}
	return s.placeWords(ctx, c, kind)
}

// CancelMove has a move go back to where the workspace was, and returns when it did. One that has come to the new place goes on.
func (s *Service) CancelMove(ctx context.Context, workspaceID string) (Workspace, error) {
	m, ok := s.MoveOf(workspaceID)
	if !ok {
		return Workspace{}, fault.New(fault.Conflict, "not_moving", "The workspace is not being moved.")
	}
	if done := s.jobs.Cancel(m.ID, errCancelled); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return Workspace{}, context.Cause(ctx)
		}
	}
	return s.store.Workspace(ctx, workspaceID)
}

// changeMove changes the move in memory and stores it. That it cannot be stored is an error where something irreversible follows.
func (s *Service) changeMove(ctx context.Context, j *moveJob, fn func(*Moving)) error {
	s.movings.mu.Lock()
	fn(&j.m)
	m := j.m.clone()
	s.movings.mu.Unlock()
	err := s.store.UpdateMove(context.WithoutCancel(ctx), m)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "how far a move came could not be stored", "workspace_id", m.WorkspaceID, "error", err)
	}
	if w, werr := s.store.Workspace(ctx, m.WorkspaceID); werr == nil {
		s.publishWorkspace(ctx, w)
	}
	return err
}

func (j *moveJob) of(s *Service) Moving {
	s.movings.mu.Lock()
	defer s.movings.mu.Unlock()
	return j.m.clone()
}

// moveStep runs one step and keeps its times, state and detail.
func (s *Service) moveStep(ctx context.Context, j *moveJob, name string, do func(ctx context.Context) (outcome, error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	set := func(fn func(*Step)) error {
		return s.changeMove(ctx, j, func(m *Moving) {
			for i := range m.Steps {
				if m.Steps[i].Name == name {
					fn(&m.Steps[i])
				}
			}
		})
	}
	if err := set(func(st *Step) { st.State, st.Detail, st.StartedAt, st.EndedAt = stepRunning, "", s.now(), 0 }); err != nil {
		return err
	}
	out, err := do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	state, detail := stepDone, out.detail
	switch {
	case errors.Is(err, errCancelled):
		state, detail = stepCancelled, ""
	case err != nil:
		state, detail = stepFailed, reason(err)
	case out.skipped:
		state = stepSkipped
	}
	serr := set(func(st *Step) { st.State, st.Detail, st.EndedAt = state, detail, s.now() })
	return errors.Join(err, serr)
}

// runMove is the job of a move: to the new place, or back.
func (s *Service) runMove(ctx context.Context, j *moveJob) {
	m := j.of(s)
	ctx = executors.As(context.WithValue(ctx, movingCtx{}, true), executors.ForAgent, m.ActorID)
	switched, err := s.moveThere(ctx, j)
	if err == nil {
		s.endMove(ctx, j, MoveDone, nil)
		return
	}
	if errors.Is(context.Cause(ctx), errShutdown) {
		s.letGoMove(j) // its row is open: the next server goes on
		return
	}
	s.moveBack(ctx, j, switched, err)
}

// letGoMove leaves the move to the next server.
func (s *Service) letGoMove(j *moveJob) {
	s.movings.mu.Lock()
	delete(s.movings.jobs, j.m.WorkspaceID)
	s.movings.mu.Unlock()
	j.release()
}

// unlessStopped is ctx as long as the server runs: nobody cancels what is done under it.
func unlessStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, errShutdown) {
			cancel(cause)
		}
	})
	return out, func() { stop(); cancel(nil) }
}

// moveThere goes all the way. switched says that the old sandbox may be gone.
func (s *Service) moveThere(ctx context.Context, j *moveJob) (switched bool, err error) {
	m := j.of(s)
	w, err := s.store.Workspace(ctx, m.WorkspaceID)
	if err != nil {
		return false, err
	}
	for _, st := range []struct {
		name string
		do   func(context.Context) (outcome, error)
	}{
		{moveKeep, func(ctx context.Context) (outcome, error) { return s.moveKeep(ctx, w, m) }},
		{moveTry, func(ctx context.Context) (outcome, error) { return s.moveTry(ctx, w, m) }},
		{moveStop, func(ctx context.Context) (outcome, error) { return s.moveStop(ctx, j, w) }},
		{moveHome, func(ctx context.Context) (outcome, error) { return s.moveHomeFirst(ctx, j, w) }},
	} {
		if err := s.moveStep(ctx, j, st.name, st.do); err != nil {
			return false, err
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	ctx, cancel := unlessStopped(ctx)
	defer cancel()
	if err := s.moveStep(ctx, j, moveSwitch, func(ctx context.Context) (outcome, error) { return outcome{}, s.shift(ctx, w, m.To, m.Folder) }); err != nil {
		return true, err
	}
	return true, s.moveIn(ctx, j)
}

// moveIn starts the sandbox in the new place, which the row names, and has the agents go on there.
func (s *Service) moveIn(ctx context.Context, j *moveJob) error {
	m := j.of(s)
	err := s.moveStep(ctx, j, moveStart, func(ctx context.Context) (outcome, error) {
		places, _, err := s.rooms()
		if err != nil {
			return outcome{}, err
		}
		return outcome{}, places.Ensure(ctx, m.WorkspaceID)
	})
	if err != nil {
		return err
	}
	killpoint.Reach(killpoint.MoveStarted)
	return s.moveStep(ctx, j, moveResume, func(ctx context.Context) (outcome, error) { return s.moveGoOn(ctx, j, m.To) })
}

func (s *Service) moveKeep(ctx context.Context, w Workspace, m Moving) (outcome, error) {
	sn, err := s.Keep(ctx, w.ID, KeepFor{Kind: SnapKept, Reason: "move", ActorID: m.ActorID})
	if err != nil {
		return outcome{}, err
	}
	for _, miss := range sn.Missing {
		if miss.Path == "" {
			return outcome{detail: miss.Reason}, nil
		}
	}
	return outcome{detail: "All files, uncommitted ones included, are in the timeline."}, nil
}

// moveTry has a sandbox made in the new place while the agents work on in the old one.
func (s *Service) moveTry(ctx context.Context, w Workspace, m Moving) (outcome, error) {
	places, _, err := s.rooms()
	if err != nil {
		return outcome{}, err
	}
	t, ok := places.(Trier)
	if !ok {
		return outcome{skipped: true}, nil
	}
	if err := mkdirs(s.boxDir(w.ID)); err != nil {
		return outcome{}, diskFault(err, "Trying the new place")
	}
	dir, err := os.MkdirTemp(s.boxDir(w.ID), "new-home-try-") // one that is left over is swept at the next start
	if err != nil {
		return outcome{}, diskFault(err, "Trying the new place")
	}
	defer func() { _ = s.discard(dir) }()
	root := filepath.Join(dir, "tree")
	if err := os.Mkdir(root, 0o700); err != nil {
		return outcome{}, diskFault(err, "Trying the new place")
	}
	if s.cfg.Chown {
		n, err := s.store.BoxUser(ctx, w.ID)
		if err != nil {
			return outcome{}, err
		}
		for _, d := range []string{root, dir} {
			if err := os.Lchown(d, firstBoxUser+int(n), firstBoxUser+int(n)); err != nil {
				return outcome{}, err
			}
		}
	}
	asked, programs, err := s.programsFor(ctx, w, m)
	if err != nil {
		return outcome{}, err
	}
	lacks, err := t.Try(ctx, w.ID, executors.Kind(m.To), root, programs)
	if err != nil {
		return outcome{}, err
	}
	if err := s.noteLacks(w, m, asked, lacks); err != nil {
		return outcome{}, err
	}
	killpoint.Reach(killpoint.MoveTried)
	return outcome{detail: "A sandbox was made there, git ran in it, and it was ended."}, nil
}

// moveStop stops what runs. From now on nothing new starts in the workspace but by this move.
func (s *Service) moveStop(ctx context.Context, j *moveJob, w Workspace) (outcome, error) {
	_, sessions, err := s.rooms()
	if err != nil {
		return outcome{}, err
	}
	movers, ok := sessions.(Movers)
	if !ok {
		return outcome{skipped: true}, s.Movable(ctx, w)
	}
	c, m := s.chooser(), j.of(s)
	from, _ := c.Place(ctx, executors.Kind(m.From))
	to, _ := c.Place(ctx, executors.Kind(m.To))
	plan, err := s.planSessions(ctx, movers, w, from, to)
	if err != nil {
		return outcome{}, err
	}
	for i := range plan {
		plan[i].State = "running"
	}
	// What is to go on is stored before any of it is stopped.
	if err := s.changeMove(ctx, j, func(m *Moving) { m.Sessions = plan }); err != nil {
		return outcome{}, err
	}
	if len(plan) == 0 {
		killpoint.Reach(killpoint.MoveStopped)
		return outcome{skipped: true, detail: "Nothing runs."}, nil
	}
	fails := make([]error, len(plan))
	var wg sync.WaitGroup
	for i, p := range plan {
		wg.Go(func() {
			fails[i] = movers.Halt(context.WithoutCancel(ctx), p.ID, "stopped to move to "+s.placeTitle(ctx, c, executors.Kind(m.To)))
		})
	}
	wg.Wait()
	if err := errors.Join(fails...); err != nil && !j.lost { // in a place that cannot be reached they end with it
		return outcome{}, err
	}
	if err := s.changeMove(ctx, j, func(m *Moving) {
		for i := range m.Sessions {
			m.Sessions[i].State = "stopped"
			if m.Sessions[i].How == MoveEnds {
				m.Sessions[i].State = "ended"
			}
		}
	}); err != nil {
		return outcome{}, err
	}
	killpoint.Reach(killpoint.MoveStopped)
	return outcome{detail: plural(len(plan), "session has", "sessions have") + " ended. Their terminals stay readable."}, nil
}

// moveHomeFirst brings home what the sandbox has, while it still stands, and keeps the files as the agents left them.
func (s *Service) moveHomeFirst(ctx context.Context, j *moveJob, w Workspace) (outcome, error) {
	m := j.of(s)
	switch lost := s.chooser().Lost(ctx, w.ID); {
	case lost && !j.lost: // who asked was told that everything comes along
		return outcome{}, fault.New(fault.Unavailable, "move_place_away", "The place it lives in went away in the middle of the move: what was done there last has not come home. Move it again once that place is back; or move it now, and leave behind what is only there.")
	case lost:
		return outcome{skipped: true, detail: "The old place cannot be reached: what came home before is what there is."}, nil
	}
	var there *ignoredThere
	if s.apart(w.ID) {
		places, _, err := s.rooms()
		if err != nil {
			return outcome{}, err
		}
		if err := places.Ensure(ctx, w.ID); err != nil {
			return outcome{}, err
		}
		caps, _ := s.chooser().Place(ctx, executors.Kind(m.To))
		if err := s.unfinished(ctx, w, caps); err != nil {
			return outcome{}, err
		}
		if err := s.TakeLeave(ctx, w.ID, func(ctx context.Context, c executors.BoxCommand) (executors.BoxResult, error) {
			return places.RunInBox(ctx, w.ID, c)
		}); err != nil {
			return outcome{}, err
		}
		p, err := s.store.Project(ctx, w.ProjectID)
		if err != nil {
			return outcome{}, err
		}
		if there, err = s.readIgnoredThere(ctx, p, w); err != nil {
			return outcome{}, err
		}
	}
	_, err := s.Keep(ctx, w.ID, KeepFor{Kind: SnapKept, Reason: "move", ActorID: m.ActorID, there: there})
	killpoint.Reach(killpoint.MoveHome)
	return outcome{detail: there.words()}, err
}

// shift ends the sandbox and has the row name another place.
func (s *Service) shift(ctx context.Context, w Workspace, to, folder string) error {
	if err := s.moveOut(ctx, s.chooser(), w, executors.Kind(to)); err != nil {
		return err
	}
	killpoint.Reach(killpoint.MoveLeft)
	if _, err := s.edit(ctx, w.ID, func(w *Workspace) error { w.Executor, w.Folder = to, folder; return nil }); err != nil {
		return fmt.Errorf("storing the workspace's place: %w", err)
	}
	killpoint.Reach(killpoint.MoveSwitched)
	return nil
}

// moveGoOn resumes the agents that were stopped. One that cannot be resumed is told of; its session can be resumed by hand.
func (s *Service) moveGoOn(ctx context.Context, j *moveJob, place string) (outcome, error) {
	_, sessions, err := s.rooms()
	if err != nil {
		return outcome{}, err
	}
	movers, ok := sessions.(Movers)
	m := j.of(s)
	if !ok || len(m.Sessions) == 0 {
		return outcome{skipped: true}, nil
	}
	words := fmt.Sprintf("This workspace was moved to another place (%s) while you worked: you were stopped, and programs that you had started have ended. Files and commits are as you left them. Go on where you were.",
		s.placeTitle(ctx, s.chooser(), executors.Kind(place)))
	var on, failed, waits int
	for i, one := range m.Sessions {
		if one.How == MoveEnds || one.State == "resumed" {
			continue
		}
		if one.How == MoveWaits && place == m.To {
			waits++
			continue
		}
		next, err := movers.GoOn(ctx, one, words)
		if ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		if err != nil {
			failed++
			s.cfg.Log.WarnContext(ctx, "an agent could not be resumed after a move", "session_id", one.ID, "error", err)
		} else {
			on++
		}
		_ = s.changeMove(ctx, j, func(m *Moving) {
			to := &m.Sessions[i]
			if to.State, to.Next = "resumed", next; err != nil {
				to.State, to.Reason = "failed", reason(err)
			}
		})
	}
	detail := plural(on, "agent goes", "agents go") + " on."
	if failed > 0 {
		detail += " " + plural(failed, "agent", "agents") + " could not be resumed: resume the session by hand."
	}
	if waits > 0 {
		detail += " " + plural(waits, "agent waits", "agents wait") + " until the place has its program: then resume the session by hand."
	}
	return outcome{detail: detail, skipped: on+failed+waits == 0}, nil
}
