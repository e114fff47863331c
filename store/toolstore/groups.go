package toolstore

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/toolgroups"
)

// Groups keeps which groups of tools each project has switched on.
type Groups struct{ db *store.DB }

var _ toolgroups.Store = (*Groups)(nil)

// NewGroups returns the storage of the groups in db.
func NewGroups(db *store.DB) *Groups { return &Groups{db} }

// ToolGroups returns the groups that a project has switched other than their default: whether each is on.
func (s *Groups) ToolGroups(ctx context.Context, projectID string) (switched map[string]bool, err error) {
	var raw string
	err = s.db.QueryRow(ctx, `SELECT switched FROM project_tools WHERE project_id = ? AND {team}`, projectID).Scan(&raw)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return switched, store.FromJSON(raw, &switched)
}

// SetToolGroups replaces them.
func (s *Groups) SetToolGroups(ctx context.Context, projectID string, switched map[string]bool) error {
	raw, err := store.ToJSON(switched)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO project_tools (project_id, team_id, switched) SELECT id, team_id, ? FROM projects WHERE id = ? AND {team}
		ON CONFLICT (project_id) DO UPDATE SET switched = excluded.switched`, raw, projectID)
	return err
}
