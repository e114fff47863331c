package accounts

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
