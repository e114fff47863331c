package work

import (
	"context"
	"path"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

func partsOf(r api.PartsRequest) stage.Parts {
	return stage.Parts{From: rest.Val(r.From), To: rest.Val(r.To), List: rest.List(r.Parts, partOf)}
}

func partOf(p api.Part) stage.Part {
	out := stage.Part{Path: guest.DecodePath(p.Path), Old: rest.Val(p.OldLines), New: rest.Val(p.NewLines)}
	for _, h := range rest.Val(p.Hunks) {
		out.Hunks = append(out.Hunks, stage.Hunk{OldStart: h.OldStart, OldLines: h.OldLines, NewStart: h.NewStart, NewLines: h.NewLines, Hash: rest.Val(h.Hash)})
	}
	return out
}

func indexOf(x stage.Index) api.WorkspaceIndex {
	return api.WorkspaceIndex{Live: x.Live, Head: x.Head, Items: rest.List(x.Files, func(f stage.FileState) api.IndexFile {
		return api.IndexFile{Path: guest.EncodePath(f.Path), Staged: f.Staged, Unstaged: f.Unstaged, Untracked: f.Untracked}
	})}
}

func (h Parts) GetIndex(ctx context.Context, req api.GetIndexRequestObject) (api.GetIndexResponseObject, error) {
	x, err := h.cfg.Workspaces.Stage.Index(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetIndex200JSONResponse(indexOf(x)), nil
}

func (h Parts) GetParts(ctx context.Context, req api.GetPartsRequestObject) (api.GetPartsResponseObject, error) {
	name := path.Clean(guest.DecodePath(req.Params.Path))
	f, err := h.cfg.Workspaces.Stage.Hunks(ctx, rest.CallOf(ctx).Actor.User.ID, req.Id, name, rest.Val(req.Params.From), rest.Val(req.Params.To))
	if err != nil {
		return nil, err
	}
	return api.GetParts200JSONResponse{Path: guest.EncodePath(f.Path), From: f.From, To: f.To, WholeOnly: f.Binary, Hunks: rest.List(f.Hunks, func(x stage.HunkLines) api.HunkLines {
		return api.HunkLines{OldStart: x.OldStart, OldLines: x.OldLines, NewStart: x.NewStart, NewLines: x.NewLines, Hash: &x.Hash,
			Removed: rest.List(x.Removed, shownLine), Added: rest.List(x.Added, shownLine)}
	})}, nil
}

// shownLine is a line as people read it.
func shownLine(l string) string {
	return strings.ToValidUTF8(strings.TrimSuffix(l, "\n"), "\uFFFD")
}

func (h Parts) StageParts(ctx context.Context, req api.StagePartsRequestObject) (api.StagePartsResponseObject, error) {
	b := req.Body
	r := partsOf(api.PartsRequest{From: b.From, To: b.To, Parts: b.Parts})
	if err := h.cfg.Workspaces.Stage.Stage(ctx, rest.CallOf(ctx).Actor, req.Id, r, rest.Val(b.Unstage)); err != nil {
		return nil, err
	}
	if rest.Val(b.Unstage) {
		audit.Note(ctx, "unstage", "true")
	}
	x, err := h.cfg.Workspaces.Stage.Index(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.StageParts200JSONResponse(indexOf(x)), nil
}

func (h Parts) DiscardParts(ctx context.Context, req api.DiscardPartsRequestObject) (api.DiscardPartsResponseObject, error) {
	d, err := h.cfg.Workspaces.Stage.Discard(ctx, rest.CallOf(ctx).Actor, req.Id, partsOf(*req.Body))
	audit.Note(ctx, "snapshot_id", d.SnapshotID)
	if err != nil {
		return nil, err
	}
	return api.DiscardParts200JSONResponse{SnapshotId: d.SnapshotID, After: d.After, Files: rest.List(d.Files, guest.EncodePath)}, nil
}

func (h Parts) TakeFiles(ctx context.Context, req api.TakeFilesRequestObject) (api.TakeFilesResponseObject, error) {
	c := rest.CallOf(ctx)
	from, err := h.cfg.Workspaces.Records.Workspace(ctx, req.Body.FromWorkspace)
	if err != nil {
		return nil, err
	}
	o, err := h.ObjectOf(ctx, c.Actor, from)
	if err == nil {
		err = accounts.Can(c.Actor, accounts.ViewWorkspace, o)
	}
	if err != nil || from.TeamID != c.Team.ID {
		return nil, fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	t, err := h.cfg.Workspaces.Stage.Take(ctx, c.Actor, req.Id, stage.TakeRequest{From: from.ID, Revision: rest.Val(req.Body.Revision),
		Paths: rest.List(req.Body.Paths, guest.DecodePath), OnConflict: string(rest.Val(req.Body.OnConflict)), DryRun: rest.Val(req.Body.DryRun)})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "from", from.ID)
	audit.Note(ctx, "snapshot_id", t.SnapshotID)
	return api.TakeFiles200JSONResponse{SnapshotId: t.SnapshotID, Commit: t.Commit, Items: rest.List(t.Files, func(f stage.TakenFile) api.TakenFile {
		return api.TakenFile{Path: guest.EncodePath(f.Path), State: api.TakenFileState(f.State), Size: f.Size, KeptAs: guest.EncodePath(f.KeptAs)}
	})}, nil
}

func (h Parts) RenameFile(ctx context.Context, req api.RenameFileRequestObject) (api.RenameFileResponseObject, error) {
	if secrets, err := h.cfg.Workspaces.SecretFiles.SecretFiles(ctx, req.Id); err != nil {
		return nil, err
	} else if secretBelow(secrets, guest.DecodePath(req.Body.From)) {
		return nil, errSecretFile
	}
	if err := h.keepFile(ctx, req.Id, req.Body.From); err != nil {
		return nil, err
	}
	info, err := h.cfg.Files.Rename(ctx, req.Id, req.Body.From, req.Body.To)
	if err != nil {
		return nil, err
	}
	return api.RenameFile200JSONResponse(fileOf(info)), nil
}

// secretBelow reports whether a secret's file is at or below a path: elsewhere its name would not tell that it is one.
func secretBelow(secrets workspaces.SecretFiles, at string) bool {
	at = path.Clean(at)
	for name := range secrets.Paths {
		if name == at || strings.HasPrefix(name, at+"/") {
			return true
		}
	}
	return false
}

// keepFile keeps all files of a workspace before one of them is written over or removed.
func (h *group) keepFile(ctx context.Context, workspaceID, wire string) error {
	_, err := h.keep(ctx, workspaceID, wire)
	return err
}

// keep is keepFile, and returns the snapshot: the zero one where there is nothing to lose.
func (h *group) keep(ctx context.Context, workspaceID, wire string) (snapshot.Snap, error) {
	_, err := h.cfg.Files.Stat(ctx, workspaceID, wire)
	if fault.Is(err, fault.NotFound) || fault.CodeOf(err) == "not_a_directory" {
		return snapshot.Snap{}, nil // the write itself reports any other error
	}
	if err != nil {
		return snapshot.Snap{}, err
	}
	return h.cfg.Workspaces.Snapshots.Take(ctx, workspaceID, snapshot.Request{Kind: "kept", Reason: "edit", Title: wire, ActorID: rest.CallOf(ctx).Actor.User.ID})
}
