package directory

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// SuspendUser locks a user out. It revokes login sessions, API tokens, invites and links to set a password, and notifies the owners of
// sockets, machines and sandboxes through Config.Changed. Nothing the user made is deleted. actor is the operator who asks; the zero Actor is the command
// line.
func (s *Service) SuspendUser(ctx context.Context, actor accounts.Actor, userID string) (accounts.User, error) {
	if actor.User.ID == userID {
		return accounts.User{}, fault.New(fault.Conflict, "suspend_self", "You cannot suspend yourself. Ask another operator.")
	}
	var after accounts.User
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		u, err := s.store.UserByID(ctx, userID)
		if err != nil {
			return err
		}
		after = u
		if u.SuspendedAt != 0 {
			return nil
		}
		if err := s.keepsOperator(ctx, u); err != nil {
			return err
		}
		after.SuspendedAt = s.now()
		if err := s.store.SetUserSuspended(ctx, userID, after.SuspendedAt); err != nil {
			return err
		}
		if err := s.store.RevokeInvitesBy(ctx, "", userID, after.SuspendedAt); err != nil {
			return err
		}
		return s.store.EndCredentials(ctx, userID)
	})
	if err != nil {
		return accounts.User{}, fmt.Errorf("suspending a user: %w", err)
	}
	s.changed(userID)
	return after, nil
}

// RestoreUser lets a suspended user in again. They sign in again and make new API tokens.
func (s *Service) RestoreUser(ctx context.Context, userID string) (accounts.User, error) {
	u, err := s.store.UserByID(ctx, userID)
	if err != nil {
		return accounts.User{}, err
	}
	if err := s.store.SetUserSuspended(ctx, userID, 0); err != nil {
		return accounts.User{}, fmt.Errorf("restoring a user: %w", err)
	}
	u.SuspendedAt = 0
	s.changed(userID)
	return u, nil
}

// SuspendTeam locks all members out of a team. The subscribers of the change end what runs for it; nothing is deleted.
func (s *Service) SuspendTeam(ctx context.Context, teamID string) (accounts.Team, error) {
	return s.setTeamSuspended(ctx, teamID, true)
}

// RestoreTeam lets a suspended team work again.
func (s *Service) RestoreTeam(ctx context.Context, teamID string) (accounts.Team, error) {
	return s.setTeamSuspended(ctx, teamID, false)
}

func (s *Service) setTeamSuspended(ctx context.Context, teamID string, suspended bool) (accounts.Team, error) {
	var after accounts.Team
	var members []accounts.TeamMember
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if after, err = s.store.TeamByID(ctx, teamID); err != nil {
			return err
		}
		if members, err = s.store.Members(ctx, teamID); err != nil {
			return err
		}
		if (after.SuspendedAt != 0) == suspended {
			return nil
		}
		after.SuspendedAt = 0
		if suspended {
			after.SuspendedAt = s.now()
		}
		return s.store.SetTeamSuspended(ctx, teamID, after.SuspendedAt)
	})
	if err != nil {
		return accounts.Team{}, fmt.Errorf("suspending or restoring a team: %w", err)
	}
	s.changed(teamID)
	for _, m := range members {
		s.changed(m.User.ID)
	}
	return after, nil
}

// SetSecondFactor says whether members of a team need a second factor to work in it. Only an actor who used a second factor can require one.
func (s *Service) SetSecondFactor(ctx context.Context, actor accounts.Actor, teamID string, needed bool) (accounts.Team, error) {
	if err := accounts.Can(actor, accounts.ManageTeam, accounts.InTeam(teamID)); err != nil {
		return accounts.Team{}, err
	}
	if needed && !actor.SecondFactor {
		return accounts.Team{}, fault.New(fault.Forbidden, "second_factor_required",
			"Set up a second factor for yourself first, and sign in with it: else you would shut yourself out of the team.")
	}
	var after accounts.Team
	var members []accounts.TeamMember
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		err := s.store.SetTeamSecondFactor(ctx, teamID, needed)
		if err != nil {
			return err
		}
		if after, err = s.store.TeamByID(ctx, teamID); err != nil {
			return err
		}
		members, err = s.store.Members(ctx, teamID)
		return err
	})
	if err != nil {
		return accounts.Team{}, fmt.Errorf("changing what a team asks for: %w", err)
	}
	for _, m := range members {
		s.changed(m.User.ID)
	}
	return after, nil
}

// keepsOperator refuses to let the last operator who can sign in go.
func (s *Service) keepsOperator(ctx context.Context, u accounts.User) error {
	if !u.Operator || u.SuspendedAt != 0 {
		return nil
	}
	n, err := s.store.CountOperators(ctx)
	if err != nil {
		return err
	}
	if n <= 1 {
		return fault.New(fault.Conflict, "last_operator", "%s is the only operator of this server. Make another user an operator first.", u.Name)
	}
	return nil
}
