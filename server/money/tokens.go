package money

import (
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/server/api"
)

// SpentOf is what a session asked of models, as the API tells it.
func SpentOf(s tokens.Sum) api.SessionTokens {
	return api.SessionTokens{Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite, CostNano: CostOf(s), Requests: s.Requests,
		UnknownRequests: s.Unknown, IncludedRequests: s.Included, Source: api.SessionTokensSource(s.Source)}
}

// CostOf is what the requests cost whose cost is known; nil where that is none of them.
func CostOf(s tokens.Sum) *int64 {
	if s.Unknown+s.Included >= s.Requests {
		return nil
	}
	return &s.CostNano
}
