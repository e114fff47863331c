package toolstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/lsp"
)

// Languages keeps what projects chose about language servers, and which of them run.
type Languages struct{ db *store.DB }

var (
	_ lsp.Settings = (*Languages)(nil)
	_ lsp.Records  = (*Languages)(nil)
)

// NewLanguages returns the storage in db.
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

// Record implements lsp.Records.
func (s *Languages) Record(ctx context.Context, workspaceID, language string) (lsp.Record, error) {
	r := lsp.Record{WorkspaceID: workspaceID, Language: language}
	var state string
	err := s.db.QueryRow(ctx, `SELECT process_id, state FROM language_servers WHERE workspace_id = ? AND language = ? AND {team}`, workspaceID, language).Scan(&r.ProcessID, &state)
	switch {
	case fault.Is(err, fault.NotFound):
		return lsp.Record{}, nil
	case err != nil:
		return lsp.Record{}, err
	}
	if err := json.Unmarshal([]byte(state), &r.State); err != nil {
		return lsp.Record{}, fmt.Errorf("reading what is known of a language server: %w", err)
	}
	return r, nil
}

// SaveRecord implements lsp.Records.
func (s *Languages) SaveRecord(ctx context.Context, r lsp.Record) error {
	state, err := json.Marshal(r.State)
	if err != nil {
		return fmt.Errorf("writing what is known of a language server: %w", err)
	}
	_, err = s.db.Exec(ctx, `INSERT INTO language_servers (workspace_id, language, team_id, process_id, state) SELECT id, ?, team_id, ?, ? FROM workspaces WHERE id = ? AND {team}
		ON CONFLICT (workspace_id, language) DO UPDATE SET process_id = excluded.process_id, state = excluded.state`, r.Language, r.ProcessID, string(state), r.WorkspaceID)
	return err
}

// DeleteRecord implements lsp.Records.
func (s *Languages) DeleteRecord(ctx context.Context, workspaceID, processID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM language_servers WHERE workspace_id = ? AND process_id = ? AND {team}`, workspaceID, processID)
	return err
}
