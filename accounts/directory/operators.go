package directory

import (
	"cmp"
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
)

// Users returns a page of all users. The caller is an operator, or the command line: so with everything in this file.
func (s *Service) Users(ctx context.Context, q string, pg page.Page) ([]accounts.UserInfo, string, error) {
	return s.store.Users(ctx, q, pg)
}

// UserInfo returns one user. Errors: not_found.
func (s *Service) UserInfo(ctx context.Context, userID string) (accounts.UserInfo, error) {
	return s.store.UserInfo(ctx, userID)
}

// Teams returns a page of all teams.
func (s *Service) Teams(ctx context.Context, q string, pg page.Page) ([]accounts.TeamInfo, string, error) {
	return s.store.Teams(ctx, q, pg)
}

// TeamInfo returns one team. Errors: not_found.
func (s *Service) TeamInfo(ctx context.Context, teamID string) (accounts.TeamInfo, error) {
	return s.store.TeamInfo(ctx, teamID)
}

// UserChange changes a user; nil leaves a thing as it is.
type UserChange struct {
	Name     *string
	Email    *string
	Operator *bool

	LightTerminal *bool
}

// UpdateUser changes a user's name, address and whether they are an operator. Who names an address, also the one there is, vouches for it;
// with another one links to set a password end. Errors: not_found, invalid_name, invalid_email, email_taken,
// last_operator.
func (s *Service) UpdateUser(ctx context.Context, userID string, ch UserChange) (accounts.User, error) {
	var after accounts.User
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		u, err := s.store.UserByID(ctx, userID)
		if err != nil {
			return err
		}
		before := u
		if ch.Name != nil {
			if u.Name, err = accounts.CleanName("name", *ch.Name); err != nil {
				return err
			}
		}
		if ch.Email != nil {
			if u.Email, err = accounts.CleanEmail(*ch.Email); err != nil {
				return err
			}
			u.EmailUnverified = false
		}
		if ch.LightTerminal != nil {
			u.LightTerminal = *ch.LightTerminal
		}
		if ch.Operator != nil {
			if u.Operator = *ch.Operator; !u.Operator {
				if err := s.keepsOperator(ctx, before); err != nil {
					return err
				}
			}
		}
		after = u
		if ok, err := s.store.UpdateUser(ctx, u); err != nil {
			return err
		} else if !ok {
			return fault.New(fault.Conflict, "email_taken", "A user with this e-mail address exists already.").With("field", "email")
		}
		if u.Email == before.Email {
			return nil
		}
		return s.store.DeletePasswordLinks(ctx, userID) // they may have gone to an address that is somebody else's
	})
	if err != nil {
		return accounts.User{}, fmt.Errorf("changing a user: %w", err)
	}
	s.changed(userID)
	return after, nil
}

// InviteUser makes a user who has no password yet, and joins them to a team when one is given.
func (s *Service) InviteUser(ctx context.Context, req accounts.NewUser, teamSlug string, role accounts.Role) (accounts.User, error) {
	req.NoPassword = true
	u, err := s.newUser(ctx, req, "") // without a password
	if err != nil {
		return accounts.User{}, err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if ok, err := s.store.InsertUser(ctx, u); err != nil {
			return err
		} else if !ok {
			return fault.New(fault.Conflict, "email_taken", "A user with this e-mail address exists already.").With("field", "email")
		}
		if teamSlug == "" {
			return nil
		}
		role = cmp.Or(role, accounts.Member)
		if err := checkRole(role); err != nil {
			return err
		}
		t, err := s.store.TeamBySlug(ctx, teamSlug)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.Invalid, "team_not_found", "This server has no team %q.", teamSlug).With("field", "team")
		}
		if err != nil {
			return err
		}
		_, err = s.insertMember(ctx, t.ID, u.ID, role, u.CreatedAt)
		return err
	})
	if err != nil {
		return accounts.User{}, fmt.Errorf("making a user: %w", err)
	}
	return u, nil
}

// CreateTeamFor makes a team that the user with an address owns.
func (s *Service) CreateTeamFor(ctx context.Context, ownerEmail, name, slug string) (accounts.Team, error) {
	u, err := s.UserByEmail(ctx, ownerEmail)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			return accounts.Team{}, fault.New(fault.Invalid, "user_not_found", "No user of this server has that e-mail address. Make the user first.").With("field", "owner")
		}
		return accounts.Team{}, err
	}
	return s.CreateTeam(ctx, accounts.Actor{User: u}, name, slug)
}
