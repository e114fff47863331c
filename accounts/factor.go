package accounts

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
