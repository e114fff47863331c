package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/state"
)

// Sessions keeps sessions.
type Sessions struct{ db *DB }

var _ sessions.Store = (*Sessions)(nil)

// NewSessions returns the storage of sessions in db.
func NewSessions(db *DB) *Sessions { return &Sessions{db: db} }

const sessionColumns = `id, team_id, workspace_id, sandbox_id, agent, account_id, permissions, argv, prompt, prompt_sent_at, conversation, state, state_reason,
	state_at, basis, title, cols, rows, exit_code, exit_signal, bytes, created_by, started_at, ended_at`

func scanSession(s Scanner) (sessions.Session, error) {
	var r sessions.Session
	var argv, basis string
	err := s.Scan(&r.ID, &r.TeamID, &r.WorkspaceID, &r.SandboxID, &r.Agent, &r.AccountID, &r.Permissions, &argv, &r.Prompt, &r.PromptSentAt, &r.Conversation,
		&r.State, &r.StateReason, &r.StateAt, &basis, &r.Title, &r.Cols, &r.Rows, &r.ExitCode, &r.ExitSignal, &r.Bytes, &r.CreatedBy,
		&r.StartedAt, &r.EndedAt)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(argv), &r.Argv); err != nil {
		return r, fmt.Errorf("argv of session %s: %w", r.ID, err)
	}
	if r.Basis, err = state.DecodeBasis(basis); err != nil {
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
			err = fault.New(fault.Conflict, "conversation_in_use", "Another session continues this conversation. Open that session, or stop it first.")
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
	return Wrap(err, "inserting session")
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
	return Wrap(err, "updating session")
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
	return r, Wrap(err, "reading session")
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
	out, err := Collect(rows, err, scanSession)
	return out, Wrap(err, "reading sessions")
}

// lineColumns are those of a session s that a workspace's line and an item of an inbox are made of, as scanLine reads them: a prompt may be long,
// and what the state of an ended session rests on is of no use there.
const lineColumns = `s.id, s.team_id, s.workspace_id, s.agent, s.state, s.state_reason, s.state_at, CASE WHEN s.ended_at = 0 THEN s.basis ELSE '' END,
	s.exit_code, s.created_by, s.started_at, s.ended_at`

func scanLine(s Scanner, more ...any) (sessions.Session, error) {
	var r sessions.Session
	var basis string
	err := s.Scan(append([]any{&r.ID, &r.TeamID, &r.WorkspaceID, &r.Agent, &r.State, &r.StateReason, &r.StateAt, &basis, &r.ExitCode, &r.CreatedBy,
		&r.StartedAt, &r.EndedAt}, more...)...)
	if err != nil {
		return r, err
	}
	if r.Basis, err = state.DecodeBasis(basis); err != nil {
		return r, fmt.Errorf("basis of the state of session %s: %w", r.ID, err)
	}
	return r, nil
}

// lastEnded is the last session of workspace w that has ended and was no shell and no setup script.
const lastEnded = `(SELECT x.id FROM sessions x WHERE x.workspace_id = w.id AND x.team_id = {team?} AND x.ended_at > 0 AND x.agent NOT IN ('shell', 'setup')
	ORDER BY x.ended_at DESC, x.id DESC LIMIT 1)`

// TeamSessions returns, for the workspaces of a team that are not deleted, the open sessions and each workspace's last ended
// one that was no shell and no setup script, each in brief (lineColumns) beside the number of sessions its workspace has had. A workspace
// none of whose sessions matter so is left out. Where workspaces are named, those of them alone.
func (s *Sessions) TeamSessions(ctx context.Context, teamID string, workspaceIDs ...string) ([]sessions.Counted, error) {
	these, args := only("w.id", workspaceIDs)
	rows, err := s.db.Query(ctx, `
		WITH mine AS MATERIALIZED (
			SELECT w.id, (SELECT COUNT(*) FROM sessions c /* every team: of the same workspace */ WHERE c.workspace_id = w.id) AS total, `+lastEnded+` AS ended
			FROM workspaces w WHERE {team:w} AND `+among("w.team_id", workspaceIDs)+` AND w.deleted_at = 0`+these+`)
		SELECT `+lineColumns+`, mine.total FROM mine CROSS JOIN sessions s
		WHERE s.workspace_id = mine.id AND s.team_id = {team?} AND (s.ended_at = 0 OR s.id = mine.ended)
		ORDER BY s.workspace_id, s.started_at, s.id`, append(append([]any{teamID, teamID}, args...), teamID)...)
	out, err := Collect(rows, err, func(r Scanner) (c sessions.Counted, err error) {
		c.Session, err = scanLine(r, &c.Total)
		return c, err
	})
	return out, Wrap(err, "reading a team's sessions")
}

// AttentionSessions returns, in brief (lineColumns), what may ask for somebody in the workspaces of a team that are neither archived nor deleted:
// the sessions that are open, and of each workspace the last ended one that was no shell and no setup script, unless it was stopped by somebody
// or userID has called it done. "" is nobody.
func (s *Sessions) AttentionSessions(ctx context.Context, teamID, userID string) ([]sessions.Session, error) {
	rows, err := s.db.Query(ctx, `
		WITH mine AS MATERIALIZED (
			SELECT `+lastEnded+` AS ended FROM workspaces w WHERE w.team_id = {team?} AND w.deleted_at = 0 AND w.archived_at = 0)
		SELECT `+lineColumns+` FROM sessions s WHERE s.team_id = {team?} AND s.ended_at = 0
			AND s.workspace_id IN (SELECT w.id FROM workspaces w WHERE w.team_id = {team?} AND w.deleted_at = 0 AND w.archived_at = 0)
		UNION ALL
		SELECT `+lineColumns+` FROM mine CROSS JOIN sessions s WHERE s.id = mine.ended AND s.team_id = {team?}
			AND NOT (s.state = 'exited' AND (s.state_reason = 'stopped' OR s.state_reason LIKE 'stopped %'))
			AND mine.ended NOT IN (SELECT m.item_id FROM inbox_marks m WHERE m.team_id = {team?} AND m.user_id = ? AND m.done_at <> 0)`,
		teamID, teamID, teamID, teamID, teamID, teamID, userID)
	out, err := Collect(rows, err, func(r Scanner) (sessions.Session, error) { return scanLine(r) })
	return out, Wrap(err, "reading the sessions that ask for somebody")
}

// KeptSessions returns every session of a team, or of all with "", with what is to be known to bound its history.
func (s *Sessions) KeptSessions(ctx context.Context, teamID string) ([]history.Kept, error) {
	query, args := `SELECT id, team_id, workspace_id, agent, started_at, ended_at, bytes FROM sessions WHERE {team}`, []any(nil)
	if teamID != "" {
		query, args = query+` AND team_id = ?`, []any{teamID}
	}
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, func(r Scanner) (k history.Kept, err error) {
		err = r.Scan(&k.SessionID, &k.TeamID, &k.WorkspaceID, &k.Agent, &k.StartedAt, &k.EndedAt, &k.Printed)
		return k, err
	})
	return out, Wrap(err, "reading kept sessions")
}
