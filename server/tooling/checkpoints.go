package tooling

import (
	"context"
	"strings"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/checkpoints"
)

// checkpointOf shows a checkpoint. names are those of the team's members.
func checkpointOf(c checkpoints.Checkpoint, names map[string]string) api.Checkpoint {
	out := api.Checkpoint{Id: c.ID, At: c.At, WorkspaceId: c.WorkspaceID, SessionId: rest.Text(c.SessionID), Agent: c.Agent, SnapshotId: c.SnapshotID,
		Reason: api.CheckpointReason(c.Reason), Note: c.Note, NextStep: c.NextStep, Files: c.Files}
	if c.CreatedBy != "" {
		out.CreatedBy = &api.SnapshotActor{Id: c.CreatedBy, Name: names[c.CreatedBy]}
	}
	return out
}

func (h Checkpoints) names(ctx context.Context) (map[string]string, error) {
	return rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Object.TeamID)
}

func (h Checkpoints) ListCheckpoints(ctx context.Context, req api.ListCheckpointsRequestObject) (api.ListCheckpointsResponseObject, error) {
	items, next, err := h.cfg.Checkpoints.List(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	names, err := h.names(ctx)
	return api.ListCheckpoints200JSONResponse{NextCursor: rest.Text(next), Items: rest.List(items, func(c checkpoints.Checkpoint) api.Checkpoint { return checkpointOf(c, names) })}, err
}

func (h Checkpoints) CreateCheckpoint(ctx context.Context, req api.CreateCheckpointRequestObject) (api.CreateCheckpointResponseObject, error) {
	c, err := h.cfg.Checkpoints.Create(ctx, checkpoints.Request{WorkspaceID: req.Id, UserID: rest.CallOf(ctx).Actor.User.ID, SessionID: rest.Val(req.Body.SessionId),
		Note: rest.Val(req.Body.Note), NextStep: rest.Val(req.Body.NextStep)})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "checkpoint", c.ID)
	names, err := h.names(ctx)
	return api.CreateCheckpoint201JSONResponse(checkpointOf(c, names)), err
}

func (h Checkpoints) GetCheckpoint(ctx context.Context, _ api.GetCheckpointRequestObject) (api.GetCheckpointResponseObject, error) {
	c := rest.CallOf(ctx).Checkpoint
	names, err := h.names(ctx)
	return api.GetCheckpoint200JSONResponse{Checkpoint: checkpointOf(c, names), Items: c.Messages.Items, Artifacts: append([]string{}, c.Artifacts...),
		Messages: rest.List(c.Messages.Tail, func(m checkpoints.Message) api.CheckpointMessage {
			return api.CheckpointMessage{Role: api.CheckpointMessageRole(m.Role), Text: m.Text, At: m.At}
		}),
		Tasks: rest.List(c.Tasks, func(t checkpoints.Task) api.CheckpointTask {
			return api.CheckpointTask{Id: t.ID, Title: t.Title, Status: t.Status}
		})}, err
}

func (h Checkpoints) DeleteCheckpoint(ctx context.Context, _ api.DeleteCheckpointRequestObject) (api.DeleteCheckpointResponseObject, error) {
	c := rest.CallOf(ctx).Checkpoint
	audit.Note(ctx, "workspace", c.WorkspaceID)
	if err := h.cfg.Checkpoints.Delete(ctx, c); err != nil {
		return nil, err
	}
	return api.DeleteCheckpoint204Response{}, nil
}

func (h Checkpoints) DiffCheckpoint(ctx context.Context, req api.DiffCheckpointRequestObject) (api.DiffCheckpointResponseObject, error) {
	r := checkpoints.DiffRequest{Against: rest.Val(req.Params.Against)}
	var err error
	if p := rest.Val(req.Params.Path); p != "" {
		if r.Paths, err = checkpoints.Paths([]string{p}); err != nil {
			return nil, err
		}
	}
	d, err := h.cfg.Checkpoints.Diff(ctx, rest.CallOf(ctx).Checkpoint, r)
	if err != nil {
		return nil, err
	}
	out := api.DiffCheckpoint200JSONResponse{Total: d.Total, Additions: d.Additions, Deletions: d.Deletions, Patch: strings.ToValidUTF8(d.Patch, "\uFFFD"), Truncated: d.Truncated}
	out.Files = make([]struct {
		Additions int                           `json:"additions"`
		Deletions int                           `json:"deletions"`
		Path      string                        `json:"path"`
		Status    api.CheckpointDiffFilesStatus `json:"status"`
	}, len(d.Files))
	for i, f := range d.Files {
		o := &out.Files[i]
		o.Path, o.Status, o.Additions, o.Deletions = guest.EncodePath(f.Path), api.CheckpointDiffFilesStatus(f.Status), f.Additions, f.Deletions
	}
	return out, nil
}

func (h Checkpoints) RestoreCheckpoint(ctx context.Context, req api.RestoreCheckpointRequestObject) (api.RestoreCheckpointResponseObject, error) {
	call := rest.CallOf(ctx)
	paths, err := checkpoints.Paths(rest.Val(req.Body.Paths))
	if err != nil {
		return nil, err
	}
	done, err := h.cfg.Checkpoints.Restore(ctx, call.Actor, call.Checkpoint, checkpoints.RestoreRequest{Paths: paths, EvenWhileWorking: rest.Val(req.Body.EvenWhileWorking)})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "checkpoint", call.Checkpoint.ID)
	return api.RestoreCheckpoint200JSONResponse{Changed: rest.List(done.Changed, guest.EncodePath), Conflicts: rest.List(done.Conflicts, guest.EncodePath), SafetySnapshot: done.Kept.ID}, nil
}
