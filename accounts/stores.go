package accounts

import "context"

// UserStore keeps users.
type UserStore interface {
	// InsertUser stores a new user; false when the e-mail address is taken.
	InsertUser(ctx context.Context, u User) (bool, error)
	UserByID(ctx context.Context, id string) (User, error)
	UserByEmail(ctx context.Context, email string) (User, error)
	// SetPasswordHash writes another hash of the same password.
	SetPasswordHash(ctx context.Context, userID, hash string) error
	// SetPassword writes the hash of a new password.
	SetPassword(ctx context.Context, userID, hash string, at int64) error
	// VerifyEmail notes that a user's address is theirs.
	VerifyEmail(ctx context.Context, userID string) error
	CountUsers(ctx context.Context) (int, error)
}

// TeamStore keeps teams and who belongs to them.
type TeamStore interface {
	// InsertTeam stores a new team; false when the slug is taken.
	InsertTeam(ctx context.Context, t Team) (bool, error)
	TeamByID(ctx context.Context, id string) (Team, error)
	TeamBySlug(ctx context.Context, slug string) (Team, error)
	RenameTeam(ctx context.Context, teamID, name string) error
	CountTeams(ctx context.Context) (int, error)
	// Memberships are ordered by the team's name.
	Memberships(ctx context.Context, userID string) ([]Membership, error)
	// Members are ordered by the time they joined.
	Members(ctx context.Context, teamID string) ([]TeamMember, error)
	// InsertMember stores a member; false when the user is one already.
	InsertMember(ctx context.Context, teamID, userID string, role Role, at int64) (bool, error)
	SetRole(ctx context.Context, teamID, userID string, role Role) error
	DeleteMember(ctx context.Context, teamID, userID string) error
}

// SessionStore keeps login sessions.
type SessionStore interface {
	InsertSession(ctx context.Context, s LoginSession) error
	Session(ctx context.Context, hash string) (LoginSession, error)
	TouchSession(ctx context.Context, hash string, at int64) error
	DeleteSession(ctx context.Context, hash string) error
	// Sessions are a user's that have not ended and were seen after idle, the latest seen first.
	Sessions(ctx context.Context, userID string, now, idle int64) ([]LoginSession, error)
	// EndSession ends the user's session known by id.
	EndSession(ctx context.Context, userID, id string) error
	// ConfirmSession notes when who it is was proven again, and by which ways altogether.
	ConfirmSession(ctx context.Context, hash string, factors []string, at int64) error
	// DeleteSessions ends all of a user's sessions but the one with hash except.
	DeleteSessions(ctx context.Context, userID, except string) error
	// DropSessions removes those that ended before now or were last seen before idle.
	DropSessions(ctx context.Context, now, idle int64) error
}

// TokenStore keeps API tokens by the hash of their value.
type TokenStore interface {
	InsertToken(ctx context.Context, t Token, hash string) error
	TokenByHash(ctx context.Context, hash string) (Token, error)
	Tokens(ctx context.Context, userID string) ([]Token, error)
	TouchToken(ctx context.Context, id, ip string, at int64) error
	// DeleteToken ends a token and those that were made by it.
	DeleteToken(ctx context.Context, userID, id string) error
	// DeleteTokens ends those made in a login session, or all of a user's where sessionID is "".
	DeleteTokens(ctx context.Context, userID, sessionID string) error
}

// SecretStore keeps sealed values.
type SecretStore interface {
	InsertSecret(ctx context.Context, k Secret, sealed []byte) error
	Secret(ctx context.Context, id string) (k Secret, sealed []byte, err error)
	// SecretsSealedBefore are those that are sealed in an older way.
	SecretsSealedBefore(ctx context.Context, keyVersion int) ([]Secret, error)
	ResealSecret(ctx context.Context, id string, keyVersion int, sealed []byte) error
	DeleteSecret(ctx context.Context, id string) error
}

// AgentAccountStore keeps the agents' accounts.
type AgentAccountStore interface {
	// InsertAgentAccount stores a new account; false when its name is taken.
	InsertAgentAccount(ctx context.Context, a AgentAccount) (bool, error)
	// UpdateAgentAccount writes name, kind, secret, address and default; false when the name is taken.
	UpdateAgentAccount(ctx context.Context, a AgentAccount) (bool, error)
	AgentAccount(ctx context.Context, id string) (AgentAccount, error)
	// AgentAccounts are ordered by agent, then by the time they were made.
	AgentAccounts(ctx context.Context, o Holder) ([]AgentAccount, error)
	// AgentAccountsSealedBefore are those whose secret is sealed with an older key.
	AgentAccountsSealedBefore(ctx context.Context, keyVersion int) ([]AgentAccount, error)
	// ClearDefault leaves an owner's accounts of an agent without a default.
	ClearDefault(ctx context.Context, o Holder, agent string) error
	DeleteAgentAccount(ctx context.Context, id string) error
}

// SettingStore keeps a few facts about the instance.
type SettingStore interface {
	Setting(ctx context.Context, key string) (string, error)
	SetSetting(ctx context.Context, key, value string) error
	DeleteSetting(ctx context.Context, key string) error
}
