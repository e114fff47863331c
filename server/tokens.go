package server

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
)

// spent adds what sessions asked of models, for who may see costs.
func (h handlers) spent(ctx context.Context, all ...api.Session) ([]api.Session, error) {
	if len(all) == 0 || rest.CallOf(ctx).Can(accounts.ViewCosts) != nil {
		return all, nil
	}
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.Id
	}
	sums, err := h.cfg.Tokens.OfSessions(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		if sum, ok := sums[s.Id]; ok {
			all[i].Tokens = new(spentOf(sum))
		}
	}
	return all, nil
}

// spentBy is a session with what it asked of models.
func (h handlers) spentBy(ctx context.Context, s sessions.Session) (api.Session, error) {
	all, err := h.spent(ctx, sessionOf(s))
	if err != nil {
		return api.Session{}, err
	}
	return all[0], nil
}

func spentOf(s tokens.Sum) api.SessionTokens {
	return api.SessionTokens{Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite, CostNano: costOf(s), Requests: s.Requests,
		UnknownRequests: s.Unknown, IncludedRequests: s.Included, Source: api.SessionTokensSource(s.Source)}
}

// costOf is what the requests cost whose cost is known; nil where that is none of them.
func costOf(s tokens.Sum) *int64 {
	if s.Unknown+s.Included >= s.Requests {
		return nil
	}
	return &s.CostNano
}
