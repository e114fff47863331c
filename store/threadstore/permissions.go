package threadstore

import (
	"context"
	"database/sql"

	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// Permissions stores the rules by which Parawork's own agent may call tools.
type Permissions struct{ db *store.DB }

var _ permissions.Store = (*Permissions)(nil)

// NewPermissions returns the storage of rules in db.
func NewPermissions(db *store.DB) *Permissions { return &Permissions{db} }

const (
	ruleColumns = `id, team_id, COALESCE(project_id, ''), COALESCE(session_id, ''), tool, pattern, effect, created_by, created_at`
	ruleOwner   = `COALESCE(project_id, '') = ? AND COALESCE(session_id, '') = ? AND {team}`
)

func scanRule(s store.Scanner) (r permissions.Rule, err error) {
	err = s.Scan(&r.ID, &r.TeamID, &r.ProjectID, &r.SessionID, &r.Tool, &r.Pattern, &r.Effect, &r.CreatedBy, &r.CreatedAt)
	return r, err
}

// Rules returns the rules of a team, of one of its projects and of a session.
func (s *Permissions) Rules(ctx context.Context, teamID, projectID, sessionID string) ([]permissions.Rule, error) {
	rows, err := s.db.Query(ctx, `SELECT `+ruleColumns+` FROM permission_rules WHERE team_id = ? AND {team}
		AND (project_id IS NULL AND session_id IS NULL OR project_id = ? AND session_id IS NULL OR session_id = ?) ORDER BY created_at, id`, teamID, projectID, sessionID)
	out, err := store.Collect(rows, err, scanRule)
	return out, store.Wrap(err, "reading permission rules")
}

// Rule returns one rule.
func (s *Permissions) Rule(ctx context.Context, id string) (permissions.Rule, error) {
	r, err := scanRule(s.db.QueryRow(ctx, `SELECT `+ruleColumns+` FROM permission_rules WHERE id = ? AND {team}`, id))
	return r, store.Wrap(err, "reading a permission rule")
}

// Add stores a rule, unless its owner has the same one.
func (s *Permissions) Add(ctx context.Context, r permissions.Rule, most int) (out permissions.Rule, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		old, found, err := store.Optional(scanRule(s.db.QueryRow(ctx, `SELECT `+ruleColumns+` FROM permission_rules WHERE `+ruleOwner+` AND tool = ? AND pattern = ? AND effect = ? LIMIT 1`,
			r.ProjectID, r.SessionID, r.Tool, r.Pattern, string(r.Effect))))
		if out = r; err != nil || found {
			out = old
			return err
		}
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM permission_rules WHERE `+ruleOwner, r.ProjectID, r.SessionID).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, "permission_rules_full", "There are %d rules already, which is the most. Remove some that are no longer needed.", n)
		}
		_, err = s.db.Exec(ctx, `INSERT INTO permission_rules (id, team_id, project_id, session_id, tool, pattern, effect, created_by, created_at) VALUES (?,{team?},?,?,?,?,?,?,?)`,
			r.ID, r.TeamID, sql.NullString{String: r.ProjectID, Valid: r.ProjectID != ""}, sql.NullString{String: r.SessionID, Valid: r.SessionID != ""}, r.Tool, r.Pattern, string(r.Effect), r.CreatedBy, r.CreatedAt)
		return err
	})
	return out, store.Wrap(err, "storing a permission rule")
}

// Delete removes a rule.
func (s *Permissions) Delete(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM permission_rules WHERE id = ? AND {team}`, id)
	return store.Wrap(err, "removing a permission rule")
}
