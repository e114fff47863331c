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

// A workspace whose place is another machine may work on this server when that machine's provider cannot serve: by itself where an
// operator allows it and the workspace's owner agreed beforehand, for it changes what the work costs, how it is isolated and where the
// code goes; or because somebody asks for it at that moment.

// FallBack gives a workspace that is being made ready a place on this server where that was agreed beforehand, because its own cannot
// serve for the cause given. It says whether it did; no sandbox of the workspace lives then.
func (s *Service) FallBack(ctx context.Context, workspaceID string, cause error) (bool, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return false, err
	}
	c := s.records.Chooser()
	here, ok := c.(workspaces.LocalChooser)
	if !ok || !w.FallbackOK || workspaces.Personal(w.Executor) || s.cfg.FallBackAllowed == nil || !s.cfg.FallBackAllowed(ctx, executors.Kind(w.Executor)) || !workspaces.OnRemoteDisk(ctx, c, w.Executor) {
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
		return false, fmt.Errorf("storing the workspace's place: %w", err)
	}
	s.fellBack(ctx, "", w, from, to, git.Reason(cause)+" Its owner agreed that it then works on this server.", changes)
	return true, nil
}

// FallBackNow is the same because somebody asks for it. A workspace that could not be made is made there.
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
		return workspaces.Workspace{}, nil, fault.New(fault.Conflict, "already_here", "%s works on this server already.", w.Key())
	}
	to, err := here.ChooseHere(ctx, w.TeamID)
	if err != nil {
		return workspaces.Workspace{}, nil, err
	}
	if s.cfg.FallBackAllowed == nil || !s.cfg.FallBackAllowed(ctx, executors.Kind(w.Executor)) {
		// Then it is a choice like any other, for those who may choose.
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
	s.fellBack(ctx, actor.User.ID, w, from, to, "Asked for, because its place could not serve.", changes)
	if failed {
		w, err = s.lifecycle.RetryCreate(ctx, w.ID)
	}
	return w, changes, err
}

// fellBack tells of it where people look, and in the log.
func (s *Service) fellBack(ctx context.Context, actorID string, w workspaces.Workspace, from string, to executors.Kind, why string, changes []string) {
	s.cfg.Log.InfoContext(ctx, "workspace works on this server now because its place cannot serve", "workspace_id", w.ID, "actor_id", actorID, "from", from, "to", to, "reason", why)
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actorID, Kind: "workspace.fell_back",
		Text: fmt.Sprintf("Works on this server now (%s instead of %s). %s", to, from, why), Data: map[string]any{"from": from, "to": string(to), "changes": changes}})
}

// AgreeToFallBack keeps whether the workspace may work on this server when its place cannot serve. Only who made it decides that.
func (s *Service) AgreeToFallBack(ctx context.Context, actor accounts.Actor, workspaceID string, ok bool) (workspaces.Workspace, error) {
	return s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error {
		if w.CreatedBy != actor.User.ID && ok != w.FallbackOK {
			return fault.New(fault.Forbidden, "not_the_owner", "Only who made %s decides whether it may work elsewhere: it changes cost, isolation and where the code goes.", w.Key()).With("field", "fallback_ok")
		}
		w.FallbackOK = ok
		return nil
	})
}
