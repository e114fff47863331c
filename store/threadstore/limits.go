package threadstore

import (
	"context"
	"database/sql"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

var _ agent.LimitStore = (*Threads)(nil)

// TurnLimits returns those of a team, or with a project of that one.
func (s *Threads) TurnLimits(ctx context.Context, teamID, projectID string) (agent.TurnLimits, error) {
	l := agent.TurnLimits{TeamID: teamID, ProjectID: projectID}
	var steps, minutes, cost sql.NullInt64
	err := s.db.QueryRow(ctx, `SELECT steps, minutes, cost_nano, updated_by, updated_at FROM agent_limits WHERE team_id = ? AND project_id = ? AND {team}`, teamID, projectID).
		Scan(&steps, &minutes, &cost, &l.UpdatedBy, &l.UpdatedAt)
	if fault.Is(err, fault.NotFound) {
		return l, nil
	}
	l.Steps, l.Minutes, l.CostNano = pointer(steps), pointer(minutes), pointer(cost)
	return l, store.Wrap(err, "reading the limits of turns")
}

// SetTurnLimits replaces them.
func (s *Threads) SetTurnLimits(ctx context.Context, l agent.TurnLimits) error {
	_, err := s.db.Exec(ctx, `INSERT INTO agent_limits (team_id, project_id, steps, minutes, cost_nano, updated_by, updated_at) VALUES ({team?},?,?,?,?,?,?)
		ON CONFLICT (team_id, project_id) DO UPDATE SET steps = excluded.steps, minutes = excluded.minutes, cost_nano = excluded.cost_nano, updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
		l.TeamID, l.ProjectID, nullable(l.Steps), nullable(l.Minutes), nullable(l.CostNano), l.UpdatedBy, l.UpdatedAt)
	return store.Wrap(err, "storing the limits of turns")
}

func pointer(n sql.NullInt64) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.Int64
}

func nullable(n *int64) sql.NullInt64 {
	if n == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *n, Valid: true}
}
