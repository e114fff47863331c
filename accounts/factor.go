package accounts

import "context"

// TOTP is a user's authenticator app.
type TOTP struct {
	UserID      string
	Sealed      string
	LastStep    int64 // of the last code taken
	CreatedAt   int64
	ConfirmedAt int64 // 0 = begun, and not asked for yet
}

// Passkey is a user's key pair on a device of theirs.
type Passkey struct {
	ID           string
	UserID       string
	Name         string
	CredentialID string // base64url
	Credential   string // JSON: public key, counter, flags, transports
	CreatedAt    int64
	LastUsedAt   int64
}

// Factors says which further proofs a user has.
type Factors struct {
	TOTP          bool
	Passkeys      int
	RecoveryCodes int // left
}

// Any reports whether there is a second factor. Recovery codes alone are none: they stand in for one.
func (f Factors) Any() bool { return f.TOTP || f.Passkeys > 0 }

// FactorStore keeps authenticator apps, recovery codes and passkeys.
type FactorStore interface {
	Factors(ctx context.Context, userID string) (Factors, error)
	// PutTOTP replaces a user's authenticator app.
	PutTOTP(ctx context.Context, t TOTP) error
	TOTP(ctx context.Context, userID string) (TOTP, error)
	// TakeStep notes that the code of a step was taken; false when that one or a later one was already.
	TakeStep(ctx context.Context, userID string, step int64) (bool, error)
	ConfirmTOTP(ctx context.Context, userID string, at int64) error
	DeleteTOTP(ctx context.Context, userID string) error
	// PutRecoveryCodes replaces a user's codes by these hashes.
	PutRecoveryCodes(ctx context.Context, userID string, hashes []string) error
	// UseRecoveryCode takes one; false when it is none of the user's or was used before.
	UseRecoveryCode(ctx context.Context, userID, hash string, at int64) (bool, error)
	// InsertPasskey stores one; false when the credential is known already.
	InsertPasskey(ctx context.Context, k Passkey) (bool, error)
	// Passkeys are a user's, the oldest first.
	Passkeys(ctx context.Context, userID string) ([]Passkey, error)
	// UsePasskey writes what its last use changed.
	UsePasskey(ctx context.Context, id, credential string, at int64) error
	RenamePasskey(ctx context.Context, userID, id, name string) error
	DeletePasskey(ctx context.Context, userID, id string) error
	DeletePasskeys(ctx context.Context, userID string) error
	// CountIdentities counts the accounts elsewhere that a user may sign in with.
	CountIdentities(ctx context.Context, userID string) (int, error)
}
