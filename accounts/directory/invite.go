package directory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// Bounds of invites.
const (
	inviteFor     = 7 * 24 * time.Hour
	maxInvites    = 100 // that wait, of one team
	maxInvitesDay = 200 // made in a day, of one team: each may be a mail
)

var errInviteEnded = fault.New(fault.Gone, "invite_ended",
	"This invite has been used or taken back, or is older than seven days. Ask who invited you for a new one.")

// CreateInvite invites somebody to a team. The token is returned once; only a hash is stored. An earlier invite to the same address ends.
// Nothing depends on whether the address has an account. The mail has its own token, which proves that the holder has the address.
func (s *Service) CreateInvite(ctx context.Context, actor accounts.Actor, teamID string, req accounts.NewInvite) (accounts.Invite, string, error) {
	if err := mayInvite(actor, teamID, req.Role); err != nil {
		return accounts.Invite{}, "", err
	}
	now := s.cfg.Now()
	i := accounts.Invite{ID: id.New("inv"), TeamID: teamID, Role: req.Role, CreatedBy: actor.User.ID, CreatorName: actor.User.Name, CreatedAt: now.UnixMilli(),
		ExpiresAt: now.Add(inviteFor).UnixMilli()}
	var err error
	if req.Email != "" {
		if i.Email, err = accounts.CleanEmail(req.Email); err != nil {
			return accounts.Invite{}, "", err
		}
		if accounts.MailsLinks(s.cfg.Mailer, s.cfg.PublicURL) {
			i.MailedAt = i.CreatedAt
		}
	}
	token, err := password.NewSecret(s.cfg.Rand, 32)
	if err != nil {
		return accounts.Invite{}, "", err
	}
	mailed, mailHash := "", ""
	if i.MailedAt != 0 {
		if mailed, err = password.NewSecret(s.cfg.Rand, 32); err != nil {
			return accounts.Invite{}, "", err
		}
		mailHash = password.Digest(mailed)
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.roomForInvite(ctx, i); err != nil {
			return err
		}
		if err := s.store.InsertInvite(ctx, i, password.Digest(token), mailHash); err != nil {
			return err
		}
		if i.MailedAt == 0 {
			return nil
		}
		team, err := s.store.TeamByID(ctx, teamID)
		if err != nil {
			return err
		}
		return s.cfg.Mailer.Queue(ctx, inviteMail(i, team, accounts.Link(s.cfg.PublicURL, "join", mailed)))
	})
	if err != nil {
		return accounts.Invite{}, "", fmt.Errorf("inviting: %w", err)
	}
	return i, token, nil
}

// roomForInvite refuses an invite that makes no sense or is one too many, and ends an earlier one to the same address.
func (s *Service) roomForInvite(ctx context.Context, i accounts.Invite) error {
	pending, err := s.store.PendingInvites(ctx, i.TeamID, i.CreatedAt)
	if err != nil {
		return err
	}
	made, err := s.store.CountInvites(ctx, i.TeamID, i.CreatedAt-(24*time.Hour).Milliseconds())
	if err != nil {
		return err
	}
	if len(pending) >= maxInvites || made >= maxInvitesDay {
		return fault.New(fault.Conflict, "too_many_invites",
			"The team has invited as many as it may: %d can wait, and %d can be made in a day. Take some back, or wait.", maxInvites, maxInvitesDay)
	}
	if i.Email == "" {
		return nil
	}
	members, err := s.store.Members(ctx, i.TeamID)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.User.Email == i.Email {
			return fault.New(fault.Conflict, "already_member", "%s is a member of the team already.", i.Email).With("field", "email")
		}
	}
	for _, p := range pending {
		if p.Email == i.Email {
			if _, err := s.store.RevokeInvite(ctx, i.TeamID, p.ID, i.CreatedAt); err != nil {
				return err
			}
		}
	}
	return nil
}

func inviteMail(i accounts.Invite, t accounts.Team, link string) accounts.Mail {
	return accounts.Mail{TeamID: t.ID, Kind: "invite", To: i.Email, Subject: "Join " + t.Name + " on Parawork",
		Text: fmt.Sprintf("%s invites you to the team %s on Parawork, as %s.\n\nOpen this link to join. It works once, for you alone, until %s:\n\n%s\n\n"+
			"If you do not know who this is, do nothing: without the link nobody joins.\n",
			i.CreatorName, t.Name, i.Role, time.UnixMilli(i.ExpiresAt).UTC().Format("2 January 2006, 15:04 UTC"), link)}
}

// Invites returns the invites of a team that can still be accepted, newest first.
func (s *Service) Invites(ctx context.Context, actor accounts.Actor, teamID string) ([]accounts.Invite, error) {
	if err := accounts.Can(actor, accounts.InviteMember, accounts.InTeam(teamID)); err != nil {
		return nil, err
	}
	return s.store.PendingInvites(ctx, teamID, s.now())
}

// Invite returns an invite, for callers that check its team. Errors: not_found.
func (s *Service) Invite(ctx context.Context, inviteID string) (accounts.Invite, error) {
	return s.store.Invite(ctx, inviteID)
}

// RevokeInvite takes an invite back. Errors: not_found, invite_ended.
func (s *Service) RevokeInvite(ctx context.Context, actor accounts.Actor, inviteID string) error {
	i, err := s.store.Invite(ctx, inviteID)
	if err != nil {
		return err
	}
	if err := mayInvite(actor, i.TeamID, i.Role); err != nil {
		return err
	}
	ok, err := s.store.RevokeInvite(ctx, i.TeamID, i.ID, s.now())
	if err != nil {
		return fmt.Errorf("taking an invite back: %w", err)
	}
	if !ok {
		return fault.New(fault.Gone, "invite_ended", "The invite was used or taken back before, or has ended.")
	}
	return nil
}

// LookInvite returns what an invite is for, to the holder of its token. Errors: invite_ended, team_suspended.
func (s *Service) LookInvite(ctx context.Context, token string) (accounts.Invite, accounts.Team, error) {
	if len(token) < 20 || len(token) > 200 {
		return accounts.Invite{}, accounts.Team{}, errInviteEnded
	}
	ctx = tenant.All(ctx, "who has an invite's token may see its team's name")
	i, byMail, err := s.store.InviteByHash(ctx, password.Digest(token))
	if fault.Is(err, fault.NotFound) {
		return accounts.Invite{}, accounts.Team{}, errInviteEnded
	}
	if err != nil {
		return accounts.Invite{}, accounts.Team{}, fmt.Errorf("reading an invite: %w", err)
	}
	i.ByMail = byMail
	t, err := s.openTeam(ctx, i)
	return i, t, err
}

// openTeam returns the team an invite is to, where it can be accepted now.
func (s *Service) openTeam(ctx context.Context, i accounts.Invite) (accounts.Team, error) {
	if i.UsedAt != 0 || i.RevokedAt != 0 || s.now() >= i.ExpiresAt {
		return accounts.Team{}, errInviteEnded
	}
	t, err := s.store.TeamByID(ctx, i.TeamID)
	if err != nil {
		return accounts.Team{}, fmt.Errorf("reading a team: %w", err)
	}
	if t.SuspendedAt != 0 {
		return accounts.Team{}, fault.New(fault.Forbidden, "team_suspended", "The team %s is suspended: nobody can join it. Ask an operator of this server.", t.Name)
	}
	return t, nil
}

// Join makes the actor a member of the team an invite is for. Errors: invite_ended, team_suspended, invite_other_email,
// already_member, token_not_allowed.
func (s *Service) Join(ctx context.Context, actor accounts.Actor, token string) (accounts.Team, error) {
	if err := mayAnswer(actor); err != nil {
		return accounts.Team{}, err
	}
	var joined accounts.Team
	err := s.store.Tx(tenant.All(ctx, "joining a team"), func(ctx context.Context) error {
		i, t, err := s.LookInvite(ctx, token)
		if err != nil {
			return err
		}
		if i.Email != "" && i.Email != actor.User.Email {
			return fault.New(fault.Forbidden, "invite_other_email", "This invite is for %s, and you are signed in as %s. Sign in as that user, or ask for an invite of your own.",
				i.Email, actor.User.Email).With("email", i.Email)
		}
		joined = t
		return s.use(ctx, i, actor.User, s.now())
	})
	if err != nil {
		return accounts.Team{}, fmt.Errorf("accepting an invite: %w", err)
	}
	return joined, nil
}

// use makes u a member by an invite, which ends with it.
func (s *Service) use(ctx context.Context, i accounts.Invite, u accounts.User, now int64) error {
	if ok, err := s.insertMember(ctx, i.TeamID, u.ID, i.Role, now); err != nil {
		return err
	} else if !ok {
		return fault.New(fault.Conflict, "already_member", "You are a member of this team already.")
	}
	if ok, err := s.store.UseInvite(ctx, i.TeamID, i.ID, u.ID, now); err != nil {
		return err
	} else if !ok { // somebody was faster
		return errInviteEnded
	}
	if i.ByMail && u.EmailUnverified {
		return s.store.VerifyEmail(ctx, u.ID)
	}
	return nil
}

// SignUp makes a user with a password by an invite, who is a member of its team. Errors: password_off, invite_ended, team_suspended, invite_other_email, email_taken,
// and what is wrong with req.
func (s *Service) SignUp(ctx context.Context, token string, req accounts.NewUser, meta accounts.Meta) (accounts.User, accounts.Team, error) {
	if s.cfg.NoPassword { // else an invite would be a way around the one that is asked for: they sign in by it, then join
		return accounts.User{}, accounts.Team{}, password.ErrOff
	}
	// Each try costs a hash, and says whether an address has an account: so few that it is no way to search.
	if err := s.limits.Begin("invite\x00"+password.Digest(token), meta.IP); err != nil {
		return accounts.User{}, accounts.Team{}, err
	}
	i, team, err := s.LookInvite(ctx, token)
	if err != nil {
		return accounts.User{}, accounts.Team{}, err
	}
	req.Operator = false
	req.Email = cmp.Or(req.Email, i.Email)
	if clean, err := accounts.CleanEmail(req.Email); err != nil {
		return accounts.User{}, accounts.Team{}, err
	} else if i.Email != "" && clean != i.Email {
		return accounts.User{}, accounts.Team{}, fault.New(fault.Forbidden, "invite_other_email", "This invite is for %s. Use that address, or ask for an invite of your own.", i.Email).
			With("field", "email").With("email", i.Email)
	}
	u, err := s.newUser(ctx, req, team.Name)
	if err != nil {
		return accounts.User{}, accounts.Team{}, err
	}
	var joined accounts.Team
	err = s.store.Tx(tenant.All(ctx, "joining a team"), func(ctx context.Context) error {
		i, t, err := s.LookInvite(ctx, token)
		if err != nil {
			return err
		}
		u.CreatedAt, u.EmailUnverified = s.now(), !i.ByMail
		if ok, err := s.store.InsertUser(ctx, u); err != nil {
			return err
		} else if !ok {
			return fault.New(fault.Conflict, "email_taken", "A user with this e-mail address exists already. Sign in as that user, then open the link again.").With("field", "email")
		}
		joined = t
		return s.use(ctx, i, u, u.CreatedAt)
	})
	if err != nil {
		return accounts.User{}, accounts.Team{}, fmt.Errorf("joining by an invite: %w", err)
	}
	s.limits.Succeeded("invite\x00"+password.Digest(token), meta.IP)
	return u, joined, nil
}

// mayInvite decides whether actor may let somebody in with a role. Only owners make owners.
func mayInvite(actor accounts.Actor, teamID string, role accounts.Role) error {
	if err := accounts.Can(actor, accounts.InviteMember, accounts.InTeam(teamID)); err != nil {
		return err
	}
	if err := checkRole(role); err != nil {
		return err
	}
	if role == accounts.Owner && actor.RoleIn(teamID) != accounts.Owner {
		return fault.New(fault.Forbidden, "forbidden", "Only an owner of the team may invite owners.").With("action", string(accounts.InviteMember))
	}
	return nil
}
