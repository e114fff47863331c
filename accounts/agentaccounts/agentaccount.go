package agentaccounts

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// maxAgentAccounts bounds the accounts of one owner.
const maxAgentAccounts = 50

var agentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func secretName(a accounts.AgentAccount) string { return "agent account " + a.ID + " " + a.Agent }

// AddAgentAccount stores a new account of owner. The secret is stored sealed and never shown again.
func (s *Service) AddAgentAccount(ctx context.Context, actor accounts.Actor, owner accounts.Holder, req accounts.NewAgentAccount) (accounts.AgentAccount, error) {
	if err := mayManage(actor, owner); err != nil {
		return accounts.AgentAccount{}, err
	}
	if err := s.checkAgentAccount(actor, owner, req); err != nil {
		return accounts.AgentAccount{}, err
	}
	if req.Kind == accounts.APIKey && strings.TrimSpace(req.Secret) == "" {
		return accounts.AgentAccount{}, missingKey()
	}
	var made accounts.AgentAccount
	err := s.store.Tx(ctx, func(ctx context.Context) (err error) {
		made, err = s.insertAgentAccount(ctx, actor, owner, req)
		return err
	})
	if err != nil {
		return accounts.AgentAccount{}, fmt.Errorf("keeping an agent's account: %w", err)
	}
	return made, nil
}

func (s *Service) insertAgentAccount(ctx context.Context, actor accounts.Actor, owner accounts.Holder, req accounts.NewAgentAccount) (accounts.AgentAccount, error) {
	all, err := s.store.AgentAccounts(ctx, owner)
	if err != nil {
		return accounts.AgentAccount{}, err
	}
	if len(all) >= maxAgentAccounts {
		return accounts.AgentAccount{}, fault.New(fault.Conflict, "too_many_accounts", "There are %d accounts already, which is the most. Delete one that is not used.", len(all))
	}
	a := accounts.AgentAccount{ID: id.New("acc"), Holder: owner, Agent: req.Agent, Kind: req.Kind, BaseURL: strings.TrimSpace(req.BaseURL), API: req.API,
		Default: true, InHome: owner.UserID != "", CreatedBy: actor.User.ID, CreatedAt: s.cfg.Now().UnixMilli()}
	a.UpdatedAt = a.CreatedAt
	for _, b := range all {
		if b.Agent == a.Agent {
			a.Default = a.Default && !b.Default
			a.InHome = a.InHome && !b.InHome
		}
	}
	if req.Default && !a.Default {
		if err := s.store.ClearDefault(ctx, owner, a.Agent); err != nil {
			return accounts.AgentAccount{}, err
		}
		a.Default = true
	}
	if a.Name, err = accountName(req.Name, owner, a.Agent, all); err != nil {
		return accounts.AgentAccount{}, err
	}
	if secret := strings.TrimSpace(req.Secret); secret != "" {
		k, err := s.vault.Insert(ctx, owner, secretName(a), secret, actor.User.ID)
		if err != nil {
			return accounts.AgentAccount{}, err
		}
		a.SecretID, a.LastFour = k.ID, k.LastFour
	}
	if ok, err := s.store.InsertAgentAccount(ctx, a); err != nil {
		return accounts.AgentAccount{}, err
	} else if !ok {
		return accounts.AgentAccount{}, nameTaken(a.Name)
	}
	return a, nil
}

// ChangeAgentAccount renames an account, replaces its key or address, or makes it the default.
func (s *Service) ChangeAgentAccount(ctx context.Context, actor accounts.Actor, accountID string, ch accounts.AgentAccountChange) (accounts.AgentAccount, error) {
	var after accounts.AgentAccount
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		a, err := s.managed(ctx, actor, accountID)
		if err != nil {
			return err
		}
		req := accounts.NewAgentAccount{Agent: a.Agent, Kind: a.Kind, BaseURL: a.BaseURL, API: a.API}
		if ch.Secret != nil {
			req.Secret = strings.TrimSpace(*ch.Secret)
		}
		if ch.BaseURL != nil {
			req.BaseURL = strings.TrimSpace(*ch.BaseURL)
		}
		if ch.API != nil {
			req.API = *ch.API
		}
		if err := s.checkAgentAccount(actor, a.Holder, req); err != nil {
			return err
		}
		if ch.Name != nil {
			all, err := s.store.AgentAccounts(ctx, a.Holder)
			if err != nil {
				return err
			}
			if strings.TrimSpace(*ch.Name) == "" {
				return badAccount("name", "invalid_name", "An account needs a name.")
			}
			if *ch.Name != a.Name {
				if a.Name, err = accountName(*ch.Name, a.Holder, a.Agent, all); err != nil {
					return err
				}
			}
		}
		if ch.Default != nil && *ch.Default != a.Default {
			if err := s.store.ClearDefault(ctx, a.Holder, a.Agent); err != nil {
				return err
			}
			a.Default = *ch.Default
		}
		after, err = s.changeAgentAccount(ctx, actor, a, req)
		return err
	})
	if err != nil {
		return accounts.AgentAccount{}, fmt.Errorf("changing an agent's account: %w", err)
	}
	return after, nil
}

// changeAgentAccount gives an account the kind, address and key of req; an empty key keeps the one it has.
func (s *Service) changeAgentAccount(ctx context.Context, actor accounts.Actor, a accounts.AgentAccount, req accounts.NewAgentAccount) (accounts.AgentAccount, error) {
	if req.Kind == accounts.APIKey && req.Secret == "" && a.SecretID != "" && strings.TrimRight(req.BaseURL, "/") != strings.TrimRight(a.BaseURL, "/") {
		// Else somebody who may change the address, as with a stolen session, could have the key sent to their own machine, and read it.
		return a, badAccount("api_key", "missing_key", "Enter the key again: a key that is kept is not sent to another address without.")
	}
	a.BaseURL, a.API, a.Kind, a.UpdatedAt = req.BaseURL, req.API, req.Kind, s.cfg.Now().UnixMilli()
	gone := ""
	switch {
	case req.Kind != accounts.APIKey:
		gone, a.SecretID, a.LastFour = a.SecretID, "", ""
	case req.Secret != "":
		k, err := s.vault.Insert(ctx, a.Holder, secretName(a), req.Secret, actor.User.ID)
		if err != nil {
			return a, err
		}
		gone, a.SecretID, a.LastFour = a.SecretID, k.ID, k.LastFour
	case a.SecretID == "":
		return a, missingKey()
	}
	if ok, err := s.store.UpdateAgentAccount(ctx, a); err != nil {
		return a, err
	} else if !ok {
		return a, nameTaken(a.Name)
	}
	if gone == "" {
		return a, nil
	}
	return a, s.vault.DropSecret(ctx, gone)
}

// RemoveAgentAccount deletes an account and its key. An account that running sessions use stays, unless force is set.
func (s *Service) RemoveAgentAccount(ctx context.Context, actor accounts.Actor, accountID string, force bool) (accounts.AgentAccount, error) {
	var gone accounts.AgentAccount
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		a, err := s.managed(ctx, actor, accountID)
		if err != nil {
			return err
		}
		if a.Running > 0 && !force {
			return fault.New(fault.Conflict, "account_in_use",
				"%d running sessions use this account. Stop them first, or delete it all the same: they keep their key until they end, but lose a login of their own.", a.Running).
				With("running", a.Running)
		}
		gone = a
		return s.dropAgentAccount(ctx, a)
	})
	if err != nil {
		return accounts.AgentAccount{}, fmt.Errorf("deleting an agent's account: %w", err)
	}
	return gone, nil
}

// dropAgentAccount removes an account. When it was the default, the oldest of its owner's others follows.
func (s *Service) dropAgentAccount(ctx context.Context, a accounts.AgentAccount) error {
	if err := s.store.DeleteAgentAccount(ctx, a.ID); err != nil {
		return err
	}
	if a.SecretID != "" {
		if err := s.vault.DropSecret(ctx, a.SecretID); err != nil {
			return err
		}
	}
	if !a.Default {
		return nil
	}
	all, err := s.store.AgentAccounts(ctx, a.Holder)
	if err != nil {
		return err
	}
	for _, b := range all { // oldest first
		if b.Agent == a.Agent {
			b.Default = true
			_, err := s.store.UpdateAgentAccount(ctx, b)
			return err
		}
	}
	return nil
}

func missingKey() error { return badAccount("api_key", "missing_key", "Enter the API key.") }

func nameTaken(name string) error {
	return fault.New(fault.Conflict, "account_name_taken", "There is an account named %q for this agent already. Choose another name.", name).With("field", "name")
}

func badAccount(field, code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, format, args...).With("field", field)
}

// accountName checks a name, or makes one up that is free.
func accountName(name string, o accounts.Holder, agent string, all []accounts.AgentAccount) (string, error) {
	taken := func(name string) bool {
		for _, b := range all {
			if b.Agent == agent && b.Name == name {
				return true
			}
		}
		return false
	}
	if strings.TrimSpace(name) == "" {
		base := "My account"
		if o.TeamID != "" {
			base = "Team account"
		}
		name = base
		for n := 2; taken(name); n++ {
			name = fmt.Sprintf("%s %d", base, n)
		}
		return name, nil
	}
	name, err := accounts.CleanName("name", name)
	if err != nil {
		return "", err
	}
	if taken(name) {
		return "", nameTaken(name)
	}
	return name, nil
}

func (s *Service) checkAgentAccount(actor accounts.Actor, owner accounts.Holder, req accounts.NewAgentAccount) error {
	if !agentName.MatchString(req.Agent) {
		return badAccount("agent", "invalid_agent", "That is not the name of an agent.")
	}
	if s.cfg.CheckAgent != nil {
		if err := s.cfg.CheckAgent(req.Agent); err != nil {
			return err
		}
	}
	secret := strings.TrimSpace(req.Secret)
	switch req.Kind {
	case accounts.APIKey:
		odd := func(r rune) bool { return r <= ' ' || r > '~' }
		if len(secret) > 4096 || strings.ContainsFunc(secret, odd) || secret != "" && len(secret) < 8 {
			return badAccount("api_key", "invalid_key", "That is not an API key: it must be 8 to 4096 visible ASCII characters without spaces.")
		}
	case accounts.Terminal, accounts.ExistingLogin:
		if secret != "" {
			return badAccount("api_key", "invalid_key", "This kind of account takes no API key.")
		}
		if owner.TeamID != "" {
			return badAccount("kind", "invalid_kind", "A team shares API keys only: a login belongs to a person.")
		}
	default:
		return badAccount("kind", "invalid_kind", "An agent's account is one of api_key, terminal and existing_login.")
	}
	if req.Kind == accounts.ExistingLogin && !actor.User.Operator {
		return fault.New(fault.Forbidden, "operators_only", "The existing login is that of the server's own user: only an operator may use it. Enter an API key, or log in inside the terminal.")
	}
	switch req.API {
	case "", "messages", "responses", "chat":
	default:
		return badAccount("api", "invalid_api", "The API is one of messages, responses and chat.")
	}
	if req.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(strings.TrimSpace(req.BaseURL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || len(req.BaseURL) > 2048 {
		return badAccount("base_url", "invalid_base_url", "The base URL must be an http or https address without a user name or fragment.")
	}
	return nil
}
