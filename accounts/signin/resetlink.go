package signin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

var errLinkEnded = fault.New(fault.Gone, "link_ended", "This link has ended or was used already. Ask for a new one.")

// forgottenFor is how long a link works that was asked for by mail.
const forgottenFor = time.Hour

// MailsResets reports whether people can ask for a link to choose a new password by mail.
func (s *Service) MailsResets() bool {
	return s.TakesPasswords() && accounts.MailsLinks(s.cfg.Mailer, s.cfg.PublicURL)
}

// ForgotPassword mails a link to choose a new password to the user with this address, and returns that user, for the audit alone. The
// caller gets the same answer where there is no such user, where a provider signs the user in, or where enough links were sent already.
// Errors: no_mail, password_off, too_many_attempts.
func (s *Service) ForgotPassword(ctx context.Context, email string, meta accounts.Meta) (userID string, err error) {
	if s.cfg.NoPassword {
		return "", password.ErrOff
	}
	if !accounts.MailsLinks(s.cfg.Mailer, s.cfg.PublicURL) {
		return "", fault.New(fault.Conflict, "no_mail", "This server sends no mail. Ask an operator of it for a link to choose a new password.")
	}
	if err := s.limits.Ask(meta.IP); err != nil {
		return "", err
	}
	token, err := password.NewSecret(s.cfg.Rand, 32)
	if err != nil {
		return "", err
	}
	u, err := s.forgetful(ctx, email)
	if err != nil {
		return "", err
	}
	now := s.cfg.Now()
	expires := now.Add(forgottenFor).UnixMilli()
	if err := s.store.DropPasswordLinks(ctx, now.UnixMilli()); err != nil {
		return "", fmt.Errorf("dropping old links: %w", err)
	}
	if u.ID == "" { // as much is written as for somebody
		_, _, err := s.BeginCeremony(ctx, CeremonyRequest{Kind: "nobody", Life: time.Second})
		return "", err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.store.InsertPasswordLink(ctx, u.ID, password.Digest(token), "", now.UnixMilli(), expires); err != nil {
			return err
		}
		return s.cfg.Mailer.Queue(ctx, forgotMail(u, accounts.Link(s.cfg.PublicURL, "reset", token), expires))
	})
	if err != nil {
		return "", fmt.Errorf("mailing a link: %w", err)
	}
	return u.ID, nil
}

// forgetful returns the user who may be sent a link; the zero User when nobody may.
func (s *Service) forgetful(ctx context.Context, email string) (accounts.User, error) {
	clean, err := accounts.CleanEmail(email)
	if err != nil {
		return accounts.User{}, nil
	}
	u, err := s.store.UserByEmail(ctx, clean)
	if fault.Is(err, fault.NotFound) {
		return accounts.User{}, nil
	}
	if err != nil {
		return accounts.User{}, fmt.Errorf("reading a user: %w", err)
	}
	n, err := s.store.CountIdentities(ctx, u.ID)
	if err != nil {
		return accounts.User{}, fmt.Errorf("reading a user: %w", err)
	}
	if u.SuspendedAt != 0 || n > 0 && !hasPassword(u) || s.limits.Forgot(u.ID) != nil {
		return accounts.User{}, nil
	}
	return u, nil
}

func forgotMail(u accounts.User, link string, expiresAt int64) accounts.Mail {
	until := time.UnixMilli(expiresAt).UTC().Format("2 January 2006, 15:04 UTC")
	return accounts.Mail{Kind: "reset", To: u.Email, Subject: "Choose a new password for Parawork",
		Text: fmt.Sprintf("Somebody asked for a link to choose a new password for your account on Parawork, %s. It works once, until %s:\n\n%s\n\n"+
			"If that was not you, do nothing: your password stays as it is.\n", u.Name, until, link)}
}

// ResetByLink sets the password of the user a link is for, which ends all links and login sessions of the user, and their API tokens
// unless they are to be kept. Errors: link_ended, weak_password, suspended, too_many_attempts, password_off.
func (s *Service) ResetByLink(ctx context.Context, token, next string, keepTokens bool, meta accounts.Meta) (userID string, err error) {
	if s.cfg.NoPassword {
		return "", password.ErrOff
	}
	if err := s.limits.Ask(meta.IP); err != nil {
		return "", err
	}
	if token == "" || len(token) > 256 {
		return "", errLinkEnded
	}
	hash := password.Digest(token)
	u, _, err := s.linkedUser(ctx, hash)
	if err != nil {
		return "", err
	}
	if err := s.checkPasswordOf(ctx, u, next); err != nil {
		return "", err
	}
	phc, err := s.hasher.Hash(ctx, next)
	if err != nil {
		return "", err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		_, byMail, err := s.linkedUser(ctx, hash) // somebody may have been faster
		if err != nil {
			return err
		}
		if byMail && u.EmailUnverified {
			if err := s.store.VerifyEmail(ctx, u.ID); err != nil {
				return err
			}
		}
		return s.writePassword(ctx, u.ID, phc, "", keepTokens)
	})
	if err != nil {
		return "", fmt.Errorf("resetting a password: %w", err)
	}
	s.changed(u.ID)
	return u.ID, nil
}

// linkedUser returns whose link this is, and whether it was mailed to them.
func (s *Service) linkedUser(ctx context.Context, hash string) (u accounts.User, byMail bool, err error) {
	l, err := s.store.PasswordLink(ctx, hash)
	if fault.Is(err, fault.NotFound) || err == nil && s.now() >= l.ExpiresAt {
		return accounts.User{}, false, errLinkEnded
	}
	if err != nil {
		return accounts.User{}, false, fmt.Errorf("reading a link: %w", err)
	}
	if u, err = s.store.UserByID(ctx, l.UserID); err != nil {
		return accounts.User{}, false, fmt.Errorf("reading a user: %w", err)
	}
	if u.SuspendedAt != 0 {
		return accounts.User{}, false, accounts.ErrSuspended
	}
	return u, l.ByMail, nil
}

// ResetFactors forgets what a user lost: authenticator app, recovery codes and passkeys. All login sessions of the user end, since what
// they rest on counts no more, and so do their API tokens unless they are to be kept.
func (s *Service) ResetFactors(ctx context.Context, userID string, keepTokens bool) (accounts.User, error) {
	var u accounts.User
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if u, err = s.store.UserByID(ctx, userID); err != nil {
			return err
		}
		if err := s.store.DeleteFactors(ctx, userID); err != nil {
			return err
		}
		return s.endSessions(ctx, userID, "", keepTokens)
	})
	if err != nil {
		return accounts.User{}, fmt.Errorf("resetting the second factor of a user: %w", err)
	}
	s.changed(userID)
	return u, nil
}

// passwordLinkFor is how long a link to set a password works that an operator made.
const passwordLinkFor = 24 * time.Hour

// ResetLink makes a link's token by which a user chooses a new password, and mails the link where mail is sent. by is the operator's id,
// "" for the command line. An earlier link of the user ends. Since it is shown to who made it, it proves no address. fresh says that the user has just been made.
func (s *Service) ResetLink(ctx context.Context, by, userID string, fresh bool) (token string, expiresAt int64, mailed bool, err error) {
	if token, err = password.NewSecret(s.cfg.Rand, 32); err != nil {
		return "", 0, false, err
	}
	now := s.cfg.Now()
	expiresAt, mailed = now.Add(passwordLinkFor).UnixMilli(), accounts.MailsLinks(s.cfg.Mailer, s.cfg.PublicURL)
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		u, err := s.store.UserByID(ctx, userID)
		if err != nil {
			return err
		}
		if u.SuspendedAt != 0 {
			return fault.New(fault.Conflict, "user_suspended", "%s is suspended. Restore the user first.", u.Name)
		}
		if err := s.store.InsertPasswordLink(ctx, userID, password.Digest(token), cmp.Or(by, "command line"), now.UnixMilli(), expiresAt); err != nil {
			return err
		}
		if !mailed {
			return nil
		}
		return s.cfg.Mailer.Queue(ctx, resetMail(u, accounts.Link(s.cfg.PublicURL, "reset", token), expiresAt, fresh))
	})
	if err != nil {
		return "", 0, false, fmt.Errorf("making a link to set a password: %w", err)
	}
	return token, expiresAt, mailed, nil
}

func resetMail(u accounts.User, link string, expiresAt int64, fresh bool) accounts.Mail {
	until := time.UnixMilli(expiresAt).UTC().Format("2 January 2006, 15:04 UTC")
	if fresh {
		return accounts.Mail{Kind: "welcome", To: u.Email, Subject: "Your account on Parawork",
			Text: fmt.Sprintf("An operator of Parawork has made an account for you, %s.\n\nOpen this link to choose a password. It works once, until %s:\n\n%s\n", u.Name, until, link)}
	}
	return accounts.Mail{Kind: "reset", To: u.Email, Subject: "Choose a new password for Parawork",
		Text: fmt.Sprintf("An operator of Parawork has made this link for you, %s, to choose a new password. It works once, until %s:\n\n%s\n\n"+
			"If you did not ask for it, do nothing: your password stays as it is.\n", u.Name, until, link)}
}
