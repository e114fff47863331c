package sessions

import (
	"context"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// roster knows which agents can be started, where, as whom and with which permissions. It stores nothing itself.
type roster struct {
	agents   *agents.Registry
	accounts Accounts
	kinds    Kinds
	gateway  bool // key accounts go through the model gateway
}

// account returns the account the request names, else the actor's default for the agent, else the team's. A resumed session falls
// back to the default when its account is gone.
func (r *roster) account(ctx context.Context, actor accounts.Actor, teamID string, req StartRequest, resumed bool) (agents.Account, error) {
	if !r.agents.TakesAccount(req.Agent) {
		if req.AccountID != "" && !resumed {
			return agents.Account{}, fault.New(fault.Invalid, "agent_takes_no_account", "%s works without an account.", r.agents.Name(req.Agent)).With("field", "account_id")
		}
		return agents.Account{Kind: agents.Terminal}, nil
	}
	a, secret, err := r.accounts.AgentAccountFor(ctx, actor, teamID, req.Agent, req.AccountID)
	if fault.Is(err, fault.NotFound) && req.AccountID != "" && resumed {
		a, secret, err = r.accounts.AgentAccountFor(ctx, actor, teamID, req.Agent, "")
		req.AccountID = ""
	}
	switch {
	case fault.Is(err, fault.NotFound) && req.AccountID != "":
		return agents.Account{}, fault.New(fault.Invalid, "agent_account_not_found",
			"There is no such account of %s, or you may not use it. Choose another one.", r.agents.Name(req.Agent)).With("field", "account_id")
	case fault.Is(err, fault.NotFound):
		return agents.Account{Kind: agents.Terminal}, nil
	case err != nil:
		return agents.Account{}, err
	}
	if string(a.Kind) == agents.ExistingLogin && !actor.User.Operator {
		return agents.Account{}, fault.New(fault.Forbidden, "existing_login_forbidden",
			"Only operators may use the login of the server's own user. Choose another account for %s.", r.agents.Name(req.Agent))
	}
	return agentAccount(a, secret), nil
}

// agentAccount converts an account to the type the agents' adapters use.
func agentAccount(a accounts.AgentAccount, secret string) agents.Account {
	return agents.Account{ID: a.ID, InHome: a.InHome, Kind: string(a.Kind), Secret: secret, BaseURL: a.BaseURL}
}

// Agents describes every agent to the actor: whether it can be started on this server and with which accounts of the team.
func (r *roster) Agents(ctx context.Context, actor accounts.Actor, teamID string) ([]AgentInfo, error) {
	usable, err := r.accounts.UsableAgentAccounts(ctx, actor, teamID)
	if err != nil {
		return nil, err
	}
	images := r.ownPrograms(ctx)
	var out []AgentInfo
	for _, info := range r.agents.List(ctx) {
		a := AgentInfo{Info: info, InImages: images && !info.Installed}
		if info.Accounts {
			a.Gateway = r.gateway && r.agents.Dialect(info.Agent, agents.Account{Kind: agents.APIKey}) != ""
			a.Usable = slices.Collect(func(yield func(accounts.AgentAccount) bool) {
				for _, u := range usable {
					if u.Agent == info.Agent && !yield(u) {
						return
					}
				}
			})
			if def, ok := agentaccounts.DefaultAgentAccount(usable, info.Agent); ok {
				a.Account = &def
			}
			a.NeedsAccount = len(a.Usable) == 0
		}
		out = append(out, a)
	}
	return out, nil
}

// TestAccount tests an account the actor may change, without spending anything. Errors: agent_account_not_found, forbidden,
// secret_unreadable, invalid_base_url.
func (r *roster) TestAccount(ctx context.Context, actor accounts.Actor, accountID string) (agents.Probe, error) {
	a, secret, err := r.accounts.ManagedAgentAccount(ctx, actor, accountID)
	if err != nil {
		return agents.Probe{}, err
	}
	return r.agents.Test(ctx, a.Agent, actor.User.ID, agentAccount(a, secret))
}

// ForgetLogin removes the login that an account left in the homes of its users, once nobody may use it any more.
func (r *roster) ForgetLogin(a accounts.AgentAccount) error {
	return r.agents.Forget(a.Agent, a.UserID, agentAccount(a, ""))
}

// CheckAgent reports whether an agent can be started in a sandbox of this server: otherwise it returns a fault that says how to
// fix it.
func (r *roster) CheckAgent(ctx context.Context, name string) error {
	return r.checkAgent(ctx, name, "")
}

// AgentName returns an agent's display name.
func (r *roster) AgentName(name string) string { return r.agents.Name(name) }
