package money

import (
	"context"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// GetGateway tells how the model gateway does.
func (h Gateway) GetGateway(ctx context.Context, _ api.GetGatewayRequestObject) (api.GetGatewayResponseObject, error) {
	hour, day, err := h.cfg.Gateway.Report(ctx)
	if err != nil {
		return nil, err
	}
	c := h.cfg.Gateway.Counts()
	return api.GetGateway200JSONResponse{Enabled: h.cfg.GatewayEnabled, Hour: gatewaySpan(hour), Day: gatewaySpan(day), Since: c.Since, InFlight: c.InFlight,
		OwnP50Us: c.Own.Below(gateway.OwnBounds[:], 50), OwnP95Us: c.Own.Below(gateway.OwnBounds[:], 95)}, nil
}

func gatewaySpan(s gateway.Span) api.GatewaySpan {
	return api.GatewaySpan{From: s.From, To: s.To, Whole: s.Whole, All: gatewayLine(s.All), Upstreams: rest.List(s.Upstreams, gatewayLine), Models: rest.List(s.Models, gatewayLine),
		Errors: rest.List(s.Errors, func(e gateway.ErrorCount) api.GatewayError {
			return api.GatewayError{Error: e.Error, Status: e.Status, Count: e.Count}
		})}
}

func gatewayLine(l gateway.Line) api.GatewayLine {
	return api.GatewayLine{Name: l.Name, Requests: l.Requests, Failed: l.Failed, Refused: l.Refused, Retries: l.Retries, FirstByteP50Ms: l.FirstByteP50Ms, FirstByteP95Ms: l.FirstByteP95Ms}
}

// ListModelPrices lists what models cost.
func (h Gateway) ListModelPrices(ctx context.Context, _ api.ListModelPricesRequestObject) (api.ListModelPricesResponseObject, error) {
	all, err := h.cfg.Tokens.Prices(ctx)
	if err != nil {
		return nil, err
	}
	inForce := tokens.InForce(all, h.cfg.Now().UnixMilli())
	return api.ListModelPrices200JSONResponse{Items: rest.List(all, func(p tokens.Price) api.ModelPrice { return modelPrice(p, inForce[p.ID]) })}, nil
}

func modelPrice(p tokens.Price, inForce bool) api.ModelPrice {
	return api.ModelPrice{Id: p.ID, Model: p.Model, InputNano: p.InputNano, OutputNano: p.OutputNano, CacheReadNano: p.CacheReadNano, CacheWriteNano: p.CacheWriteNano,
		CacheWriteHourNano: p.CacheWriteHourNano, EffectiveFrom: p.EffectiveFrom, BuiltIn: p.CreatedBy == "", InForce: inForce, CreatedBy: p.CreatedBy, CreatedAt: p.CreatedAt}
}

// AddModelPrice adds what a model costs from a time on.
func (h Gateway) AddModelPrice(ctx context.Context, req api.AddModelPriceRequestObject) (api.AddModelPriceResponseObject, error) {
	b := req.Body
	p, err := h.cfg.Tokens.AddPrice(ctx, rest.CallOf(ctx).Actor.User.ID, tokens.Price{Model: b.Model, InputNano: b.InputNano, OutputNano: b.OutputNano, CacheReadNano: b.CacheReadNano,
		CacheWriteNano: b.CacheWriteNano, CacheWriteHourNano: b.CacheWriteHourNano, EffectiveFrom: rest.Val(b.EffectiveFrom)})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "model_price", p.ID, p.Model)
	all, err := h.cfg.Tokens.Prices(ctx)
	if err != nil {
		return nil, err
	}
	return api.AddModelPrice201JSONResponse(modelPrice(p, tokens.InForce(all, h.cfg.Now().UnixMilli())[p.ID])), nil
}

func modelLimit(l gateway.Limit) api.ModelLimit {
	return api.ModelLimit{Model: l.Model, Allowed: l.Allowed, RequestsMinute: l.RequestsMinute, TokensMinute: l.TokensMinute}
}

// modelLimits are the rules of a team, "" = of every team, with the server's own.
func (h Gateway) modelLimits(ctx context.Context, teamID string) (api.ModelLimitList, error) {
	own, err := h.cfg.Gateway.Limits(ctx, teamID)
	if err != nil {
		return api.ModelLimitList{}, err
	}
	servers := own
	if teamID != "" {
		if servers, err = h.cfg.Gateway.Limits(ctx, ""); err != nil {
			return api.ModelLimitList{}, err
		}
	}
	return api.ModelLimitList{Items: rest.List(own, modelLimit), Instance: rest.List(servers, modelLimit)}, nil
}

func (h Gateway) setModelLimits(ctx context.Context, teamID string, items []api.ModelLimit) (api.ModelLimitList, error) {
	limits := rest.List(items, func(l api.ModelLimit) gateway.Limit {
		return gateway.Limit{Model: l.Model, Allowed: l.Allowed, RequestsMinute: l.RequestsMinute, TokensMinute: l.TokensMinute}
	})
	if err := h.cfg.Gateway.SetLimits(ctx, teamID, rest.CallOf(ctx).Actor.User.ID, limits); err != nil {
		return api.ModelLimitList{}, err
	}
	audit.Note(ctx, "rules", gateway.Words(limits))
	return h.modelLimits(ctx, teamID)
}

// GetInstanceModelLimits tells which models every team may ask.
func (h Gateway) GetInstanceModelLimits(ctx context.Context, _ api.GetInstanceModelLimitsRequestObject) (api.GetInstanceModelLimitsResponseObject, error) {
	out, err := h.modelLimits(ctx, "")
	return api.GetInstanceModelLimits200JSONResponse(out), err
}

// SetInstanceModelLimits replaces them.
func (h Gateway) SetInstanceModelLimits(ctx context.Context, req api.SetInstanceModelLimitsRequestObject) (api.SetInstanceModelLimitsResponseObject, error) {
	out, err := h.setModelLimits(ctx, "", req.Body.Items)
	return api.SetInstanceModelLimits200JSONResponse(out), err
}

// GetModelLimits tells which models a team may ask.
func (h Gateway) GetModelLimits(ctx context.Context, _ api.GetModelLimitsRequestObject) (api.GetModelLimitsResponseObject, error) {
	out, err := h.modelLimits(ctx, rest.CallOf(ctx).Team.ID)
	return api.GetModelLimits200JSONResponse(out), err
}

// SetModelLimits replaces them.
func (h Gateway) SetModelLimits(ctx context.Context, req api.SetModelLimitsRequestObject) (api.SetModelLimitsResponseObject, error) {
	out, err := h.setModelLimits(ctx, rest.CallOf(ctx).Team.ID, req.Body.Items)
	return api.SetModelLimits200JSONResponse(out), err
}

func modelRequest(r tokens.Request) api.ModelRequest {
	return api.ModelRequest{Id: r.ID, SessionId: r.SessionID, WorkspaceId: r.WorkspaceID, ProjectId: r.ProjectID, UserId: r.UserID, Agent: r.Agent, Source: r.Source, Api: r.API,
		Model: r.Model, Upstream: r.Upstream, Status: r.Status, Error: r.Error, Attempts: r.Attempts, InputTokens: r.Input, OutputTokens: r.Output, CacheReadTokens: r.CacheRead,
		CacheWriteTokens: r.CacheWrite, CacheWriteHourTokens: r.CacheWriteHour, ReasoningTokens: r.Reasoning, CostNano: r.CostNano, Included: r.PriceID == tokens.Included,
		FirstByteMs: r.FirstByteMs, DurationMs: r.DurationMs, At: r.At}
}

func (h Gateway) modelRequests(ctx context.Context, f tokens.Filter, limit *int, cursor *string) (api.ModelRequestList, error) {
	items, next, err := h.cfg.Tokens.Requests(ctx, f, page.Page{Limit: rest.Val(limit), Cursor: rest.Val(cursor)})
	return api.ModelRequestList{Items: rest.List(items, modelRequest), NextCursor: rest.Text(next)}, err
}

// ListTeamModelRequests lists what a team's agents asked, without what the caller may not see.
func (h Gateway) ListTeamModelRequests(ctx context.Context, req api.ListTeamModelRequestsRequestObject) (api.ListTeamModelRequestsResponseObject, error) {
	p, call := req.Params, rest.CallOf(ctx)
	f := tokens.Filter{TeamID: call.Team.ID, Model: rest.Val(p.Model), Error: rest.Val(p.Error), From: rest.Val(p.From), Until: rest.Val(p.To)}
	hidden, err := h.Veiled(ctx, call.Actor, call.Team.ID)
	if err != nil {
		return nil, err
	}
	for _, w := range hidden {
		f.NotIn = append(f.NotIn, w.ID)
	}
	out, err := h.modelRequests(ctx, f, p.Limit, p.Cursor)
	return api.ListTeamModelRequests200JSONResponse(out), err
}

// ListModelRequests lists what a session's agent asked.
func (h Gateway) ListModelRequests(ctx context.Context, req api.ListModelRequestsRequestObject) (api.ListModelRequestsResponseObject, error) {
	out, err := h.modelRequests(ctx, tokens.Filter{TeamID: rest.CallOf(ctx).Team.ID, SessionID: req.Id}, req.Params.Limit, req.Params.Cursor)
	return api.ListModelRequests200JSONResponse(out), err
}
