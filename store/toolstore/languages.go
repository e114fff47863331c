package toolstore

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/lsp"
)

// Languages keeps what projects chose about language servers.
type Languages struct{ db *store.DB }

var _ lsp.Settings = (*Languages)(nil)

// NewLanguages returns the storage of these choices in db.
func NewLanguages(db *store.DB) *Languages { return &Languages{db} }

// AfterEdits returns the choice of a project; "" = none.
func (s *Languages) AfterEdits(ctx context.Context, projectID string) (a lsp.AfterEdits, err error) {
	err = s.db.QueryRow(ctx, `SELECT after_edits FROM project_languages WHERE project_id = ? AND {team}`, projectID).Scan(&a)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return a, err
}

// SetAfterEdits stores it.
func (s *Languages) SetAfterEdits(ctx context.Context, projectID string, a lsp.AfterEdits) error {
	_, err := s.db.Exec(ctx, `INSERT INTO project_languages (project_id, team_id, after_edits) SELECT id, team_id, ? FROM projects WHERE id = ? AND {team}
		ON CONFLICT (project_id) DO UPDATE SET after_edits = excluded.after_edits`, string(a), projectID)
	return err
}
