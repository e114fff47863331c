package consent

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

// resource is the metadata of what is protected (RFC 9728).
func (h *Handlers) resource(c echo.Context) error {
	base, err := h.issuer(c.Request())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{
		"resource":                 base + h.cfg.Resource,
		"resource_name":            "Parawork",
		"authorization_servers":    []string{base},
		"scopes_supported":         oauth.Scopes(),
		"bearer_methods_supported": []string{"header"},
	})
}

// server is the metadata of the authorization server (RFC 8414).
func (h *Handlers) server(c echo.Context) error {
	base, err := h.issuer(c.Request())
	if err != nil {
		return err
	}
	none := []string{"none"}
	return c.JSON(http.StatusOK, map[string]any{
		"issuer":                                         base,
		"authorization_endpoint":                         base + authorizePath,
		"token_endpoint":                                 base + tokenPath,
		"registration_endpoint":                          base + registerPath,
		"revocation_endpoint":                            base + revokePath,
		"scopes_supported":                               oauth.Scopes(),
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token"},
		"token_endpoint_auth_methods_supported":          none,
		"revocation_endpoint_auth_methods_supported":     none,
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	})
}

// register lets a client register itself (RFC 7591). What it asks for beyond a name and addresses is answered with what it gets.
func (h *Handlers) register(c echo.Context) error {
	r := c.Request()
	if _, err := h.issuer(r); err != nil {
		return err
	}
	if err := h.take(r, registering); err != nil {
		return err
	}
	var in struct {
		ClientName    string   `json:"client_name"`
		RedirectURIs  []string `json:"redirect_uris"`
		GrantTypes    []string `json:"grant_types"`
		ResponseTypes []string `json:"response_types"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return err
		}
		return fault.Wrap(err, fault.Invalid, "invalid_client_metadata", "Send the metadata of the client as JSON, with redirect_uris as a list of strings.")
	}
	if !offers(in.GrantTypes, "authorization_code") || !offers(in.ResponseTypes, "code") {
		return fault.New(fault.Invalid, "invalid_client_metadata", "This server supports the grant type authorization_code with the response type code.")
	}
	client, err := h.cfg.OAuth.Register(r.Context(), in.ClientName, in.RedirectURIs)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, map[string]any{
		"client_id":                  client.ID,
		"client_id_issued_at":        client.CreatedAt / time.Second.Milliseconds(),
		"client_name":                client.Name,
		"redirect_uris":              client.RedirectURIs,
		"grant_types":                []string{"authorization_code", "refresh_token"},
		"response_types":             []string{"code"},
		"token_endpoint_auth_method": "none",
	})
}

// offers reports whether a list that may be left out has a value.
func offers(list []string, want string) bool {
	for _, v := range list {
		if v == want {
			return true
		}
	}
	return len(list) == 0
}

// form reads a request's parameters: each but resource at most once.
func form(r *http.Request) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, fault.New(fault.Invalid, "invalid_request", "Send the parameters as application/x-www-form-urlencoded.")
	}
	if err := r.ParseForm(); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, err
		}
		return nil, fault.Wrap(err, fault.Invalid, "invalid_request", "The parameters could not be read.")
	}
	return r.PostForm, once(r.PostForm)
}

// once refuses parameters that are sent twice.
func once(v url.Values, but ...string) error {
	for name, values := range v {
		if len(values) > 1 && name != "resource" && !offers(append(but, ""), name) {
			return fault.New(fault.Invalid, "invalid_request", "A parameter was sent more than once: %s.", accounts.Clip(name, 40))
		}
	}
	return nil
}

// checkResource refuses tokens for anything else than this server (RFC 8707). Clients of early versions of MCP name nothing.
func (h *Handlers) checkResource(r *http.Request, named []string) error {
	base, err := h.issuer(r)
	if err != nil {
		return err
	}
	for _, n := range named {
		if strings.TrimSuffix(n, "/") != base+h.cfg.Resource {
			return fault.New(fault.Invalid, "invalid_target", "resource must be %s. Connect to that address.", base+h.cfg.Resource)
		}
	}
	return nil
}

// token exchanges a code or a refresh token.
func (h *Handlers) token(c echo.Context) error {
	r := c.Request()
	if err := h.take(r, exchanging); err != nil {
		return err
	}
	v, err := form(r)
	if err != nil {
		return err
	}
	if err := h.checkResource(r, v["resource"]); err != nil {
		return err
	}
	var out oauth.Issued
	switch v.Get("grant_type") {
	case "authorization_code":
		out, err = h.cfg.OAuth.Exchange(r.Context(), v.Get("client_id"), v.Get("code"), v.Get("code_verifier"), v.Get("redirect_uri"))
	case "refresh_token":
		out, err = h.cfg.OAuth.Refresh(r.Context(), v.Get("client_id"), v.Get("refresh_token"), strings.Fields(v.Get("scope")))
	default:
		err = fault.New(fault.Invalid, "unsupported_grant_type", "grant_type must be authorization_code or refresh_token.")
	}
	if reused, ok := errors.AsType[*oauth.Reused](err); ok {
		h.cfg.Log.WarnContext(r.Context(), "an OAuth code or refresh token was used twice: its grant has been revoked", "token_id", reused.Grant.TokenID, "client_id", reused.Grant.ClientID)
		h.by(r.Context(), reused.Grant)
		audit.Note(r.Context(), "revoked", "true")
	}
	if err != nil {
		return err
	}
	audit.Reported(r.Context()) // the entry says that it was allowed
	scopes := make([]string, len(out.Grant.Scopes))
	for i, sc := range out.Grant.Scopes {
		scopes[i] = string(sc)
	}
	return c.JSON(http.StatusOK, map[string]any{"access_token": out.Access, "token_type": "Bearer", "expires_in": out.ExpiresIn, "refresh_token": out.Refresh, "scope": strings.Join(scopes, " ")})
}

// revoke ends a grant (RFC 7009).
func (h *Handlers) revoke(c echo.Context) error {
	r := c.Request()
	if err := h.take(r, exchanging); err != nil {
		return err
	}
	v, err := form(r)
	if err != nil {
		return err
	}
	if v.Get("token") == "" {
		return fault.New(fault.Invalid, "invalid_request", "Send the access token or the refresh token as token.")
	}
	g, err := h.cfg.OAuth.Revoke(r.Context(), v.Get("client_id"), v.Get("token"))
	if err != nil {
		return err
	}
	if g.TokenID == "" {
		audit.Reported(r.Context()) // nothing was there to end
	} else {
		h.by(r.Context(), g)
	}
	return c.NoContent(http.StatusOK)
}

// by says for the audit whose grant a request was about.
func (h *Handlers) by(ctx context.Context, g oauth.Grant) {
	call := rest.CallOf(ctx)
	audit.As(ctx, audit.Source{Kind: audit.ByToken, ActorID: g.UserID, ActorName: g.UserEmail, Credential: g.TokenID, Client: g.Name, IP: h.AddressOf(call.Request), RequestID: call.ID})
	audit.Target(ctx, "token", g.TokenID, g.Name)
	if g.TeamID != "" {
		audit.InTeam(ctx, g.TeamID)
	}
}
