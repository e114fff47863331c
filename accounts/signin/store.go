package signin

import (
	"context"

	"github.com/parawork/parawork/accounts"
)

// UserStore keeps users and how they show who they are.
type UserStore interface {
	UserByID(ctx context.Context, id string) (accounts.User, error)
	UserByEmail(ctx context.Context, email string) (accounts.User, error)
	// SetPasswordHash writes another hash of the same password.
	SetPasswordHash(ctx context.Context, userID, hash string) error
	// SetPassword writes the hash of a new password.
	SetPassword(ctx context.Context, userID, hash string, at int64) error
	// UpdateUser writes name, address and operator; false when the address is taken.
	UpdateUser(ctx context.Context, u accounts.User) (bool, error)
	// VerifyEmail notes that a user's address is theirs.
	VerifyEmail(ctx context.Context, userID string) error
}

// SessionStore keeps login sessions.
type SessionStore interface {
	InsertSession(ctx context.Context, s accounts.LoginSession) error
	Session(ctx context.Context, hash string) (accounts.LoginSession, error)
	TouchSession(ctx context.Context, hash string, at int64) error
	DeleteSession(ctx context.Context, hash string) error
	// Sessions are a user's that have not ended and were seen after idle, the latest seen first.
	Sessions(ctx context.Context, userID string, now, idle int64) ([]accounts.LoginSession, error)
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
	InsertToken(ctx context.Context, t accounts.Token, hash string) error
	TokenByHash(ctx context.Context, hash string) (accounts.Token, error)
	Tokens(ctx context.Context, userID string) ([]accounts.Token, error)
	TouchToken(ctx context.Context, id, ip string, at int64) error
	// DeleteToken ends a token and those that were made by it.
	DeleteToken(ctx context.Context, userID, id string) error
	// DeleteTokens ends those made in a login session, or all of a user's where sessionID is "".
	DeleteTokens(ctx context.Context, userID, sessionID string) error
}

// CeremonyStore keeps ceremonies.
type CeremonyStore interface {
	InsertCeremony(ctx context.Context, c accounts.Ceremony) error
	Ceremony(ctx context.Context, hash string) (accounts.Ceremony, error)
	// UpdateCeremony replaces what one holds.
	UpdateCeremony(ctx context.Context, hash, sealed string) error
	// FailCeremony counts a failure and returns how many there are now.
	FailCeremony(ctx context.Context, hash string) (int, error)
	// DeleteCeremony removes one; fault.NotFound when somebody was faster.
	DeleteCeremony(ctx context.Context, hash string) error
	// DeleteLoginsUnderWay removes those of a user.
	DeleteLoginsUnderWay(ctx context.Context, userID string) error
	// DropCeremonies removes those that ended before now.
	DropCeremonies(ctx context.Context, now int64) error
}

// TOTPStore keeps authenticator apps.
type TOTPStore interface {
	// PutTOTP replaces a user's authenticator app.
	PutTOTP(ctx context.Context, t accounts.TOTP) error
	TOTP(ctx context.Context, userID string) (accounts.TOTP, error)
	// TakeStep notes that the code of a step was taken; false when that one or a later one was already.
	TakeStep(ctx context.Context, userID string, step int64) (bool, error)
	ConfirmTOTP(ctx context.Context, userID string, at int64) error
	DeleteTOTP(ctx context.Context, userID string) error
}

// RecoveryStore keeps recovery codes.
type RecoveryStore interface {
	// PutRecoveryCodes replaces a user's codes by these hashes.
	PutRecoveryCodes(ctx context.Context, userID string, hashes []string) error
	// UseRecoveryCode takes one; false when it is none of the user's or was used before.
	UseRecoveryCode(ctx context.Context, userID, hash string, at int64) (bool, error)
}

// PasskeyStore keeps passkeys.
type PasskeyStore interface {
	// InsertPasskey stores one; false when the credential is known already.
	InsertPasskey(ctx context.Context, k accounts.Passkey) (bool, error)
	// Passkeys are a user's, the oldest first.
	Passkeys(ctx context.Context, userID string) ([]accounts.Passkey, error)
	// UsePasskey writes what its last use changed.
	UsePasskey(ctx context.Context, id, credential string, at int64) error
	RenamePasskey(ctx context.Context, userID, id, name string) error
	DeletePasskey(ctx context.Context, userID, id string) error
}

// FactorStore says which factors a user has besides a password.
type FactorStore interface {
	Factors(ctx context.Context, userID string) (accounts.Factors, error)
	// DeleteFactors forgets a user's authenticator app, recovery codes and passkeys.
	DeleteFactors(ctx context.Context, userID string) error
	// CountIdentities counts the accounts elsewhere that a user may sign in with.
	CountIdentities(ctx context.Context, userID string) (int, error)
}

// PasswordLinkStore keeps the links by which users choose a new password.
type PasswordLinkStore interface {
	// InsertPasswordLink keeps a link by the hash of its token; the user's earlier ones end. by is the user who was shown it, "" = it was mailed.
	InsertPasswordLink(ctx context.Context, userID, tokenHash, by string, at, expiresAt int64) error
	PasswordLink(ctx context.Context, tokenHash string) (accounts.PasswordLink, error)
	// DeletePasswordLinks ends a user's links.
	DeletePasswordLinks(ctx context.Context, userID string) error
	// DropPasswordLinks removes those that ended before now.
	DropPasswordLinks(ctx context.Context, now int64) error
}
