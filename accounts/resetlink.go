package accounts

import (
	"context"
)

// PasswordLink is a link by which a user chooses a new password.
type PasswordLink struct {
	UserID    string
	ByMail    bool  // it went to the user's address and was shown to nobody else
	ExpiresAt int64 // ms UTC
}

// PasswordLinkStore keeps the links by which users choose a new password.
type PasswordLinkStore interface {
	PasswordLink(ctx context.Context, tokenHash string) (PasswordLink, error)
	// DeletePasswordLinks ends a user's links.
	DeletePasswordLinks(ctx context.Context, userID string) error
	// DropPasswordLinks removes those that ended before now.
	DropPasswordLinks(ctx context.Context, now int64) error
}
