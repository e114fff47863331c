package toolstore

import (
	"context"

	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// PortLinks keeps the links with which ports are seen without a login.
type PortLinks struct{ db *store.DB }

var _ preview.LinkStore = (*PortLinks)(nil)

// NewPortLinks returns the storage of links to ports in db.
func NewPortLinks(db *store.DB) *PortLinks { return &PortLinks{db} }

const portLinkColumns = `id, team_id, workspace_id, port, name, created_by, created_at, expires_at`

func scanPortLink(r store.Scanner) (l preview.Link, err error) {
	err = r.Scan(&l.ID, &l.TeamID, &l.WorkspaceID, &l.Port, &l.Name, &l.CreatedBy, &l.CreatedAt, &l.ExpiresAt)
	return l, err
}

// AddPortLink stores a link, and forgets those of its team that have expired.
func (s *PortLinks) AddPortLink(ctx context.Context, l preview.Link, hash string, ofWorkspace, ofMaker int) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		// The write takes the team's lock before the counts, on both databases.
		if _, err := s.db.Exec(ctx, `UPDATE teams SET name = name WHERE id = {team?}`, l.TeamID); err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, `DELETE FROM port_links WHERE team_id = {team?} AND expires_at <= ?`, l.TeamID, l.CreatedAt); err != nil {
			return err
		}
		var here, made int
		err := s.db.QueryRow(ctx, `SELECT COUNT(CASE WHEN workspace_id = ? THEN 1 END), COUNT(CASE WHEN created_by = ? THEN 1 END) FROM port_links WHERE team_id = {team?}`,
			l.WorkspaceID, l.CreatedBy, l.TeamID).Scan(&here, &made)
		switch {
		case err != nil:
			return err
		case made >= ofMaker:
			return fault.New(fault.Conflict, "too_many_links", "You have %d links to ports. Revoke some that are no longer needed, or wait until some end.", made)
		case here >= ofWorkspace:
			return fault.New(fault.Conflict, "too_many_links", "This workspace has %d links to ports. Revoke some that are no longer needed.", here)
		}
		_, err = s.db.Exec(ctx, `INSERT INTO port_links (`+portLinkColumns+`, token_hash) VALUES (?, {team?}, ?, ?, ?, ?, ?, ?, ?)`,
			l.ID, l.TeamID, l.WorkspaceID, l.Port, l.Name, l.CreatedBy, l.CreatedAt, l.ExpiresAt, hash)
		return err
	})
}

// PortLinks returns the links of a workspace that have not expired at a time, newest first.
func (s *PortLinks) PortLinks(ctx context.Context, workspaceID string, now int64) ([]preview.Link, error) {
	rows, err := s.db.Query(ctx, `SELECT `+portLinkColumns+` FROM port_links WHERE workspace_id = ? AND {team} AND expires_at > ? ORDER BY created_at DESC, id DESC`, workspaceID, now)
	return store.Collect(rows, err, scanPortLink)
}

// PortLink returns a link.
func (s *PortLinks) PortLink(ctx context.Context, id string) (preview.Link, error) {
	return scanPortLink(s.db.QueryRow(ctx, `SELECT `+portLinkColumns+` FROM port_links WHERE id = ? AND {team}`, id))
}

// PortLinkByHash returns the link whose token has this hash.
func (s *PortLinks) PortLinkByHash(ctx context.Context, hash string) (preview.Link, error) {
	return scanPortLink(s.db.QueryRow(ctx, `SELECT `+portLinkColumns+` FROM port_links WHERE token_hash = ? AND {team}`, hash))
}

// RemovePortLink removes a link.
func (s *PortLinks) RemovePortLink(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM port_links WHERE id = ? AND {team}`, id)
	return err
}
