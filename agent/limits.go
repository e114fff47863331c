package agent

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// TurnLimits are what a team, or one of its projects, allows a turn at most. Nil: it sets no limit of its own.
type TurnLimits struct {
	TeamID    string
	ProjectID string // "" = in all projects
	Steps     *int64
	Minutes   *int64
	CostNano  *int64 // nano-USD
	UpdatedBy string
	UpdatedAt int64
}

// LimitStore stores the limits of teams and projects.
type LimitStore interface {
	// TurnLimits returns those of a team, or with a project of that one. Where none were set, they are empty.
	TurnLimits(ctx context.Context, teamID, projectID string) (TurnLimits, error)
	SetTurnLimits(ctx context.Context, l TurnLimits) error
}

// Bounds of what can be set.
const (
	mostSteps    = 10_000
	mostMinutes  = 7 * 24 * 60
	mostCostNano = 1_000_000 * 1e9
)

// TurnLimits returns the limits of a team, or with a project of that one.
func (s *Service) TurnLimits(ctx context.Context, teamID, projectID string) (TurnLimits, error) {
	return s.cfg.TurnLimits.TurnLimits(ctx, teamID, projectID)
}

// SetTurnLimits replaces them, from the next turns on. Errors: invalid_turn_limits.
func (s *Service) SetTurnLimits(ctx context.Context, l TurnLimits) (TurnLimits, error) {
	for _, c := range []struct {
		field string
		value *int64
		most  int64
	}{{"max_steps", l.Steps, mostSteps}, {"max_minutes", l.Minutes, mostMinutes}, {"max_cost_nano_usd", l.CostNano, mostCostNano}} {
		if c.value != nil && (*c.value < 1 || *c.value > c.most) {
			return l, fault.New(fault.Invalid, "invalid_turn_limits", "%s is from 1 to %d, or null for no limit of its own.", c.field, c.most).With("field", c.field)
		}
	}
	l.UpdatedAt = s.now()
	return l, s.cfg.TurnLimits.SetTurnLimits(ctx, l)
}

// limitsOf are the limits of a turn of a thread: of this server's, the team's and the project's the smallest.
func (s *Service) limitsOf(ctx context.Context, t Thread) (Limits, error) {
	out := s.cfg.Limits
	if s.cfg.TurnLimits == nil {
		return out, nil
	}
	for _, project := range []string{"", t.ProjectID} {
		l, err := s.cfg.TurnLimits.TurnLimits(ctx, t.TeamID, project)
		if err != nil {
			return out, err
		}
		if l.Steps != nil {
			out.Steps = min(out.Steps, *l.Steps)
		}
		if l.Minutes != nil {
			out.Time = min(out.Time, time.Duration(*l.Minutes)*time.Minute)
		}
		if l.CostNano != nil && (out.CostNano == 0 || *l.CostNano < out.CostNano) {
			out.CostNano = *l.CostNano
		}
	}
	return out, nil
}
