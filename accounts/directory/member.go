package directory

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
)

// Members returns a team's members, in the order they joined. The caller has checked ViewTeam.
func (s *Service) Members(ctx context.Context, teamID string) ([]accounts.TeamMember, error) {
	return s.store.Members(ctx, teamID)
}

// PutMember makes a user of this instance, named by e-mail address, a member of the team without asking them: for the command line of the
// server alone. Everybody else invites (CreateInvite).
func (s *Service) PutMember(ctx context.Context, teamID, email string, role accounts.Role) (accounts.TeamMember, error) {
	if err := checkRole(role); err != nil {
		return accounts.TeamMember{}, err
	}
	u, err := s.UserByEmail(ctx, email)
	if err != nil {
		return accounts.TeamMember{}, err
	}
	audit.Target(ctx, "user", u.ID, u.Email)
	audit.Note(ctx, "role", string(role))
	m := accounts.TeamMember{User: u, Role: role, JoinedAt: s.now()}
	m.User.PasswordHash = ""
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		ok, err := s.insertMember(ctx, teamID, u.ID, role, m.JoinedAt)
		if err == nil && !ok {
			err = fault.New(fault.Conflict, "already_member", "%s is a member of the team already.", u.Email)
		}
		return err
	})
	if err != nil {
		return accounts.TeamMember{}, fmt.Errorf("adding a member: %w", err)
	}
	return m, nil
}

// insertMember stores a member where the team has room for one; false when the user is one already. Only in a transaction.
func (s *Service) insertMember(ctx context.Context, teamID, userID string, role accounts.Role, at int64) (bool, error) {
	ok, err := s.store.InsertMember(ctx, teamID, userID, role, at)
	if err != nil || !ok || s.cfg.Seats == nil {
		return ok, err
	}
	return ok, s.cfg.Seats(ctx, teamID)
}

// SetRole changes a member's role. Only owners make owners and change them, and the last owner stays one.
func (s *Service) SetRole(ctx context.Context, actor accounts.Actor, teamID, userID string, role accounts.Role) (accounts.TeamMember, error) {
	if err := mayGive(actor, teamID, role); err != nil {
		return accounts.TeamMember{}, err
	}
	var after accounts.TeamMember
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		m, owners, err := s.member(ctx, teamID, userID)
		if err != nil {
			return err
		}
		if err := mayGive(actor, teamID, m.Role); err != nil {
			return err
		}
		if role != accounts.Owner {
			if err := keepsOwner(m, owners); err != nil {
				return err
			}
		}
		audit.Target(ctx, "user", userID, m.User.Email)
		audit.Note(ctx, "before", string(m.Role))
		audit.Note(ctx, "role", string(role))
		after = m
		after.Role = role
		if !role.AtLeast(m.Role) { // else they come back by a link they made before, or let somebody in with a role they may not give any more
			if err := s.store.RevokeInvitesBy(ctx, teamID, userID, s.now()); err != nil {
				return err
			}
		}
		return s.store.SetRole(ctx, teamID, userID, role)
	})
	if err != nil {
		return accounts.TeamMember{}, fmt.Errorf("changing a role: %w", err)
	}
	s.changed(userID)
	return after, nil
}

// RemoveMember ends a membership. Members may end their own; the last owner stays.
func (s *Service) RemoveMember(ctx context.Context, actor accounts.Actor, teamID, userID string) error {
	leaving := actor.User.ID == userID
	need := accounts.ManageMember
	if leaving {
		need = accounts.ViewTeam
	}
	if err := accounts.Can(actor, need, accounts.InTeam(teamID)); err != nil {
		return err
	}
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		m, owners, err := s.member(ctx, teamID, userID)
		if err != nil {
			return err
		}
		if !leaving {
			if err := mayGive(actor, teamID, m.Role); err != nil {
				return err
			}
		}
		audit.Target(ctx, "user", userID, m.User.Email)
		audit.Note(ctx, "role", string(m.Role))
		if leaving {
			audit.Note(ctx, "left", "true")
		}
		if err := keepsOwner(m, owners); err != nil {
			return err
		}
		if err := s.store.RevokeInvitesBy(ctx, teamID, userID, s.now()); err != nil { // else they come back by a link they made before
			return err
		}
		if err := s.store.DeleteTeamTokens(ctx, userID, teamID); err != nil {
			return err
		}
		return s.store.DeleteMember(ctx, teamID, userID)
	})
	if err != nil {
		return fmt.Errorf("removing a member: %w", err)
	}
	s.changed(userID)
	return nil
}

// member returns a member of a team and how many owners the team has.
func (s *Service) member(ctx context.Context, teamID, userID string) (found accounts.TeamMember, owners int, err error) {
	all, err := s.store.Members(ctx, teamID)
	if err != nil {
		return accounts.TeamMember{}, 0, err
	}
	for _, m := range all {
		if m.Role == accounts.Owner {
			owners++
		}
		if m.User.ID == userID {
			found = m
		}
	}
	if found.User.ID == "" {
		return accounts.TeamMember{}, 0, fault.New(fault.NotFound, "member_not_found", "The team has no such member.")
	}
	return found, owners, nil
}

// keepsOwner refuses to let the last owner go.
func keepsOwner(m accounts.TeamMember, owners int) error {
	if m.Role == accounts.Owner && owners == 1 {
		return fault.New(fault.Conflict, "last_owner", "%s is the team's only owner. Make another member an owner first.", m.User.Name)
	}
	return nil
}

// mayGive decides whether actor may give or take role in the team.
func mayGive(actor accounts.Actor, teamID string, role accounts.Role) error {
	if err := accounts.Can(actor, accounts.ManageMember, accounts.InTeam(teamID)); err != nil {
		return err
	}
	if err := checkRole(role); err != nil {
		return err
	}
	if role == accounts.Owner && actor.RoleIn(teamID) != accounts.Owner {
		return fault.New(fault.Forbidden, "forbidden", "Only an owner of the team may make, change or remove owners.").With("action", string(accounts.ManageMember))
	}
	return nil
}

func checkRole(role accounts.Role) error {
	if !role.Valid() {
		return fault.New(fault.Invalid, "invalid_role", "A role is one of owner, admin, member and viewer.").With("field", "role")
	}
	return nil
}
