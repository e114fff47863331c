package server

import (
	"context"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

// ownIn is how the caller's own secrets are asked about in the call's workspace.
func ownIn(call *rest.Call, w workspaces.Workspace) secrets.Ask {
	id := call.Actor.User.ID
	return secrets.Ask{TeamID: w.TeamID, UserID: id, WorkspaceID: w.ID, Private: w.Private && w.CreatedBy == id}
}

// ownSecrets tells how the caller's own secrets stand in the call's workspace.
func (h operations) ownSecrets(ctx context.Context) (api.OwnSecrets, error) {
	call := rest.CallOf(ctx)
	o, err := h.cfg.Secrets.Own(ctx, ownIn(call, call.Workspace))
	return api.OwnSecrets{Count: int64(o.Count), Others: o.Others, Agreed: o.Agreed, Given: o.Given()}, err
}

// GetOwnSecrets answers with how the caller's own secrets stand in a workspace.
func (h operations) GetOwnSecrets(ctx context.Context, _ api.GetOwnSecretsRequestObject) (api.GetOwnSecretsResponseObject, error) {
	out, err := h.ownSecrets(ctx)
	return api.GetOwnSecrets200JSONResponse(out), err
}

// SetOwnSecrets notes whether the caller agrees that others who work in a workspace could read their own secrets there.
func (h operations) SetOwnSecrets(ctx context.Context, req api.SetOwnSecretsRequestObject) (api.SetOwnSecretsResponseObject, error) {
	call := rest.CallOf(ctx)
	if err := h.cfg.Secrets.Agree(ctx, ownIn(call, call.Workspace), req.Body.Agreed); err != nil {
		return nil, err
	}
	if req.Body.Agreed {
		h.cfg.Sessions.Masks.WantedBeside(call.Workspace.ID, call.Actor.User.ID, "")
	} else {
		h.sockets.part(call.Workspace.ID, call.Actor.User.ID)
	}
	out, err := h.ownSecrets(ctx)
	return api.SetOwnSecrets200JSONResponse(out), err
}
