// Package consent serves OAuth 2.1 for programs that use /mcp: what they discover, how they register, the page on which a person allows
// them something, and the tokens they are given (RFC 9728, 8414, 7591, 6749, 7636, 9207, 8707 and 7009). What is stored and when it ends is
// accounts/oauth's. It starts no goroutine and takes no lock.
package consent

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

// MetadataPath is where the metadata of what is protected is read; the path of that follows.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Paths, at the root of the server and below the API's base.
const (
	serverPath    = "/.well-known/oauth-authorization-server"
	authorizePath = "/oauth/authorize"
	tokenPath     = "/oauth/token"
	registerPath  = "/oauth/register"
	revokePath    = "/oauth/revoke"
)

// Serves reports whether a path at the root of the server is this package's.
func Serves(path string) bool {
	return strings.HasPrefix(path, "/oauth/") || strings.HasPrefix(path, "/.well-known/oauth-")
}

// How often one address may ask in a minute.
const (
	registering rest.Cost = "registrations"
	exchanging  rest.Cost = "tokens"
)

var rates = map[rest.Cost]rest.Rate{registering: {User: 30}, exchanging: {User: 240}}

// Config is what Handlers are made of.
type Config struct {
	OAuth    *oauth.Service
	SignIn   *signin.Service
	Browsers *rest.Browsers
	Resource string // path of what is protected, such as /mcp
	Now      func() time.Time
	Log      *slog.Logger
}

// Handlers answer the requests. Safe for concurrent use.
type Handlers struct {
	*rest.Browsers
	cfg      Config
	throttle *rest.Throttle
}

// New returns Handlers.
func New(cfg Config) *Handlers {
	return &Handlers{Browsers: cfg.Browsers, cfg: cfg, throttle: rest.NewThrottle(rates, cfg.Now)}
}

// Route is one of Handlers.
type Route struct {
	Method, Path, Op string
	Handle           echo.HandlerFunc
	Around           []echo.MiddlewareFunc
}

// Routes are all there are; each has the guard of its operation inside Around.
func (h *Handlers) Routes() []Route {
	out := []Route{
		{http.MethodGet, authorizePath, "getConsent", h.ask, []echo.MiddlewareFunc{h.asPage}},
		{http.MethodPost, authorizePath, "giveConsent", h.decide, []echo.MiddlewareFunc{h.asPage}},
	}
	open := []Route{
		{http.MethodGet, MetadataPath, "getProtectedResource", h.resource, nil},
		{http.MethodGet, MetadataPath + h.cfg.Resource, "getProtectedResource", h.resource, nil},
		{http.MethodGet, serverPath, "getAuthorizationServer", h.server, nil},
		{http.MethodPost, registerPath, "registerOauthClient", h.register, nil},
		{http.MethodPost, tokenPath, "issueOauthToken", h.token, nil},
		{http.MethodPost, revokePath, "revokeOauthToken", h.revoke, nil},
	}
	for _, r := range open {
		r.Around = []echo.MiddlewareFunc{h.asOAuth}
		out = append(out, r, Route{http.MethodOptions, r.Path, "getAuthorizationServer", preflight, r.Around})
	}
	return out
}

// asOAuth is around what programs ask: pages of other origins may ask, too, since no cookie counts here, and errors have the form of OAuth.
func (h *Handlers) asOAuth(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		head := c.Response().Header()
		head.Set("Access-Control-Allow-Origin", "*")
		head.Set("Access-Control-Expose-Headers", "WWW-Authenticate, X-Request-Id")
		head.Set("Cache-Control", "no-store")
		err := next(c)
		if err == nil {
			return nil
		}
		p := rest.Translate(err)
		if p.Status >= http.StatusInternalServerError {
			call := rest.CallOf(c.Request().Context())
			h.cfg.Log.ErrorContext(c.Request().Context(), "request failed", "request_id", call.ID, "operation", call.Op, "status", p.Status, "error", err)
		}
		if c.Response().Committed {
			return nil
		}
		code, description := inOAuth(err)
		return c.JSON(p.Status, map[string]string{"error": code, "error_description": description})
	}
}

// inOAuth is an error as OAuth says it: one of its codes, and text of the characters it allows (RFC 6749, section 5.2).
func inOAuth(err error) (code, description string) {
	p := rest.Translate(err)
	description = strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\\':
			return '\''
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, p.Body.Message)
	switch code = p.Body.Code; code {
	case "invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "invalid_target", "access_denied", "unsupported_response_type", "unsupported_grant_type",
		"invalid_redirect_uri", "invalid_client_metadata":
	default:
		switch {
		case p.Status == http.StatusTooManyRequests, p.Status == http.StatusServiceUnavailable:
			code = "temporarily_unavailable"
		case p.Status >= http.StatusInternalServerError:
			code = "server_error"
		case p.Status == http.StatusForbidden:
			code = "access_denied"
		default:
			code = "invalid_request"
		}
	}
	return code, description
}

// preflight answers the question of browsers whether a page may ask.
func preflight(c echo.Context) error {
	head := c.Response().Header()
	head.Set("Access-Control-Allow-Methods", "GET, POST")
	head.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, MCP-Protocol-Version")
	head.Set("Access-Control-Max-Age", "600")
	return c.NoContent(http.StatusNoContent)
}

// issuer is the address that clients know the server by.
func (h *Handlers) issuer(r *http.Request) (string, error) {
	if base, known := h.Issuer(r); known {
		return base, nil
	}
	return "", fault.New(fault.NotFound, "oauth_unavailable", "Applications cannot connect with a sign-in, because this server does not know its own address. "+
		"Ask an operator to set server.publicUrl in config.json, or connect with an API token.")
}

// take counts a request of an address.
func (h *Handlers) take(r *http.Request, c rest.Cost) error {
	key := h.AddressOf(r)
	if a, err := netip.ParseAddr(key); err == nil {
		if a = a.Unmap().WithZone(""); a.Is6() { // an IPv6 user has a whole /64
			if p, err := a.Prefix(64); err == nil {
				key = p.String()
			}
		}
	}
	return h.throttle.Take(c, key, "")
}
