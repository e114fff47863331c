package agents

import (
	"strings"

	"github.com/parawork/parawork/guest"
)

// Dialects of the model gateway: the API an agent speaks to it.
const (
	AnthropicAPI = "anthropic"
	OpenAIAPI    = "openai"
)

// Gateway routes an account through the model gateway: the agent gets a session token and the gateway's address in the sandbox,
// and never the account's key.
type Gateway struct {
	URL   string // http://127.0.0.1:PORT, without a path
	Token string
	API   string // AnthropicAPI or OpenAIAPI: the API the account's key is for
}

// base is the address of the account's API, in the form that API's own clients expect.
func (g Gateway) base() string {
	if g.API == AnthropicAPI {
		return g.URL + "/anthropic"
	}
	return g.URL + "/openai/v1"
}

// Shown is the token the agent presents to the gateway; "" where it does not use it.
func (g *Gateway) Shown() string {
	if g == nil {
		return ""
	}
	return g.Token
}

// keyed reports whether the account is a key, its own or one held by the gateway.
func (a Account) keyed() bool { return a.Kind == APIKey && (a.Secret != "" || a.Gateway != nil) }

// A router is an adapter whose agent can be routed through the gateway.
type router interface {
	// dialect is the API the agent speaks with this account, "" where the gateway does not support it.
	dialect(a Account) string
}

// straight are variables with which config.json itself sends an agent to another address: then nothing goes through the gateway.
var straight = []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_UNIX_SOCKET", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "OPENAI_BASE_URL"}

// Dialect is the API the agent speaks to the model gateway with this account. It is "" where the agent uses its key directly: a
// login, a subscription's token, an agent or an API the gateway does not support, or one that config.json sends to another
// address.
func (r *Registry) Dialect(name string, a Account) string {
	way, ok := r.adapters[name].(router)
	if !ok || a.Kind != APIKey {
		return ""
	}
	s := r.settings(name)
	for _, v := range straight {
		if s.Env[v] != "" {
			return ""
		}
	}
	return way.dialect(a)
}

// subscriptionToken is the prefix of long-lived tokens of Claude subscriptions: they are a person's login, not a key.
const subscriptionToken = "sk-ant-oat"

func (claudeCode) dialect(a Account) string {
	if strings.HasPrefix(a.Secret, subscriptionToken) {
		return ""
	}
	return AnthropicAPI
}

func (codex) dialect(Account) string { return OpenAIAPI }

func (openCode) dialect(a Account) string {
	switch {
	case strings.HasPrefix(a.Secret, subscriptionToken):
		return ""
	case strings.HasPrefix(a.Secret, "sk-ant-"):
		return AnthropicAPI
	}
	return OpenAIAPI
}

func (c custom) dialect(Account) string {
	if c.s.AccountEnv == "" || c.s.BaseURLEnv == "" {
		return ""
	}
	return c.s.AccountAPI
}

// showGateway passes the gateway's address and token to the programs of a session.
func (p *Plan) showGateway(g *Gateway) {
	if g == nil {
		return
	}
	if p.Secrets == nil {
		p.Secrets = map[string]string{}
	}
	p.Env[guest.EnvGatewayURL], p.Secrets[guest.EnvGatewayToken] = g.URL, g.Token
}

// claudeKeys are the variables Claude Code takes a login from. When it goes through the gateway, it would send such values from a
// project's secrets to the gateway in place of the token, or ask about them.
var claudeKeys = []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"}
