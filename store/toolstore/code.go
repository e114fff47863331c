package toolstore

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/code"
)

// Code stores runs of code.
type Code struct{ db *store.DB }

var _ code.Store = (*Code)(nil)

// NewCode returns the storage of runs of code in db.
func NewCode(db *store.DB) *Code { return &Code{db} }

const codeColumns = `id, team_id, workspace_id, session_id, user_id, agent, language, kernel, code, state, fresh, cause, exit_code, outputs, error, truncated, process_id, sandbox_id, created_at, took_ms`

func scanCode(s store.Scanner) (r code.Run, err error) {
	var outputs, failure string
	err = s.Scan(&r.ID, &r.TeamID, &r.WorkspaceID, &r.SessionID, &r.UserID, &r.Agent, &r.Language, &r.Kernel, &r.Code, &r.State, &r.Fresh, &r.Cause, &r.Exit, &outputs, &failure, &r.Truncated,
		&r.ProcessID, &r.SandboxID, &r.CreatedAt, &r.TookMs)
	if err == nil {
		err = store.FromJSON(outputs, &r.Outputs)
	}
	if err == nil && failure != "" {
		r.Error = &code.Error{}
		err = store.FromJSON(failure, r.Error)
	}
	return r, err
}

// CreateRun stores a run, and deletes the workspace's oldest ended ones beyond most.
func (s *Code) CreateRun(ctx context.Context, r code.Run, most int) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		_, err := s.db.Exec(ctx, `INSERT INTO code_runs (`+codeColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,'[]','',?,?,?,?,?)`, r.ID, r.TeamID, r.WorkspaceID, r.SessionID, r.UserID, r.Agent,
			string(r.Language), r.Kernel, r.Code, string(r.State), r.Fresh, r.Cause, r.Exit, r.Truncated, r.ProcessID, r.SandboxID, r.CreatedAt, r.TookMs)
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `DELETE FROM code_runs WHERE workspace_id = ? AND {team} AND state <> 'running' AND (created_at, id) <
			(SELECT created_at, id FROM code_runs WHERE workspace_id = ? AND {team} ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?)`, r.WorkspaceID, r.WorkspaceID, most-1)
		return err
	})
	return store.Wrap(err, "storing a run of code")
}

// UpdateRun stores how a run ended.
func (s *Code) UpdateRun(ctx context.Context, r code.Run) error {
	outputs, err := store.ToJSON(r.Outputs)
	if err != nil {
		return err
	}
	failure := ""
	if r.Error != nil {
		if failure, err = store.ToJSON(r.Error); err != nil {
			return err
		}
	}
	_, err = s.db.Exec(ctx, `UPDATE code_runs SET state = ?, cause = ?, exit_code = ?, outputs = ?, error = ?, truncated = ?, took_ms = ? WHERE id = ? AND {team}`, string(r.State), r.Cause, r.Exit, outputs,
		failure, r.Truncated, r.TookMs, r.ID)
	return store.Wrap(err, "storing the end of a run of code")
}

// Run returns a run.
func (s *Code) Run(ctx context.Context, id string) (code.Run, error) {
	r, err := scanCode(s.db.QueryRow(ctx, `SELECT `+codeColumns+` FROM code_runs WHERE id = ? AND {team}`, id))
	return r, store.Wrap(err, "reading a run of code")
}

// Runs returns a page of a workspace's runs, newest first.
func (s *Code) Runs(ctx context.Context, workspaceID string, pg page.Page) ([]code.Run, string, error) {
	query, args, err := store.Keyset(`SELECT `+codeColumns+` FROM code_runs WHERE workspace_id = ? AND {team}`, "created_at", []any{workspaceID}, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	items, err := store.Collect(rows, err, scanCode)
	if err != nil {
		return nil, "", fmt.Errorf("reading runs of code: %w", err)
	}
	items, next := page.Cut(pg, items, func(r code.Run) page.Key { return page.Key{At: r.CreatedAt, ID: r.ID} })
	return items, next, nil
}

// RunningRuns returns the runs that have not ended.
func (s *Code) RunningRuns(ctx context.Context) ([]code.Run, error) {
	rows, err := s.db.Query(ctx, `/* every team: this server takes them up again */ SELECT `+codeColumns+` FROM code_runs WHERE state = 'running'`)
	items, err := store.Collect(rows, err, scanCode)
	return items, store.Wrap(err, "reading runs of code")
}
