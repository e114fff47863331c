package work

import (
	"context"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/disk"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// trashed returns what of a team's trash the caller may see.
func (h Trash) trashed(ctx context.Context) ([]reclaim.Trashed, error) {
	all, err := h.cfg.Workspaces.Reclaim.Trashed(ctx, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, err
	}
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	return slices.DeleteFunc(all, func(t reclaim.Trashed) bool { return hidden[t.ID] }), err
}

// inTrash finds something in the team's trash that the caller may see.
func (h Trash) inTrash(ctx context.Context, id string) (reclaim.Trashed, error) {
	all, err := h.trashed(ctx)
	if err != nil {
		return reclaim.Trashed{}, err
	}
	for _, t := range all {
		if t.ID == id {
			return t, nil
		}
	}
	return reclaim.Trashed{}, fault.New(fault.NotFound, "not_found", "It is not in the trash: somebody restored it, or it was deleted permanently.")
}

// GetTrash tells what can be restored.
func (h Trash) GetTrash(ctx context.Context, _ api.GetTrashRequestObject) (api.GetTrashResponseObject, error) {
	all, err := h.trashed(ctx)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, err
	}
	out := api.GetTrash200JSONResponse{Items: rest.List(all, func(t reclaim.Trashed) api.TrashItem {
		item := api.TrashItem{Kind: api.TrashItemKind(t.Kind), Id: t.ID, Name: t.Name, DeletedAt: t.DeletedAt, DeletedBy: names[t.DeletedBy], PurgeAt: rest.Ptr(t.PurgeAt), Restorable: t.Restorable}
		if t.Kind == reclaim.TrashWorkspace {
			item.Key = workspaces.Workspace{Num: t.Num}.Key()
		}
		if t.Bytes >= 0 {
			item.Bytes = &t.Bytes
		}
		return item
	})}
	for _, t := range all {
		if t.Bytes >= 0 {
			sum := rest.Val(out.Bytes) + t.Bytes
			out.Bytes = &sum
		}
		if t.PurgeAt > 0 {
			out.KeepDays = int((t.PurgeAt - t.DeletedAt) / (24 * 60 * 60 * 1000))
		}
	}
	h.cfg.Disk.Of(rest.CallOf(ctx).Team.ID) // so that sizes come to be known
	return out, nil
}

// RestoreTrashed brings something back.
func (h Trash) RestoreTrashed(ctx context.Context, req api.RestoreTrashedRequestObject) (api.RestoreTrashedResponseObject, error) {
	t, err := h.inTrash(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, string(t.Kind), t.ID, t.Name)
	if t.Kind == reclaim.TrashProject {
		if err := rest.CallOf(ctx).Can(accounts.ManageProject); err != nil {
			return nil, err
		}
		_, err = h.cfg.Workspaces.Reclaim.RestoreProject(ctx, t.ID)
	} else {
		_, err = h.cfg.Workspaces.Lifecycle.Restore(ctx, rest.CallOf(ctx).Actor, t.ID)
	}
	return api.RestoreTrashed204Response{}, err
}

// PurgeTrashed removes something for good.
func (h Trash) PurgeTrashed(ctx context.Context, req api.PurgeTrashedRequestObject) (api.PurgeTrashedResponseObject, error) {
	t, err := h.inTrash(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, string(t.Kind), t.ID, t.Name)
	if err := h.cfg.Workspaces.Reclaim.Purge(ctx, t.Kind, t.ID); err != nil {
		return nil, err
	}
	h.forgetSecrets(ctx)
	return api.PurgeTrashed204Response{}, nil
}

// forgetSecrets removes the secrets of projects that are gone for good.
func (h Trash) forgetSecrets(ctx context.Context) {
	if err := h.cfg.Secrets.Sweep(ctx); err != nil { // the next start does it
		h.Log.WarnContext(ctx, "the secrets of deleted projects were not deleted", "error", err)
	}
}

// GetDisk tells what the team's work takes on disk.
func (h Trash) GetDisk(ctx context.Context, _ api.GetDiskRequestObject) (api.GetDiskResponseObject, error) {
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	if err != nil {
		return nil, err
	}
	c, known, counting := h.cfg.Disk.Of(rest.CallOf(ctx).Team.ID)
	// Workspaces that the caller may not see are neither reported nor removed.
	others, size := map[disk.Kind]disk.Use{}, int64(0)
	for _, w := range c.Workspaces {
		if !hidden[w.ID] {
			continue
		}
		size += w.Worktree + w.Home + w.History
		of := map[disk.Kind]int64{disk.Worktrees: w.Worktree, disk.Homes: w.Home, disk.Snapshots: w.Kept, disk.Terminals: w.History}
		if w.Deleted {
			of = map[disk.Kind]int64{disk.Trash: w.Bytes()}
		}
		for kind, n := range of {
			u := others[kind]
			others[kind] = disk.Use{Kind: kind, Items: u.Items + 1, Bytes: u.Bytes + n}
		}
	}
	use := func(u disk.Use) api.DiskUse {
		u.Items, u.Bytes = u.Items-others[u.Kind].Items, u.Bytes-others[u.Kind].Bytes
		return api.DiskUse{Kind: api.DiskUseKind(u.Kind), Items: u.Items, Bytes: u.Bytes}
	}
	out := api.GetDisk200JSONResponse{Counting: counting, Bytes: c.Bytes - size, By: rest.List(c.By, use), WouldFree: rest.List(c.Free, use)}
	if known {
		out.CountedAt = &c.At
	}
	out.Projects = rest.List(c.Projects, func(p disk.Project) api.DiskProject {
		return api.DiskProject{Id: p.ID, Name: p.Name, Bytes: p.Bytes, Ours: p.Ours}
	})
	shown := slices.DeleteFunc(slices.Clone(c.Workspaces), func(w disk.Workspace) bool { return hidden[w.ID] })
	out.Workspaces = rest.List(shown, func(w disk.Workspace) api.DiskWorkspace {
		return api.DiskWorkspace{Id: w.ID, Key: workspaces.Workspace{Num: w.Num}.Key(), Name: w.Name, ProjectId: w.ProjectID, Deleted: w.Deleted,
			Worktree: w.Worktree, Home: w.Home, Snapshots: w.Kept, Terminals: w.History, Bytes: w.Bytes()}
	})
	return out, nil
}

// FreeDisk makes room.
func (h Trash) FreeDisk(ctx context.Context, req api.FreeDiskRequestObject) (api.FreeDiskResponseObject, error) {
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	if err != nil {
		return nil, err
	}
	kinds := rest.List(req.Body.What, func(k api.FreeDiskWhat) disk.Kind { return disk.Kind(k) })
	if len(kinds) == 0 {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "Set what to the kinds of space to free.").With("field", "what")
	}
	audit.Note(ctx, "what", string(kinds[0]))
	f, err := h.cfg.Disk.Free(ctx, rest.CallOf(ctx).Team.ID, kinds, hidden)
	if err != nil {
		return nil, err
	}
	h.forgetSecrets(ctx)
	return api.FreeDisk200JSONResponse{Bytes: f.Bytes, Items: f.Items, Failed: rest.List(f.Failed, func(s string) string { return s })}, nil
}
