package threadstore

import (
	"context"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/store"
)

var _ agent.Briefings = (*Threads)(nil)

// Briefing returns what a thread has read.
func (s *Threads) Briefing(ctx context.Context, threadID string) (b agent.Briefing, found bool, err error) {
	var raw string
	raw, found, err = store.Optional(scanText(s.db.QueryRow(ctx, `SELECT content FROM thread_briefings WHERE thread_id = ? AND {team}`, threadID)))
	if err == nil && found {
		err = store.FromJSON(raw, &b)
	}
	return b, found, store.Wrap(err, "reading what a thread has read")
}

// SetBriefing stores it.
func (s *Threads) SetBriefing(ctx context.Context, threadID string, b agent.Briefing) error {
	raw, err := store.ToJSON(b)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO thread_briefings (thread_id, team_id, content) SELECT id, team_id, ? FROM threads WHERE id = ? AND {team}
		ON CONFLICT (thread_id) DO UPDATE SET content = excluded.content`, raw, threadID)
	return store.Wrap(err, "storing what a thread has read")
}

func scanText(s store.Scanner) (text string, err error) { return text, s.Scan(&text) }
