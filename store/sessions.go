package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

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

// InsertSession stores a new session, and its claim on the conversation it begins with.
func (s *Sessions) InsertSession(ctx context.Context, r sessions.Session, home string) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.insert(ctx, r); err != nil || r.Conversation == "" {
			return err
		}
		ok, err := s.ClaimConversation(ctx, sessions.Claim{SessionID: r.ID, TeamID: r.TeamID, Agent: r.Agent, Conversation: r.Conversation, Home: home,
			At: r.StartedAt, Until: math.MaxInt64})
		if err == nil && !ok {
			err = fault.New(fault.Conflict, "conversation_in_use", "Another session goes on with this conversation. Open that one, or stop it first.")
		}
		return err
	})
}

func (s *Sessions) insert(ctx context.Context, r sessions.Session) error {
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

// UpdateSession writes what changes in a session's life but its conversation, which is claimed. A session that has ended stays as it ended.
func (s *Sessions) UpdateSession(ctx context.Context, r sessions.Session) error {
	basis, err := r.Basis.Encode()
	if err != nil {
		return fmt.Errorf("encoding the basis of a state: %w", err)
	}
	_, err = s.db.Exec(ctx, `UPDATE sessions SET prompt_sent_at = ?, state = ?, state_reason = ?, state_at = ?, basis = ?, title = ?,
		cols = ?, rows = ?, exit_code = ?, exit_signal = ?, bytes = ?, ended_at = ? WHERE id = ? AND team_id = {team?} AND ended_at = 0`,
		r.PromptSentAt, string(r.State), r.StateReason, r.StateAt, basis, r.Title, r.Cols, r.Rows, r.ExitCode, r.ExitSignal,
		r.Bytes, r.EndedAt, r.ID, r.TeamID)
	if err != nil {
		return fmt.Errorf("updating session: %w", err)
	}
	return nil
}

// UpdateSessions is UpdateSession for several, in one transaction.
func (s *Sessions) UpdateSessions(ctx context.Context, all []sessions.Session) error {
	if len(all) == 0 {
		return nil
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		for _, r := range all {
			if err := s.UpdateSession(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
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
// whose sessions matter so is left out. Where workspaces are named, those of them alone.
func (s *Sessions) TeamSessions(ctx context.Context, teamID string, workspaceIDs ...string) ([]sessions.Counted, error) {
	these, args := only("s.workspace_id", workspaceIDs)
	// SQLite reads the first table first: all workspaces of the team, or the sessions of those that are named.
	from := `workspaces w CROSS JOIN sessions s`
	if workspaceIDs != nil {
		from = `sessions s CROSS JOIN workspaces w`
	}
	rows, err := s.db.Query(ctx, `
		WITH mine AS (
			SELECT s.*, COUNT(*) OVER (PARTITION BY s.workspace_id) AS total,
				ROW_NUMBER() OVER (PARTITION BY s.workspace_id
					ORDER BY CASE WHEN s.ended_at = 0 OR s.agent IN ('shell', 'setup') THEN 1 ELSE 0 END, s.ended_at DESC, s.id DESC) AS place
			FROM `+from+`
			WHERE w.id = s.workspace_id AND s.team_id = {team?} AND w.team_id = {team?} AND w.deleted_at = 0`+these+`)
		SELECT `+sessionColumns+`, total FROM mine
		WHERE ended_at = 0 OR (place = 1 AND agent NOT IN ('shell', 'setup'))
		ORDER BY workspace_id, started_at, id`, append([]any{teamID, teamID}, args...)...)
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

// AttentionSessions returns what may ask for somebody in the workspaces of a team that are neither archived nor deleted: the sessions that are
// open, and of each workspace the last ended one that was no shell and no setup script, unless it was stopped by somebody or userID has
// called it done. "" is nobody.
func (s *Sessions) AttentionSessions(ctx context.Context, teamID, userID string) ([]sessions.Session, error) {
	return s.list(ctx, `
		SELECT `+sessionColumns+` FROM sessions WHERE team_id = {team?} AND ended_at = 0
			AND workspace_id IN (SELECT w.id FROM workspaces w WHERE w.team_id = {team?} AND w.deleted_at = 0 AND w.archived_at = 0)
		UNION ALL
		SELECT `+sessionColumns+` FROM sessions WHERE team_id = {team?} AND id IN (
			SELECT (SELECT x.id FROM sessions x WHERE x.workspace_id = w.id AND x.team_id = {team?} AND x.ended_at > 0 AND x.agent NOT IN ('shell', 'setup')
				ORDER BY x.ended_at DESC, x.id DESC LIMIT 1)
			FROM workspaces w WHERE w.team_id = {team?} AND w.deleted_at = 0 AND w.archived_at = 0)
			AND NOT (state = 'exited' AND (state_reason = 'stopped' OR state_reason LIKE 'stopped %'))
			AND id NOT IN (SELECT m.item_id FROM inbox_marks m WHERE m.team_id = {team?} AND m.user_id = ? AND m.done_at <> 0)`,
		teamID, teamID, teamID, teamID, teamID, teamID, userID)
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
