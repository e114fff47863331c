package directory

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
)

// UserStore keeps users.
type UserStore interface {
	// InsertUser stores a new user; false when the e-mail address is taken.
	InsertUser(ctx context.Context, u accounts.User) (bool, error)
	UserByID(ctx context.Context, id string) (accounts.User, error)
	UserByEmail(ctx context.Context, email string) (accounts.User, error)
	// UpdateUser writes name, address and operator; false when the address is taken.
	UpdateUser(ctx context.Context, u accounts.User) (bool, error)
	// VerifyEmail notes that a user's address is theirs.
	VerifyEmail(ctx context.Context, userID string) error
	CountUsers(ctx context.Context) (int, error)
	// CountOperators counts those who are not suspended.
	CountOperators(ctx context.Context) (int, error)
}

// TeamStore keeps teams.
type TeamStore interface {
	// InsertTeam stores a new team; false when the slug is taken.
	InsertTeam(ctx context.Context, t accounts.Team) (bool, error)
	TeamByID(ctx context.Context, id string) (accounts.Team, error)
	TeamBySlug(ctx context.Context, slug string) (accounts.Team, error)
	RenameTeam(ctx context.Context, teamID, name string) error
	CountTeams(ctx context.Context) (int, error)
}

// MemberStore stores the members of teams.
type MemberStore interface {
	// Memberships are ordered by the team's name.
	Memberships(ctx context.Context, userID string) ([]accounts.Membership, error)
	// Members are ordered by the time they joined.
	Members(ctx context.Context, teamID string) ([]accounts.TeamMember, error)
	// InsertMember stores a member; false when the user is one already.
	InsertMember(ctx context.Context, teamID, userID string, role accounts.Role, at int64) (bool, error)
	SetRole(ctx context.Context, teamID, userID string, role accounts.Role) error
	DeleteMember(ctx context.Context, teamID, userID string) error
	// DeleteTeamTokens ends a user's API tokens that act in one team alone.
	DeleteTeamTokens(ctx context.Context, userID, teamID string) error
}

// InviteStore keeps invites by the hash of their token.
type InviteStore interface {
	// InsertInvite stores an invite; mailHash is of the token that goes by mail alone, "" = none does.
	InsertInvite(ctx context.Context, i accounts.Invite, tokenHash, mailHash string) error
	InviteByHash(ctx context.Context, tokenHash string) (i accounts.Invite, byMail bool, err error)
	// InvitesTo are those to an address that can be accepted now, newest first.
	InvitesTo(ctx context.Context, email string, now int64) ([]accounts.TeamInvite, error)
	Invite(ctx context.Context, id string) (accounts.Invite, error)
	// PendingInvites are those that can still be accepted, newest first.
	PendingInvites(ctx context.Context, teamID string, now int64) ([]accounts.Invite, error)
	// CountInvites counts those made since a time, whatever became of them.
	CountInvites(ctx context.Context, teamID string, since int64) (int, error)
	// UseInvite marks one as accepted; false when it is no longer open.
	UseInvite(ctx context.Context, teamID, id, userID string, now int64) (bool, error)
	// RevokeInvite takes one back; false when it was used, taken back or has ended.
	RevokeInvite(ctx context.Context, teamID, id string, now int64) (bool, error)
	// RevokeInvitesBy takes back those a user made; teamID "" = in every team.
	RevokeInvitesBy(ctx context.Context, teamID, userID string, now int64) error
}

// OverviewStore tells operators of all users and teams.
type OverviewStore interface {
	// Users are newest first; q is part of a name or address, "" = all.
	Users(ctx context.Context, q string, pg page.Page) ([]accounts.UserInfo, string, error)
	UserInfo(ctx context.Context, userID string) (accounts.UserInfo, error)
	// Teams are newest first; q is part of a name, "" = all.
	Teams(ctx context.Context, q string, pg page.Page) ([]accounts.TeamInfo, string, error)
	TeamInfo(ctx context.Context, teamID string) (accounts.TeamInfo, error)
}

// SuspensionStore stores which users and teams are suspended, and what teams require of members.
type SuspensionStore interface {
	SetUserSuspended(ctx context.Context, userID string, at int64) error
	SetTeamSuspended(ctx context.Context, teamID string, at int64) error
	SetTeamSecondFactor(ctx context.Context, teamID string, needed bool) error
	// EndCredentials ends a user's login sessions and tokens, and what leads to new ones: links and ceremonies.
	EndCredentials(ctx context.Context, userID string) error
}

// SettingStore keeps a few facts about the instance.
type SettingStore interface {
	Setting(ctx context.Context, key string) (string, error)
	SetSetting(ctx context.Context, key, value string) error
	DeleteSetting(ctx context.Context, key string) error
}
