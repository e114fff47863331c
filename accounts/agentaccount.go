package accounts

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

var agentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// SetAgentAccount chooses the account an agent uses for the actor. The secret is kept encrypted and never shown again.
func (s *Service) SetAgentAccount(ctx context.Context, actor Actor, req NewAgentAccount) (AgentAccount, error) {
	if err := checkAgentAccount(actor, req); err != nil {
		return AgentAccount{}, err
	}
	a := AgentAccount{Agent: req.Agent, Kind: req.Kind, BaseURL: strings.TrimSpace(req.BaseURL), UpdatedAt: s.now()}
	secret := strings.TrimSpace(req.Secret)
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		var sealed []byte
		var err error
		switch {
		case req.Kind == APIKey && secret == "":
			var old AgentAccount
			old, sealed, err = s.store.AgentAccount(ctx, actor.User.ID, req.Agent)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			if old.Kind != APIKey {
				return fault.New(fault.Invalid, "missing_key", "Enter the API key.").With("field", "api_key")
			}
			a.LastFour = old.LastFour
		case req.Kind == APIKey:
			a.LastFour = lastFour(secret)
			if sealed, err = s.seal(actor.User.ID, req.Agent, secret); err != nil {
				return err
			}
		}
		return s.store.PutAgentAccount(ctx, actor.User.ID, a, sealed)
	})
	if err != nil {
		return AgentAccount{}, fmt.Errorf("keeping an agent's account: %w", err)
	}
	return a, nil
}

func checkAgentAccount(actor Actor, req NewAgentAccount) error {
	bad := func(field, code, format string, args ...any) error {
		return fault.New(fault.Invalid, code, format, args...).With("field", field)
	}
	if !agentName.MatchString(req.Agent) {
		return bad("agent", "invalid_agent", "That is not the name of an agent.")
	}
	secret := strings.TrimSpace(req.Secret)
	switch req.Kind {
	case APIKey:
		visible := func(r rune) bool { return r <= ' ' || r > '~' }
		if len(secret) > 4096 || strings.ContainsFunc(secret, visible) || secret != "" && len(secret) < 8 {
			return bad("api_key", "invalid_key", "That is not an API key: it must be 8 to 4096 visible ASCII characters without spaces.")
		}
	case Terminal, ExistingLogin:
		if secret != "" {
			return bad("api_key", "invalid_key", "This kind of account takes no API key.")
		}
	default:
		return bad("kind", "invalid_kind", "An agent's account is one of api_key, terminal and existing_login.")
	}
	if req.Kind == ExistingLogin && !actor.User.Operator {
		return fault.New(fault.Forbidden, "operators_only", "The existing login is that of the server's own user: only an operator may use it. Enter an API key, or log in inside the terminal.")
	}
	if req.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(strings.TrimSpace(req.BaseURL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || len(req.BaseURL) > 2048 {
		return bad("base_url", "invalid_base_url", "The base URL must be an http or https address without a user name or fragment.")
	}
	return nil
}

// lastFour is what a key is recognised by; of a short one nothing is told.
func lastFour(secret string) string {
	if len(secret) < 16 {
		return ""
	}
	return secret[len(secret)-4:]
}

// AgentAccount returns the account an agent uses for a user, and its secret when it has one. fault.NotFound: none was chosen.
func (s *Service) AgentAccount(ctx context.Context, userID, agent string) (AgentAccount, string, error) {
	a, sealed, err := s.store.AgentAccount(ctx, userID, agent)
	if err != nil || a.Kind != APIKey {
		return a, "", err
	}
	secret, err := s.open(userID, agent, sealed)
	return a, secret, err
}

// AgentAccounts returns the accounts a user has chosen, by agent, without secrets.
func (s *Service) AgentAccounts(ctx context.Context, userID string) ([]AgentAccount, error) {
	return s.store.AgentAccounts(ctx, userID)
}

// DeleteAgentAccount forgets the account of an agent and its secret. One that was never chosen is no error.
func (s *Service) DeleteAgentAccount(ctx context.Context, userID, agent string) error {
	return s.store.DeleteAgentAccount(ctx, userID, agent)
}
