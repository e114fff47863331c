package stripe

import (
	"context"
	"fmt"
	"slices"
)

// Standing is how a team stands, for its members.
type Standing struct {
	Account  Account
	Plan     Plan   // the one that holds
	Offered  []Plan // what may be chosen
	Members  int64
	Owing    *PastDueState
	Invoices []Invoice // the newest first
}

// Standing says how a team stands. It asks nobody but the storage.
func (s *Service) Standing(ctx context.Context, teamID string) (Standing, error) {
	var out Standing
	var err error
	if out.Account, err = s.cfg.Store.Account(ctx, teamID); err != nil {
		return out, fmt.Errorf("reading a team's account: %w", err)
	}
	plans, err := s.cfg.Store.Plans(ctx)
	if err != nil {
		return out, fmt.Errorf("reading plans: %w", err)
	}
	have := out.Account.PlanID
	if have == "" {
		have = s.cfg.DefaultPlan(ctx)
	}
	if i := slices.IndexFunc(plans, func(p Plan) bool { return p.ID == have }); i >= 0 {
		out.Plan = plans[i]
	} else {
		out.Plan = Plan{ID: have, Name: have}
	}
	for _, p := range plans {
		if p.Offered {
			out.Offered = append(out.Offered, p)
		}
	}
	if out.Members, err = s.cfg.Store.CountMembers(ctx, teamID); err != nil {
		return out, fmt.Errorf("counting members: %w", err)
	}
	out.Owing = s.Owing(out.Account)
	if out.Invoices, err = s.cfg.Store.Invoices(ctx, teamID, keptInvoices); err != nil {
		return out, fmt.Errorf("reading invoices: %w", err)
	}
	return out, nil
}
