package server

import (
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/server/api"
)

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
