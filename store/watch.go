package store

import (
	"context"

	"github.com/parawork/parawork/accounts/watch"
)

// Watch keeps the links with which sessions are watched.
type Watch struct{ db *DB }

var _ watch.Store = (*Watch)(nil)

// NewWatch returns the storage of links in db.
func NewWatch(db *DB) *Watch { return &Watch{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Watch) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const watchColumns = `id, team_id, workspace_id, session_id, name, created_by, created_at, expires_at, revoked_at, last_used_at, uses`

func scanWatchLink(r Scanner) (watch.Link, error) {
	var l watch.Link
	err := r.Scan(&l.ID, &l.TeamID, &l.WorkspaceID, &l.SessionID, &l.Name, &l.CreatedBy, &l.CreatedAt, &l.ExpiresAt, &l.RevokedAt, &l.LastUsedAt, &l.Uses)
	return l, err
}

// InsertWatchLink stores a new link.
func (s *Watch) InsertWatchLink(ctx context.Context, l watch.Link, hash string) error {
	_, err := s.db.Exec(ctx, `INSERT INTO watch_links (`+watchColumns+`, token_hash) VALUES (?, {team?}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		l.ID, l.TeamID, l.WorkspaceID, l.SessionID, l.Name, l.CreatedBy, l.CreatedAt, l.ExpiresAt, l.RevokedAt, l.LastUsedAt, l.Uses, hash)
	return err
}

// WatchLink returns a link.
func (s *Watch) WatchLink(ctx context.Context, id string) (watch.Link, error) {
	return scanWatchLink(s.db.QueryRow(ctx, `SELECT `+watchColumns+` FROM watch_links WHERE id = ? AND {team}`, id))
}

// WatchLinkByHash returns the link whose token has this hash.
func (s *Watch) WatchLinkByHash(ctx context.Context, hash string) (watch.Link, error) {
	return scanWatchLink(s.db.QueryRow(ctx, `SELECT `+watchColumns+` FROM watch_links WHERE token_hash = ? AND {team}`, hash))
}

// WatchLinks returns the links of a session, or of a team, that had not ended at a time, newest first.
func (s *Watch) WatchLinks(ctx context.Context, teamID, sessionID string, notEndedAt int64) ([]watch.Link, error) {
	rows, err := s.db.Query(ctx, `SELECT `+watchColumns+` FROM watch_links WHERE team_id = {team?} AND (? = '' OR session_id = ?)
		AND expires_at > ? AND (revoked_at = 0 OR revoked_at > ?) ORDER BY created_at DESC, id DESC`, teamID, sessionID, sessionID, notEndedAt, notEndedAt)
	return Collect(rows, err, scanWatchLink)
}

// UseWatchLink counts an opening.
func (s *Watch) UseWatchLink(ctx context.Context, teamID, id string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE watch_links SET uses = uses + 1, last_used_at = ? WHERE id = ? AND team_id = {team?}`, at, id, teamID))
}

// RevokeWatchLink ends a link that was not revoked before.
func (s *Watch) RevokeWatchLink(ctx context.Context, teamID, id string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE watch_links SET revoked_at = ? WHERE id = ? AND team_id = {team?} AND revoked_at = 0`, at, id, teamID))
}
