// Package threadstore holds the SQL of the threads of Parawork's own agent.
package threadstore

import (
	"context"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// Threads stores threads.
type Threads struct {
	db        *store.DB
	mostMedia int64
}

var _ agent.Store = (*Threads)(nil)

// New returns the storage of threads in db.
func New(db *store.DB) *Threads { return &Threads{db, mostMedia} }

const threadColumns = `id, team_id, project_id, workspace_id, session_id, conversation, parent_id, created_by, model, mode, state, reason, code, version, created_at, updated_at`

func scanThread(s store.Scanner) (t agent.Thread, err error) {
	err = s.Scan(&t.ID, &t.TeamID, &t.ProjectID, &t.WorkspaceID, &t.SessionID, &t.Conversation, &t.ParentID, &t.CreatedBy, &t.Model, &t.Mode, &t.State, &t.Reason, &t.Code,
		&t.Version, &t.CreatedAt, &t.UpdatedAt)
	return t, err
}

// CreateThread stores a new thread. One that was forked has the contents of its parent, which may go.
func (s *Threads) CreateThread(ctx context.Context, t agent.Thread) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.insertThread(ctx, t); err != nil || t.ParentID == "" {
			return err
		}
		_, err := s.db.Exec(ctx, `INSERT INTO thread_media (thread_id, id, team_id, mime, content, size, created_at)
			SELECT ?, id, team_id, mime, content, size, created_at FROM thread_media WHERE thread_id = ? AND {team}`, t.ID, t.ParentID)
		return store.Wrap(err, "copying what a thread refers to")
	})
}

func (s *Threads) insertThread(ctx context.Context, t agent.Thread) error {
	_, err := s.db.Exec(ctx, `INSERT INTO threads (`+threadColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, t.ID, t.TeamID, t.ProjectID, t.WorkspaceID, t.SessionID, t.Conversation,
		t.ParentID, t.CreatedBy, t.Model, string(t.Mode), string(t.State), t.Reason, t.Code, t.Version, t.CreatedAt, t.UpdatedAt)
	return store.Wrap(err, "storing a thread")
}

// Thread returns a thread.
func (s *Threads) Thread(ctx context.Context, id string) (agent.Thread, error) {
	t, err := scanThread(s.db.QueryRow(ctx, `SELECT `+threadColumns+` FROM threads WHERE id = ? AND {team}`, id))
	return t, store.Wrap(err, "reading a thread")
}

// ThreadOf returns the thread of a workspace with a conversation.
func (s *Threads) ThreadOf(ctx context.Context, workspaceID, conversation string) (agent.Thread, error) {
	t, err := scanThread(s.db.QueryRow(ctx, `SELECT `+threadColumns+` FROM threads WHERE workspace_id = ? AND conversation = ? AND {team}`, workspaceID, conversation))
	return t, store.Wrap(err, "reading a thread")
}

const turnColumns = `id, team_id, thread_id, state, reason, code, steps, compactions, files_before, files_after, owner, lease_until, version, started_at, ended_at`

func scanTurn(s store.Scanner) (t agent.Turn, err error) {
	err = s.Scan(&t.ID, &t.TeamID, &t.ThreadID, &t.State, &t.Reason, &t.Code, &t.Steps, &t.Compactions, &t.FilesBefore, &t.FilesAfter, &t.Owner, &t.LeaseUntil, &t.Version, &t.StartedAt, &t.EndedAt)
	return t, err
}

// Running returns the turns that have not ended.
func (s *Threads) Running(ctx context.Context) ([]agent.Turn, error) {
	rows, err := s.db.Query(ctx, `/* every team: this server goes on with them */ SELECT `+turnColumns+` FROM thread_turns WHERE state = 'running'`)
	turns, err := store.Collect(rows, err, scanTurn)
	return turns, store.Wrap(err, "reading turns")
}

// Claim makes owner the owner of a running turn.
func (s *Threads) Claim(ctx context.Context, turnID, owner string, now, until int64) (bool, error) {
	res, err := s.db.Exec(ctx, `UPDATE thread_turns SET owner = ?, lease_until = ? WHERE id = ? AND state = 'running' AND (owner = ? OR lease_until < ?) AND {team}`, owner, until, turnID, owner, now)
	if err != nil {
		return false, store.Wrap(err, "claiming a turn")
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// Apply stores a change.
func (s *Threads) Apply(ctx context.Context, threadID string, c agent.Change) (version int64, err error) {
	seqs := make([]int64, len(c.Messages))
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		var team string
		if team, version, err = s.changeThread(ctx, threadID, c); err != nil { // first: it locks the thread
			return err
		}
		if err := s.admit(ctx, threadID, c); err != nil {
			return err
		}
		if err := s.edit(ctx, threadID, version, c); err != nil {
			return err
		}
		for i, m := range c.Messages {
			if seqs[i], err = s.keepMessage(ctx, team, version, *m); err != nil {
				return err
			}
		}
		for _, m := range c.Media {
			if err := s.keepMedia(ctx, team, threadID, c.At, m); err != nil {
				return err
			}
		}
		for _, call := range c.Calls {
			if err := s.keepCall(ctx, team, version, call); err != nil {
				return err
			}
		}
		if c.Turn == nil {
			return nil
		}
		return s.keepTurn(ctx, team, version, c.Turn)
	})
	if err != nil {
		return 0, store.Wrap(err, "storing a change of a thread")
	}
	for i, m := range c.Messages {
		m.Seq, m.Version = seqs[i], version
	}
	for _, call := range c.Calls {
		call.Version = version
	}
	if c.Turn != nil {
		c.Turn.Version = version
	}
	return version, nil
}

// admit refuses a change of who believes the thread to be other than it is.
func (s *Threads) admit(ctx context.Context, threadID string, c agent.Change) error {
	if c.NoTurn || c.TurnID != "" {
		running, found, err := store.Optional(scanTurn(s.db.QueryRow(ctx, `SELECT `+turnColumns+` FROM thread_turns WHERE thread_id = ? AND state = 'running' AND {team}`, threadID)))
		switch {
		case err != nil:
			return err
		case c.NoTurn && found:
			return fault.New(fault.Conflict, "turn_running", "The agent is working. Wait until its turn has ended, or interrupt it.")
		case c.TurnID != "" && (!found || running.ID != c.TurnID || c.Owner != "" && running.Owner != c.Owner):
			return fault.New(fault.Conflict, "turn_lost", "The turn has ended, or another server continues it.")
		}
	}
	if c.MostPrompts > 0 {
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM thread_messages WHERE turn_id = ? AND role = 'user' AND {team}
			AND seq > (SELECT COALESCE(MAX(seq), 0) FROM thread_messages WHERE turn_id = ? AND role = 'assistant' AND state = 'complete' AND {team})`, c.TurnID, c.TurnID).Scan(&n); err != nil {
			return err
		}
		if n >= c.MostPrompts {
			return fault.New(fault.RateLimited, "too_many_prompts", "%d prompts wait for the agent already. Send this one when it has answered.", n)
		}
	}
	if c.NoTurn && (c.Undoing == nil || *c.Undoing != "") {
		var n int64
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM threads WHERE id = ? AND undoing <> '' AND {team}`, threadID).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fault.New(fault.Conflict, "undo_running", "What the agent changed is being undone. Try again in a moment.")
		}
	}
	if c.Fresh {
		for _, m := range c.Messages {
			var n int64
			if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM thread_messages WHERE id = ? AND {team}`, m.ID).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				return fault.New(fault.Conflict, "message_exists", "The thread has this message already.")
			}
		}
	}
	if c.LastSeq == 0 {
		return nil
	}
	var last int64
	if err := s.db.QueryRow(ctx, `SELECT COALESCE(MAX(seq), 0) FROM thread_messages WHERE thread_id = ? AND {team}`, threadID).Scan(&last); err != nil {
		return err
	}
	if last > c.LastSeq {
		return fault.New(fault.Conflict, "thread_moved", "The thread has a newer message.")
	}
	return nil
}

func (s *Threads) changeThread(ctx context.Context, threadID string, c agent.Change) (team string, version int64, err error) {
	if t := c.Thread; t != nil {
		_, err = s.db.Exec(ctx, `UPDATE threads SET version = version + 1, updated_at = ?, state = CASE WHEN ? = '' THEN state ELSE ? END, reason = CASE WHEN ? = '' THEN reason ELSE ? END,
			code = CASE WHEN ? = '' THEN code ELSE ? END, model = CASE WHEN ? = '' THEN model ELSE ? END,
			mode = CASE WHEN ? = '' THEN mode ELSE ? END, session_id = CASE WHEN ? = '' THEN session_id ELSE ? END WHERE id = ? AND {team}`,
			c.At, string(t.State), string(t.State), string(t.State), t.Reason, string(t.State), t.Code, t.Model, t.Model, string(t.Mode), string(t.Mode), t.SessionID, t.SessionID, threadID)
	} else {
		_, err = s.db.Exec(ctx, `UPDATE threads SET version = version + 1, updated_at = ? WHERE id = ? AND {team}`, c.At, threadID)
	}
	if err != nil {
		return "", 0, err
	}
	err = s.db.QueryRow(ctx, `SELECT team_id, version FROM threads WHERE id = ? AND {team}`, threadID).Scan(&team, &version)
	return team, version, err
}

func (s *Threads) keepMessage(ctx context.Context, team string, version int64, m agent.Message) (seq int64, err error) {
	parts, err := store.ToJSON(m.Parts)
	if err != nil {
		return 0, err
	}
	usage, err := store.ToJSON(m.Usage)
	if err != nil {
		return 0, err
	}
	if m.Seq == 0 {
		if err := s.db.QueryRow(ctx, `SELECT COALESCE(MAX(seq), 0) + 1 FROM thread_messages WHERE thread_id = ? AND {team}`, m.ThreadID).Scan(&m.Seq); err != nil {
			return 0, err
		}
	}
	_, err = s.db.Exec(ctx, `INSERT INTO thread_messages (`+messageColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (id) DO UPDATE SET turn_id = excluded.turn_id, state = excluded.state, parts = excluded.parts, model = excluded.model, stop = excluded.stop, usage = excluded.usage,
			note = excluded.note, version = excluded.version, done_at = excluded.done_at`,
		m.ID, team, m.ThreadID, m.TurnID, m.Seq, string(m.Role), string(m.State), m.UserID, parts, m.Model, string(m.Stop), usage, m.Note, version, m.CreatedAt, m.DoneAt)
	return m.Seq, err
}

const callColumns = `id, team_id, thread_id, turn_id, message_id, ordinal, call_id, tool, args, state, content, cut, details, version, started_at, ended_at`

func (s *Threads) keepCall(ctx context.Context, team string, version int64, c *agent.Call) error {
	content, err := store.ToJSON(c.Content)
	if err != nil {
		return err
	}
	details, err := store.ToJSON(c.Details)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO thread_calls (`+callColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, content = excluded.content, cut = excluded.cut, details = excluded.details, version = excluded.version, started_at = excluded.started_at, ended_at = excluded.ended_at`,
		c.ID, team, c.ThreadID, c.TurnID, c.MessageID, c.Ordinal, c.CallID, c.Tool, string(c.Args), string(c.State), content, c.Cut, details, version, c.StartedAt, c.EndedAt)
	return err
}

func (s *Threads) keepTurn(ctx context.Context, team string, version int64, t *agent.Turn) error {
	_, err := s.db.Exec(ctx, `INSERT INTO thread_turns (`+turnColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, reason = excluded.reason, code = excluded.code, steps = excluded.steps, compactions = excluded.compactions, files_before = excluded.files_before, files_after = excluded.files_after,
			version = excluded.version, ended_at = excluded.ended_at`,
		t.ID, team, t.ThreadID, string(t.State), t.Reason, t.Code, t.Steps, t.Compactions, t.FilesBefore, t.FilesAfter, t.Owner, t.LeaseUntil, version, t.StartedAt, t.EndedAt)
	return err
}
