package agentaccounts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// errNoAccount is what a missing account and one of others look like.
func errNoAccount() error {
	return fault.New(fault.NotFound, "agent_account_not_found", "There is no such account, or it is not yours to use.")
}

// mayManage decides whether actor may add, change and remove accounts of owner: their own, and as an admin those of a team.
func mayManage(actor accounts.Actor, o accounts.Holder) error {
	if o.TeamID != "" {
		return accounts.Can(actor, accounts.ManageTeam, accounts.InTeam(o.TeamID))
	}
	if o.UserID == "" || o.UserID != actor.User.ID {
		return errNoAccount()
	}
	return nil
}

// mayUse decides whether actor may work with accounts of owner.
func mayUse(actor accounts.Actor, o accounts.Holder) error {
	if o.TeamID != "" {
		return accounts.Can(actor, accounts.TypeTerminal, accounts.InTeam(o.TeamID))
	}
	return mayManage(actor, o)
}

// managed returns an account the actor may change.
func (s *Service) managed(ctx context.Context, actor accounts.Actor, accountID string) (accounts.AgentAccount, error) {
	a, err := s.store.AgentAccount(ctx, accountID)
	if fault.Is(err, fault.NotFound) {
		return a, errNoAccount()
	}
	if err != nil {
		return a, err
	}
	if err := mayManage(actor, a.Holder); err != nil {
		if fault.Is(err, fault.NotFound) {
			return accounts.AgentAccount{}, errNoAccount()
		}
		return accounts.AgentAccount{}, err
	}
	return a, nil
}

// ManagedAgentAccount returns an account the actor may change, and its key when it has one: to try it. Errors:
// agent_account_not_found, forbidden, secret_unreadable.
func (s *Service) ManagedAgentAccount(ctx context.Context, actor accounts.Actor, accountID string) (accounts.AgentAccount, string, error) {
	a, err := s.managed(ctx, actor, accountID)
	if err != nil {
		return accounts.AgentAccount{}, "", err
	}
	secret, err := s.keyOf(ctx, a)
	return a, secret, err
}

// AgentAccounts returns the accounts of an owner, without secrets: the actor's own, or those of a team of the actor's. Errors:
// not_found.
func (s *Service) AgentAccounts(ctx context.Context, actor accounts.Actor, o accounts.Holder) ([]accounts.AgentAccount, error) {
	if o.TeamID != "" {
		if err := accounts.Can(actor, accounts.ViewTeam, accounts.InTeam(o.TeamID)); err != nil {
			return nil, err
		}
	} else if err := mayManage(actor, o); err != nil {
		return nil, err
	}
	return s.store.AgentAccounts(ctx, o)
}

// UsableAgentAccounts returns what the actor may work with in a team: their own accounts, then the team's, without secrets.
func (s *Service) UsableAgentAccounts(ctx context.Context, actor accounts.Actor, teamID string) ([]accounts.AgentAccount, error) {
	own, err := s.store.AgentAccounts(ctx, accounts.OfUser(actor.User.ID))
	if err != nil || mayUse(actor, accounts.OfTeam(teamID)) != nil {
		return own, err
	}
	shared, err := s.store.AgentAccounts(ctx, accounts.OfTeam(teamID))
	return append(own, shared...), err
}

// DefaultAgentAccount picks, among usable accounts, the one an agent works with where none is named: the user's default, else
// the team's, else the first there is.
func DefaultAgentAccount(usable []accounts.AgentAccount, agent string) (accounts.AgentAccount, bool) {
	for _, fits := range []func(a accounts.AgentAccount) bool{
		func(a accounts.AgentAccount) bool { return a.Default && a.UserID != "" },
		func(a accounts.AgentAccount) bool { return a.Default },
		func(accounts.AgentAccount) bool { return true },
	} {
		if i := slices.IndexFunc(usable, func(a accounts.AgentAccount) bool { return a.Agent == agent && fits(a) }); i >= 0 {
			return usable[i], true
		}
	}
	return accounts.AgentAccount{}, false
}

// ownDefault returns the default among a user's own accounts.
func ownDefault(own []accounts.AgentAccount, agent string) (accounts.AgentAccount, bool) {
	i := slices.IndexFunc(own, func(a accounts.AgentAccount) bool { return a.Agent == agent && a.Default })
	if i < 0 {
		return accounts.AgentAccount{}, false
	}
	return own[i], true
}

// AgentAccountFor returns the account an agent works with for the actor in a team, and its secret when it has one: the one
// with this id, or the default. fault.NotFound: none was chosen, or the one named is not there for the actor.
func (s *Service) AgentAccountFor(ctx context.Context, actor accounts.Actor, teamID, agent, accountID string) (accounts.AgentAccount, string, error) {
	usable, err := s.UsableAgentAccounts(ctx, actor, teamID)
	if err != nil {
		return accounts.AgentAccount{}, "", err
	}
	a, ok := DefaultAgentAccount(usable, agent)
	if accountID != "" {
		i := slices.IndexFunc(usable, func(a accounts.AgentAccount) bool { return a.ID == accountID && a.Agent == agent })
		if ok = i >= 0; ok {
			a = usable[i]
		}
	}
	if !ok {
		return accounts.AgentAccount{}, "", errNoAccount()
	}
	secret, err := s.keyOf(ctx, a)
	return a, secret, err
}

// SessionAccount returns the account a session works with, and its key when it has one: of the team, or of the person who started the
// session. It is for the server's own use on the session's behalf; ctx is for the team. Errors: agent_account_not_found, secret_unreadable.
func (s *Service) SessionAccount(ctx context.Context, teamID, userID, accountID string) (accounts.AgentAccount, string, error) {
	a, err := s.store.AgentAccount(ctx, accountID)
	if fault.Is(err, fault.NotFound) || err == nil && a.Holder != accounts.OfTeam(teamID) && a.Holder != accounts.OfUser(userID) {
		return accounts.AgentAccount{}, "", errNoAccount()
	}
	if err != nil {
		return accounts.AgentAccount{}, "", err
	}
	secret, err := s.keyOf(ctx, a)
	return a, secret, err
}

// TeamAgentAccounts returns the accounts of a team, without secrets: for the server's own use on the team's behalf.
func (s *Service) TeamAgentAccounts(ctx context.Context, teamID string) ([]accounts.AgentAccount, error) {
	return s.store.AgentAccounts(ctx, accounts.OfTeam(teamID))
}

// keyOf opens the key of an account, "" when it has none.
func (s *Service) keyOf(ctx context.Context, a accounts.AgentAccount) (string, error) {
	if a.Kind != accounts.APIKey || a.SecretID == "" {
		return "", nil
	}
	return s.vault.OpenSecret(ctx, a.SecretID, a.Holder, secretName(a))
}

// SetAgentAccount chooses the account an agent uses for the actor: their default is changed, or made. Where an API key is kept
// already, an empty one keeps it.
func (s *Service) SetAgentAccount(ctx context.Context, actor accounts.Actor, req accounts.NewAgentAccount) (accounts.AgentAccount, error) {
	owner := accounts.OfUser(actor.User.ID)
	if err := s.checkAgentAccount(actor, owner, req); err != nil {
		return accounts.AgentAccount{}, err
	}
	req.Secret, req.BaseURL, req.Default = strings.TrimSpace(req.Secret), strings.TrimSpace(req.BaseURL), true
	var after accounts.AgentAccount
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.store.AgentAccounts(ctx, owner)
		if err != nil {
			return err
		}
		if a, ok := ownDefault(all, req.Agent); ok {
			after, err = s.changeAgentAccount(ctx, actor, a, req)
			return err
		}
		if req.Kind == accounts.APIKey && req.Secret == "" {
			return missingKey()
		}
		after, err = s.insertAgentAccount(ctx, actor, owner, req)
		return err
	})
	if err != nil {
		return accounts.AgentAccount{}, fmt.Errorf("keeping an agent's account: %w", err)
	}
	return after, nil
}

// DeleteAgentAccount forgets the account an agent uses for the actor, and its secret. It returns the account; none was chosen:
// one without an id.
func (s *Service) DeleteAgentAccount(ctx context.Context, actor accounts.Actor, agent string) (accounts.AgentAccount, error) {
	var gone accounts.AgentAccount
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.store.AgentAccounts(ctx, accounts.OfUser(actor.User.ID))
		if err != nil {
			return err
		}
		a, ok := ownDefault(all, agent)
		if !ok {
			gone = accounts.AgentAccount{}
			return nil
		}
		gone = a
		return s.dropAgentAccount(ctx, a)
	})
	if err != nil {
		return accounts.AgentAccount{}, fmt.Errorf("deleting an agent's account: %w", err)
	}
	return gone, nil
}
