package gateway

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// dialect is whose API is spoken.
type dialect string

const (
	anyDialect       dialect = ""
	anthropicDialect dialect = "anthropic"
	openAIDialect    dialect = "openai"
)

// api is an operation whose answers are counted; other is one that costs nothing.
type api string

const (
	messages   api = "messages"
	responses  api = "responses"
	chat       api = "chat_completions"
	embeddings api = "embeddings"
	other      api = ""
)

// route is where a request goes.
type route struct {
	dialect dialect
	api     api
	path    string // behind the provider's /v1
	model   bool   // its body names a model
}

var modelPath = regexp.MustCompile(`^/models/[A-Za-z0-9._:-]{1,128}$`)

var errNoRoute = fault.New(fault.NotFound, "gateway_route_not_found",
	"The model gateway has no such address. It takes Anthropic's messages, and OpenAI's responses, chat completions and embeddings.")

// routeOf finds what a path asks for.
func routeOf(r *http.Request) (route, error) {
	var rt route
	path := r.URL.Path
	for prefix, d := range map[string]dialect{"/anthropic": anthropicDialect, "/openai": openAIDialect} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && (rest == "" || rest[0] == '/') {
			rt.dialect = d
			path = rest
		}
	}
	rest, ok := strings.CutPrefix(path, "/v1")
	if rt.dialect == anyDialect || !ok {
		return rt, errNoRoute
	}
	rt.path = rest
	switch {
	case r.Method == http.MethodGet && (rest == "/models" || modelPath.MatchString(rest) && rest != "/models/." && rest != "/models/.."):
		return rt, nil
	case r.Method != http.MethodPost:
		return rt, errNoRoute
	}
	rt.model = true
	switch string(rt.dialect) + rest {
	case "anthropic/messages":
		rt.api = messages
	case "anthropic/messages/count_tokens":
	case "openai/responses", "openai/responses/compact":
		rt.api = responses
	case "openai/chat/completions":
		rt.api = chat
	case "openai/embeddings":
		rt.api = embeddings
	default:
		return rt, errNoRoute
	}
	return rt, nil
}

// Addresses of the providers themselves.
const (
	anthropicHome = "https://api.anthropic.com"
	openAIHome    = "https://api.openai.com/v1"
)

// speaks says which API an account's key is for: it is sent to nobody else. An address of its own may speak both.
func (a Account) speaks() dialect {
	switch {
	case a.Provider != "":
		return dialect(a.Provider)
	case a.BaseURL != "":
		return anyDialect
	case strings.HasPrefix(a.Key, "sk-ant-"):
		return anthropicDialect
	}
	return openAIDialect
}

// upstream is the address a request goes on to. Accounts of Claude Code name their address without /v1, all others with it, as their
// programs want it.
func (a Account) upstream(rt route, query url.Values) (*url.URL, error) {
	if d := a.speaks(); d != anyDialect && d != rt.dialect {
		return nil, fault.New(fault.Invalid, "gateway_wrong_api", "This session's account is for another API than the one that was asked. Use the addresses below /%s.", d)
	}
	home := a.BaseURL
	if home == "" {
		home = openAIHome
		if rt.dialect == anthropicDialect {
			home = anthropicHome
		}
	}
	u, err := url.Parse(strings.TrimRight(home, "/"))
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Invalid, "invalid_base_url", "The address of this session's account cannot be used: enter it again in Settings, Agents.")
	}
	if rt.dialect == anthropicDialect && !strings.HasSuffix(u.Path, "/v1") {
		u.Path += "/v1"
	}
	u.Path += rt.path
	u.RawPath = ""
	kept := u.Query() // of the account's own address, such as Azure's api-version
	for _, name := range []string{"beta", "limit", "after_id", "before_id", "after", "order"} {
		if v, ok := query[name]; ok {
			kept[name] = v
		}
	}
	u.RawQuery = kept.Encode()
	return u, nil
}

// onward are the headers of a request that go on to a provider, and no others: what its API and its own clients know. What an agent makes up
// could lead a gateway before the provider to another host or account (https://portkey.ai/docs, https://docs.helicone.ai), or tell it where
// the request comes from. A name that ends in a dash is the beginning of names.
var onward = []string{"Accept", "Accept-Language", "Content-Type", "User-Agent", "X-App", "Session_id", "Conversation_id", "Originator", "Version",
	"Anthropic-", "Openai-Beta", "X-Openai-", "X-Stainless-", "X-Claude-Code-", "X-Codex-", "X-Client-Request-Id", "Idempotency-Key"}

// mostHeader is how long a header's value is passed on, bytes.
const mostHeader = 8 << 10

// onHeaders are the headers a request goes on with. token is what the agent showed, "" where the server itself asks: no header that
// holds it goes on.
func onHeaders(in http.Header, token string) http.Header {
	out := make(http.Header, len(in))
	for name, values := range in {
		if known(onward, name) && !slices.ContainsFunc(values, func(v string) bool { return token != "" && strings.Contains(v, token) || len(v) > mostHeader }) {
			out[name] = slices.Clone(values)
		}
	}
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", "parawork-gateway") // else Go's own client names itself
	}
	out.Set("Accept-Encoding", "identity") // else the answer could not be read on its way
	return out
}

// known reports whether a list has a header's name.
func known(list []string, name string) bool {
	name = http.CanonicalHeaderKey(name)
	return slices.ContainsFunc(list, func(k string) bool { return name == k || strings.HasSuffix(k, "-") && strings.HasPrefix(name, k) })
}

// authorize puts the account's key where its provider wants it.
func (a Account) authorize(h http.Header, d dialect) {
	switch {
	case d == anthropicDialect && a.subscription():
		// A long-lived login of Claude: the API takes it with this word alone.
		if beta := h.Get("Anthropic-Beta"); !strings.Contains(beta, claudeLoginBeta) {
			if beta != "" {
				beta += ","
			}
			h.Set("Anthropic-Beta", beta+claudeLoginBeta)
		}
		h.Set("Authorization", "Bearer "+a.Key)
	case d == anthropicDialect && strings.HasPrefix(a.Key, "sk-ant-"):
		h.Set("X-Api-Key", a.Key)
	default:
		h.Set("Authorization", "Bearer "+a.Key)
	}
}

const claudeLoginBeta = "oauth-2025-04-20"

// subscription reports whether the account pays by the month.
func (a Account) subscription() bool { return strings.HasPrefix(a.Key, "sk-ant-oat") }

// back are the headers of an answer that an agent is given, and no others: what describes it, and what the providers' clients go by. The
// rest may name the account, its cookies, or what stands before the provider.
var back = []string{"Content-Type", "Content-Length", "Content-Encoding", "Cache-Control", "Date", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Request-Id", "X-Request-Id",
	"Anthropic-Ratelimit-", "Anthropic-Priority-", "Anthropic-Fast-", "X-Ratelimit-", "Openai-Processing-Ms", "Openai-Version", "Openai-Model", "X-Models-Etag", "X-Codex-"}

// backHeaders puts the headers of an answer into the agent's. What holds the account's key stays here.
func backHeaders(to, from http.Header, key string) {
	for name, values := range from {
		if !known(back, name) {
			continue
		}
		for _, v := range values {
			if !strings.Contains(v, key) && len(v) <= mostHeader {
				to.Add(name, v)
			}
		}
	}
}
