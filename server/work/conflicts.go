package work

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces/conflict"
)

func conflictSideOf(s *conflict.ConflictSide) *api.ConflictSide {
	if s == nil {
		return nil
	}
	types := map[string]api.ConflictSideType{"100755": api.ConflictSideTypeProgram, "120000": api.ConflictSideTypeSymlink, "160000": api.ConflictSideTypeSubmodule}
	out := &api.ConflictSide{Path: guest.EncodePath(s.Path), Type: types[s.Mode], Size: s.Size, Oid: s.OID}
	out.Type = cmp.Or(out.Type, api.ConflictSideTypeFile)
	return out
}

func openConflictsOf(o conflict.OpenConflicts) api.OpenConflicts {
	return api.OpenConflicts{Operation: api.OpenConflictsOperation(o.Operation), Asleep: o.Asleep, Branch: o.Branch, Base: o.Base, More: o.More,
		Items: rest.List(o.Files, func(c conflict.OpenConflict) api.OpenConflict {
			marks := c.Marks
			if marks == nil {
				marks = []int{}
			}
			return api.OpenConflict{Path: guest.EncodePath(c.Path), Kind: api.OpenConflictKind(c.Kind), Was: conflictSideOf(c.Was), Branch: conflictSideOf(c.Branch), Base: conflictSideOf(c.Base),
				Marks: marks, Choices: rest.List(c.Choices, func(x string) api.ConflictChoice { return api.ConflictChoice(x) }), Other: guest.EncodePath(c.Other), Decided: c.Decided,
				Taken: api.OpenConflictTaken(c.Taken), Version: c.Version}
		})}
}

func (h Conflicts) GetConflicts(ctx context.Context, req api.GetConflictsRequestObject) (api.GetConflictsResponseObject, error) {
	wake := rest.Val(req.Params.Wake)
	if wake {
		if err := rest.CallOf(ctx).Can(accounts.EditWorkspace); err != nil {
			return nil, err
		}
	}
	o, err := h.cfg.Workspaces.Conflicts.OpenConflicts(ctx, req.Id, wake)
	if err != nil {
		return nil, err
	}
	return api.GetConflicts200JSONResponse(openConflictsOf(o)), nil
}

func (h Conflicts) DecideConflicts(ctx context.Context, req api.DecideConflictsRequestObject) (api.DecideConflictsResponseObject, error) {
	d := conflict.Decisions{SnapshotID: rest.Val(req.Body.SnapshotId)}
	for _, x := range req.Body.Decisions {
		d.List = append(d.List, conflict.Decision{Path: guest.DecodePath(x.Path), Version: x.Version, Take: string(rest.Val(x.Take)), Undo: rest.Val(x.Undo)})
	}
	snapshot, err := h.cfg.Workspaces.Conflicts.Decide(ctx, rest.CallOf(ctx).Actor, req.Id, d)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "path", d.List[0].Path)
	audit.Note(ctx, "take", d.List[0].Take)
	audit.Note(ctx, "snapshot", snapshot)
	o, err := h.cfg.Workspaces.Conflicts.OpenConflicts(ctx, req.Id, false)
	if err != nil {
		return nil, err
	}
	return api.DecideConflicts200JSONResponse{SnapshotId: snapshot, Conflicts: openConflictsOf(o)}, nil
}

// conflictFile is an answer of the bytes of one side.
type conflictFile struct{ bytesAnswer }

// VisitGetConflictFileResponse writes the answer of GetConflictFile.
func (a conflictFile) VisitGetConflictFileResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "private, no-store")
	return a.visit(w)
}

func (h Conflicts) GetConflictFile(ctx context.Context, req api.GetConflictFileRequestObject) (api.GetConflictFileResponseObject, error) {
	raw, _, err := h.cfg.Workspaces.Conflicts.ConflictFile(ctx, req.Id, guest.DecodePath(req.Params.Path), string(req.Params.Side))
	if err != nil {
		return nil, err
	}
	return conflictFile{bytesAnswer{body: io.NopCloser(bytes.NewReader(raw)), mediaType: "application/octet-stream", size: int64(len(raw)),
		header: map[string]string{"Content-Disposition": disposition(req.Params.Path)}}}, nil
}
