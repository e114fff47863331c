package people

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
)

func teamOf(m accounts.Membership) api.Team {
	return api.Team{Id: m.Team.ID, Slug: m.Team.Slug, Name: m.Team.Name, Role: api.Role(m.Role), CreatedAt: m.Team.CreatedAt,
		Suspended: m.Team.SuspendedAt != 0, SecondFactor: m.Team.SecondFactor,
		Actions: rest.List(accounts.Actions(m.Role), func(a accounts.Action) string { return string(a) })}
}

func (h Teams) ListTeams(ctx context.Context, _ api.ListTeamsRequestObject) (api.ListTeamsResponseObject, error) {
	return api.ListTeams200JSONResponse{Items: rest.List(rest.CallOf(ctx).Actor.Memberships, teamOf)}, nil
}

func (h Teams) CreateTeam(ctx context.Context, req api.CreateTeamRequestObject) (api.CreateTeamResponseObject, error) {
	t, err := h.cfg.Directory.CreateTeam(ctx, rest.CallOf(ctx).Actor, req.Body.Name, rest.Val(req.Body.Slug))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "team", t.ID, t.Name)
	return api.CreateTeam201JSONResponse(teamOf(accounts.Membership{Team: t, Role: accounts.Owner})), nil
}

func (h Teams) GetTeam(ctx context.Context, _ api.GetTeamRequestObject) (api.GetTeamResponseObject, error) {
	call := rest.CallOf(ctx)
	return api.GetTeam200JSONResponse(teamOf(accounts.Membership{Team: call.Team, Role: call.Actor.RoleIn(call.Team.ID)})), nil
}

func (h Teams) UpdateTeam(ctx context.Context, req api.UpdateTeamRequestObject) (api.UpdateTeamResponseObject, error) {
	call := rest.CallOf(ctx)
	t := call.Team
	audit.Note(ctx, "name", rest.Val(req.Body.Name))
	if req.Body.Name != nil {
		var err error
		if t, err = h.cfg.Directory.UpdateTeam(ctx, call.Actor, t.ID, *req.Body.Name); err != nil {
			return nil, err
		}
	}
	if req.Body.SecondFactor != nil {
		if err := h.cfg.SignIn.NeedConfirmed(call.Actor); err != nil {
			return nil, err
		}
		audit.Note(ctx, "second_factor", strconv.FormatBool(*req.Body.SecondFactor))
		var err error
		if t, err = h.cfg.Directory.SetSecondFactor(ctx, call.Actor, t.ID, *req.Body.SecondFactor); err != nil {
			return nil, err
		}
	}
	return api.UpdateTeam200JSONResponse(teamOf(accounts.Membership{Team: t, Role: call.Actor.RoleIn(t.ID)})), nil
}

// memberOf is a member as the caller may see one: addresses are for who manages members, and one's own.
func memberOf(m accounts.TeamMember, call *rest.Call) api.Member {
	out := api.Member{User: api.TeamUser{Id: m.User.ID, Name: m.User.Name, Avatar: m.User.Avatar}, Role: api.Role(m.Role), CreatedAt: m.JoinedAt}
	if m.User.ID == call.Actor.User.ID || call.Actor.RoleIn(call.Team.ID).AtLeast(accounts.Admin) {
		out.User.Email = &m.User.Email
	}
	return out
}

func (h Teams) ListMembers(ctx context.Context, _ api.ListMembersRequestObject) (api.ListMembersResponseObject, error) {
	call := rest.CallOf(ctx)
	all, err := h.cfg.Directory.Members(ctx, call.Team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListMembers200JSONResponse{Items: rest.List(all, func(m accounts.TeamMember) api.Member { return memberOf(m, call) })}, nil
}

func (h Teams) AddMember(ctx context.Context, req api.AddMemberRequestObject) (api.AddMemberResponseObject, error) {
	if req.Body.Email == "" { // an invite for whoever has the link is another operation
		_, err := accounts.CleanEmail("")
		return nil, err
	}
	made, err := h.invite(ctx, accounts.NewInvite{Role: accounts.Role(req.Body.Role), Email: req.Body.Email})
	return api.AddMember202JSONResponse(made), err
}

func (h Teams) UpdateMember(ctx context.Context, req api.UpdateMemberRequestObject) (api.UpdateMemberResponseObject, error) {
	call := rest.CallOf(ctx)
	m, err := h.cfg.Directory.SetRole(ctx, call.Actor, call.Team.ID, req.Id, accounts.Role(req.Body.Role))
	if err != nil {
		return nil, err
	}
	return api.UpdateMember200JSONResponse(memberOf(m, call)), nil
}

func (h Teams) RemoveMember(ctx context.Context, req api.RemoveMemberRequestObject) (api.RemoveMemberResponseObject, error) {
	call := rest.CallOf(ctx)
	if err := h.cfg.Directory.RemoveMember(ctx, call.Actor, call.Team.ID, req.Id); err != nil {
		return nil, err
	}
	return api.RemoveMember204Response{}, nil
}

// ListAgents always looks for the programs anew; only their versions are remembered, until the program itself changes.
func (h Teams) ListAgents(ctx context.Context, _ api.ListAgentsRequestObject) (api.ListAgentsResponseObject, error) {
	infos, err := h.cfg.Sessions.Agents(ctx, rest.CallOf(ctx).Actor, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListAgents200JSONResponse{Items: rest.List(infos, func(a sessions.AgentInfo) api.Agent {
		out := api.Agent{Agent: a.Agent, Name: a.Name, Enabled: a.Enabled, Installed: a.Installed, Version: a.Version,
			Install: a.Install, TakesAccount: a.Accounts, TakesPermissions: a.Permissions, DefaultPermissions: api.AgentDefaultPermissions(h.cfg.Sessions.DefaultPermissions(a.Agent)), InImages: a.InImages,
			NeedsAccount: a.NeedsAccount, Gateway: a.Gateway, Accounts: rest.List(a.Usable, agentAccountOf)}
		if rest.CallOf(ctx).Actor.User.Operator {
			out.Path = rest.Text(a.Path)
		}
		if a.Account != nil {
			account := agentAccountOf(*a.Account)
			out.Account = &account
		}
		return out
	})}, nil
}
