package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/workspaces"
)

// ProjectLines returns a line for every project of a team, deleted ones included.
func (s *Workspaces) ProjectLines(ctx context.Context, teamID string) (map[string]workspaces.ProjectLine, error) {
	rows, err := s.db.Query(ctx, `SELECT p.id, p.name, p.checks, (SELECT COUNT(*) FROM workspaces w
		WHERE w.project_id = p.id AND {team:w} AND w.deleted_at = 0 AND w.archived_at = 0) FROM projects p WHERE p.team_id = {team?}`, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading lines of projects: %w", err)
	}
	defer rows.Close()
	out := map[string]workspaces.ProjectLine{}
	for rows.Next() {
		var id, checks string
		var l workspaces.ProjectLine
		if err := rows.Scan(&id, &l.Name, &checks, &l.Active); err != nil {
			return nil, fmt.Errorf("reading lines of projects: %w", err)
		}
		if err := fromJSON(checks, &l.Checks); err != nil {
			return nil, err
		}
		out[id] = l
	}
	return out, rows.Err()
}
