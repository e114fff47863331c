package quota

import (
	"cmp"
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Plans of the program itself.
const (
	Free       = "free"
	Enterprise = "enterprise"
)

// Plans are all there are, in order.
func (s *Service) Plans(ctx context.Context) ([]Plan, error) {
	all, err := s.cfg.Store.Plans(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the plans: %w", err)
	}
	return all, nil
}

// DefaultPlan is what a team has that nobody gave one. One that is gone binds nobody.
func (s *Service) DefaultPlan(ctx context.Context) (Plan, error) {
	id := ""
	if s.cfg.DefaultPlan != nil {
		id = s.cfg.DefaultPlan(ctx)
	}
	id = cmp.Or(id, Enterprise)
	p, err := s.cfg.Store.Plan(ctx, id)
	if fault.Is(err, fault.NotFound) && id != Enterprise {
		s.cfg.Log.Error("default plan does not exist: using the plan enterprise", "plan", id, "hint", "choose another default plan")
		p, err = s.cfg.Store.Plan(ctx, Enterprise)
	}
	if err != nil {
		return p, fmt.Errorf("reading the default plan: %w", err)
	}
	return p, nil
}

// PlanOf is the plan a team has, and how it stands with it.
func (s *Service) PlanOf(ctx context.Context, teamID string) (Plan, TeamPlan, error) {
	t, err := s.cfg.Store.TeamPlan(ctx, teamID)
	if err != nil {
		return Plan{}, t, fmt.Errorf("reading a team's plan: %w", err)
	}
	if t.PlanID == "" {
		p, err := s.DefaultPlan(ctx)
		return p, t, err
	}
	p, err := s.cfg.Store.Plan(ctx, t.PlanID)
	if err != nil {
		return p, t, fmt.Errorf("reading the plan %s: %w", t.PlanID, err)
	}
	return p, t, nil
}

// Effective is what a user may use in a team: the plan's, but for what was said of them by hand. userID "" = the server, for the team.
func (s *Service) Effective(ctx context.Context, teamID, userID string) (Quota, Plan, error) {
	p, _, err := s.PlanOf(ctx, teamID)
	if err != nil || userID == "" {
		return p.Quota, p, err
	}
	hand, err := s.cfg.Store.UserByHand(ctx, teamID, userID)
	if err != nil {
		return Quota{}, p, fmt.Errorf("reading a user's quota: %w", err)
	}
	return p.Quota.over(hand), p, nil
}

// Seats refuses one more member than a team's plan has room for, in the transaction of ctx that has added them.
func (s *Service) Seats(ctx context.Context, teamID string) error {
	ctx = tenant.In(ctx, teamID)
	p, _, err := s.PlanOf(ctx, teamID)
	if err != nil || p.Quota.Seats == nil {
		return err
	}
	members, err := s.cfg.Store.Members(ctx, teamID)
	if err != nil {
		return fmt.Errorf("counting the team's members: %w", err)
	}
	if n, most := int64(len(members)), *p.Quota.Seats; n > most {
		return fault.New(fault.Quota, "seats_taken", "The team's plan %s has room for %d members, and all places are taken. Remove a member, or choose a larger plan.", p.Name, most).
			With("scope", "seats").With("used", n-1).With("limit", most).With("unit", "members").With("ways", []string{"upgrade"})
	}
	return nil
}
