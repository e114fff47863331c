package sandboxgit

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// freeIn is how long an operation waits for an earlier one, such as the dry run of a merge whose viewer has left.
const freeIn = 20 * time.Second

// Begin checks that a workspace is ready and locks it for one operation.
func (s *Store) Begin(ctx context.Context, workspaceID string) (workspaces.Workspace, workspaces.Project, func(), error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return w, workspaces.Project{}, nil, err
	}
	if w.DeletedAt != 0 || w.State != workspaces.Ready && w.State != workspaces.Paused {
		return w, workspaces.Project{}, nil, fault.New(fault.Conflict, "workspace_not_ready", "%s is %s.", w.Key(), strings.ReplaceAll(workspaces.StateWord(w), "_", " "))
	}
	soon, cancel := context.WithTimeout(ctx, freeIn)
	release, err := s.locks.Busy.LockContext(soon, workspaceID)
	cancel()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return w, workspaces.Project{}, nil, context.Cause(ctx)
	default:
		return w, workspaces.Project{}, nil, BusyFault(w)
	}
	// Read it again: the operation that held the lock before may have changed it.
	if w, err = s.store.Workspace(ctx, workspaceID); err == nil && (w.DeletedAt != 0 || w.State != workspaces.Ready && w.State != workspaces.Paused) {
		err = fault.New(fault.Conflict, "workspace_not_ready", "%s is %s.", w.Key(), workspaces.StateWord(w))
	}
	var p workspaces.Project
	if err == nil {
		p, err = s.store.Project(ctx, w.ProjectID)
	}
	if err != nil {
		release()
		return w, workspaces.Project{}, nil, err
	}
	return w, p, release, nil
}

// BusyFault is the error that another operation on the workspace is running.
func BusyFault(w workspaces.Workspace) error {
	return fault.New(fault.Conflict, "workspace_busy", "Another operation on %s is running. Try again in a moment.", w.Key())
}
