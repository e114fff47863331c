package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
)

// Sessions keeps sessions.
type Sessions struct{ db *DB }

var _ sessions.Store = (*Sessions)(nil)

// NewSessions returns the storage of sessions in db.
func NewSessions(db *DB) *Sessions { return &Sessions{db: db} }

const sessionColumns = `id, team_id, workspace_id, sandbox_id, agent, account_id, permissions, argv, prompt, prompt_sent_at, conversation, state, state_reason,
	state_at, basis, title, cols, rows, exit_code, exit_signal, bytes, created_by, started_at, ended_at`

func scanSession(s scanner, more ...any) (sessions.Session, error) {
	var r sessions.Session
	var argv, basis string
	err := s.Scan(append([]any{&r.ID, &r.TeamID, &r.WorkspaceID, &r.SandboxID, &r.Agent, &r.AccountID, &r.Permissions, &argv, &r.Prompt, &r.PromptSentAt, &r.Conversation,
		&r.State, &r.StateReason, &r.StateAt, &basis, &r.Title, &r.Cols, &r.Rows, &r.ExitCode, &r.ExitSignal, &r.Bytes, &r.CreatedBy,
		&r.StartedAt, &r.EndedAt}, more...)...)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(argv), &r.Argv); err != nil {
		return r, fmt.Errorf("argv of session %s: %w", r.ID, err)
	}
	if r.Basis, err = sessions.DecodeBasis(basis); err != nil {
		return r, fmt.Errorf("basis of the state of session %s: %w", r.ID, err)
	}
	return r, nil
}

// InsertSession stores a new session.
func (s *Sessions) InsertSession(ctx context.Context, r sessions.Session) error {
	argv, err := json.Marshal(r.Argv)
	if err != nil {
		return fmt.Errorf("encoding argv: %w", err)
	}
	if r.Argv == nil {
		argv = []byte("[]")
	}
	basis, err := r.Basis.Encode()
	if err != nil {
		return fmt.Errorf("encoding the basis of a state: %w", err)
	}
	_, err = s.db.Exec(ctx, `INSERT INTO sessions (`+sessionColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		r.ID, r.TeamID, r.WorkspaceID, r.SandboxID, r.Agent, r.AccountID, r.Permissions, string(argv), r.Prompt, r.PromptSentAt, r.Conversation, string(r.State),
		r.StateReason, r.StateAt, basis, r.Title, r.Cols, r.Rows, r.ExitCode, r.ExitSignal, r.Bytes, r.CreatedBy, r.StartedAt, r.EndedAt)
	if err != nil {
		return fmt.Errorf("inserting session: %w", err)
	}
	return nil
}

// UpdateSession writes what changes in a session's life. A session that has ended stays as it ended.
func (s *Sessions) UpdateSession(ctx context.Context, r sessions.Session) error {
	basis, err := r.Basis.Encode()
	if err != nil {
		return fmt.Errorf("encoding the basis of a state: %w", err)
	}
	_, err = s.db.Exec(ctx, `UPDATE sessions SET prompt_sent_at = ?, conversation = ?, state = ?, state_reason = ?, state_at = ?, basis = ?, title = ?,
		cols = ?, rows = ?, exit_code = ?, exit_signal = ?, bytes = ?, ended_at = ? WHERE id = ? AND team_id = {team?} AND ended_at = 0`,
		r.PromptSentAt, r.Conversation, string(r.State), r.StateReason, r.StateAt, basis, r.Title, r.Cols, r.Rows, r.ExitCode, r.ExitSignal,
		r.Bytes, r.EndedAt, r.ID, r.TeamID)
	if err != nil {
		return fmt.Errorf("updating session: %w", err)
	}
	return nil
}

// Session returns one session; fault.NotFound when there is none.
func (s *Sessions) Session(ctx context.Context, id string) (sessions.Session, error) {
	r, err := scanSession(s.db.QueryRow(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE id = ? AND {team}`, id))
	if fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.NotFound, "session_not_found", "There is no such session.")
	}
	if err != nil {
		return r, fmt.Errorf("reading session: %w", err)
	}
	return r, nil
}

// Sessions returns a workspace's sessions, newest first.
func (s *Sessions) Sessions(ctx context.Context, workspaceID string) ([]sessions.Session, error) {
	return s.list(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE workspace_id = ? AND {team} ORDER BY started_at DESC, id DESC`, workspaceID)
}

// OpenSessions returns every session that has not ended, oldest first.
func (s *Sessions) OpenSessions(ctx context.Context) ([]sessions.Session, error) {
	return s.list(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE {team} AND ended_at = 0 ORDER BY started_at, id`)
}

func (s *Sessions) list(ctx context.Context, query string, args ...any) ([]sessions.Session, error) {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading sessions: %w", err)
	}
	defer rows.Close()
	var out []sessions.Session
	for rows.Next() {
		r, err := scanSession(rows)
		if err != nil {
			return nil, fmt.Errorf("reading sessions: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// TeamSessions returns, for the workspaces of a team that are not deleted, the open sessions and each workspace's last ended
// one that was no shell and no setup script, each beside the number of sessions its workspace has had. A workspace none of
// whose sessions matter so is left out.
func (s *Sessions) TeamSessions(ctx context.Context, teamID string) ([]sessions.Counted, error) {
	rows, err := s.db.Query(ctx, `
		WITH mine AS (
			SELECT s.*, COUNT(*) OVER (PARTITION BY s.workspace_id) AS total,
				ROW_NUMBER() OVER (PARTITION BY s.workspace_id
					ORDER BY CASE WHEN s.ended_at = 0 OR s.agent IN ('shell', 'setup') THEN 1 ELSE 0 END, s.ended_at DESC, s.id DESC) AS place
			FROM sessions s JOIN workspaces w ON w.id = s.workspace_id
			WHERE s.team_id = {team?} AND w.team_id = {team?} AND w.deleted_at = 0)
		SELECT `+sessionColumns+`, total FROM mine
		WHERE ended_at = 0 OR (place = 1 AND agent NOT IN ('shell', 'setup'))
		ORDER BY workspace_id, started_at, id`, teamID, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading a team's sessions: %w", err)
	}
	defer rows.Close()
	var out []sessions.Counted
	for rows.Next() {
		var c sessions.Counted
		if c.Session, err = scanSession(rows, &c.Total); err != nil {
			return nil, fmt.Errorf("reading a team's sessions: %w", err)
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// Conversations returns the conversation ids that sessions of an agent hold which were running at some time after since.
func (s *Sessions) Conversations(ctx context.Context, agent string, since int64) ([]string, error) {
	rows, err := s.db.Query(ctx, `/* every team: records of an agent lie in a home that the teams of its user share */ SELECT conversation FROM sessions WHERE agent = ? AND conversation <> '' AND (ended_at = 0 OR ended_at >= ?)`,
		agent, since)
	if err != nil {
		return nil, fmt.Errorf("reading conversations: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("reading conversations: %w", err)
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// KeptSessions returns every session of a team, or of all with "", with what is to be known to bound its history.
func (s *Sessions) KeptSessions(ctx context.Context, teamID string) ([]sessions.Kept, error) {
	query, args := `SELECT id, team_id, workspace_id, agent, started_at, ended_at, bytes FROM sessions WHERE {team}`, []any(nil)
	if teamID != "" {
		query, args = query+` AND team_id = ?`, []any{teamID}
	}
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading kept sessions: %w", err)
	}
	defer rows.Close()
	var out []sessions.Kept
	for rows.Next() {
		var k sessions.Kept
		if err := rows.Scan(&k.SessionID, &k.TeamID, &k.WorkspaceID, &k.Agent, &k.StartedAt, &k.EndedAt, &k.Printed); err != nil {
			return nil, fmt.Errorf("reading kept sessions: %w", err)
		}
		out = append(out, k)
	}
	return out, rows.Err()
}
