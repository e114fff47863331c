package accounts

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
)

// PasswordLinkStore keeps the links by which users choose a new password.
type PasswordLinkStore interface {
	// PasswordLink returns whose link this is and when it ends.
	PasswordLink(ctx context.Context, tokenHash string) (userID string, expiresAt int64, err error)
	// DropPasswordLinks removes those that ended before now.
	DropPasswordLinks(ctx context.Context, now int64) error
}

var errLinkEnded = fault.New(fault.Gone, "link_ended", "This link has ended or was used already. Ask for a new one.")

// ResetByLink sets the password of the user a link is for, which ends all links and login sessions of the user. Errors: link_ended,
// weak_password, suspended, too_many_attempts, password_off.
func (s *Service) ResetByLink(ctx context.Context, token, password string, meta Meta) (userID string, err error) {
	if s.cfg.NoPassword {
		return "", errPasswordOff
	}
	if err := s.limits.ask(meta.IP); err != nil {
		return "", err
	}
	if token == "" || len(token) > 256 {
		return "", errLinkEnded
	}
	hash := hashOf(token)
	u, err := s.linkedUser(ctx, hash)
	if err != nil {
		return "", err
	}
	if err := checkNewPassword(password, u.Email); err != nil {
		return "", err
	}
	phc, err := s.hasher.hash(ctx, password)
	if err != nil {
		return "", err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.linkedUser(ctx, hash); err != nil { // somebody may have been faster
			return err
		}
		return s.writePassword(ctx, u.ID, phc, "")
	})
	if err != nil {
		return "", fmt.Errorf("resetting a password: %w", err)
	}
	s.changed(u.ID)
	return u.ID, nil
}

// linkedUser returns whose link this is.
func (s *Service) linkedUser(ctx context.Context, hash string) (User, error) {
	userID, expiresAt, err := s.store.PasswordLink(ctx, hash)
	if fault.Is(err, fault.NotFound) || err == nil && s.now() >= expiresAt {
		return User{}, errLinkEnded
	}
	if err != nil {
		return User{}, fmt.Errorf("reading a link: %w", err)
	}
	u, err := s.store.UserByID(ctx, userID)
	if err != nil {
		return User{}, fmt.Errorf("reading a user: %w", err)
	}
	if u.SuspendedAt != 0 {
		return User{}, errSuspended
	}
	return u, nil
}
