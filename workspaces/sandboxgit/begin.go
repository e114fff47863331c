package sandboxgit

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// freeIn is how long an operation waits for one before it, such as a dry run of a merge nobody looks at any more.
const freeIn = 20 * time.Second

// Begin checks that a workspace can be worked with and takes it for one operation at a time.
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
	// Read again: what was true before the lock may have ended with the operation that held it.
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

// BusyFault says that something else works on the workspace.
func BusyFault(w workspaces.Workspace) error {
	return fault.New(fault.Conflict, "workspace_busy", "Something else is being done with %s. Try again in a moment.", w.Key())
}
