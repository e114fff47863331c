package move

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Movable returns why the workspace cannot be moved now.
func (s *Service) Movable(ctx context.Context, w workspaces.Workspace) error {
	if w.DeletedAt != 0 {
		return fault.New(fault.Conflict, "already_deleted", "%s is deleted. Restore it first.", w.Key())
	}
	if w.State == workspaces.Creating || w.State == workspaces.SettingUp {
		return fault.New(fault.Conflict, "still_creating", "%s is still being created. Cancel that first.", w.Key())
	}
	_, sessions, err := s.records.Connected()
	if err != nil {
		return err
	}
	c := s.records.Chooser()
	if c == nil {
		return fault.New(fault.Unsupported, "executor_fixed", "Executors cannot be chosen on this server.")
	}
	n, err := sessions.Running(ctx, w.ID)
	if err != nil {
		return fmt.Errorf("counting the running sessions: %w", err)
	}
	if n > 0 && !c.Lost(ctx, w.ID) {
		return fault.Wrap(errRunning, fault.Conflict, "sessions_running",
			"%s run in %s. Stop them first: they cannot move.", git.Plural(n, "session", "sessions"), w.Key()).With("running", n)
	}
	return nil
}

// errRunning is the error that running sessions prevent a move.
var errRunning = errors.New("sessions run")

// Move gives a workspace another executor: its sandbox ends, and the next one is created there. Commits and the worktree's files stay; what
// else the sandbox had is lost. It returns the changes, for people. Sessions must have ended, unless the old executor is unreachable.
// folder is the one whose objects it shares on a member's machine, as in NewWorkspace.
func (s *Service) Move(ctx context.Context, actor accounts.Actor, workspaceID, executor, folder string) (workspaces.Workspace, []string, error) {
	w, release, err := s.lifecycle.Acquire(ctx, workspaceID)
	if err != nil {
		return workspaces.Workspace{}, nil, err
	}
	defer release()
	if err := s.Movable(ctx, w); err != nil {
		return workspaces.Workspace{}, nil, err
	}
	c := s.records.Chooser()
	to, err := c.Choose(executors.As(ctx, "", actor.User.ID), w.TeamID, executors.Kind(executor))
	if err != nil {
		return workspaces.Workspace{}, nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return workspaces.Workspace{}, nil, err
	}
	if folder, err = transfer.FolderFor(p, string(to), folder); err != nil {
		return workspaces.Workspace{}, nil, err
	}
	if string(to) != w.Executor && s.snapshots.HasFiles(w) {
		if !c.Lost(ctx, w.ID) {
			caps, _ := c.Place(ctx, to)
			if err := s.unfinished(ctx, w, caps); err != nil {
				return workspaces.Workspace{}, nil, err
			}
		}
		// Without a commit there is nothing a snapshot could be based on; the files stay.
		if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "move", ActorID: actor.User.ID, Changed: true}); err != nil && !errors.Is(err, snapshot.ErrNoHead) {
			return workspaces.Workspace{}, nil, err
		}
	}
	return s.moveTo(ctx, actor, w, c, to, folder)
}

// moveTo is Move for a caller that has locked the workspace and knows the target.
func (s *Service) moveTo(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, c workspaces.Chooser, to executors.Kind, folder string) (workspaces.Workspace, []string, error) {
	if string(to) == w.Executor {
		return w, []string{}, nil
	}
	// From here on it completes even if the caller leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	from := w.Executor
	changes := s.changes(ctx, c, executors.Kind(from), to)
	if w.State != workspaces.Archived && w.State != workspaces.Failed {
		if err := s.moveOut(ctx, c, w, to); err != nil {
			return workspaces.Workspace{}, nil, err
		}
	}
	w, err := s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error { w.Executor, w.Folder = string(to), folder; return nil })
	if err != nil {
		return workspaces.Workspace{}, nil, fmt.Errorf("storing the workspace's executor: %w", err)
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.moved",
		Text: strings.TrimSpace(fmt.Sprintf("Moved from %s to %s. %s", s.placeWords(ctx, c, executors.Kind(from)), s.placeWords(ctx, c, to), strings.Join(changes, " "))), Data: map[string]any{"from": from, "to": string(to)}})
	return w, changes, nil
}

// placeWords is the display name of an executor.
func (s *Service) placeWords(ctx context.Context, c workspaces.Chooser, kind executors.Kind) string {
	if kind.Member() == "" {
		return string(kind)
	}
	if caps, ok := c.Place(ctx, kind); ok {
		return caps.Name
	}
	return "a machine that is no longer connected"
}

// moveOut ends the sandbox. An executor that does not isolate works on what the repository has: if fetching the commits fails, moveOut
// fails.
func (s *Service) moveOut(ctx context.Context, c workspaces.Chooser, w workspaces.Workspace, to executors.Kind) error {
	places, _, err := s.records.Connected()
	if err != nil {
		return err
	}
	if s.sandboxes.Remote(w.ID) {
		return s.moveFromRemote(ctx, c, places, w)
	}
	caps, _ := c.Place(ctx, to)
	open := s.sandboxes.OwnGitDir(w.ID) && (!caps.Isolated || caps.OwnDisk)
	if open {
		if err := places.Ensure(ctx, w.ID); err != nil { // ReleaseSandbox reports what was not fetched
			s.cfg.Log.WarnContext(ctx, "commits could not be fetched from the sandbox before the workspace is moved", "workspace_id", w.ID, "error", err)
		}
	}
	defer s.records.BeginLeaving(w.ID)() // nothing new may start in the old sandbox
	if err := c.Leave(ctx, w.ID); err != nil {
		return err
	}
	failpoint.Reach(failpoint.MoveEnded)
	if !open {
		return nil
	}
	return s.ingest.ReleaseSandbox(ctx, w.ID)
}

// moveFromRemote ends the sandbox of a remote workspace. It wakes one that is suspended with unsynced work; if its executor is unreachable,
// only what was synced is left.
func (s *Service) moveFromRemote(ctx context.Context, c workspaces.Chooser, places workspaces.Places, w workspaces.Workspace) error {
	if s.sandboxes.Unsynced(ctx, w.ID) && !c.Lost(ctx, w.ID) {
		if err := places.Ensure(ctx, w.ID); err != nil {
			return err
		}
	}
	defer s.records.BeginLeaving(w.ID)() // nothing new may start in the old sandbox
	if err := c.Leave(ctx, w.ID); err != nil {
		return err
	}
	failpoint.Reach(failpoint.MoveEnded)
	return s.ingest.RestoreWorktree(ctx, w, "")
}

// changes describes for people what another executor changes for a workspace.
func (s *Service) changes(ctx context.Context, c workspaces.Chooser, from, to executors.Kind) []string {
	next, _ := c.Place(ctx, to)
	old, known := c.Place(ctx, from)
	if !known {
		old = executors.Capabilities{Kind: from}
	}
	return executors.Differences(old, next)
}
