package threadstore

import (
	"context"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// undo has a message and those after it be undone; "" = none.
func (s *Threads) undo(ctx context.Context, threadID string, version int64, messageID string) error {
	if messageID == "" {
		return nil
	}
	var seq int64
	var state string
	err := store.Wrap(s.db.QueryRow(ctx, `SELECT seq, state FROM thread_messages WHERE id = ? AND thread_id = ? AND {team}`, messageID, threadID).Scan(&seq, &state), "reading a message")
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.NotFound, "message_not_found", "The conversation has no such message.")
	case err != nil:
		return err
	case state != string(agent.Complete):
		return fault.New(fault.Conflict, "message_undone", "The message is no longer part of the conversation.")
	}
	_, err = s.db.Exec(ctx, `UPDATE thread_messages SET state = 'undone', version = ? WHERE thread_id = ? AND seq >= ? AND state = 'complete' AND {team}`, version, threadID, seq)
	return err
}

// DropFork removes forks whose session was never stored.
func (s *Threads) DropFork(ctx context.Context, threadID string, before int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM threads WHERE parent_id <> '' AND (id = ? OR ? = '' AND created_at < ?) AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = threads.session_id AND {team:s}) AND {team}`, threadID, threadID, before)
	return store.Wrap(err, "removing a fork")
}
