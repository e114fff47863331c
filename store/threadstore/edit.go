package threadstore

import (
	"context"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// edit stores what a change undoes.
func (s *Threads) edit(ctx context.Context, threadID string, version int64, c agent.Change) error {
	if c.Undoing != nil {
		if _, err := s.db.Exec(ctx, `UPDATE threads SET undoing = ? WHERE id = ? AND {team}`, *c.Undoing, threadID); err != nil {
			return err
		}
	}
	if c.Undo == "" {
		return nil
	}
	var seq int64
	var state string
	err := store.Wrap(s.db.QueryRow(ctx, `SELECT seq, state FROM thread_messages WHERE id = ? AND thread_id = ? AND {team}`, c.Undo, threadID).Scan(&seq, &state), "reading a message")
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.NotFound, "message_not_found", "The conversation has no such message.")
	case err != nil:
		return err
	case state != string(agent.Complete):
		return fault.New(fault.Conflict, "message_undone", "The message is no longer part of the conversation.")
	}
	if c.UndoFiles {
		if _, err := s.db.Exec(ctx, `UPDATE thread_turns SET files_before = '', files_after = '' WHERE `+fromSeq, threadID, threadID, seq); err != nil {
			return err
		}
	}
	_, err = s.db.Exec(ctx, `UPDATE thread_messages SET state = 'undone', version = ? WHERE thread_id = ? AND seq >= ? AND state = 'complete' AND {team}`, version, threadID, seq)
	return err
}

// fromSeq selects the turns of a thread's messages from a position on.
const fromSeq = `thread_id = ? AND id IN (SELECT turn_id FROM thread_messages WHERE thread_id = ? AND seq >= ? AND {team}) AND {team}`

// TurnsFrom returns the turns of messages from a position on.
func (s *Threads) TurnsFrom(ctx context.Context, threadID string, seq int64) ([]agent.Turn, error) {
	rows, err := s.db.Query(ctx, `SELECT `+turnColumns+` FROM thread_turns WHERE `+fromSeq+` ORDER BY started_at, id`, threadID, threadID, seq)
	turns, err := store.Collect(rows, err, scanTurn)
	return turns, store.Wrap(err, "reading turns")
}

// Undoing returns the undos that are being made.
func (s *Threads) Undoing(ctx context.Context) (threads []agent.Thread, undos []string, err error) {
	rows, err := s.db.Query(ctx, `SELECT undoing, `+threadColumns+` FROM threads WHERE undoing <> '' AND {team}`)
	threads, err = store.Collect(rows, err, func(r store.Scanner) (agent.Thread, error) {
		var undo string
		t, err := scanThread(withFirst{r, &undo})
		undos = append(undos, undo)
		return t, err
	})
	return threads, undos, store.Wrap(err, "reading undos")
}

// withFirst scans one more column, before the others.
type withFirst struct {
	store.Scanner
	first any
}

// Scan implements store.Scanner.
func (s withFirst) Scan(to ...any) error { return s.Scanner.Scan(append([]any{s.first}, to...)...) }

// DropFork removes forks whose session was never stored.
func (s *Threads) DropFork(ctx context.Context, threadID string, before int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM threads WHERE parent_id <> '' AND (id = ? OR ? = '' AND created_at < ?) AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = threads.session_id AND {team:s}) AND {team}`, threadID, threadID, before)
	return store.Wrap(err, "removing a fork")
}
