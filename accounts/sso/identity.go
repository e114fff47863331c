package sso

import (
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
)

// Identities returns a user's linked accounts, the oldest first.
func (s *Service) Identities(ctx context.Context, userID string) ([]Identity, error) {
	return s.store.Identities(ctx, userID)
}

// BeginLink begins the way to a provider whose account is to be linked to the actor's user. The actor has proven a short while ago who
// they are: a browser left open must not be enough.
func (s *Service) BeginLink(ctx context.Context, actor accounts.Actor, req BeginRequest) (Begun, error) {
	if err := s.cfg.SignIn.MayChangeFactors(ctx, actor); err != nil {
		return Begun{}, err
	}
	req.UserID = actor.User.ID
	return s.Begin(ctx, req)
}

// link links an account to a user. One that is linked to them already is no error.
func (s *Service) link(ctx context.Context, p Provider, userID string, who person) error {
	return s.store.Tx(ctx, func(ctx context.Context) error {
		known, err := s.store.IdentityBySubject(ctx, who.issuer, who.subject)
		if err == nil && known.UserID == userID {
			return nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("reading an identity: %w", err)
		}
		user, err := s.store.UserByID(ctx, userID)
		if err != nil {
			return err
		}
		return s.insert(asUser(ctx, user), p, userID, who)
	})
}

// Unlink ends the link to an account elsewhere, and the actor's other login sessions that it began. The last way to sign in stays.
func (s *Service) Unlink(ctx context.Context, actor accounts.Actor, identityID string) error {
	if err := s.cfg.SignIn.MayChangeFactors(ctx, actor); err != nil {
		return err
	}
	userID := actor.User.ID
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.store.Identities(ctx, userID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(i Identity) bool { return i.ID == identityID })
		if i < 0 {
			return fault.New(fault.NotFound, "not_found", "It does not exist, or you do not have access to it.")
		}
		if err := s.keepsWay(ctx, userID, slices.Delete(slices.Clone(all), i, i+1)); err != nil {
			return err
		}
		if err := s.store.DeleteIdentity(ctx, userID, identityID); err != nil {
			return err
		}
		if err := s.store.EndSessionsOf(ctx, userID, all[i].Provider, actor.SessionHash); err != nil {
			return err
		}
		return s.note(ctx, audit.Entry{Chain: audit.Instance, Action: "identity.unlink", TargetKind: "identity", TargetID: identityID, TargetName: all[i].Email, Data: map[string]string{"provider": all[i].Provider}})
	})
	if err != nil {
		return fmt.Errorf("unlinking an account: %w", err)
	}
	audit.Reported(ctx)
	s.changed(userID)
	return nil
}

// keepsWay refuses to take the last way to sign in. Accounts of providers that are no longer configured do not count.
func (s *Service) keepsWay(ctx context.Context, userID string, left []Identity) error {
	if slices.ContainsFunc(left, func(i Identity) bool { _, ok := s.by[i.Provider]; return ok }) {
		return nil
	}
	ways, err := s.cfg.SignIn.OwnWays(ctx, userID)
	if err != nil {
		return err
	}
	if ways > 0 {
		return nil
	}
	return fault.New(fault.Conflict, "last_sign_in", "This is your only way to sign in. Set a password or add a passkey first.")
}
