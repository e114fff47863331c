// Package oauthstore keeps OAuth clients and grants in the tables of store.
package oauthstore

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/store"
)

// OAuth stores clients and grants.
type OAuth struct{ db *store.DB }

var _ oauth.Store = (*OAuth)(nil)

// New returns the storage of clients and grants in db.
func New(db *store.DB) *OAuth { return &OAuth{db} }

// Tx runs fn in a transaction.
func (s *OAuth) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

// InsertClient stores a client.
func (s *OAuth) InsertClient(ctx context.Context, c oauth.Client) error {
	uris, err := json.Marshal(c.RedirectURIs)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO oauth_clients (id, name, redirect_uris, created_at, used_at) VALUES (?, ?, ?, ?, ?)`, c.ID, c.Name, string(uris), c.CreatedAt, c.UsedAt)
	return store.Wrap(err, "storing a client")
}

// Client returns a client.
func (s *OAuth) Client(ctx context.Context, id string) (c oauth.Client, err error) {
	var uris string
	err = s.db.QueryRow(ctx, `SELECT id, name, redirect_uris, created_at, used_at FROM oauth_clients WHERE id = ?`, id).Scan(&c.ID, &c.Name, &uris, &c.CreatedAt, &c.UsedAt)
	if err == nil {
		err = json.Unmarshal([]byte(uris), &c.RedirectURIs)
	}
	return c, store.Wrap(err, "reading a client")
}

// DropClients removes clients that hold no grant and that nobody uses.
func (s *OAuth) DropClients(ctx context.Context, newBefore, usedBefore int64, keep int) error {
	const idle = ` AND NOT EXISTS (SELECT 1 FROM oauth_grants g WHERE g.client_id = oauth_clients.id)`
	_, err := s.db.Exec(ctx, `DELETE FROM oauth_clients WHERE (used_at = 0 AND created_at < ? OR used_at > 0 AND used_at < ?)`+idle, newBefore, usedBefore)
	if err == nil {
		_, err = s.db.Exec(ctx, `DELETE FROM oauth_clients WHERE id IN (SELECT id FROM oauth_clients WHERE used_at = 0 ORDER BY created_at DESC, id LIMIT 1000000 OFFSET ?)`+idle, keep)
	}
	return store.Wrap(err, "removing clients")
}

// InsertGrant stores a grant whose code was given out.
func (s *OAuth) InsertGrant(ctx context.Context, g oauth.Grant) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `INSERT INTO oauth_grants (token_id, client_id, code_hash, challenge, redirect_uri, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			g.TokenID, g.ClientID, g.CodeHash, g.Challenge, g.RedirectURI, g.CreatedAt, g.ExpiresAt); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `UPDATE oauth_clients SET used_at = ? WHERE id = ?`, g.CreatedAt, g.ClientID)
		return err
	})
	return store.Wrap(err, "storing a grant")
}

const grants = `SELECT g.token_id, k.user_id, u.email, g.client_id, k.name, k.scopes, COALESCE(k.team_id, ''), g.code_hash, g.challenge, g.redirect_uri, g.family_hash, g.refresh_hash, g.created_at, g.expires_at
	FROM oauth_grants g JOIN api_tokens k ON k.id = g.token_id JOIN users u ON u.id = k.user_id WHERE `

// Grant returns a grant.
func (s *OAuth) Grant(ctx context.Context, by oauth.By, hash string) (g oauth.Grant, err error) {
	column := map[oauth.By]string{oauth.ByCode: `g.code_hash = ?`, oauth.ByFamily: `g.family_hash = ?`, oauth.ByAccess: `k.token_hash = ?`}[by]
	var scopes string
	var family sql.NullString
	err = s.db.QueryRow(ctx, grants+column, hash).Scan(&g.TokenID, &g.UserID, &g.UserEmail, &g.ClientID, &g.Name, &scopes, &g.TeamID, &g.CodeHash, &g.Challenge, &g.RedirectURI, &family,
		&g.RefreshHash, &g.CreatedAt, &g.ExpiresAt)
	g.FamilyHash, g.Scopes = family.String, []accounts.Scope{}
	if err == nil {
		err = json.Unmarshal([]byte(scopes), &g.Scopes)
	}
	return g, store.Wrap(err, "reading a grant")
}

// Renew replaces the tokens of a grant.
func (s *OAuth) Renew(ctx context.Context, g oauth.Grant, from string, access oauth.Access) (renewed bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		r, err := s.db.Exec(ctx, `UPDATE oauth_grants SET family_hash = ?, refresh_hash = ?, expires_at = ? WHERE token_id = ? AND refresh_hash = ?`,
			g.FamilyHash, g.RefreshHash, g.ExpiresAt, g.TokenID, from)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if renewed = n == 1; err != nil || !renewed {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE api_tokens SET token_hash = ?, expires_at = ? WHERE id = ?`, access.Hash, access.Until, g.TokenID)
		if err == nil {
			_, err = s.db.Exec(ctx, `UPDATE oauth_clients SET used_at = ? WHERE id = ?`, access.At, g.ClientID)
		}
		return err
	})
	return renewed, store.Wrap(err, "renewing a grant")
}

// DropGrants removes grants that have ended, with their tokens.
func (s *OAuth) DropGrants(ctx context.Context, now int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM api_tokens WHERE id IN (SELECT token_id FROM oauth_grants WHERE expires_at <= ?)`, now)
	return store.Wrap(err, "removing grants")
}
