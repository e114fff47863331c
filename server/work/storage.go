package work

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/history"
)

func capsOf(l history.Limits) api.StorageCaps {
	return api.StorageCaps{MaxSessionBytes: l.Session, MaxTeamBytes: l.Team, KeepDays: int(l.Keep / (24 * time.Hour))}
}

// GetTeamStorage answers with what the history of a team takes on disk.
func (h Storage) GetTeamStorage(ctx context.Context, _ api.GetTeamStorageRequestObject) (api.GetTeamStorageResponseObject, error) {
	st, err := h.cfg.Sessions.Recordings.Storage(ctx, rest.CallOf(ctx).Team.ID, "")
	if err != nil {
		return nil, err
	}
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	if err != nil {
		return nil, err
	}
	out := api.GetTeamStorage200JSONResponse{Caps: capsOf(st.Limits), Workspaces: []api.TeamStorageWorkspace{}}
	at := map[string]int{}
	for _, k := range st.Sessions {
		if hidden[k.WorkspaceID] { // its bytes are the team's all the same
			out.Bytes, out.Printed = out.Bytes+k.Disk, out.Printed+k.Printed
			continue
		}
		i, ok := at[k.WorkspaceID]
		if !ok {
			w, err := h.cfg.Workspaces.Records.Workspace(ctx, k.WorkspaceID)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			i = len(out.Workspaces)
			at[k.WorkspaceID] = i
			out.Workspaces = append(out.Workspaces, api.TeamStorageWorkspace{Id: w.ID, Key: w.Key(), Name: w.Name, Deleted: w.DeletedAt != 0})
		}
		w := &out.Workspaces[i]
		w.Sessions++
		w.Bytes, w.Printed = w.Bytes+k.Disk, w.Printed+k.Printed
		out.Bytes, out.Printed = out.Bytes+k.Disk, out.Printed+k.Printed
	}
	slices.SortStableFunc(out.Workspaces, func(a, b api.TeamStorageWorkspace) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out, nil
}

// GetWorkspaceStorage answers with what the history of a workspace takes on disk.
func (h Storage) GetWorkspaceStorage(ctx context.Context, req api.GetWorkspaceStorageRequestObject) (api.GetWorkspaceStorageResponseObject, error) {
	call := rest.CallOf(ctx)
	st, err := h.cfg.Sessions.Recordings.Storage(ctx, call.Team.ID, req.Id)
	if err != nil {
		return nil, err
	}
	out := api.GetWorkspaceStorage200JSONResponse{Caps: capsOf(st.Limits), Sessions: rest.List(st.Sessions, func(k history.Kept) api.SessionStorage {
		return api.SessionStorage{Id: k.SessionID, Agent: k.Agent, Bytes: k.Disk, Printed: k.Printed, StartedAt: k.StartedAt, EndedAt: rest.Ptr(k.EndedAt)}
	})}
	for _, k := range st.Sessions {
		out.Bytes, out.Printed = out.Bytes+k.Disk, out.Printed+k.Printed
	}
	return out, nil
}
