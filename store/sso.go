package store

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/sso"
)

// SSO keeps what people are at providers elsewhere.
type SSO struct {
	*Accounts
	db *DB
}

// NewSSO returns what package sso keeps.
func NewSSO(db *DB) *SSO { return &SSO{NewAccounts(db), db} }

var _ sso.Store = (*SSO)(nil)

const identityColumns = `id, user_id, provider, issuer, subject, email, name, created_at, last_used_at`

func scanIdentity(r Scanner) (i sso.Identity, err error) {
	err = r.Scan(&i.ID, &i.UserID, &i.Provider, &i.Issuer, &i.Subject, &i.Email, &i.Name, &i.CreatedAt, &i.LastUsedAt)
	return i, err
}

// IdentityBySubject returns whose account this is.
func (s *SSO) IdentityBySubject(ctx context.Context, issuer, subject string) (sso.Identity, error) {
	return scanIdentity(s.db.QueryRow(ctx, `SELECT `+identityColumns+` FROM identities WHERE issuer = ? AND subject = ?`, issuer, subject))
}

// Identities returns a user's linked accounts, the oldest first.
func (s *SSO) Identities(ctx context.Context, userID string) ([]sso.Identity, error) {
	rows, err := s.db.Query(ctx, `SELECT `+identityColumns+` FROM identities WHERE user_id = ? ORDER BY created_at, id`, userID)
	return Collect(rows, err, scanIdentity)
}

// InsertIdentity stores a linked account; false when somebody has it already.
func (s *SSO) InsertIdentity(ctx context.Context, i sso.Identity) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO identities (`+identityColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (issuer, subject) DO NOTHING`, i.ID, i.UserID, i.Provider, i.Issuer, i.Subject, i.Email, i.Name, i.CreatedAt, i.LastUsedAt))
}

// TouchIdentity notes that somebody signed in with an account, and what it is called now.
func (s *SSO) TouchIdentity(ctx context.Context, i sso.Identity) error {
	return changed(s.db.Exec(ctx, `UPDATE identities SET provider = ?, email = ?, name = ?, last_used_at = ? WHERE id = ?`, i.Provider, i.Email, i.Name, i.LastUsedAt, i.ID))
}

// DeleteIdentity ends the link to an account.
func (s *SSO) DeleteIdentity(ctx context.Context, userID, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM identities WHERE id = ? AND user_id = ?`, id, userID))
}

// EndSessionsOf ends a user's login sessions that a provider vouched for, but one.
func (s *SSO) EndSessionsOf(ctx context.Context, userID, provider, except string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM login_sessions WHERE user_id = ? AND provider = ? AND id_hash <> ?`, userID, provider, except)
	return err
}

// MembershipsWithSource returns a user's teams and who put them there.
func (s *SSO) MembershipsWithSource(ctx context.Context, userID string) ([]sso.Membership, error) {
	rows, err := s.db.Query(ctx, `/* every team: a user's own */ SELECT t.id, t.slug, t.name, m.role, m.source FROM members m JOIN teams t ON t.id = m.team_id WHERE m.user_id = ? ORDER BY t.slug`, userID)
	return Collect(rows, err, func(r Scanner) (m sso.Membership, err error) {
		err = r.Scan(&m.Team.ID, &m.Team.Slug, &m.Team.Name, &m.Role, &m.Source)
		return m, err
	})
}

// InsertSourcedMember stores a member whom a provider's groups put there; false when the user is one already.
func (s *SSO) InsertSourcedMember(ctx context.Context, teamID, userID string, role accounts.Role, source string, at int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO members (team_id, user_id, role, source, created_at) VALUES ({team?}, ?, ?, ?, ?)
		ON CONFLICT (team_id, user_id) DO NOTHING`, teamID, userID, string(role), source, at))
}

// SetSourcedRole changes the role of a member whom a provider's groups put there.
func (s *SSO) SetSourcedRole(ctx context.Context, teamID, userID string, role accounts.Role, source string) error {
	return changed(s.db.Exec(ctx, `UPDATE members SET role = ? WHERE team_id = {team?} AND user_id = ? AND source = ?`, string(role), teamID, userID, source))
}

// DeleteSourcedMember ends a membership that a provider's groups gave.
func (s *SSO) DeleteSourcedMember(ctx context.Context, teamID, userID, source string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM members WHERE team_id = {team?} AND user_id = ? AND source = ?`, teamID, userID, source))
}

// CountOwners returns how many owners a team has.
func (s *SSO) CountOwners(ctx context.Context, teamID string) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM members WHERE team_id = {team?} AND role = ?`, teamID, string(accounts.Owner)).Scan(&n)
	return n, err
}
