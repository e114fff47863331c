package agents

import (
	"strings"

	"github.com/parawork/parawork/guest"
)

// Dialects of the model gateway: what an agent speaks to it.
const (
	AnthropicAPI = "anthropic"
	OpenAIAPI    = "openai"
)

// Gateway leads an account past the model gateway: the agent is given a token of its session's and the gateway's address in the sandbox, and
// never the account's key.
type Gateway struct {
	URL   string // http://127.0.0.1:PORT, without a path
	Token string
	API   string // AnthropicAPI or OpenAIAPI: what the account's key is for
}

// base is the address of the API the account is for, as that API's own programs write it.
func (g Gateway) base() string {
	if g.API == AnthropicAPI {
		return g.URL + "/anthropic"
	}
	return g.URL + "/openai/v1"
}

// Shown is what the agent shows there; "" where it does not go there.
func (g *Gateway) Shown() string {
	if g == nil {
		return ""
	}
	return g.Token
}

// keyed reports whether the account is a key, of its own or in the gateway's keeping.
func (a Account) keyed() bool { return a.Kind == APIKey && (a.Secret != "" || a.Gateway != nil) }

// A router is an adapter whose agent can be led past the gateway.
type router interface {
	// dialect is what the agent speaks with this account, "" where the gateway knows nothing of that kind.
	dialect(a Account) string
}

// straight are variables with which config.json sends an agent elsewhere itself: then nothing is led past the gateway.
var straight = []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_UNIX_SOCKET", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "OPENAI_BASE_URL"}

// Dialect is what the agent speaks to the model gateway with this account; "" where it takes its key along as it is: a login, a
// subscription's token, an agent or an API the gateway does not know, or one that config.json sends elsewhere.
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

// subscriptionToken begins the long-lived tokens of Claude subscriptions: they are a person's login, not a key.
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

// showGateway tells the programs of a session where the gateway is and what they show there.
func (p *Plan) showGateway(g *Gateway) {
	if g == nil {
		return
	}
	if p.Secrets == nil {
		p.Secrets = map[string]string{}
	}
	p.Env[guest.EnvGatewayURL], p.Secrets[guest.EnvGatewayToken] = g.URL, g.Token
}

// claudeKeys are the variables Claude Code takes a login from. Where it goes through the gateway, those a project's secrets bring along
// would be shown to the gateway in the token's place, or asked about.
var claudeKeys = []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"}
