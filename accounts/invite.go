package accounts

import (
	"context"
)

// Invite lets somebody join a team, once.
type Invite struct {
	ID          string
	TeamID      string
	Role        Role
	Email       string // only a user with this address may accept; "" = whoever has the link
	CreatedBy   string
	CreatorName string // "" = nobody knows any more; not stored
	CreatedAt   int64  // ms UTC
	ExpiresAt   int64
	MailedAt    int64 // when the mail with the link was queued, 0 = never
	UsedAt      int64
	UsedBy      string
	RevokedAt   int64
	ByMail      bool // it was looked up by the token that went by mail alone; not stored
}

// TeamInvite is an invite as who it is for sees it.
type TeamInvite struct {
	Invite
	Team Team // its id, name and slug
}

// NewInvite asks for an invite.
type NewInvite struct {
	Role  Role
	Email string // "" = whoever has the link
}

// InviteStore keeps invites by the hash of their token.
type InviteStore interface {
	// InsertInvite stores an invite; mailHash is of the token that goes by mail alone, "" = none does.
	InsertInvite(ctx context.Context, i Invite, tokenHash, mailHash string) error
	InviteByHash(ctx context.Context, tokenHash string) (i Invite, byMail bool, err error)
	// InvitesTo are those to an address that can be accepted now, newest first.
	InvitesTo(ctx context.Context, email string, now int64) ([]TeamInvite, error)
	Invite(ctx context.Context, id string) (Invite, error)
	// PendingInvites are those that can still be accepted, newest first.
	PendingInvites(ctx context.Context, teamID string, now int64) ([]Invite, error)
	// CountInvites counts those made since a time, whatever became of them.
	CountInvites(ctx context.Context, teamID string, since int64) (int, error)
	// UseInvite marks one as accepted; false when it cannot be any more.
	UseInvite(ctx context.Context, teamID, id, userID string, now int64) (bool, error)
	// RevokeInvite takes one back; false when it was used, taken back or has ended.
	RevokeInvite(ctx context.Context, teamID, id string, now int64) (bool, error)
	// RevokeInvitesBy takes back those a user made; teamID "" = in every team.
	RevokeInvitesBy(ctx context.Context, teamID, userID string, now int64) error
}
