package toolstore

import (
	"context"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/calllog"
)

// Calls stores calls of tools.
type Calls struct{ db *store.DB }

var _ calllog.Store = (*Calls)(nil)

// NewCalls returns the storage of tool calls in db.
func NewCalls(db *store.DB) *Calls { return &Calls{db} }

const callColumns = `id, team_id, workspace_id, session_id, user_id, agent, client, tool, arguments, result, outcome, code, cause, result_bytes, truncated, started_at, duration_ms`

func scanCall(s store.Scanner) (c calllog.Call, err error) {
	var workspaceID *string
	err = s.Scan(&c.ID, &c.TeamID, &workspaceID, &c.SessionID, &c.UserID, &c.Agent, &c.Client, &c.Tool, &c.Arguments, &c.Result, &c.Outcome, &c.Code, &c.Cause, &c.ResultBytes,
		&c.Truncated, &c.StartedAt, &c.DurationMs)
	if workspaceID != nil {
		c.WorkspaceID = *workspaceID
	}
	return c, err
}

// SaveToolCalls adds calls, or replaces those that were announced.
func (s *Calls) SaveToolCalls(ctx context.Context, calls []calllog.Call) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		for _, c := range calls {
			var workspaceID *string
			if c.WorkspaceID != "" {
				workspaceID = &c.WorkspaceID
			}
			_, err := s.db.Exec(tenant.In(ctx, c.TeamID), `INSERT INTO tool_calls (`+callColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
				ON CONFLICT (id) DO UPDATE SET result = excluded.result, outcome = excluded.outcome, code = excluded.code, cause = excluded.cause,
					result_bytes = excluded.result_bytes, truncated = excluded.truncated, duration_ms = excluded.duration_ms WHERE tool_calls.team_id = excluded.team_id`,
				c.ID, c.TeamID, workspaceID, c.SessionID, c.UserID, c.Agent, c.Client, c.Tool, c.Arguments, c.Result, string(c.Outcome), c.Code, c.Cause, c.ResultBytes, c.Truncated,
				c.StartedAt, c.DurationMs)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return store.Wrap(err, "recording tool calls")
}

// ToolCalls returns calls of a workspace.
func (s *Calls) ToolCalls(ctx context.Context, q calllog.Query) ([]calllog.Call, error) {
	query, args := `SELECT `+callColumns+` FROM tool_calls WHERE {team}`, []any{}
	for _, f := range [...]struct{ column, value string }{{"workspace_id", q.WorkspaceID}, {"session_id", q.SessionID}, {"tool", q.Tool}, {"outcome", string(q.Outcome)}} {
		if f.value != "" {
			query, args = query+` AND `+f.column+` = ?`, append(args, f.value)
		}
	}
	before, order := "<", "DESC"
	if q.OldestFirst {
		before, order = ">", "ASC"
	}
	if k := q.After; k != nil {
		query += ` AND (started_at ` + before + ` ? OR started_at = ? AND id ` + before + ` ?)`
		args = append(args, k.At, k.At, k.ID)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY started_at `+order+`, id `+order+` LIMIT ?`, append(args, q.Limit)...)
	out, err := store.Collect(rows, err, scanCall)
	return out, store.Wrap(err, "reading tool calls")
}

// CloseToolCalls sets the outcome of all calls that are running.
func (s *Calls) CloseToolCalls(ctx context.Context, outcome tools.Outcome, cause string) error {
	_, err := s.db.Exec(ctx, `/* every team: their server has stopped */ UPDATE tool_calls SET outcome = ?, cause = ? WHERE outcome = 'running'`, string(outcome), cause)
	return store.Wrap(err, "closing tool calls")
}

// TrimToolCalls deletes all calls of a workspace, or of a team outside workspaces, but the newest.
func (s *Calls) TrimToolCalls(ctx context.Context, teamID, workspaceID string, keep int) error {
	of, args := "workspace_id = ?", []any{workspaceID}
	if workspaceID == "" {
		of, args = "workspace_id IS NULL", nil
	}
	ctx = tenant.In(ctx, teamID)
	k, found, err := store.Optional(oldest(s.db.QueryRow(ctx, `SELECT started_at, id FROM tool_calls WHERE {team} AND `+of+` ORDER BY started_at DESC, id DESC LIMIT 1 OFFSET ?`,
		append(args, keep)...)))
	if err == nil && found {
		_, err = s.db.Exec(ctx, `DELETE FROM tool_calls WHERE {team} AND `+of+` AND (started_at < ? OR started_at = ? AND id <= ?)`, append(args, k.at, k.at, k.id)...)
	}
	return store.Wrap(err, "deleting old tool calls")
}

type place struct {
	at int64
	id string
}

func oldest(r store.Scanner) (p place, err error) {
	err = r.Scan(&p.at, &p.id)
	return p, err
}

// droppedTogether is how many rows one statement deletes.
const droppedTogether = 5_000

// DropToolCalls deletes calls that began before a time.
func (s *Calls) DropToolCalls(ctx context.Context, before int64) (more bool, err error) {
	r, err := s.db.Exec(ctx, `/* every team: what is too old is so for all */ DELETE FROM tool_calls WHERE id IN
		(SELECT id FROM tool_calls WHERE started_at < ? ORDER BY started_at LIMIT ?)`, before, droppedTogether)
	if err != nil {
		return false, store.Wrap(err, "deleting old tool calls")
	}
	n, err := r.RowsAffected()
	return n == droppedTogether, err
}
