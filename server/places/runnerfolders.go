package places

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

// usable is a machine of the call's team that the caller may choose. One they may not does not exist for them.
func (h Machines) usable(ctx context.Context, id string) (machines.Machine, error) {
	call := rest.CallOf(ctx)
	if !rest.PlainID(id) {
		return machines.Machine{}, rest.ErrNotFound
	}
	m, ok := h.cfg.Machines.Machine(ctx, id)
	if !ok || m.TeamID != call.Team.ID || !m.MayUse(call.Actor.User.ID) {
		return machines.Machine{}, rest.ErrNotFound
	}
	return m, nil
}

// SourcePath is the path of a project's source: a name of the server's, or of a machine's the caller may use.
func (h Machines) SourcePath(ctx context.Context, s api.ProjectSource) (string, error) {
	if string(s.Kind) != workspaces.SourceRunner {
		return rest.HostPath(rest.Val(s.Path))
	}
	_, err := h.usable(ctx, rest.Val(s.RunnerId))
	return rest.Val(s.Path), err
}

func (h Machines) ListRunnerFolders(ctx context.Context, req api.ListRunnerFoldersRequestObject) (api.ListRunnerFoldersResponseObject, error) {
	m, err := h.usable(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	folders, err := h.cfg.Machines.Folders(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	return api.ListRunnerFolders200JSONResponse{Items: rest.List(folders, folderOf)}, nil
}

func folderOf(f wire.Folder) api.RunnerFolder {
	return api.RunnerFolder{Path: f.Path, Name: f.Name, Access: api.RunnerFolderAccess(f.Access), Git: f.Git, Branch: f.Branch}
}

// DeliverWorkspace writes into a repository of the machine's owner: who may not use the machine may not do that.
func (h Machines) DeliverWorkspace(ctx context.Context, req api.DeliverWorkspaceRequestObject) (api.DeliverWorkspaceResponseObject, error) {
	call := rest.CallOf(ctx)
	if k := executors.Kind(call.Workspace.Executor); k.Base() == executors.Runner {
		if _, err := h.usable(ctx, k.Member()); err != nil {
			return nil, err
		}
	}
	d, err := h.cfg.Workspaces.Transfer.Deliver(ctx, call.Actor, req.Id)
	if err != nil {
		return nil, err
	}
	return api.DeliverWorkspace200JSONResponse{Branch: d.Branch, Commit: d.Commit}, nil
}
