package sso

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// places returns the role that groups give in each team, by slug: the strongest that any of them says.
func (p Provider) places(groups []string) map[string]accounts.Role {
	out := map[string]accounts.Role{}
	for group, places := range p.Groups {
		in := slices.ContainsFunc(groups, func(g string) bool { return g == group || p.Kind == GitHub && strings.EqualFold(g, group) })
		if !in {
			continue
		}
		for _, place := range places {
			if place.Role.AtLeast(out[place.Team]) {
				out[place.Team] = place.Role
			}
		}
	}
	return out
}

// applyGroups makes a user's memberships what the provider's groups say. Those that people gave stay as they are; so does a team's last
// owner. lost says that the user may do less than before.
func (s *Service) applyGroups(ctx context.Context, p Provider, user accounts.User, groups []string) (lost bool, err error) {
	if len(p.Groups) == 0 {
		return false, nil
	}
	ctx = tenant.All(asUser(ctx, user), "groups of a provider say which teams somebody is in")
	wanted := p.places(groups)
	have, err := s.store.MembershipsWithSource(ctx, user.ID)
	if err != nil {
		return false, fmt.Errorf("reading memberships: %w", err)
	}
	for _, m := range have {
		role, said := wanted[m.Team.Slug]
		delete(wanted, m.Team.Slug)
		if m.Source != p.ID || said && role == m.Role {
			continue
		}
		less, err := s.change(ctx, p, user, m, role)
		if err != nil {
			return false, err
		}
		lost = lost || less
	}
	for _, slug := range slices.Sorted(maps.Keys(wanted)) {
		if err := s.join(ctx, p, user, slug, wanted[slug]); err != nil {
			return false, err
		}
	}
	return lost, nil
}

// change gives a member another role, or ends a membership where role is "".
func (s *Service) change(ctx context.Context, p Provider, user accounts.User, m Membership, role accounts.Role) (less bool, err error) {
	if m.Role == accounts.Owner {
		owners, err := s.store.CountOwners(ctx, m.Team.ID)
		if err != nil {
			return false, err
		}
		if owners == 1 {
			s.cfg.Log.WarnContext(ctx, "only owner of a team stays although the provider's groups no longer say so", "provider", p.ID, "team", m.Team.Slug, "user_id", user.ID)
			return false, nil
		}
	}
	less = !role.AtLeast(m.Role)
	if less { // else they come back, or let somebody in, by a link they made before
		if err := s.store.RevokeInvitesBy(ctx, m.Team.ID, user.ID, s.now()); err != nil {
			return false, fmt.Errorf("taking invites back: %w", err)
		}
	}
	e := audit.Entry{Chain: m.Team.ID, Action: "member.update", TargetKind: "user", TargetID: user.ID, TargetName: user.Name,
		Data: map[string]string{"provider": p.ID, "from": string(m.Role), "to": string(role)}}
	if role == "" {
		e.Action = "member.remove"
		delete(e.Data, "to")
		if err = s.store.DeleteTeamTokens(ctx, user.ID, m.Team.ID); err == nil {
			err = s.store.DeleteSourcedMember(ctx, m.Team.ID, user.ID, p.ID)
		}
	} else {
		err = s.store.SetSourcedRole(ctx, m.Team.ID, user.ID, role, p.ID)
	}
	if err != nil {
		return false, fmt.Errorf("changing a membership by groups: %w", err)
	}
	return less, s.note(ctx, e)
}

// join makes a user a member. A missing team is skipped: the user who signs in cannot fix the configuration.
func (s *Service) join(ctx context.Context, p Provider, user accounts.User, slug string, role accounts.Role) error {
	team, err := s.store.TeamBySlug(ctx, slug)
	if fault.Is(err, fault.NotFound) {
		s.cfg.Log.WarnContext(ctx, "accounts.providers names an unknown team", "provider", p.ID, "team", slug)
		return nil
	}
	if err != nil {
		return err
	}
	ok, err := s.store.InsertSourcedMember(ctx, team.ID, user.ID, role, p.ID, s.now())
	if err != nil || !ok {
		return err
	}
	return s.note(ctx, audit.Entry{Chain: team.ID, Action: "member.add", TargetKind: "user", TargetID: user.ID, TargetName: user.Name,
		Data: map[string]string{"provider": p.ID, "role": string(role)}})
}

// checkTeams names the teams of a provider's groups that are not there.
func (s *Service) checkTeams(ctx context.Context, p Provider) error {
	ctx = tenant.All(ctx, "the configuration names teams")
	for _, group := range slices.Sorted(maps.Keys(p.Groups)) {
		for _, place := range p.Groups[group] {
			_, err := s.store.TeamBySlug(ctx, place.Team)
			if fault.Is(err, fault.NotFound) {
				return fault.New(fault.Invalid, "team_not_found", "The group %q names the team %q, which does not exist. Create the team, or correct its short name in config.json.", group, place.Team)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
