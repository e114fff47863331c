package store

import (
	"context"
	"errors"

	"github.com/parawork/parawork/accounts"
)

// inviteColumns are an invite with the name of who made it.
const inviteColumns = `i.id, i.team_id, i.role, i.email, i.created_by, COALESCE(u.name, ''), i.created_at, i.expires_at, i.mailed_at, i.used_at, i.used_by, i.revoked_at
	FROM invites i LEFT JOIN users u ON u.id = i.created_by`

func scanInvite(r Scanner) (accounts.Invite, error) {
	var i accounts.Invite
	err := r.Scan(&i.ID, &i.TeamID, &i.Role, &i.Email, &i.CreatedBy, &i.CreatorName, &i.CreatedAt, &i.ExpiresAt, &i.MailedAt, &i.UsedAt, &i.UsedBy, &i.RevokedAt)
	return i, err
}

// InsertInvite stores an invite by the hashes of its tokens; mailHash "" = none went by mail.
func (s *Accounts) InsertInvite(ctx context.Context, i accounts.Invite, tokenHash, mailHash string) error {
	_, err := s.db.Exec(ctx, `INSERT INTO invites (id, team_id, role, email, token_hash, mail_hash, created_by, created_at, expires_at, mailed_at)
		VALUES (?, {team?}, ?, ?, ?, ?, ?, ?, ?, ?)`, i.ID, i.TeamID, string(i.Role), i.Email, tokenHash, nullable(mailHash), i.CreatedBy, i.CreatedAt, i.ExpiresAt, i.MailedAt)
	return err
}

// InviteByHash returns the invite one of whose tokens has this hash, ended or not, and whether it is the one that went by mail.
func (s *Accounts) InviteByHash(ctx context.Context, tokenHash string) (i accounts.Invite, byMail bool, err error) {
	i, err = scanInvite(s.db.QueryRow(ctx, `SELECT `+inviteColumns+` WHERE i.token_hash = ? AND {team:i}`, tokenHash))
	if errors.Is(err, ErrNotFound) {
		i, err = scanInvite(s.db.QueryRow(ctx, `SELECT `+inviteColumns+` WHERE i.mail_hash = ? AND {team:i}`, tokenHash))
		byMail = err == nil
	}
	return i, byMail, err
}

// InvitesTo returns the invites to an address that can still be accepted, newest first, with the teams they are to. None of a suspended team.
func (s *Accounts) InvitesTo(ctx context.Context, email string, now int64) ([]accounts.TeamInvite, error) {
	rows, err := s.db.Query(ctx, `/* every team: who has the address may see who invites them */ SELECT i.id, i.team_id, i.role, i.email, i.created_by, COALESCE(u.name, ''), i.created_at,
		i.expires_at, t.name, t.slug FROM invites i JOIN teams t ON t.id = i.team_id LEFT JOIN users u ON u.id = i.created_by
		WHERE i.email = ? AND i.used_at = 0 AND i.revoked_at = 0 AND i.expires_at > ? AND t.suspended_at = 0 ORDER BY i.created_at DESC, i.id DESC LIMIT 100`, email, now)
	return Collect(rows, err, func(r Scanner) (i accounts.TeamInvite, err error) {
		err = r.Scan(&i.ID, &i.TeamID, &i.Role, &i.Email, &i.CreatedBy, &i.CreatorName, &i.CreatedAt, &i.ExpiresAt, &i.Team.Name, &i.Team.Slug)
		i.Team.ID = i.TeamID
		return i, err
	})
}

// Invite returns an invite, ended or not.
func (s *Accounts) Invite(ctx context.Context, id string) (accounts.Invite, error) {
	return scanInvite(s.db.QueryRow(ctx, `SELECT `+inviteColumns+` WHERE i.id = ? AND {team:i}`, id))
}

// PendingInvites returns the invites of a team that can still be accepted, newest first.
func (s *Accounts) PendingInvites(ctx context.Context, teamID string, now int64) ([]accounts.Invite, error) {
	rows, err := s.db.Query(ctx, `SELECT `+inviteColumns+` WHERE i.team_id = {team?} AND i.used_at = 0 AND i.revoked_at = 0 AND i.expires_at > ?
		ORDER BY i.created_at DESC, i.id DESC`, teamID, now)
	return Collect(rows, err, scanInvite)
}

// CountInvites counts a team's invites made since a time, whatever became of them.
func (s *Accounts) CountInvites(ctx context.Context, teamID string, since int64) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM invites WHERE team_id = {team?} AND created_at > ?`, teamID, since).Scan(&n)
	return n, err
}

// UseInvite marks an invite as accepted; false when it is no longer open.
func (s *Accounts) UseInvite(ctx context.Context, teamID, id, userID string, now int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE invites SET used_at = ?, used_by = ? WHERE team_id = {team?} AND id = ? AND used_at = 0 AND revoked_at = 0 AND expires_at > ?`,
		now, userID, teamID, id, now))
}

// RevokeInvite takes an invite back; false when it was used, taken back or has ended.
func (s *Accounts) RevokeInvite(ctx context.Context, teamID, id string, now int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE invites SET revoked_at = ? WHERE team_id = {team?} AND id = ? AND used_at = 0 AND revoked_at = 0 AND expires_at > ?`, now, teamID, id, now))
}

// RevokeInvitesBy takes back what a user invited to a team, or to every team.
func (s *Accounts) RevokeInvitesBy(ctx context.Context, teamID, userID string, now int64) error {
	_, err := s.db.Exec(ctx, `UPDATE invites SET revoked_at = ? WHERE created_by = ? AND {team} AND (? = '' OR team_id = ?) AND used_at = 0 AND revoked_at = 0`, now, userID, teamID, teamID)
	return err
}
