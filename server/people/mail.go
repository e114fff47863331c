package people

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Mail) GetMail(ctx context.Context, _ api.GetMailRequestObject) (api.GetMailResponseObject, error) {
	st, err := h.cfg.Mail.Status(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetMail200JSONResponse{Enabled: st.Enabled, Host: st.Host, From: st.From, Pending: st.Pending, GivenUp: st.GivenUp, LastError: st.LastError}, nil
}

func (h Mail) TestMail(ctx context.Context, req api.TestMailRequestObject) (api.TestMailResponseObject, error) {
	to := rest.Val(req.Body.To)
	if to == "" {
		to = rest.CallOf(ctx).Actor.User.Email
	}
	to, err := accounts.CleanEmail(to)
	if err != nil {
		return nil, err
	}
	if err := h.cfg.Mail.Test(ctx, to); err != nil {
		return nil, err
	}
	return api.TestMail200JSONResponse{To: to}, nil
}
