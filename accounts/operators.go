package accounts

import (
	"context"

	"github.com/parawork/parawork/internal/page"
)

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

// OperatorStore keeps what operators look at and change.
type OperatorStore interface {
	// Users are newest first; q is part of a name or address, "" = all.
	Users(ctx context.Context, q string, pg page.Page) ([]UserInfo, string, error)
	UserInfo(ctx context.Context, userID string) (UserInfo, error)
	// Teams are newest first; q is part of a name, "" = all.
	Teams(ctx context.Context, q string, pg page.Page) ([]TeamInfo, string, error)
	TeamInfo(ctx context.Context, teamID string) (TeamInfo, error)
	// UpdateUser writes name, address and operator; false when the address is taken.
	UpdateUser(ctx context.Context, u User) (bool, error)
	// CountOperators counts those who are not suspended.
	CountOperators(ctx context.Context) (int, error)
	SetUserSuspended(ctx context.Context, userID string, at int64) error
	SetTeamSuspended(ctx context.Context, teamID string, at int64) error
	SetTeamSecondFactor(ctx context.Context, teamID string, needed bool) error
	// EndCredentials ends a user's login sessions and tokens, and what leads to new ones: links and ceremonies.
	EndCredentials(ctx context.Context, userID string) error
	// DeleteFactors forgets a user's authenticator app, recovery codes and passkeys.
	DeleteFactors(ctx context.Context, userID string) error
	// DeleteTeamTokens ends a user's API tokens that act in one team alone.
	DeleteTeamTokens(ctx context.Context, userID, teamID string) error
	// InsertPasswordLink keeps a link by the hash of its token; the user's earlier ones end. by is who was shown it, "" = nobody: it was mailed.
	InsertPasswordLink(ctx context.Context, userID, tokenHash, by string, at, expiresAt int64) error
}
