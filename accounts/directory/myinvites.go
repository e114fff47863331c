package directory

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// errNoInvite is the answer to a request for an invite of somebody else, whether there is one or not.
var errNoInvite = fault.New(fault.NotFound, "not_found", "It does not exist, or you do not have access to it.")

// MyInvites returns the invites to the actor's address that can be accepted now, newest first. None where the address is not known to be
// theirs: the first person to type somebody's address must not get in as them.
func (s *Service) MyInvites(ctx context.Context, actor accounts.Actor) ([]accounts.TeamInvite, error) {
	if actor.User.EmailUnverified {
		return nil, nil
	}
	all, err := s.store.InvitesTo(ctx, actor.User.Email, s.now())
	if err != nil {
		return nil, fmt.Errorf("reading invites: %w", err)
	}
	return all, nil
}

// AcceptInvite makes the actor a member of the team that invites them. Errors: not_found, invite_ended, team_suspended, already_member,
// token_not_allowed.
func (s *Service) AcceptInvite(ctx context.Context, actor accounts.Actor, inviteID string) (accounts.Team, error) {
	if err := mayAnswer(actor); err != nil {
		return accounts.Team{}, err
	}
	var joined accounts.Team
	err := s.store.Tx(tenant.All(ctx, "joining a team"), func(ctx context.Context) error {
		i, err := s.inviteTo(ctx, actor, inviteID)
		if err != nil {
			return err
		}
		if joined, err = s.openTeam(ctx, i); err != nil {
			return err
		}
		return s.use(ctx, i, actor.User, s.now())
	})
	if err != nil {
		return accounts.Team{}, fmt.Errorf("accepting an invite: %w", err)
	}
	return joined, nil
}

// DeclineInvite ends an invite to the actor, and says which team it was to. Errors: not_found, invite_ended, token_not_allowed.
func (s *Service) DeclineInvite(ctx context.Context, actor accounts.Actor, inviteID string) (teamID string, err error) {
	if err := mayAnswer(actor); err != nil {
		return "", err
	}
	ctx = tenant.All(ctx, "who is invited may decline")
	i, err := s.inviteTo(ctx, actor, inviteID)
	if err != nil {
		return "", err
	}
	ok, err := s.store.RevokeInvite(ctx, i.TeamID, i.ID, s.now())
	if err != nil {
		return "", fmt.Errorf("declining an invite: %w", err)
	}
	if !ok {
		return "", errInviteEnded
	}
	return i.TeamID, nil
}

// inviteTo returns an invite to the actor's address, ended or not.
func (s *Service) inviteTo(ctx context.Context, actor accounts.Actor, inviteID string) (accounts.Invite, error) {
	i, err := s.store.Invite(ctx, inviteID)
	if fault.Is(err, fault.NotFound) || err == nil && (i.Email == "" || i.Email != actor.User.Email || actor.User.EmailUnverified) {
		return accounts.Invite{}, errNoInvite
	}
	if err != nil {
		return accounts.Invite{}, fmt.Errorf("reading an invite: %w", err)
	}
	return i, nil
}

// mayAnswer refuses scripts what a person decides.
func mayAnswer(actor accounts.Actor) error {
	if actor.TokenID != "" {
		return fault.New(fault.Forbidden, "token_not_allowed", "An invite is accepted or declined in the web app, not with an API token.")
	}
	return nil
}
