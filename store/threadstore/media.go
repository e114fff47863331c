package threadstore

import (
	"context"

	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/store"
)

// Bounds of the contents of a thread, beyond which the oldest go.
const (
	mostMedia    = 256 << 20 // bytes
	mostContents = 5000
)

// keepMedia stores a content of a thread, once.
func (s *Threads) keepMedia(ctx context.Context, team, threadID string, at int64, m media.Content) error {
	if _, err := s.db.Exec(ctx, `INSERT INTO thread_media (thread_id, id, team_id, mime, content, size, created_at) VALUES (?,?,{team?},?,?,?,?) ON CONFLICT (thread_id, id) DO UPDATE SET created_at = excluded.created_at`,
		threadID, m.ID, team, m.MIME, m.Data, len(m.Data), at); err != nil {
		return err
	}
	type row struct {
		id   string
		size int64
	}
	rows, err := s.db.Query(ctx, `SELECT id, size FROM thread_media WHERE thread_id = ? AND {team} ORDER BY created_at DESC, id`, threadID)
	all, err := store.Collect(rows, err, func(r store.Scanner) (v row, err error) { return v, r.Scan(&v.id, &v.size) })
	if err != nil {
		return err
	}
	sum := int64(0)
	for i, v := range all {
		if sum += v.size; (sum > s.mostMedia || i >= mostContents) && v.id != m.ID {
			if _, err := s.db.Exec(ctx, `DELETE FROM thread_media WHERE thread_id = ? AND id = ? AND {team}`, threadID, v.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Media returns a content of a thread of a workspace.
func (s *Threads) Media(ctx context.Context, workspaceID, id string) (m media.Content, err error) {
	err = s.db.QueryRow(ctx, `SELECT m.id, m.mime, m.content FROM thread_media m JOIN threads t ON t.id = m.thread_id WHERE m.id = ? AND t.workspace_id = ? AND {team:m} AND {team:t} LIMIT 1`, id, workspaceID).
		Scan(&m.ID, &m.MIME, &m.Data)
	return m, store.Wrap(err, "reading what a message refers to")
}
