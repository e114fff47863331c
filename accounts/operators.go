package accounts

// UserInfo is a user as operators see them.
type UserInfo struct {
	User         User // without PasswordHash
	HasPassword  bool
	SecondFactor bool  // has an authenticator app or a passkey
	LastSeenAt   int64 // ms UTC, of what still counts; 0 = never, or long ago
	Memberships  []Membership
}

// TeamInfo is a team as operators see it.
type TeamInfo struct {
	Team       Team
	Owners     []User // without PasswordHash
	Members    int
	Workspaces int
	Sandboxes  int // that have not ended
}
