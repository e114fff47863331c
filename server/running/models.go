package running

import (
	"context"

	"github.com/parawork/parawork/agent/models"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Threads) ListModels(ctx context.Context, req api.ListModelsRequestObject) (api.ListModelsResponseObject, error) {
	call := rest.CallOf(ctx)
	l, err := h.cfg.Models.List(ctx, call.Actor, call.Team.ID, rest.Val(req.Params.AccountId), string(rest.Val(req.Params.Api)))
	if err != nil {
		return nil, err
	}
	return api.ListModels200JSONResponse{AccountId: l.AccountID, Api: api.ModelListApi(l.API), DefaultModel: l.Default, Items: rest.List(l.Models, func(m models.Info) api.Model {
		return api.Model{Name: m.Name, Title: m.Title, ContextWindow: m.Window, MaxOutput: m.Output}
	})}, nil
}
