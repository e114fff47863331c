package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/vault"
)

// Accounts keeps users, teams, members, login sessions, API tokens and the agents' accounts.
type Accounts struct {
	*Instance
	db *DB
}

var (
	_ vault.Store         = (*Accounts)(nil)
	_ directory.Store     = (*Accounts)(nil)
	_ signin.Store        = (*Accounts)(nil)
	_ agentaccounts.Store = (*Accounts)(nil)
)

// NewAccounts returns the storage of accounts in db.
func NewAccounts(db *DB) *Accounts { return &Accounts{NewInstance(db), db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Accounts) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const userColumns = `id, email, name, password_hash, operator, created_at, suspended_at, email_unverified, light_terminal, avatar`

func scanUser(r *Row) (accounts.User, error) {
	var u accounts.User
	err := r.Scan(&u.ID, &u.Email, &u.Name, &u.PasswordHash, &u.Operator, &u.CreatedAt, &u.SuspendedAt, &u.EmailUnverified, &u.LightTerminal, &u.Avatar)
	return u, err
}

// inserted reports whether an INSERT ... ON CONFLICT DO NOTHING made its row.
func inserted(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// changed turns an UPDATE or DELETE of no row into ErrNotFound.
func changed(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// InsertUser stores a new user; false when the e-mail address is taken.
func (s *Accounts) InsertUser(ctx context.Context, u accounts.User) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO users (`+userColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (email) DO NOTHING`,
		u.ID, u.Email, u.Name, u.PasswordHash, u.Operator, u.CreatedAt, u.SuspendedAt, u.EmailUnverified, u.LightTerminal, u.Avatar))
}

// UserByID returns a user.
func (s *Accounts) UserByID(ctx context.Context, id string) (accounts.User, error) {
	return scanUser(s.db.QueryRow(ctx, `SELECT `+userColumns+` FROM users WHERE id = ?`, id))
}

// UserByEmail returns the user with this address, in lower case.
func (s *Accounts) UserByEmail(ctx context.Context, email string) (accounts.User, error) {
	return scanUser(s.db.QueryRow(ctx, `SELECT `+userColumns+` FROM users WHERE email = ?`, email))
}

// SetPasswordHash replaces a user's password hash.
func (s *Accounts) SetPasswordHash(ctx context.Context, userID, hash string) error {
	return changed(s.db.Exec(ctx, `UPDATE users SET password_hash = ? WHERE id = ?`, hash, userID))
}

// SetPassword writes the hash of a new password; links to set one end.
func (s *Accounts) SetPassword(ctx context.Context, userID, hash string, at int64) error {
	if err := changed(s.db.Exec(ctx, `UPDATE users SET password_hash = ?, password_at = ? WHERE id = ?`, hash, at, userID)); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `DELETE FROM password_links WHERE user_id = ?`, userID)
	return err
}

// VerifyEmail notes that a user's address is theirs.
func (s *Accounts) VerifyEmail(ctx context.Context, userID string) error {
	return changed(s.db.Exec(ctx, `UPDATE users SET email_unverified = FALSE WHERE id = ?`, userID))
}

// CountUsers returns how many users there are.
func (s *Accounts) CountUsers(ctx context.Context) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM users`).Scan(&n)
	return n, err
}

const teamColumns = `id, slug, name, created_at, suspended_at, second_factor`

func scanTeam(r *Row) (accounts.Team, error) {
	var t accounts.Team
	err := r.Scan(&t.ID, &t.Slug, &t.Name, &t.CreatedAt, &t.SuspendedAt, &t.SecondFactor)
	return t, err
}

// InsertTeam stores a new team; false when the slug is taken.
func (s *Accounts) InsertTeam(ctx context.Context, t accounts.Team) (bool, error) {
	return inserted(s.db.Exec(ctx, `/* every team: it is being made */ INSERT INTO teams (`+teamColumns+`) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (slug) DO NOTHING`,
		t.ID, t.Slug, t.Name, t.CreatedAt, t.SuspendedAt, t.SecondFactor))
}

// TeamByID returns a team.
func (s *Accounts) TeamByID(ctx context.Context, id string) (accounts.Team, error) {
	return scanTeam(s.db.QueryRow(ctx, `SELECT `+teamColumns+` FROM teams WHERE id = {team?}`, id))
}

// TeamBySlug returns a team.
func (s *Accounts) TeamBySlug(ctx context.Context, slug string) (accounts.Team, error) {
	return scanTeam(s.db.QueryRow(ctx, `/* every team: slugs are of the instance */ SELECT `+teamColumns+` FROM teams WHERE slug = ?`, slug))
}

// RenameTeam changes a team's name.
func (s *Accounts) RenameTeam(ctx context.Context, teamID, name string) error {
	return changed(s.db.Exec(ctx, `UPDATE teams SET name = ? WHERE id = {team?}`, name, teamID))
}

// CountTeams returns how many teams there are, without that of the public demo: nobody is its member.
func (s *Accounts) CountTeams(ctx context.Context) (n int, err error) {
	err = s.db.QueryRow(ctx, `/* every team: counted */ SELECT COUNT(*) FROM teams WHERE id <> ?`, accounts.DemoTeamID).Scan(&n)
	return n, err
}

// Memberships returns a user's teams by name.
func (s *Accounts) Memberships(ctx context.Context, userID string) ([]accounts.Membership, error) {
	rows, err := s.db.Query(ctx, `/* every team: which a user is in is what a scope is made of */ SELECT t.id, t.slug, t.name, t.created_at, t.suspended_at, t.second_factor, m.role FROM members m
		JOIN teams t ON t.id = m.team_id WHERE m.user_id = ? ORDER BY t.name, t.id`, userID)
	return Collect(rows, err, func(r Scanner) (m accounts.Membership, err error) {
		err = r.Scan(&m.Team.ID, &m.Team.Slug, &m.Team.Name, &m.Team.CreatedAt, &m.Team.SuspendedAt, &m.Team.SecondFactor, &m.Role)
		return m, err
	})
}

// Members returns a team's members in the order they joined, without password hashes.
func (s *Accounts) Members(ctx context.Context, teamID string) ([]accounts.TeamMember, error) {
	rows, err := s.db.Query(ctx, `SELECT u.id, u.email, u.name, u.operator, u.created_at, u.suspended_at, u.avatar, m.role, m.created_at FROM members m
		JOIN users u ON u.id = m.user_id WHERE m.team_id = {team?} ORDER BY m.created_at, u.id`, teamID)
	return Collect(rows, err, func(r Scanner) (m accounts.TeamMember, err error) {
		err = r.Scan(&m.User.ID, &m.User.Email, &m.User.Name, &m.User.Operator, &m.User.CreatedAt, &m.User.SuspendedAt, &m.User.Avatar, &m.Role, &m.JoinedAt)
		return m, err
	})
}

// InsertMember stores a member; false when the user is one already.
func (s *Accounts) InsertMember(ctx context.Context, teamID, userID string, role accounts.Role, at int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO members (team_id, user_id, role, created_at) VALUES ({team?}, ?, ?, ?)
		ON CONFLICT (team_id, user_id) DO NOTHING`, teamID, userID, string(role), at))
}

// SetRole changes a member's role.
func (s *Accounts) SetRole(ctx context.Context, teamID, userID string, role accounts.Role) error {
	return changed(s.db.Exec(ctx, `UPDATE members SET role = ? WHERE team_id = {team?} AND user_id = ?`, string(role), teamID, userID))
}

// DeleteMember ends a membership.
func (s *Accounts) DeleteMember(ctx context.Context, teamID, userID string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM members WHERE team_id = {team?} AND user_id = ?`, teamID, userID))
}

const loginColumns = `id_hash, id, user_id, created_at, seen_at, expires_at, user_agent, ip, factors, provider, confirmed_at`

func scanLogin(r Scanner) (accounts.LoginSession, error) {
	var l accounts.LoginSession
	var factors string
	err := r.Scan(&l.Hash, &l.ID, &l.UserID, &l.CreatedAt, &l.SeenAt, &l.ExpiresAt, &l.UserAgent, &l.IP, &factors, &l.Provider, &l.ConfirmedAt)
	l.Factors = strings.Split(factors, ",")
	return l, err
}

// InsertSession stores a login session.
func (s *Accounts) InsertSession(ctx context.Context, l accounts.LoginSession) error {
	_, err := s.db.Exec(ctx, `INSERT INTO login_sessions (`+loginColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, l.Hash, l.ID, l.UserID, l.CreatedAt, l.SeenAt, l.ExpiresAt, l.UserAgent, l.IP, strings.Join(l.Factors, ","), l.Provider, l.ConfirmedAt)
	return err
}

// Session returns a login session, ended or not.
func (s *Accounts) Session(ctx context.Context, hash string) (accounts.LoginSession, error) {
	return scanLogin(s.db.QueryRow(ctx, `SELECT `+loginColumns+` FROM login_sessions WHERE id_hash = ?`, hash))
}

// TouchSession notes that a login session was used.
func (s *Accounts) TouchSession(ctx context.Context, hash string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE login_sessions SET seen_at = ? WHERE id_hash = ? AND seen_at < ?`, at, hash, at)
	return err
}

// DeleteSession ends a login session.
func (s *Accounts) DeleteSession(ctx context.Context, hash string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM login_sessions WHERE id_hash = ?`, hash)
	return err
}

// Sessions returns a user's login sessions that have not ended.
func (s *Accounts) Sessions(ctx context.Context, userID string, now, idle int64) ([]accounts.LoginSession, error) {
	rows, err := s.db.Query(ctx, `SELECT `+loginColumns+` FROM login_sessions WHERE user_id = ? AND expires_at > ? AND seen_at > ? ORDER BY seen_at DESC, id`, userID, now, idle)
	return Collect(rows, err, scanLogin)
}

// EndSession ends a user's login session by what it is known by.
func (s *Accounts) EndSession(ctx context.Context, userID, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM login_sessions WHERE id = ? AND user_id = ?`, id, userID))
}

// ConfirmSession notes that who it is was proven again.
func (s *Accounts) ConfirmSession(ctx context.Context, hash string, factors []string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE login_sessions SET factors = ?, confirmed_at = ? WHERE id_hash = ?`, strings.Join(factors, ","), at, hash))
}

// DeleteSessions ends all of a user's login sessions but one.
func (s *Accounts) DeleteSessions(ctx context.Context, userID, except string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM login_sessions WHERE user_id = ? AND id_hash <> ?`, userID, except)
	return err
}

// DropSessions removes login sessions that ended before now or were last seen before idle.
func (s *Accounts) DropSessions(ctx context.Context, now, idle int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM login_sessions WHERE expires_at <= ? OR seen_at <= ?`, now, idle)
	return err
}

const tokenColumns = `k.id, k.user_id, k.name, k.created_at, k.last_used_at, k.expires_at, k.scopes, COALESCE(k.team_id, ''), k.last_used_ip, COALESCE(k.parent_id, ''),
	COALESCE(p.name, ''), k.session_id, k.session_name, COALESCE(g.client_id, '') FROM api_tokens k LEFT JOIN api_tokens p ON p.id = k.parent_id
	LEFT JOIN oauth_grants g ON g.token_id = k.id`

func scanToken(r Scanner) (accounts.Token, error) {
	var t accounts.Token
	var scopes string
	err := r.Scan(&t.ID, &t.UserID, &t.Name, &t.CreatedAt, &t.LastUsedAt, &t.ExpiresAt, &scopes, &t.TeamID, &t.LastUsedIP, &t.ParentID, &t.ParentName, &t.SessionID, &t.SessionName, &t.ClientID)
	if err == nil && scopes != "" {
		err = json.Unmarshal([]byte(scopes), &t.Scopes)
		if t.Scopes == nil {
			t.Scopes = []accounts.Scope{} // what cannot be read allows nothing
		}
	}
	return t, err
}

// InsertToken stores an API token by the hash of its value.
func (s *Accounts) InsertToken(ctx context.Context, t accounts.Token, hash string) error {
	scopes := ""
	if t.Scopes != nil {
		raw, err := json.Marshal(t.Scopes)
		if err != nil {
			return err
		}
		scopes = string(raw)
	}
	_, err := s.db.Exec(ctx, `INSERT INTO api_tokens (id, user_id, name, created_at, last_used_at, expires_at, scopes, team_id, last_used_ip, parent_id, session_id, session_name, token_hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, NULLIF(?, ''), ?, NULLIF(?, ''), ?, ?, ?)`, t.ID, t.UserID, t.Name, t.CreatedAt, t.LastUsedAt, t.ExpiresAt, scopes, t.TeamID, t.LastUsedIP, t.ParentID, t.SessionID,
		t.SessionName, hash)
	return err
}

// TokenByHash returns the API token whose value has this hash, ended or not.
func (s *Accounts) TokenByHash(ctx context.Context, hash string) (accounts.Token, error) {
	return scanToken(s.db.QueryRow(ctx, `SELECT `+tokenColumns+` WHERE k.token_hash = ?`, hash))
}

// Tokens returns a user's API tokens, newest first.
func (s *Accounts) Tokens(ctx context.Context, userID string) ([]accounts.Token, error) {
	rows, err := s.db.Query(ctx, `SELECT `+tokenColumns+` WHERE k.user_id = ? ORDER BY k.created_at DESC, k.id DESC`, userID)
	return Collect(rows, err, scanToken)
}

// TouchToken notes that an API token was used.
func (s *Accounts) TouchToken(ctx context.Context, id, ip string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE api_tokens SET last_used_at = ?, last_used_ip = ? WHERE id = ? AND (last_used_at < ? OR last_used_ip <> ?)`, at, ip, id, at, ip)
	return err
}

// DeleteTokens ends a user's API tokens: those made in a login session, or all of them where it is "".
func (s *Accounts) DeleteTokens(ctx context.Context, userID, sessionID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM api_tokens WHERE user_id = ? AND (? = '' OR session_id = ?)`, userID, sessionID, sessionID)
	return err
}

// DeleteToken ends a user's API token and those that were made by it.
func (s *Accounts) DeleteToken(ctx context.Context, userID, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM api_tokens WHERE id = ? AND user_id = ?`, id, userID))
}
