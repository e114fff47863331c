package tooling

import (
	"context"
	"strings"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/edits"
)

// editOf shows an edit. names are those of the team's members.
func editOf(e edits.Edit, names map[string]string) api.Edit {
	out := api.Edit{Id: e.ID, At: e.At, WorkspaceId: e.WorkspaceID, SessionId: rest.Text(e.SessionID), Agent: e.Agent, CallId: e.CallID, Tool: e.Tool, Calls: append([]string{}, e.Calls...), Turn: e.Turn,
		Operation: e.Operation, UndoOf: rest.Text(e.UndoOf), Evidence: api.EditEvidence(e.Evidence), Path: e.Path, OldPath: rest.Text(e.OldPath), Kind: api.EditKind(e.Kind),
		Before: rest.Text(e.Before), After: rest.Text(e.After), Additions: e.Additions, Deletions: e.Deletions, Binary: e.Binary, SnapshotId: e.SnapshotID, VerifiedTree: rest.Text(e.Tree)}
	if e.UserID != "" {
		out.By = &api.SnapshotActor{Id: e.UserID, Name: names[e.UserID]}
	}
	if e.UndoneAt != 0 {
		out.UndoneAt = &e.UndoneAt
		out.UndoneBy = &api.SnapshotActor{Id: e.UndoneBy, Name: names[e.UndoneBy]}
	}
	if e.Verified != "" {
		v := api.EditVerified(e.Verified)
		out.Verified, out.VerifiedAt = &v, &e.VerifiedAt
	}
	return out
}

func (h Edits) names(ctx context.Context) (map[string]string, error) {
	return rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Object.TeamID)
}

func (h Edits) ListEdits(ctx context.Context, req api.ListEditsRequestObject) (api.ListEditsResponseObject, error) {
	q := edits.Query{WorkspaceID: req.Id, Path: strings.TrimPrefix(rest.Val(req.Params.Path), "./"), SessionID: rest.Val(req.Params.Session), Page: rest.PageOf(req.Params.Limit, req.Params.Cursor)}
	if q.Path != "" {
		if err := guest.CheckPath(q.Path); err != nil {
			return nil, err
		}
	}
	items, next, c, err := h.cfg.Edits.List(ctx, q)
	if err != nil {
		return nil, err
	}
	names, err := h.names(ctx)
	return api.ListEdits200JSONResponse{NextCursor: rest.Text(next), LeftOut: c.LeftOut, Pruned: c.Pruned, Items: rest.List(items, func(e edits.Edit) api.Edit { return editOf(e, names) })}, err
}

func (h Edits) GetEdit(ctx context.Context, req api.GetEditRequestObject) (api.GetEditResponseObject, error) {
	e, err := h.cfg.Edits.Get(ctx, req.Id, req.Edit)
	if err != nil {
		return nil, err
	}
	d, err := h.cfg.Edits.Diff(ctx, e)
	if err != nil {
		return nil, err
	}
	names, err := h.names(ctx)
	return api.GetEdit200JSONResponse{Edit: editOf(e, names), Diff: strings.ToValidUTF8(d.Text, "\uFFFD"), Truncated: d.Truncated, Expired: d.Expired}, err
}

func (h Edits) UndoEdit(ctx context.Context, req api.UndoEditRequestObject) (api.UndoEditResponseObject, error) {
	e, err := h.cfg.Edits.Get(ctx, req.Id, req.Edit)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "edit", e.ID)
	done, err := h.cfg.Edits.Undo(ctx, rest.CallOf(ctx).Actor, e, edits.UndoRequest{DryRun: rest.Val(req.Body.DryRun), EvenWhileWorking: rest.Val(req.Body.EvenWhileWorking)})
	if err != nil {
		return nil, err
	}
	return api.UndoEdit200JSONResponse{Changed: done.Changed, Merged: done.Merged, SafetySnapshot: rest.Text(done.Kept.ID)}, nil
}
