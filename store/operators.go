package store

import (
	"context"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
)

// like makes a pattern that finds q anywhere, for LIKE ... ESCAPE '!'.
func like(q string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(strings.TrimSpace(q))) + "%"
}

// before is where a page of a list that is newest first begins.
func before(pg page.Page) (at int64, id string, err error) {
	k, ok, err := pg.Key()
	if err != nil || !ok {
		return 1<<62 - 1, "", err
	}
	return k.At, k.ID, nil
}

const userInfoColumns = `u.id, u.email, u.name, u.operator, u.created_at, u.suspended_at, u.email_unverified, u.password_hash <> '',
	EXISTS (SELECT 1 FROM totp o WHERE o.user_id = u.id AND o.confirmed_at > 0) OR EXISTS (SELECT 1 FROM passkeys p WHERE p.user_id = u.id),
	COALESCE((SELECT MAX(l.seen_at) FROM login_sessions l WHERE l.user_id = u.id), 0), COALESCE((SELECT MAX(k.last_used_at) FROM api_tokens k WHERE k.user_id = u.id), 0)
	FROM users u`

func scanUserInfo(r Scanner) (accounts.UserInfo, error) {
	var i accounts.UserInfo
	var used int64
	err := r.Scan(&i.User.ID, &i.User.Email, &i.User.Name, &i.User.Operator, &i.User.CreatedAt, &i.User.SuspendedAt, &i.User.EmailUnverified, &i.HasPassword, &i.SecondFactor, &i.LastSeenAt, &used)
	i.LastSeenAt = max(i.LastSeenAt, used)
	return i, err
}

// Users returns a page of all users, newest first.
func (s *Accounts) Users(ctx context.Context, q string, pg page.Page) ([]accounts.UserInfo, string, error) {
	at, id, err := before(pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, `SELECT `+userInfoColumns+` WHERE (LOWER(u.name) LIKE ? ESCAPE '!' OR u.email LIKE ? ESCAPE '!')
		AND (u.created_at < ? OR u.created_at = ? AND u.id < ?) ORDER BY u.created_at DESC, u.id DESC LIMIT ?`, like(q), like(q), at, at, id, pg.Size()+1)
	all, err := Collect(rows, err, scanUserInfo)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(all) > pg.Size() {
		all = all[:pg.Size()]
		last := all[len(all)-1].User
		next = page.Encode(page.Key{At: last.CreatedAt, ID: last.ID})
	}
	return all, next, s.addTeams(ctx, all)
}

// UserInfo returns one user.
func (s *Accounts) UserInfo(ctx context.Context, userID string) (accounts.UserInfo, error) {
	i, err := scanUserInfo(s.db.QueryRow(ctx, `SELECT `+userInfoColumns+` WHERE u.id = ?`, userID))
	if err != nil {
		return i, err
	}
	i.Memberships, err = s.Memberships(ctx, userID)
	return i, err
}

// addTeams fills in which teams users belong to, by name.
func (s *Accounts) addTeams(ctx context.Context, all []accounts.UserInfo) error {
	if len(all) == 0 {
		return nil
	}
	ids, at := make([]any, len(all)), map[string]int{}
	for n, i := range all {
		ids[n], at[i.User.ID] = i.User.ID, n
	}
	type row struct {
		userID string
		m      accounts.Membership
	}
	rows, err := s.db.Query(ctx, `/* every team: what operators see of users */ SELECT m.user_id, t.id, t.slug, t.name, t.suspended_at, m.role FROM members m JOIN teams t ON t.id = m.team_id
		WHERE m.user_id IN (`+Marks(len(ids))+`) ORDER BY t.name, t.id`, ids...)
	found, err := Collect(rows, err, func(r Scanner) (o row, err error) {
		err = r.Scan(&o.userID, &o.m.Team.ID, &o.m.Team.Slug, &o.m.Team.Name, &o.m.Team.SuspendedAt, &o.m.Role)
		return o, err
	})
	for _, o := range found {
		i := &all[at[o.userID]]
		i.Memberships = append(i.Memberships, o.m)
	}
	return err
}

const teamInfoColumns = `t.id, t.slug, t.name, t.created_at, t.suspended_at, t.second_factor,
	(SELECT COUNT(*) FROM members m WHERE m.team_id = t.id), (SELECT COUNT(*) FROM workspaces w WHERE w.team_id = t.id AND w.deleted_at = 0 AND ` + workOf + `),
	(SELECT COUNT(*) FROM sandboxes b WHERE b.team_id = t.id AND b.ended_at = 0) FROM teams t`

func scanTeamInfo(r Scanner) (accounts.TeamInfo, error) {
	var i accounts.TeamInfo
	err := r.Scan(&i.Team.ID, &i.Team.Slug, &i.Team.Name, &i.Team.CreatedAt, &i.Team.SuspendedAt, &i.Team.SecondFactor, &i.Members, &i.Workspaces, &i.Sandboxes)
	return i, err
}

// Teams returns a page of all teams, newest first.
func (s *Accounts) Teams(ctx context.Context, q string, pg page.Page) ([]accounts.TeamInfo, string, error) {
	at, id, err := before(pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, `/* every team: what operators see of teams */ SELECT `+teamInfoColumns+` WHERE (LOWER(t.name) LIKE ? ESCAPE '!' OR t.slug LIKE ? ESCAPE '!')
		AND (t.created_at < ? OR t.created_at = ? AND t.id < ?) ORDER BY t.created_at DESC, t.id DESC LIMIT ?`, like(q), like(q), at, at, id, pg.Size()+1)
	all, err := Collect(rows, err, scanTeamInfo)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(all) > pg.Size() {
		all = all[:pg.Size()]
		last := all[len(all)-1].Team
		next = page.Encode(page.Key{At: last.CreatedAt, ID: last.ID})
	}
	return all, next, s.addOwners(ctx, all)
}

// TeamInfo returns one team.
func (s *Accounts) TeamInfo(ctx context.Context, teamID string) (accounts.TeamInfo, error) {
	i, err := scanTeamInfo(s.db.QueryRow(ctx, `/* every team: what operators see of teams */ SELECT `+teamInfoColumns+` WHERE t.id = ?`, teamID))
	if err != nil {
		return i, err
	}
	one := []accounts.TeamInfo{i}
	err = s.addOwners(ctx, one)
	return one[0], err
}

// addOwners fills in the owners of teams, in the order they joined.
func (s *Accounts) addOwners(ctx context.Context, all []accounts.TeamInfo) error {
	if len(all) == 0 {
		return nil
	}
	ids, at := make([]any, len(all)), map[string]int{}
	for n, i := range all {
		ids[n], at[i.Team.ID] = i.Team.ID, n
	}
	type row struct {
		teamID string
		u      accounts.User
	}
	rows, err := s.db.Query(ctx, `/* every team: what operators see of teams */ SELECT m.team_id, u.id, u.email, u.name FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.role = 'owner' AND m.team_id IN (`+Marks(len(ids))+`) ORDER BY m.created_at, u.id`, ids...)
	found, err := Collect(rows, err, func(r Scanner) (o row, err error) {
		err = r.Scan(&o.teamID, &o.u.ID, &o.u.Email, &o.u.Name)
		return o, err
	})
	for _, o := range found {
		i := &all[at[o.teamID]]
		i.Owners = append(i.Owners, o.u)
	}
	return err
}

// UpdateUser writes a user's name, address, whether it is known to be theirs, whether they are an operator, and their terminals' theme; false when the address is taken.
func (s *Accounts) UpdateUser(ctx context.Context, u accounts.User) (bool, error) {
	n, err := inserted(s.db.Exec(ctx, `UPDATE users SET name = ?, email = ?, email_unverified = ?, operator = ?, light_terminal = ? WHERE id = ?
		AND NOT EXISTS (SELECT 1 FROM users o WHERE o.email = ? AND o.id <> ?)`, u.Name, u.Email, u.EmailUnverified, u.Operator, u.LightTerminal, u.ID, u.Email, u.ID))
	return n, err
}

// CountOperators counts operators who are not suspended.
func (s *Accounts) CountOperators(ctx context.Context) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM users WHERE operator AND suspended_at = 0`).Scan(&n)
	return n, err
}

// SetUserSuspended notes since when a user is suspended; 0 = not.
func (s *Accounts) SetUserSuspended(ctx context.Context, userID string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE users SET suspended_at = ? WHERE id = ?`, at, userID))
}

// SetTeamSuspended notes since when a team is suspended; 0 = not.
func (s *Accounts) SetTeamSuspended(ctx context.Context, teamID string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE teams SET suspended_at = ? WHERE id = {team?}`, at, teamID))
}

// SetTeamSecondFactor notes whether a team's members need a second factor.
func (s *Accounts) SetTeamSecondFactor(ctx context.Context, teamID string, needed bool) error {
	return changed(s.db.Exec(ctx, `UPDATE teams SET second_factor = ? WHERE id = {team?}`, needed, teamID))
}

// EndCredentials ends a user's login sessions and API tokens, and the links and ceremonies that lead to new ones.
func (s *Accounts) EndCredentials(ctx context.Context, userID string) error {
	for _, q := range []string{`DELETE FROM login_sessions WHERE user_id = ?`, `DELETE FROM api_tokens WHERE user_id = ?`,
		`DELETE FROM password_links WHERE user_id = ?`, `DELETE FROM ceremonies WHERE user_id = ?`} {
		if _, err := s.db.Exec(ctx, q, userID); err != nil {
			return err
		}
	}
	return nil
}

// DeleteFactors forgets a user's authenticator app, recovery codes and passkeys, and what is under way with them.
func (s *Accounts) DeleteFactors(ctx context.Context, userID string) error {
	for _, q := range []string{`DELETE FROM totp WHERE user_id = ?`, `DELETE FROM recovery_codes WHERE user_id = ?`,
		`DELETE FROM passkeys WHERE user_id = ?`, `DELETE FROM ceremonies WHERE user_id = ?`} {
		if _, err := s.db.Exec(ctx, q, userID); err != nil {
			return err
		}
	}
	return nil
}

// DeleteTeamTokens ends a user's API tokens that act in one team alone.
func (s *Accounts) DeleteTeamTokens(ctx context.Context, userID, teamID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM api_tokens WHERE user_id = ? AND team_id = ?`, userID, teamID)
	return err
}

// InsertPasswordLink keeps a link to set a password by the hash of its token. The user's earlier ones end.
func (s *Accounts) InsertPasswordLink(ctx context.Context, userID, tokenHash, by string, at, expiresAt int64) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM password_links WHERE user_id = ?`, userID); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `INSERT INTO password_links (token_hash, user_id, created_by, created_at, expires_at) VALUES (?, ?, ?, ?, ?)`, tokenHash, userID, by, at, expiresAt)
	return err
}
