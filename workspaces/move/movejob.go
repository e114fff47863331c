package move

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
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Steps of a move, in order. The last one is only present when the move had started to change something and was reverted.
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

// moveEndTime bounds the work that must complete after a failed or cancelled move.
const moveEndTime = 10 * time.Minute

func moveSteps(to string) []workspaces.Step {
	out := []workspaces.Step{{Name: moveKeep, Title: "Take a snapshot"}, {Name: moveTry, Title: "Try " + to}, {Name: moveStop, Title: "Stop the agents"},
		{Name: moveHome, Title: "Sync files and commits to the server"}, {Name: moveSwitch, Title: "Leave the old sandbox"}, {Name: moveStart, Title: "Start in " + to},
		{Name: moveResume, Title: "Resume the agents"}}
	for i := range out {
		out[i].State = lifecycle.StepPending
	}
	return out
}

// MoveLive starts to move a workspace to another executor together with its running agents, and returns when the move's row is stored.
func (s *Service) MoveLive(ctx context.Context, actor accounts.Actor, workspaceID, to, folder string) (workspaces.Workspace, error) {
	w, release, err := s.lifecycle.Acquire(ctx, workspaceID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	j := &moveJob{release: release}
	defer func() {
		if err != nil {
			release()
		}
	}()
	var kind executors.Kind
	if kind, folder, err = s.mayMove(ctx, actor, w, to, folder); err != nil {
		return workspaces.Workspace{}, err
	}
	c := s.records.Chooser()
	j.lost = c.Lost(ctx, w.ID)
	j.m = workspaces.Moving{ID: id.New("mov"), TeamID: w.TeamID, WorkspaceID: w.ID, From: w.Executor, To: string(kind), Folder: folder, FromFolder: w.Folder, State: workspaces.MoveRunning,
		Steps: moveSteps(s.placeTitle(ctx, c, kind)), ActorID: actor.User.ID, CreatedAt: s.now()}
	if err = s.store.InsertMove(ctx, j.m); err != nil {
		return workspaces.Workspace{}, err
	}
	s.movings.mu.Lock()
	s.movings.jobs[w.ID] = j
	s.movings.mu.Unlock()
	failpoint.Reach(failpoint.MoveStored)
	if err = s.jobs.Add(j.m.ID, func(ctx context.Context) { s.runMove(ctx, j) }); err != nil {
		s.endMove(context.WithoutCancel(ctx), j, workspaces.MoveFailed, err)
		return workspaces.Workspace{}, err
	}
	s.records.PublishWorkspace(ctx, w)
	return w, nil
}

// mayMove rejects an impossible move.
func (s *Service) mayMove(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, to, folder string) (executors.Kind, string, error) {
	c := s.records.Chooser()
	switch {
	case w.DeletedAt != 0:
		return "", "", fault.New(fault.Conflict, "already_deleted", "%s is deleted. Restore it first.", w.Key())
	case w.State != workspaces.Ready && w.State != workspaces.Paused:
		return "", "", fault.New(fault.Conflict, "workspace_not_ready", "%s is %s: a workspace is moved when it is ready.", w.Key(), w.State)
	case c == nil:
		return "", "", fault.New(fault.Unsupported, "executor_fixed", "Executors cannot be chosen on this server.")
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
		return "", "", fault.New(fault.Conflict, "already_there", "%s already runs in %s.", w.Key(), s.placeTitle(ctx, c, kind))
	}
	if folder, err = transfer.FolderFor(p, string(kind), folder); err != nil || c.Lost(ctx, w.ID) {
		return kind, folder, err
	}
	caps, _ := c.Place(ctx, kind)
	if err := s.staysBehind(ctx, w); err != nil {
		return kind, folder, err
	}
	switch err := s.unfinished(ctx, w, caps); {
	case fault.CodeOf(err) == sandboxgit.CodeUnderWay:
		return kind, folder, err
	case err != nil: // it is checked again before leaving
		s.cfg.Log.InfoContext(ctx, "whether a merge is in progress could not be checked before a move", "workspace_id", w.ID, "error", err)
	}
	return kind, folder, nil
}

// placeTitle is an executor's display name as a heading has it.
func (s *Service) placeTitle(ctx context.Context, c workspaces.Chooser, kind executors.Kind) string {
	if caps, ok := c.Place(ctx, kind); ok && caps.Name != "" {
		return caps.Name
	}
	return s.placeWords(ctx, c, kind)
}

// CancelMove reverts a move, and returns when the workspace is back where it was. A move that has reached the new executor continues.
func (s *Service) CancelMove(ctx context.Context, workspaceID string) (workspaces.Workspace, error) {
	m, ok := s.MoveOf(workspaceID)
	if !ok {
		return workspaces.Workspace{}, fault.New(fault.Conflict, "not_moving", "The workspace is not being moved.")
	}
	if done := s.jobs.Cancel(m.ID, workspaces.ErrCancelled); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return workspaces.Workspace{}, context.Cause(ctx)
		}
	}
	return s.store.Workspace(ctx, workspaceID)
}

// changeMove changes the move in memory and stores it. A failure to store is an error if something irreversible follows.
func (s *Service) changeMove(ctx context.Context, j *moveJob, fn func(*workspaces.Moving)) error {
	s.movings.mu.Lock()
	fn(&j.m)
	m := j.m.Clone()
	s.movings.mu.Unlock()
	err := s.store.UpdateMove(context.WithoutCancel(ctx), m)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "the progress of a move could not be stored", "workspace_id", m.WorkspaceID, "error", err)
	}
	if w, werr := s.store.Workspace(ctx, m.WorkspaceID); werr == nil {
		s.records.PublishWorkspace(ctx, w)
	}
	return err
}

func (j *moveJob) of(s *Service) workspaces.Moving {
	s.movings.mu.Lock()
	defer s.movings.mu.Unlock()
	return j.m.Clone()
}

// moveStep runs one step and stores its times, state and detail.
func (s *Service) moveStep(ctx context.Context, j *moveJob, name string, do func(ctx context.Context) (lifecycle.Outcome, error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	set := func(fn func(*workspaces.Step)) error {
		return s.changeMove(ctx, j, func(m *workspaces.Moving) {
			for i := range m.Steps {
				if m.Steps[i].Name == name {
					fn(&m.Steps[i])
				}
			}
		})
	}
	if err := set(func(st *workspaces.Step) {
		st.State, st.Detail, st.StartedAt, st.EndedAt = lifecycle.StepRunning, "", s.now(), 0
	}); err != nil {
		return err
	}
	out, err := do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	state, detail := lifecycle.StepDone, out.Detail
	switch {
	case errors.Is(err, workspaces.ErrCancelled):
		state, detail = lifecycle.StepCancelled, ""
	case err != nil:
		state, detail = lifecycle.StepFailed, git.Reason(err)
	case out.Skipped:
		state = lifecycle.StepSkipped
	}
	serr := set(func(st *workspaces.Step) { st.State, st.Detail, st.EndedAt = state, detail, s.now() })
	return errors.Join(err, serr)
}

// runMove is the job of a move: it goes to the new executor, or reverts.
func (s *Service) runMove(ctx context.Context, j *moveJob) {
	m := j.of(s)
	ctx = executors.As(context.WithValue(ctx, movingCtx{}, true), executors.ForAgent, m.ActorID)
	switched, err := s.moveThere(ctx, j)
	if err == nil {
		s.endMove(ctx, j, workspaces.MoveDone, nil)
		return
	}
	if errors.Is(context.Cause(ctx), workspaces.ErrShutdown) {
		s.leaveMove(j) // its row is unfinished: the next server continues
		return
	}
	s.moveBack(ctx, j, switched, err)
}

// leaveMove leaves the move to the next server.
func (s *Service) leaveMove(j *moveJob) {
	s.movings.mu.Lock()
	delete(s.movings.jobs, j.m.WorkspaceID)
	s.movings.mu.Unlock()
	j.release()
}

// unlessStopped is ctx without cancellation by people: it lasts as long as the server runs.
func unlessStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, workspaces.ErrShutdown) {
			cancel(cause)
		}
	})
	return out, func() { stop(); cancel(nil) }
}

// moveThere does all steps. switched reports that the old sandbox may be gone.
func (s *Service) moveThere(ctx context.Context, j *moveJob) (switched bool, err error) {
	m := j.of(s)
	w, err := s.store.Workspace(ctx, m.WorkspaceID)
	if err != nil {
		return false, err
	}
	for _, st := range []struct {
		name string
		do   func(context.Context) (lifecycle.Outcome, error)
	}{
		{moveKeep, func(ctx context.Context) (lifecycle.Outcome, error) { return s.moveKeep(ctx, w, m) }},
		{moveTry, func(ctx context.Context) (lifecycle.Outcome, error) { return s.moveTry(ctx, w, m) }},
		{moveStop, func(ctx context.Context) (lifecycle.Outcome, error) { return s.moveStop(ctx, j, w) }},
		{moveHome, func(ctx context.Context) (lifecycle.Outcome, error) { return s.moveSync(ctx, j, w) }},
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
	if err := s.moveStep(ctx, j, moveSwitch, func(ctx context.Context) (lifecycle.Outcome, error) {
		return lifecycle.Outcome{}, s.shift(ctx, w, m.To, m.Folder)
	}); err != nil {
		return true, err
	}
	return true, s.moveIn(ctx, j)
}

// moveIn starts the sandbox in the new executor, which the row names, and resumes the agents there.
func (s *Service) moveIn(ctx context.Context, j *moveJob) error {
	m := j.of(s)
	err := s.moveStep(ctx, j, moveStart, func(ctx context.Context) (lifecycle.Outcome, error) {
		places, _, err := s.records.Connected()
		if err != nil {
			return lifecycle.Outcome{}, err
		}
		return lifecycle.Outcome{}, places.Ensure(ctx, m.WorkspaceID)
	})
	if err != nil {
		return err
	}
	failpoint.Reach(failpoint.MoveStarted)
	return s.moveStep(ctx, j, moveResume, func(ctx context.Context) (lifecycle.Outcome, error) { return s.moveResume(ctx, j, m.To) })
}

func (s *Service) moveKeep(ctx context.Context, w workspaces.Workspace, m workspaces.Moving) (lifecycle.Outcome, error) {
	sn, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapKept, Reason: "move", ActorID: m.ActorID})
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	for _, miss := range sn.Missing {
		if miss.Path == "" {
			return lifecycle.Outcome{Detail: miss.Reason}, nil
		}
	}
	return lifecycle.Outcome{Detail: "All files, uncommitted ones included, are in the timeline."}, nil
}

// moveTry creates a trial sandbox in the new executor while the agents keep working in the old one.
func (s *Service) moveTry(ctx context.Context, w workspaces.Workspace, m workspaces.Moving) (lifecycle.Outcome, error) {
	places, _, err := s.records.Connected()
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	t, ok := places.(workspaces.Trier)
	if !ok {
		return lifecycle.Outcome{Skipped: true}, nil
	}
	if err := git.MakeFolders(s.sandboxes.SandboxDir(w.ID)); err != nil {
		return lifecycle.Outcome{}, git.DiskFault(err, "Trying the new executor")
	}
	dir, err := os.MkdirTemp(s.sandboxes.SandboxDir(w.ID), "new-home-try-") // the next start removes what is left over
	if err != nil {
		return lifecycle.Outcome{}, git.DiskFault(err, "Trying the new executor")
	}
	defer func() { _ = s.repo.RemoveFolder(dir) }()
	root := filepath.Join(dir, "tree")
	if err := os.Mkdir(root, 0o700); err != nil {
		return lifecycle.Outcome{}, git.DiskFault(err, "Trying the new executor")
	}
	if s.cfg.Chown {
		n, err := s.store.BoxUser(ctx, w.ID)
		if err != nil {
			return lifecycle.Outcome{}, err
		}
		for _, d := range []string{root, dir} {
			if err := os.Lchown(d, sandboxgit.FirstSandboxUser+int(n), sandboxgit.FirstSandboxUser+int(n)); err != nil {
				return lifecycle.Outcome{}, err
			}
		}
	}
	asked, programs, err := s.programsFor(ctx, w, m)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	lacks, err := t.Try(ctx, w.ID, executors.Kind(m.To), root, programs)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	if err := s.noteLacks(w, m, asked, lacks); err != nil {
		return lifecycle.Outcome{}, err
	}
	failpoint.Reach(failpoint.MoveTried)
	return lifecycle.Outcome{Detail: "A trial sandbox was created there, git ran in it, and it was destroyed."}, nil
}

// moveStop stops the sessions. From now on only this move starts anything in the workspace.
func (s *Service) moveStop(ctx context.Context, j *moveJob, w workspaces.Workspace) (lifecycle.Outcome, error) {
	_, sessions, err := s.records.Connected()
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	movers, ok := sessions.(workspaces.Movers)
	if !ok {
		return lifecycle.Outcome{Skipped: true}, s.Movable(ctx, w)
	}
	c, m := s.records.Chooser(), j.of(s)
	from, _ := c.Place(ctx, executors.Kind(m.From))
	to, _ := c.Place(ctx, executors.Kind(m.To))
	plan, err := s.planSessions(ctx, movers, w, from, to)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	for i := range plan {
		plan[i].State = "running"
	}
	// Store which sessions are to be resumed before stopping any.
	if err := s.changeMove(ctx, j, func(m *workspaces.Moving) { m.Sessions = plan }); err != nil {
		return lifecycle.Outcome{}, err
	}
	if len(plan) == 0 {
		failpoint.Reach(failpoint.MoveStopped)
		return lifecycle.Outcome{Skipped: true, Detail: "Nothing runs."}, nil
	}
	fails := make([]error, len(plan))
	var wg sync.WaitGroup
	for i, p := range plan {
		wg.Go(func() {
			fails[i] = movers.Halt(context.WithoutCancel(ctx), p.ID, "stopped to move to "+s.placeTitle(ctx, c, executors.Kind(m.To)))
		})
	}
	wg.Wait()
	if err := errors.Join(fails...); err != nil && !j.lost { // in an unreachable executor they end with the sandbox
		return lifecycle.Outcome{}, err
	}
	if err := s.changeMove(ctx, j, func(m *workspaces.Moving) {
		for i := range m.Sessions {
			m.Sessions[i].State = "stopped"
			if m.Sessions[i].How == workspaces.MoveEnds {
				m.Sessions[i].State = "ended"
			}
		}
	}); err != nil {
		return lifecycle.Outcome{}, err
	}
	failpoint.Reach(failpoint.MoveStopped)
	return lifecycle.Outcome{Detail: git.Plural(len(plan), "session has", "sessions have") + " ended. Their terminals stay readable."}, nil
}

// moveSync syncs what the sandbox has while it still exists, and takes a snapshot of the files as the agents left them.
func (s *Service) moveSync(ctx context.Context, j *moveJob, w workspaces.Workspace) (lifecycle.Outcome, error) {
	m := j.of(s)
	switch lost := s.records.Chooser().Lost(ctx, w.ID); {
	case lost && !j.lost: // the plan said that everything comes along
		return lifecycle.Outcome{}, fault.New(fault.Unavailable, "move_source_unreachable", "The workspace's executor became unreachable in the middle of the move: the last work there is not synced to the server. Move it again once it is reachable; or move it now, and lose what is only there.")
	case lost:
		return lifecycle.Outcome{Skipped: true, Detail: "The old executor is unreachable: only what was synced earlier is there."}, nil
	}
	var there *snapshot.RemoteIgnored
	if s.sandboxes.Separate(w.ID) {
		places, _, err := s.records.Connected()
		if err != nil {
			return lifecycle.Outcome{}, err
		}
		if err := places.Ensure(ctx, w.ID); err != nil {
			return lifecycle.Outcome{}, err
		}
		caps, _ := s.records.Chooser().Place(ctx, executors.Kind(m.To))
		if err := s.unfinished(ctx, w, caps); err != nil {
			return lifecycle.Outcome{}, err
		}
		if err := s.ingest.FetchBeforeEnd(ctx, w.ID, func(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) {
			return places.RunInSandbox(ctx, w.ID, c)
		}); err != nil {
			return lifecycle.Outcome{}, err
		}
		p, err := s.store.Project(ctx, w.ProjectID)
		if err != nil {
			return lifecycle.Outcome{}, err
		}
		if there, err = s.transfer.ReadRemoteIgnored(ctx, p, w); err != nil {
			return lifecycle.Outcome{}, err
		}
	}
	_, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapKept, Reason: "move", ActorID: m.ActorID, Ignored: there})
	failpoint.Reach(failpoint.MoveHome)
	return lifecycle.Outcome{Detail: there.Words()}, err
}

// shift ends the sandbox and stores another executor in the row.
func (s *Service) shift(ctx context.Context, w workspaces.Workspace, to, folder string) error {
	if err := s.moveOut(ctx, s.records.Chooser(), w, executors.Kind(to)); err != nil {
		return err
	}
	failpoint.Reach(failpoint.MoveLeft)
	if _, err := s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error { w.Executor, w.Folder = to, folder; return nil }); err != nil {
		return fmt.Errorf("storing the workspace's executor: %w", err)
	}
	failpoint.Reach(failpoint.MoveSwitched)
	return nil
}

// moveResume resumes the agents that were stopped. It reports those that cannot be resumed; people can resume their sessions manually.
func (s *Service) moveResume(ctx context.Context, j *moveJob, place string) (lifecycle.Outcome, error) {
	_, sessions, err := s.records.Connected()
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	movers, ok := sessions.(workspaces.Movers)
	m := j.of(s)
	if !ok || len(m.Sessions) == 0 {
		return lifecycle.Outcome{Skipped: true}, nil
	}
	words := fmt.Sprintf("This workspace was moved to another executor (%s) while you worked: you were stopped, and programs that you had started have ended. Files and commits are as you left them. Continue where you were.",
		s.placeTitle(ctx, s.records.Chooser(), executors.Kind(place)))
	var on, failed, waits int
	for i, one := range m.Sessions {
		if one.How == workspaces.MoveEnds || one.State == "resumed" {
			continue
		}
		if one.How == workspaces.MoveWaits && place == m.To {
			waits++
			continue
		}
		next, err := movers.GoOn(ctx, one, words)
		if ctx.Err() != nil {
			return lifecycle.Outcome{}, context.Cause(ctx)
		}
		if err != nil {
			failed++
			s.cfg.Log.WarnContext(ctx, "an agent could not be resumed after a move", "session_id", one.ID, "error", err)
		} else {
			on++
		}
		_ = s.changeMove(ctx, j, func(m *workspaces.Moving) {
			to := &m.Sessions[i]
			if to.State, to.Next = "resumed", next; err != nil {
				to.State, to.Reason = "failed", git.Reason(err)
			}
		})
	}
	detail := git.Plural(on, "agent goes", "agents go") + " on."
	if failed > 0 {
		detail += " " + git.Plural(failed, "agent", "agents") + " could not be resumed: resume the session manually."
	}
	if waits > 0 {
		detail += " " + git.Plural(waits, "agent waits", "agents wait") + " until the target has its program: then resume the session manually."
	}
	return lifecycle.Outcome{Detail: detail, Skipped: on+failed+waits == 0}, nil
}
