package move

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// A workspace of a remote executor may fall back to this server when that executor's provider is unavailable: automatically if an operator
// allows it and the workspace's owner agreed beforehand, because it changes cost, isolation and where the code goes; or because a user
// requests it at that moment.

// FallBack moves a workspace that is being made ready to this server, if that was agreed beforehand, because its own executor is
// unavailable for the given cause. It reports whether it did; the workspace has no live sandbox then.
func (s *Service) FallBack(ctx context.Context, workspaceID string, cause error) (bool, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return false, err
	}
	c := s.records.Chooser()
	if workspaces.Personal(w.Executor) {
		return s.fromMachine(ctx, c, w, cause)
	}
	here, ok := c.(workspaces.LocalChooser)
	if !ok || !w.FallbackOK || s.cfg.FallBackAllowed == nil || !s.cfg.FallBackAllowed(ctx, executors.Kind(w.Executor)) || !workspaces.OnRemoteDisk(ctx, c, w.Executor) {
		return false, nil
	}
	to, err := here.ChooseHere(ctx, w.TeamID)
	if err != nil || string(to) == w.Executor {
		return false, err
	}
	from := w.Executor
	changes := s.changes(ctx, c, executors.Kind(from), to)
	w, err = s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error { w.Executor = string(to); return nil })
	if err != nil {
		return false, fmt.Errorf("storing the workspace's executor: %w", err)
	}
	s.fellBack(ctx, "", w, from, to, git.Reason(cause)+" Its owner agreed beforehand that it runs on this server then.", changes)
	return true, nil
}

// fromMachine is FallBack of a workspace on its creator's own machine. Sessions that run there go on, and keep it there.
func (s *Service) fromMachine(ctx context.Context, c workspaces.Chooser, w workspaces.Workspace, cause error) (bool, error) {
	away, ok := c.(workspaces.AwayChooser)
	if !ok {
		return false, nil
	}
	to, err := away.ChooseAway(ctx, w.TeamID, w.CreatedBy, executors.Kind(w.Executor))
	if err != nil || to == "" {
		return false, err
	}
	_, sessions, err := s.records.Connected()
	if err != nil {
		return false, err
	}
	if n, err := sessions.Running(ctx, w.ID); err != nil || n > 0 {
		return false, err
	}
	from := w.Executor
	changes := s.changes(ctx, c, executors.Kind(from), to)
	w, err = s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error {
		w.Executor, w.Folder = string(to), ""
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("storing the workspace's executor: %w", err)
	}
	why := git.Reason(cause) + " Its owner agreed beforehand. What only the machine holds comes to the server once it is back; you can move the workspace back then."
	s.cfg.Log.InfoContext(ctx, "workspace left a machine that is away", "workspace_id", w.ID, "from", from, "to", to)
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.fell_back",
		Text: fmt.Sprintf("Now runs in %s, because its machine is away. %s", to, why), Data: map[string]any{"from": from, "to": string(to), "changes": changes}})
	return true, nil
}

// FallBackNow is FallBack at a user's request. A workspace whose creation failed is created on this server.
func (s *Service) FallBackNow(ctx context.Context, actor accounts.Actor, workspaceID string) (workspaces.Workspace, []string, error) {
	w, release, err := s.lifecycle.Acquire(ctx, workspaceID)
	if err != nil {
		return workspaces.Workspace{}, nil, err
	}
	defer release()
	if err := s.Movable(ctx, w); err != nil {
		return workspaces.Workspace{}, nil, err
	}
	c := s.records.Chooser()
	here, ok := c.(workspaces.LocalChooser)
	if !ok || !workspaces.OnRemoteDisk(ctx, c, w.Executor) {
		return workspaces.Workspace{}, nil, fault.New(fault.Conflict, "already_here", "%s already runs on this server.", w.Key())
	}
	to, err := here.ChooseHere(ctx, w.TeamID)
	if err != nil {
		return workspaces.Workspace{}, nil, err
	}
	if s.cfg.FallBackAllowed == nil || !s.cfg.FallBackAllowed(ctx, executors.Kind(w.Executor)) {
		// Then it is an ordinary choice of an executor, with the same permissions.
		if to, err = c.Choose(executors.As(ctx, "", actor.User.ID), w.TeamID, to); err != nil {
			return workspaces.Workspace{}, nil, err
		}
	}
	if s.snapshots.HasFiles(w) {
		if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "move", ActorID: actor.User.ID, Changed: true}); err != nil && !errors.Is(err, snapshot.ErrNoHead) {
			return workspaces.Workspace{}, nil, err
		}
	}
	failed, from := w.State == workspaces.Failed, w.Executor
	w, changes, err := s.moveTo(ctx, actor, w, c, to, "")
	if err != nil {
		return workspaces.Workspace{}, nil, err
	}
	s.fellBack(ctx, actor.User.ID, w, from, to, "Requested, because its executor was unavailable.", changes)
	if failed {
		w, err = s.lifecycle.RetryCreate(ctx, w.ID)
	}
	return w, changes, err
}

// fellBack records the fallback in the timeline and in the log.
func (s *Service) fellBack(ctx context.Context, actorID string, w workspaces.Workspace, from string, to executors.Kind, why string, changes []string) {
	s.cfg.Log.InfoContext(ctx, "workspace fell back to this server because its executor is unavailable", "workspace_id", w.ID, "actor_id", actorID, "from", from, "to", to, "reason", why)
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actorID, Kind: "workspace.fell_back",
		Text: fmt.Sprintf("Now runs on this server (%s instead of %s). %s", to, from, why), Data: map[string]any{"from": from, "to": string(to), "changes": changes}})
}

// AgreeToFallBack stores whether the workspace may run on this server when its executor is unavailable. Only its creator decides that.
func (s *Service) AgreeToFallBack(ctx context.Context, actor accounts.Actor, workspaceID string, ok bool) (workspaces.Workspace, error) {
	return s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error {
		if w.CreatedBy != actor.User.ID && ok != w.FallbackOK {
			return fault.New(fault.Forbidden, "not_the_owner", "Only the creator of %s decides whether it may run elsewhere: it changes cost, isolation and where the code goes.", w.Key()).With("field", "fallback_ok")
		}
		w.FallbackOK = ok
		return nil
	})
}
