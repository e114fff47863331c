package store

import (
	"context"

	"github.com/parawork/parawork/sessions/report"
)

// Reports reads what reports tell and no room answers for.
type Reports struct{ db *DB }

// NewReports returns the reader of db.
func NewReports(db *DB) *Reports { return &Reports{db} }

// Checks returns the newest ended run of each check of a workspace, by name.
func (s *Reports) Checks(ctx context.Context, workspaceID string) ([]report.Test, error) {
	rows, err := s.db.Query(ctx, `SELECT name, command, state, commit_id, ended_at FROM check_runs c WHERE c.workspace_id = ? AND {team:c} AND ended_at > 0 AND queue_id = ''
		AND NOT EXISTS (SELECT 1 FROM check_runs n WHERE n.workspace_id = c.workspace_id AND {team:n} AND n.check_id = c.check_id AND n.queue_id = ''
			AND n.ended_at > 0 AND (n.created_at > c.created_at OR n.created_at = c.created_at AND n.id > c.id)) ORDER BY name, id`, workspaceID)
	return Collect(rows, err, func(r Scanner) (t report.Test, err error) {
		t.Check = true
		err = r.Scan(&t.Name, &t.Command, &t.State, &t.Commit, &t.At)
		return t, err
	})
}
