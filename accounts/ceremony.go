package accounts

import (
	"context"
)

// Ceremony is what a sign-in or a proof has begun and not ended yet. What it holds is sealed; the value it is known by is held by
// a browser, and only its hash is kept.
type Ceremony struct {
	Hash      string
	Kind      string
	UserID    string // "" = not known yet
	Sealed    string
	Failures  int
	CreatedAt int64
	ExpiresAt int64
}

// CeremonyStore keeps ceremonies.
type CeremonyStore interface {
	InsertCeremony(ctx context.Context, c Ceremony) error
	Ceremony(ctx context.Context, hash string) (Ceremony, error)
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
