package store

import (
	"context"

	"github.com/parawork/parawork/workspaces"
)

// ProjectLines returns a line for every project of a team, deleted ones included.
func (s *Workspaces) ProjectLines(ctx context.Context, teamID string) (map[string]workspaces.ProjectLine, error) {
	rows, err := s.db.Query(ctx, `SELECT p.id, p.name, p.checks FROM projects p WHERE p.team_id = {team?}`, teamID)
	out, err := Keyed(rows, err, func(r Scanner) (id string, l workspaces.ProjectLine, err error) {
		var checks string
		if err = r.Scan(&id, &l.Name, &checks); err == nil {
			err = FromJSON(checks, &l.Checks)
		}
		return id, l, err
	})
	return out, Wrap(err, "reading lines of projects")
}

// CountActive returns how many active workspaces each project of a team has.
func (s *Workspaces) CountActive(ctx context.Context, teamID string) (map[string]int, error) {
	rows, err := s.db.Query(ctx, `SELECT project_id, COUNT(*) FROM workspaces WHERE team_id = {team?} AND deleted_at = 0 AND archived_at = 0 AND `+isWork+` GROUP BY project_id`, teamID)
	out, err := Pairs[string, int](rows, err)
	return out, Wrap(err, "counting the workspaces of projects")
}
