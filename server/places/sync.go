package places

import (
	"context"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	filesync "github.com/parawork/parawork/sync"
)

// GetSync tells how far a workspace's files have come to the server. It never starts a sandbox.
func (h Sync) GetSync(ctx context.Context, req api.GetSyncRequestObject) (api.GetSyncResponseObject, error) {
	home, err := h.cfg.Files.Home(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetSync200JSONResponse{State: api.SyncState(home.State), SyncedAt: rest.Ptr(home.SyncedAt), Pending: home.Pending, Reason: home.Reason,
		NotSynced: rest.List(home.NotSynced, notSyncedOf), Conflicts: rest.List(home.Conflicts, syncConflictOf)}, nil
}

func notSyncedOf(f filesync.File) api.NotSynced {
	return api.NotSynced{Path: f.WirePath(), State: api.NotSyncedState(f.State), Reason: f.Reason, Size: f.Size}
}

func syncConflictOf(c filesync.Conflict) api.SyncConflict {
	return api.SyncConflict{Id: c.ID, Path: guest.EncodePath(c.Path), KeptPath: guest.EncodePath(c.Kept), FoundAt: c.FoundAt}
}

// SettleSyncConflict notes that somebody has dealt with a conflict. Both files stay.
func (h Sync) SettleSyncConflict(ctx context.Context, req api.SettleSyncConflictRequestObject) (api.SettleSyncConflictResponseObject, error) {
	if err := h.cfg.Files.SettleConflict(ctx, req.Id); err != nil {
		return nil, err
	}
	return api.SettleSyncConflict204Response{}, nil
}
