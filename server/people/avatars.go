package people

import (
	"context"
	"net/http"
	"strconv"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// SetMyAvatar takes the caller's picture.
func (h Accounts) SetMyAvatar(ctx context.Context, req api.SetMyAvatarRequestObject) (api.SetMyAvatarResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	version, err := h.cfg.Avatars.Set(ctx, actor.User.ID, req.Body)
	if err != nil {
		return nil, err
	}
	actor.User.Avatar = version
	return api.SetMyAvatar200JSONResponse(meOf(actor)), nil
}

// DeleteMyAvatar removes it.
func (h Accounts) DeleteMyAvatar(ctx context.Context, _ api.DeleteMyAvatarRequestObject) (api.DeleteMyAvatarResponseObject, error) {
	if err := h.cfg.Avatars.Remove(ctx, rest.CallOf(ctx).Actor.User.ID); err != nil {
		return nil, err
	}
	return api.DeleteMyAvatar204Response{}, nil
}

// GetMemberAvatar answers with the picture of a member of the team.
func (h Teams) GetMemberAvatar(ctx context.Context, req api.GetMemberAvatarRequestObject) (api.GetMemberAvatarResponseObject, error) {
	raw, err := h.cfg.Avatars.Get(ctx, rest.CallOf(ctx).Team.ID, req.Id, req.Params.Version, rest.Val(req.Params.Size) == api.Large)
	return avatar(raw), err
}

// avatar sends a picture of a version that never changes.
type avatar []byte

// VisitGetMemberAvatarResponse writes the answer.
func (a avatar) VisitGetMemberAvatarResponse(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "image/jpeg")
	h.Set("Content-Length", strconv.Itoa(len(a)))
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	_, err := w.Write(a)
	return err
}
