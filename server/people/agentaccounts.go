package people

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func agentAccountOf(a accounts.AgentAccount) api.AgentAccount {
	scope := api.AgentAccountScopeUser
	if a.TeamID != "" {
		scope = api.AgentAccountScopeTeam
	}
	return api.AgentAccount{Id: a.ID, Scope: scope, Agent: a.Agent, Name: a.Name, Kind: api.AgentAccountKind(a.Kind), LastFour: a.LastFour, BaseUrl: a.BaseURL, Api: api.AgentAccountAPI(a.API),
		Default: a.Default, RunningSessions: a.Running, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt}
}

// consented refuses to copy somebody's login without a yes.
func consented(kind api.AgentAccountKind, consent *bool) error {
	if kind == api.ExistingLogin && !rest.Val(consent) {
		return fault.New(fault.Invalid, "consent_needed",
			"Using the existing login copies it, read only, for this agent. Say yes to that with consent.").With("field", "consent")
	}
	return nil
}

// mayRedirect asks for a proof of who it is where a change says which key is used or where it is sent: with another address, whoever has it
// is sent the key.
func (h AgentAccounts) mayRedirect(ctx context.Context, kind api.AgentAccountKind, key, address *string) error {
	if rest.Val(key) == "" && address == nil && kind != api.ExistingLogin {
		return nil
	}
	return h.cfg.SignIn.NeedConfirmed(rest.CallOf(ctx).Actor)
}

func (h AgentAccounts) ListAgentAccounts(ctx context.Context, _ api.ListAgentAccountsRequestObject) (api.ListAgentAccountsResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	all, err := h.cfg.AgentAccounts.AgentAccounts(ctx, actor, accounts.OfUser(actor.User.ID))
	if err != nil {
		return nil, err
	}
	return api.ListAgentAccounts200JSONResponse{Items: rest.List(all, agentAccountOf)}, nil
}

func (h AgentAccounts) ListTeamAgentAccounts(ctx context.Context, _ api.ListTeamAgentAccountsRequestObject) (api.ListTeamAgentAccountsResponseObject, error) {
	call := rest.CallOf(ctx)
	all, err := h.cfg.AgentAccounts.AgentAccounts(ctx, call.Actor, accounts.OfTeam(call.Team.ID))
	if err != nil {
		return nil, err
	}
	return api.ListTeamAgentAccounts200JSONResponse{Items: rest.List(all, agentAccountOf)}, nil
}

func (h AgentAccounts) AddAgentAccount(ctx context.Context, req api.AddAgentAccountRequestObject) (api.AddAgentAccountResponseObject, error) {
	a, err := h.addAgentAccount(ctx, accounts.OfUser(rest.CallOf(ctx).Actor.User.ID), *req.Body)
	if err != nil {
		return nil, err
	}
	return api.AddAgentAccount201JSONResponse(a), nil
}

func (h AgentAccounts) AddTeamAgentAccount(ctx context.Context, req api.AddTeamAgentAccountRequestObject) (api.AddTeamAgentAccountResponseObject, error) {
	a, err := h.addAgentAccount(ctx, accounts.OfTeam(rest.CallOf(ctx).Team.ID), *req.Body)
	if err != nil {
		return nil, err
	}
	return api.AddTeamAgentAccount201JSONResponse(a), nil
}

func (h AgentAccounts) addAgentAccount(ctx context.Context, owner accounts.Holder, b api.NewAgentAccount) (api.AgentAccount, error) {
	if err := consented(b.Kind, b.Consent); err != nil {
		return api.AgentAccount{}, err
	}
	if err := h.mayRedirect(ctx, b.Kind, b.ApiKey, b.BaseUrl); err != nil {
		return api.AgentAccount{}, err
	}
	a, err := h.cfg.AgentAccounts.AddAgentAccount(ctx, rest.CallOf(ctx).Actor, owner, accounts.NewAgentAccount{Agent: b.Agent, Name: rest.Val(b.Name),
		Kind: accounts.AccountKind(b.Kind), Secret: rest.Val(b.ApiKey), BaseURL: rest.Val(b.BaseUrl), API: string(rest.Val(b.Api)), Default: rest.Val(b.Default)})
	if err != nil {
		return api.AgentAccount{}, err
	}
	h.noteAccount(ctx, "agent account added", a)
	audit.Target(ctx, "agent_account", a.ID, a.Name)
	audit.Note(ctx, "agent", a.Agent)
	return agentAccountOf(a), nil
}

func (h AgentAccounts) UpdateAgentAccount(ctx context.Context, req api.UpdateAgentAccountRequestObject) (api.UpdateAgentAccountResponseObject, error) {
	b := req.Body
	if err := h.mayRedirect(ctx, "", b.ApiKey, b.BaseUrl); err != nil {
		return nil, err
	}
	a, err := h.cfg.AgentAccounts.ChangeAgentAccount(ctx, rest.CallOf(ctx).Actor, req.Id, accounts.AgentAccountChange{Name: b.Name, Secret: b.ApiKey, BaseURL: b.BaseUrl,
		API: (*string)(b.Api), Default: b.Default})
	if err != nil {
		return nil, err
	}
	h.noteAccount(ctx, "agent account changed", a)
	return api.UpdateAgentAccount200JSONResponse(agentAccountOf(a)), nil
}

func (h AgentAccounts) RemoveAgentAccount(ctx context.Context, req api.RemoveAgentAccountRequestObject) (api.RemoveAgentAccountResponseObject, error) {
	a, err := h.cfg.AgentAccounts.RemoveAgentAccount(ctx, rest.CallOf(ctx).Actor, req.Id, rest.Val(req.Params.Force))
	if err != nil {
		return nil, err
	}
	h.forgetLogin(ctx, a)
	return api.RemoveAgentAccount204Response{}, nil
}

func (h AgentAccounts) TestAgentAccount(ctx context.Context, req api.TestAgentAccountRequestObject) (api.TestAgentAccountResponseObject, error) {
	p, err := h.cfg.Sessions.TestAccount(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	return api.TestAgentAccount200JSONResponse{Result: api.AgentAccountTestResult(p.Result), Detail: p.Detail}, nil
}

func (h AgentAccounts) SetAgentAccount(ctx context.Context, req api.SetAgentAccountRequestObject) (api.SetAgentAccountResponseObject, error) {
	b := req.Body
	if err := consented(b.Kind, b.Consent); err != nil {
		return nil, err
	}
	if err := h.mayRedirect(ctx, b.Kind, b.ApiKey, b.BaseUrl); err != nil {
		return nil, err
	}
	a, err := h.cfg.AgentAccounts.SetAgentAccount(ctx, rest.CallOf(ctx).Actor, accounts.NewAgentAccount{Agent: req.Agent, Kind: accounts.AccountKind(b.Kind),
		Secret: rest.Val(b.ApiKey), BaseURL: rest.Val(b.BaseUrl), API: string(rest.Val(b.Api))})
	if err != nil {
		return nil, err
	}
	h.noteAccount(ctx, "agent account chosen", a)
	return api.SetAgentAccount200JSONResponse(agentAccountOf(a)), nil
}

func (h AgentAccounts) DeleteAgentAccount(ctx context.Context, req api.DeleteAgentAccountRequestObject) (api.DeleteAgentAccountResponseObject, error) {
	a, err := h.cfg.AgentAccounts.DeleteAgentAccount(ctx, rest.CallOf(ctx).Actor, req.Agent)
	if err != nil {
		return nil, err
	}
	if a.ID != "" {
		h.forgetLogin(ctx, a)
	}
	return api.DeleteAgentAccount204Response{}, nil
}

// forgetLogin removes what a deleted account left in homes. The account is gone in any case.
func (h AgentAccounts) forgetLogin(ctx context.Context, a accounts.AgentAccount) {
	h.noteAccount(ctx, "agent account deleted", a)
	if err := h.cfg.Sessions.ForgetLogin(a); err != nil {
		h.Log.Warn("login of a deleted account not removed", "account_id", a.ID, "error", err)
	}
}

// noteAccount leaves a line about who did what to which account.
func (h AgentAccounts) noteAccount(ctx context.Context, what string, a accounts.AgentAccount) {
	h.Log.Info(what, "account_id", a.ID, "agent", a.Agent, "kind", string(a.Kind), "team_id", a.TeamID, "user_id", rest.CallOf(ctx).Actor.User.ID)
}
