package toolstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/sandboxes"
)

// Sandboxes stores sandboxes without a repository.
type Sandboxes struct{ db *store.DB }

var _ sandboxes.Store = (*Sandboxes)(nil)

// NewSandboxes returns the storage of sandboxes without a repository in db.
func NewSandboxes(db *store.DB) *Sandboxes { return &Sandboxes{db} }

const sandboxColumns = `id, team_id, user_id, key, purpose, workspace_id, executor, image, network, idle_ms, session_id, created_at, used_at, checked_at, ends_at, ends_by, ended_at, cleaned`

func scanSandbox(r store.Scanner) (s sandboxes.Sandbox, err error) {
	var image, network string
	err = r.Scan(&s.ID, &s.TeamID, &s.UserID, &s.Key, &s.Purpose, &s.WorkspaceID, &s.Executor, &image, &network, &s.IdleMs, &s.SessionID, &s.CreatedAt, &s.UsedAt, &s.CheckedAt, &s.EndsAt, &s.EndsBy, &s.EndedAt, &s.Cleaned)
	if err == nil {
		err = errors.Join(store.FromJSON(image, &s.Image), store.FromJSON(network, &s.Network))
	}
	return s, err
}

// InsertSandbox stores a sandbox unless its user has most live ones in the team.
func (s *Sandboxes) InsertSandbox(ctx context.Context, b sandboxes.Sandbox, most int) error {
	image, err := store.ToJSON(b.Image)
	if err != nil {
		return err
	}
	network, err := store.ToJSON(b.Network)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM api_sandboxes WHERE team_id = {team?} AND user_id = ? AND ended_at = 0`, b.TeamID, b.UserID).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, "sandbox_limit", "You have %d sandboxes in this team. End one of them first.", n)
		}
		_, err := s.db.Exec(ctx, `INSERT INTO api_sandboxes (`+sandboxColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, b.ID, b.TeamID, b.UserID, b.Key, string(b.Purpose), b.WorkspaceID, b.Executor,
			image, network, b.IdleMs, b.SessionID, b.CreatedAt, b.UsedAt, b.CheckedAt, b.EndsAt, b.EndsBy, b.EndedAt, b.Cleaned)
		return err
	})
	return store.Wrap(err, "storing a sandbox")
}

// EditSandbox changes a sandbox in one transaction.
func (s *Sandboxes) EditSandbox(ctx context.Context, id string, fn func(*sandboxes.Sandbox) error) (b sandboxes.Sandbox, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		// The write takes the row's lock before the read, on both databases.
		if _, err := s.db.Exec(ctx, `UPDATE api_sandboxes SET key = key WHERE id = ? AND {team}`, id); err != nil {
			return err
		}
		var err error
		if b, err = s.Sandbox(ctx, id); err != nil {
			return err
		}
		if err := fn(&b); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE api_sandboxes SET key = ?, used_at = ?, checked_at = ?, ends_at = ?, ended_at = ?, cleaned = ? WHERE id = ? AND {team}`, b.Key, b.UsedAt, b.CheckedAt, b.EndsAt,
			b.EndedAt, b.Cleaned, id)
		return err
	})
	return b, err
}

// Sandbox returns a sandbox, ended ones too.
func (s *Sandboxes) Sandbox(ctx context.Context, id string) (sandboxes.Sandbox, error) {
	b, err := scanSandbox(s.db.QueryRow(ctx, `SELECT `+sandboxColumns+` FROM api_sandboxes WHERE id = ? AND {team}`, id))
	return b, store.Wrap(err, "reading a sandbox")
}

// SandboxByKey returns the live sandbox of a user with this key and purpose.
func (s *Sandboxes) SandboxByKey(ctx context.Context, teamID, userID, key string, p executors.Purpose) (sandboxes.Sandbox, error) {
	b, err := scanSandbox(s.db.QueryRow(ctx, `SELECT `+sandboxColumns+` FROM api_sandboxes WHERE team_id = {team?} AND user_id = ? AND key = ? AND purpose = ? AND key <> '' AND ended_at = 0`, teamID, userID, key, string(p)))
	return b, store.Wrap(err, "looking for a sandbox")
}

// Sandboxes returns a page of a team's live sandboxes, the newest first.
func (s *Sandboxes) Sandboxes(ctx context.Context, teamID, userID string, pg page.Page) ([]sandboxes.Sandbox, string, error) {
	query, args := `SELECT `+sandboxColumns+` FROM api_sandboxes WHERE team_id = {team?} AND ended_at = 0`, []any{teamID}
	if userID != "" {
		query, args = query+` AND user_id = ?`, append(args, userID)
	}
	query, args, err := store.Keyset(query, "created_at", args, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	items, err := store.Collect(rows, err, scanSandbox)
	if err != nil {
		return nil, "", fmt.Errorf("reading sandboxes: %w", err)
	}
	items, next := page.Cut(pg, items, func(b sandboxes.Sandbox) page.Key { return page.Key{At: b.CreatedAt, ID: b.ID} })
	return items, next, nil
}

// OpenSandboxes returns those of which something is left.
func (s *Sandboxes) OpenSandboxes(ctx context.Context) ([]sandboxes.Sandbox, error) {
	rows, err := s.db.Query(ctx, `SELECT `+sandboxColumns+` FROM api_sandboxes WHERE {team} AND NOT cleaned ORDER BY ends_at`)
	items, err := store.Collect(rows, err, scanSandbox)
	return items, store.Wrap(err, "reading the open sandboxes")
}

// ForgetSandboxes deletes the rows of sandboxes that ended before a time.
func (s *Sandboxes) ForgetSandboxes(ctx context.Context, before int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM api_sandboxes WHERE {team} AND cleaned AND ended_at < ?`, before)
	return store.Wrap(err, "forgetting sandboxes")
}
