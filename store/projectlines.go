package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/workspaces"
)

// ProjectLines returns a line for every project of a team, deleted ones included.
func (s *Workspaces) ProjectLines(ctx context.Context, teamID string) (map[string]workspaces.ProjectLine, error) {
	rows, err := s.db.Query(ctx, `SELECT p.id, p.name, p.checks FROM projects p WHERE p.team_id = {team?}`, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading lines of projects: %w", err)
	}
	defer rows.Close()
	out := map[string]workspaces.ProjectLine{}
	for rows.Next() {
		var id, checks string
		var l workspaces.ProjectLine
		if err := rows.Scan(&id, &l.Name, &checks); err != nil {
			return nil, fmt.Errorf("reading lines of projects: %w", err)
		}
		if err := fromJSON(checks, &l.Checks); err != nil {
			return nil, err
		}
		out[id] = l
	}
	return out, rows.Err()
}

// CountActive returns how many active workspaces each project of a team has.
func (s *Workspaces) CountActive(ctx context.Context, teamID string) (map[string]int, error) {
	rows, err := s.db.Query(ctx, `SELECT project_id, COUNT(*) FROM workspaces WHERE team_id = {team?} AND deleted_at = 0 AND archived_at = 0 GROUP BY project_id`, teamID)
	if err != nil {
		return nil, fmt.Errorf("counting the workspaces of projects: %w", err)
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return nil, fmt.Errorf("counting the workspaces of projects: %w", err)
		}
		out[id] = n
	}
	return out, rows.Err()
}
