package store

import (
	"context"

	"github.com/parawork/parawork/billing/quota"
)

// Enforce stores what limits did: thresholds that were passed, and work that has a grace period or is suspended.
type Enforce struct{ db *DB }

var _ quota.EnforceStore = (*Enforce)(nil)

// NewEnforce returns the storage of the enforcement of limits in db.
func NewEnforce(db *DB) *Enforce { return &Enforce{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Enforce) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

// RunningSandboxes returns the sandboxes of workspaces that run now where time or money counts. A run began when the sandbox last resumed: a
// segment that ended because a day, a price or the clock changed goes on in the next one, and time in the pool counts for no user.
func (s *Enforce) RunningSandboxes(ctx context.Context) ([]quota.AtWork, error) {
	rows, err := s.db.Query(ctx, `SELECT g.team_id, g.workspace_id, g.sandbox_id, g.user_id, g.executor, g.price_nano, g.metered,
			COALESCE((SELECT MIN(r.started_at) FROM segments r WHERE {team:r} AND r.sandbox_id = g.sandbox_id AND r.workspace_id = g.workspace_id AND r.adjusts_id = '' AND r.started_at >=
				COALESCE((SELECT MAX(e.ended_at) FROM segments e WHERE {team:e} AND e.sandbox_id = g.sandbox_id AND e.adjusts_id = '' AND e.ended_at > 0
					AND e.end_source NOT IN ('day', 'price', 'clock')), 0)), g.started_at)
		FROM segments g WHERE {team:g} AND g.ended_at = 0 AND g.workspace_id <> '' AND (g.metered OR g.price_nano > 0) ORDER BY g.workspace_id, g.id`)
	return Collect(rows, err, func(r Scanner) (v quota.AtWork, err error) {
		return v, r.Scan(&v.TeamID, &v.WorkspaceID, &v.SandboxID, &v.UserID, &v.Executor, &v.PriceNano, &v.Metered, &v.RunBegan)
	})
}

const graceColumns = `id, team_id, workspace_id, user_id, scope, scope_id, period, state, state_reason, began_at, ends_at, ended_at`

func scanGrace(r Scanner) (g quota.WorkGrace, err error) {
	return g, r.Scan(&g.ID, &g.TeamID, &g.WorkspaceID, &g.UserID, &g.Scope, &g.ScopeID, &g.Period, &g.State, &g.Reason, &g.BeganAt, &g.EndsAt, &g.EndedAt)
}

// OpenGraces are those that were not lifted.
func (s *Enforce) OpenGraces(ctx context.Context) ([]quota.WorkGrace, error) {
	rows, err := s.db.Query(ctx, `SELECT `+graceColumns+` FROM graces WHERE {team} AND state <> 'lifted' ORDER BY id`)
	return Collect(rows, err, scanGrace)
}

// InsertGrace stores a new one; false when the workspace has an open one.
func (s *Enforce) InsertGrace(ctx context.Context, g quota.WorkGrace) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO graces (`+graceColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`, g.ID, g.TeamID, g.WorkspaceID, g.UserID,
		g.Scope, g.ScopeID, g.Period, string(g.State), g.Reason, g.BeganAt, g.EndsAt, g.EndedAt))
}

// UpdateGrace writes scope, state, reason and times. One that was lifted stays so.
func (s *Enforce) UpdateGrace(ctx context.Context, g quota.WorkGrace) error {
	return changed(s.db.Exec(ctx, `UPDATE graces SET scope = ?, scope_id = ?, state = ?, state_reason = ?, ends_at = ?, ended_at = ? WHERE id = ? AND {team} AND state <> 'lifted'`,
		g.Scope, g.ScopeID, string(g.State), g.Reason, g.EndsAt, g.EndedAt, g.ID))
}

// NoteAlert stores that a threshold was passed; false when it was already.
func (s *Enforce) NoteAlert(ctx context.Context, a quota.Crossing) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO limit_alerts (scope, scope_id, team_id, period, percent, used, limit_at, noted_at) VALUES (?, ?, {team?}, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, a.Scope, a.ScopeID, a.TeamID, a.Period, a.Percent, a.Used, a.Limit, a.At))
}

// DropAlerts forgets the thresholds of a's period above its percent whose limit was lower than its own.
func (s *Enforce) DropAlerts(ctx context.Context, a quota.Crossing) error {
	_, err := s.db.Exec(ctx, `DELETE FROM limit_alerts WHERE scope = ? AND scope_id = ? AND team_id = {team?} AND period = ? AND percent > ? AND limit_at < ?`,
		a.Scope, a.ScopeID, a.TeamID, a.Period, a.Percent, a.Limit)
	return err
}

// Alerts returns the thresholds of a team and its users that were passed in a period, the newest first.
func (s *Enforce) Alerts(ctx context.Context, teamID, period string) ([]quota.Crossing, error) {
	rows, err := s.db.Query(ctx, `SELECT scope, scope_id, team_id, period, percent, used, limit_at, noted_at FROM limit_alerts
		WHERE team_id = {team?} AND period = ? ORDER BY noted_at DESC, scope, scope_id, percent DESC`, teamID, period)
	return Collect(rows, err, func(r Scanner) (a quota.Crossing, err error) {
		return a, r.Scan(&a.Scope, &a.ScopeID, &a.TeamID, &a.Period, &a.Percent, &a.Used, &a.Limit, &a.At)
	})
}

// TeamsOver are the teams whose limits are looked at although nothing of theirs runs: models may cost something without any sandbox.
func (s *Enforce) TeamsOver(ctx context.Context, _ string, from, to int64) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT b.team_id FROM budgets b WHERE {team:b} AND b.limit_nano IS NOT NULL AND b.count_tokens
		AND EXISTS (SELECT 1 FROM model_requests m WHERE {team:m} AND m.team_id = b.team_id AND m.at >= ? AND m.at < ?) ORDER BY b.team_id`, from, to)
	return Column[string](rows, err)
}
