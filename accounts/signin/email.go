package signin

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

const (
	emailCeremony = "email"
	emailFor      = 24 * time.Hour // how long the link to confirm an address works
)

// emailChange is what a link confirms.
type emailChange struct {
	From, To string
}

var errEmailTaken = fault.New(fault.Conflict, "email_taken", "A user with this e-mail address exists already.").With("field", "email")

// ChangeEmail changes a user's own address. Where mail is sent, a link goes to the new address and ConfirmEmail changes it: whether the address
// is somebody else's already does not show before. Elsewhere the address changes at once, and counts as not verified. The address the user
// has can be verified in the same way. Errors: token_not_allowed, confirm_needed,
// invalid_email, email_same, email_taken, too_many_attempts.
func (s *Service) ChangeEmail(ctx context.Context, actor accounts.Actor, email string) (u accounts.User, mailed bool, err error) {
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return accounts.User{}, false, err
	}
	to, err := accounts.CleanEmail(email)
	if err != nil {
		return accounts.User{}, false, err
	}
	if u, err = s.store.UserByID(ctx, actor.User.ID); err != nil {
		return accounts.User{}, false, fmt.Errorf("reading a user: %w", err)
	}
	mails := accounts.MailsLinks(s.cfg.Mailer, s.cfg.PublicURL)
	if to == u.Email && (!u.EmailUnverified || !mails) {
		return accounts.User{}, false, fault.New(fault.Invalid, "email_same", "That is the address you have.").With("field", "email")
	}
	if !mails {
		u.Email, u.EmailUnverified = to, true
		if err := s.store.Tx(ctx, func(ctx context.Context) error { return writeEmail(ctx, s.store, u) }); err != nil {
			return accounts.User{}, false, err
		}
		s.changed(u.ID)
		return u, false, nil
	}
	if err := s.limits.Forgot(u.ID); err != nil {
		return accounts.User{}, false, err
	}
	return u, true, s.store.Tx(ctx, func(ctx context.Context) error {
		token, expires, err := s.BeginCeremony(ctx, CeremonyRequest{Kind: emailCeremony, UserID: u.ID, Data: emailChange{u.Email, to}, Life: emailFor})
		if err != nil {
			return err
		}
		return s.cfg.Mailer.Queue(ctx, emailMail(u, to, accounts.Link(s.cfg.PublicURL, "email", token), expires))
	})
}

// ConfirmEmail gives an account the address to which the link with this token was mailed, and writes to the earlier one. Errors: link_ended,
// email_taken, suspended, too_many_attempts.
func (s *Service) ConfirmEmail(ctx context.Context, token string, meta accounts.Meta) (userID string, err error) {
	if err := s.limits.Ask(meta.IP); err != nil {
		return "", err
	}
	var change emailChange
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		c, err := s.TakeCeremony(ctx, emailCeremony, token, &change)
		if fault.CodeOf(err) == errLoginEnded.Code {
			return errLinkEnded
		}
		if err != nil {
			return err
		}
		u, err := s.store.UserByID(ctx, c.UserID)
		if err != nil {
			return err
		}
		if u.SuspendedAt != 0 {
			return accounts.ErrSuspended
		}
		if u.Email != change.From {
			return errLinkEnded // it was changed in another way meanwhile
		}
		userID, u.Email, u.EmailUnverified = u.ID, change.To, false
		if err := writeEmail(ctx, s.store, u); err != nil || change.From == change.To {
			return err
		}
		return s.cfg.Mailer.Queue(ctx, emailChangedMail(u, change.From))
	})
	if err != nil {
		return "", err
	}
	s.changed(userID)
	return userID, nil
}

// writeEmail writes a user's address. Links to set a password end: they may have gone to the earlier one.
func writeEmail(ctx context.Context, store Store, u accounts.User) error {
	if ok, err := store.UpdateUser(ctx, u); err != nil {
		return fmt.Errorf("changing an address: %w", err)
	} else if !ok {
		return errEmailTaken
	}
	if err := store.DeletePasswordLinks(ctx, u.ID); err != nil {
		return fmt.Errorf("changing an address: %w", err)
	}
	return nil
}

func emailMail(u accounts.User, to, link string, expiresAt int64) accounts.Mail {
	until := time.UnixMilli(expiresAt).UTC().Format("2 January 2006, 15:04 UTC")
	return accounts.Mail{Kind: "email", To: to, Subject: "Confirm your e-mail address for Parawork",
		Text: fmt.Sprintf("%s wants to use this address on Parawork. Open this link to confirm it. It works once, until %s:\n\n%s\n\n"+
			"If that was not you, do nothing.\n", u.Name, until, link)}
}

func emailChangedMail(u accounts.User, from string) accounts.Mail {
	return accounts.Mail{Kind: "email", To: from, Subject: "Your e-mail address on Parawork was changed",
		Text: fmt.Sprintf("The account of %s on Parawork has another e-mail address now, and this one can no longer be used to sign in.\n\n"+
			"If that was not you, tell an operator of the server at once.\n", u.Name)}
}
