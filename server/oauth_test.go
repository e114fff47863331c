package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/tenant"
)

// loopback is where the test's client is answered; nobody listens there, the browser of the test stops before it.
const loopback = "http://127.0.0.1:7777/callback"

// signedInBrowser is a person's browser, which follows no redirect.
type signedInBrowser struct {
	h      *harness
	t      *testing.T
	cookie string
}

// signedInBrowser signs a person in.
func (h *harness) signedInBrowser(t *testing.T, email string) signedInBrowser {
	t.Helper()
	u, err := h.accounts.UserByEmail(t.Context(), email)
	if err != nil {
		t.Fatal(err)
	}
	cookie, _, err := h.accounts.SignIn(t.Context(), signin.Request{UserID: u.ID, Factors: []string{accounts.ProofPassword}, Meta: accounts.Meta{UserAgent: "Firefox/1 Linux"}})
	if err != nil {
		t.Fatal(err)
	}
	return signedInBrowser{h, t, cookie}
}

func (b signedInBrowser) get(address string) reply {
	b.t.Helper()
	return b.h.do("GET", strings.TrimPrefix(address, b.h.url), "", "Cookie", "__Host-parawork="+b.cookie)
}

func (b signedInBrowser) post(address string, v url.Values, header ...string) reply {
	b.t.Helper()
	return b.h.do("POST", strings.TrimPrefix(address, b.h.url), v.Encode(), append([]string{"Cookie", "__Host-parawork=" + b.cookie, "Content-Type", "application/x-www-form-urlencoded"}, header...)...)
}

var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)
	tickedField = regexp.MustCompile(`<input type="checkbox" name="allow" value="([^"]+)" checked>`)
)

// fields are those of the page's form as the browser would send them.
func fields(t *testing.T, page string) url.Values {
	t.Helper()
	v := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		v.Add(m[1], html.UnescapeString(m[2]))
	}
	for _, m := range tickedField.FindAllStringSubmatch(page, -1) {
		v.Add("allow", m[1])
	}
	if v.Get("proof") == "" {
		t.Fatalf("this page has no form:\n%s", page)
	}
	return v
}

// allow clicks through the page of a request and returns what the client is sent; change changes the form before it is sent.
func (b signedInBrowser) allow(address string, change func(url.Values)) url.Values {
	b.t.Helper()
	r := b.get(address)
	if r.StatusCode != 200 {
		b.t.Fatalf("the page: %d %s %s", r.StatusCode, r.Header.Get("Location"), r.body)
	}
	v := fields(b.t, string(r.body))
	v.Set("decision", "allow")
	v.Set("mine", "yes")
	if change != nil {
		change(v)
	}
	return b.sentBack(b.post("/oauth/authorize", v))
}

// sentBack is what the client is sent by a page that leads back to it.
func (b signedInBrowser) sentBack(r reply) url.Values {
	b.t.Helper()
	to, ok := strings.CutPrefix(r.Header.Get("Refresh"), "0;url=")
	u, err := url.Parse(to)
	if !ok || r.StatusCode != 200 || err != nil {
		b.t.Fatalf("not led back: %d %q %s", r.StatusCode, to, r.body)
	}
	return u.Query()
}

// oauthClient is a program that has registered.
type oauthClient struct {
	h        *harness
	t        *testing.T
	id       string
	verifier string
}

func (h *harness) register(t *testing.T, metadata string) reply {
	t.Helper()
	return h.do("POST", "/oauth/register", metadata)
}

func (h *harness) oauthClient(t *testing.T, name, redirect string) oauthClient {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{redirect}})
	if err != nil {
		t.Fatal(err)
	}
	r := h.register(t, string(raw))
	var got struct {
		ClientID string `json:"client_id"`
	}
	if err := json.Unmarshal(r.body, &got); err != nil || r.StatusCode != 201 || got.ClientID == "" {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	return oauthClient{h, t, got.ClientID, strings.Repeat("v", 43)}
}

// asks is the address by which the client asks for access; changes are pairs, "" removes a parameter.
func (c oauthClient) asks(changes ...string) string {
	sum := sha256.Sum256([]byte(c.verifier))
	v := url.Values{"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {loopback}, "state": {"a state&more"}, "scope": {"workspaces:read sessions:attach"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {c.h.url + "/mcp"}}
	for i := 0; i < len(changes); i += 2 {
		if v.Set(changes[i], changes[i+1]); changes[i+1] == "" {
			v.Del(changes[i])
		}
	}
	return "/oauth/authorize?" + v.Encode()
}

// tokenAnswer is one of the token endpoint.
type tokenAnswer struct {
	status       int
	Access       string `json:"access_token"`
	Refresh      string `json:"refresh_token"`
	Scope        string `json:"scope"`
	ExpiresIn    int    `json:"expires_in"`
	Error        string `json:"error"`
	Description  string `json:"error_description"`
	CacheControl string `json:"-"`
}

func (c oauthClient) post(path string, changes ...string) tokenAnswer {
	c.t.Helper()
	v := url.Values{"client_id": {c.id}}
	for i := 0; i < len(changes); i += 2 {
		if v.Set(changes[i], changes[i+1]); changes[i+1] == "" {
			v.Del(changes[i])
		}
	}
	r := c.h.do("POST", path, v.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	a := tokenAnswer{status: r.StatusCode, CacheControl: r.Header.Get("Cache-Control")}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &a); err != nil {
			c.t.Fatalf("%d %s", r.StatusCode, r.body)
		}
	}
	return a
}

func (c oauthClient) exchange(code string, changes ...string) tokenAnswer {
	c.t.Helper()
	return c.post("/oauth/token", append([]string{"grant_type", "authorization_code", "code", code, "code_verifier", c.verifier, "redirect_uri", loopback, "resource", c.h.url + "/mcp"}, changes...)...)
}

func (c oauthClient) refresh(token string, changes ...string) tokenAnswer {
	c.t.Helper()
	return c.post("/oauth/token", append([]string{"grant_type", "refresh_token", "refresh_token", token}, changes...)...)
}

// reaches reports whether a token is let in to MCP.
func (h *harness) reaches(token string) bool {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	return h.do("POST", "/mcp", ping, append(bearer(token), "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")...).StatusCode == 200
}

// A client that is given the address of /mcp and nothing else finds out, registers, has its user asked, works, renews its token and ends.
func TestConnectWithNothingButTheAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	b := h.signedInBrowser(t, "owner@example.com")
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "Claude Desktop", RedirectURIs: []string{loopback}}},
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			v := b.allow(args.URL, func(v url.Values) { v.Set("team", p.team.Slug) })
			return &auth.AuthorizationResult{Code: v.Get("code"), State: v.Get("state"), Iss: v.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test-client", Version: "1.2"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: h.url + "/mcp", OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if text, failed := (mcpClient{t, session}).call("workspace_create", map[string]any{"project": p.ids["project"], "name": "x", "base": "-"}, nil); text == "" {
		t.Errorf("%q %v", text, failed)
	}
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, err := source.Token()
	if err != nil || held.RefreshToken == "" || time.Until(held.Expiry) > time.Hour || time.Until(held.Expiry) < 59*time.Minute {
		t.Fatalf("%+v, %v", held, err)
	}

	// It is one entry among the person's tokens, however often it is renewed, and the audit names it.
	c := oauthClient{h: h, t: t, id: h.granted(t, b, "Claude Desktop")}
	a := c.refresh(held.RefreshToken)
	if a.status != 200 || a.Scope != "billing:read sessions:attach workspaces:read workspaces:write" || a.ExpiresIn != 3600 || a.CacheControl != "no-store" {
		t.Fatalf("%+v", a)
	}
	if h.reaches(held.AccessToken) || !h.reaches(a.Access) {
		t.Error("the new access token does not take the place of the old one")
	}
	h.granted(t, b, "Claude Desktop")
	rows, _, err := h.cfg.Audit.List(tenant.In(t.Context(), p.team.ID), audit.Query{Chain: p.team.ID}, "")
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]audit.Row{}
	for _, e := range rows {
		entries[e.Action] = e
	}
	if e := entries["workspace.create"]; e.Data["client"] != "Claude Desktop: test-client 1.2 (MCP)" || e.Kind != audit.ByToken || e.ActorName != "owner@example.com" {
		t.Errorf("a call in the audit: %+v", e)
	}
	if e := entries["oauth_grant.allow"]; e.TargetName != "Claude Desktop" || e.Kind != audit.ByUser || e.Data["redirect"] != "127.0.0.1:7777" {
		t.Errorf("what was allowed in the audit: %+v", e)
	}

	if a := c.post("/oauth/revoke", "token", a.Refresh); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	if h.reaches(a.Access) || c.refresh(a.Refresh).Error != "invalid_grant" {
		t.Error("what was revoked still works")
	}
	if a := c.post("/oauth/revoke", "token", a.Refresh); a.status != 200 {
		t.Errorf("revoking what has ended: %+v", a)
	}
	rows, _, err = h.cfg.Audit.List(tenant.In(t.Context(), p.team.ID), audit.Query{Chain: p.team.ID, Action: "oauth_grant.revoke"}, "")
	if err != nil || len(rows) != 1 || rows[0].ActorName != "owner@example.com" {
		t.Errorf("in the audit: %+v, %v", rows, err)
	}
}

// granted makes sure that the person's list has exactly one token of OAuth, and returns its client.
func (h *harness) granted(t *testing.T, b signedInBrowser, name string) string {
	t.Helper()
	var list struct {
		Items []struct {
			Name     string
			ClientID string `json:"client_id"`
		}
	}
	r := b.get("/api/v1/me/tokens")
	if err := json.Unmarshal(r.body, &list); err != nil {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	var ids []string
	for _, it := range list.Items {
		if it.ClientID != "" && it.Name == name {
			ids = append(ids, it.ClientID)
		}
	}
	if len(ids) != 1 {
		t.Fatalf("%d entries of %s: %s", len(ids), name, r.body)
	}
	return ids[0]
}

// What the metadata says is what the specifications ask for.
func TestDiscoveryOfOAuth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	read := func(path string, header ...string) map[string]any {
		t.Helper()
		r := h.do("GET", path, "", header...)
		var out map[string]any
		if err := json.Unmarshal(r.body, &out); err != nil || r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Fatalf("%s: %d %s", path, r.StatusCode, r.body)
		}
		return out
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		if m := read(path, "Origin", "https://inspector.example"); m["resource"] != h.url+"/mcp" || m["authorization_servers"].([]any)[0] != h.url {
			t.Errorf("%s: %v", path, m)
		}
	}
	m := read("/.well-known/oauth-authorization-server")
	for name, want := range map[string]string{"issuer": "", "authorization_endpoint": "/oauth/authorize", "token_endpoint": "/oauth/token", "registration_endpoint": "/oauth/register", "revocation_endpoint": "/oauth/revoke"} {
		if m[name] != h.url+want {
			t.Errorf("%s is %v", name, m[name])
		}
	}
	if slices.Contains(m["scopes_supported"].([]any), any("admin")) {
		t.Error("clients can be allowed everything")
	}
	r := h.do("POST", "/mcp", `{}`)
	if got, want := r.Header.Get("WWW-Authenticate"), `Bearer realm="parawork", resource_metadata="`+h.url+`/.well-known/oauth-protected-resource/mcp"`; got != want {
		t.Errorf("challenged with %s", got)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/oauth/register", "/oauth/token"} {
		r := h.do("OPTIONS", path, "", "Origin", "https://inspector.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
		if r.StatusCode != 204 || !strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "Content-Type") {
			t.Errorf("preflight of %s: %d", path, r.StatusCode)
		}
	}
}

// A server that many reach and that does not know its address lets nobody's Host header say where tokens are sent.
func TestNoOAuthWithoutAnAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) { c.Loopback = false })
	h.serve()
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"} {
		r := h.do("GET", path, "", "Host", "parawork.example.com")
		if r.StatusCode != 404 || !strings.Contains(string(r.body), "server.publicUrl") {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	if r := h.do("POST", "/mcp", `{}`, "Host", "parawork.example.com"); r.Header.Get("WWW-Authenticate") != `Bearer realm="parawork"` {
		t.Errorf("challenged with %s", r.Header.Get("WWW-Authenticate"))
	}
	public := newHarness(t, func(c *Config) { c.PublicURL = "https://parawork.example.com" })
	public.serve()
	if r := public.do("GET", "/.well-known/oauth-authorization-server", "", "Host", "evil.localhost"); !strings.Contains(string(r.body), `"issuer":"https://parawork.example.com"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// Codes work once, for a minute, for the client they were given to and with what belongs to them.
func TestCodesOfOAuth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.people(t)
	b := h.signedInBrowser(t, "member@example.com")
	c, other := h.oauthClient(t, "One", loopback), h.oauthClient(t, "Other", loopback)
	code := func() string { return b.allow(c.asks(), nil).Get("code") }

	for what, try := range map[string]func(code string) tokenAnswer{
		"another client":   func(code string) tokenAnswer { return other.exchange(code) },
		"no client":        func(code string) tokenAnswer { return c.exchange(code, "client_id", "client_x") },
		"a wrong verifier": func(code string) tokenAnswer { return c.exchange(code, "code_verifier", strings.Repeat("w", 43)) },
		"no verifier":      func(code string) tokenAnswer { return c.exchange(code, "code_verifier", "") },
		"another redirect": func(code string) tokenAnswer {
			return c.exchange(code, "redirect_uri", "http://127.0.0.1:7778/callback")
		},
		"another resource":     func(code string) tokenAnswer { return c.exchange(code, "resource", "https://elsewhere.example/mcp") },
		"a made-up code":       func(string) tokenAnswer { return c.exchange("made-up") },
		"a password":           func(code string) tokenAnswer { return c.exchange(code, "grant_type", "password") },
		"the code, as refresh": func(code string) tokenAnswer { return c.refresh(code) },
	} {
		want := map[string]string{"no client": "invalid_client", "another resource": "invalid_target", "a password": "unsupported_grant_type"}[what]
		if want == "" {
			want = "invalid_grant"
		}
		if a := try(code()); a.Error != want || a.Description == "" || a.Access != "" || (a.status != 400 && a.status != 401) {
			t.Errorf("%s: %+v, want %s", what, a, want)
		}
	}

	late := code()
	h.ahead.Store(int64(61 * time.Second))
	if a := c.exchange(late); a.Error != "invalid_grant" {
		t.Errorf("after a minute: %+v", a)
	}
	h.ahead.Store(0)

	once := code()
	a := c.exchange(once)
	if a.status != 200 || a.Scope != "sessions:attach workspaces:read" || !h.reaches(a.Access) {
		t.Fatalf("%+v", a)
	}
	if again := c.exchange(once); again.Error != "invalid_grant" || again.Access != "" {
		t.Errorf("a second time: %+v", again)
	}
	if h.reaches(a.Access) || c.refresh(a.Refresh).Error != "invalid_grant" {
		t.Error("a code that was used twice has not ended what it gave the first time")
	}
}

// Of each refresh token the first use counts; the second ends the grant.
func TestRefreshTokensOfOAuth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.people(t)
	b := h.signedInBrowser(t, "member@example.com")
	c, other := h.oauthClient(t, "One", loopback), h.oauthClient(t, "Other", loopback)
	first := c.exchange(b.allow(c.asks(), nil).Get("code"))
	if a := other.refresh(first.Refresh); a.Error != "invalid_grant" {
		t.Errorf("another client: %+v", a)
	}
	if a := c.refresh(first.Refresh, "scope", "workspaces:write"); a.Error != "invalid_scope" {
		t.Errorf("more than was allowed: %+v", a)
	}
	if a := other.post("/oauth/revoke", "token", first.Access); a.Error != "invalid_grant" || !h.reaches(first.Access) {
		t.Errorf("another client revokes it: %+v", a)
	}
	second := c.refresh(first.Refresh)
	if second.status != 200 || second.Refresh == first.Refresh || !h.reaches(second.Access) {
		t.Fatalf("%+v", second)
	}
	if a := c.refresh(first.Refresh); a.Error != "invalid_grant" || !strings.Contains(a.Description, "revoked") {
		t.Errorf("used twice: %+v", a)
	}
	if h.reaches(second.Access) || c.refresh(second.Refresh).Error != "invalid_grant" {
		t.Error("the grant goes on although a refresh token was used twice")
	}

	third := c.exchange(b.allow(c.asks(), nil).Get("code"))
	h.ahead.Store(int64(31 * 24 * time.Hour))
	if a := c.refresh(third.Refresh); a.Error != "invalid_grant" {
		t.Errorf("after a month: %+v", a)
	}
}

// Whatever ends a person's tokens ends what they allowed clients, and codes on their way.
func TestGrantsEndWithTheirPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	for what, end := range map[string]func(b signedInBrowser, a accounts.Actor){
		"the token is revoked": func(b signedInBrowser, a accounts.Actor) {
			var list struct{ Items []struct{ ID, Name string } }
			if err := json.Unmarshal(b.get("/api/v1/me/tokens").body, &list); err != nil {
				t.Fatal(err)
			}
			for _, it := range list.Items {
				if it.Name == "One" {
					if r := h.do("DELETE", "/api/v1/me/tokens/"+it.ID, "", "Cookie", "__Host-parawork="+b.cookie); r.StatusCode != 204 {
						t.Fatalf("%d %s", r.StatusCode, r.body)
					}
				}
			}
		},
		"signed out everywhere": func(b signedInBrowser, a accounts.Actor) {
			if err := h.accounts.EndOtherSessions(t.Context(), accounts.Actor{User: a.User}, false); err != nil {
				t.Fatal(err)
			}
		},
		"its login session is ended": func(b signedInBrowser, a accounts.Actor) {
			if err := h.accounts.EndSession(t.Context(), a, a.SessionID, false); err != nil {
				t.Fatal(err)
			}
		},
		"the second factor is reset": func(b signedInBrowser, a accounts.Actor) {
			if _, err := h.accounts.ResetFactors(t.Context(), a.User.ID, false); err != nil {
				t.Fatal(err)
			}
		},
	} {
		b := h.signedInBrowser(t, "member@example.com")
		c := h.oauthClient(t, "One", loopback)
		a := c.exchange(b.allow(c.asks("resource", ""), nil).Get("code"))
		onItsWay := b.allow(c.asks(), nil).Get("code")
		if !h.reaches(a.Access) {
			t.Fatalf("%s: %+v", what, a)
		}
		actor, err := h.accounts.Authenticate(t.Context(), b.cookie)
		if err != nil {
			t.Fatal(err)
		}
		end(b, actor)
		if h.reaches(a.Access) || c.refresh(a.Refresh).Error != "invalid_grant" || c.exchange(onItsWay).Error != "invalid_grant" {
			t.Errorf("%s: it goes on", what)
		}
	}
	b := h.signedInBrowser(t, "member@example.com")
	c := h.oauthClient(t, "One", loopback)
	a := c.exchange(b.allow(c.asks(), nil).Get("code"))
	read := func() string {
		text, _ := h.mcp(t, a.Access).call("workspace_read", map[string]any{"workspace": p.ids["workspace"]}, nil)
		return text
	}
	if text := read(); strings.HasPrefix(text, "not_found") {
		t.Fatalf("%s", text)
	}
	owner, err := h.accounts.Actor(t.Context(), memberID(t, h, p, "owner"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.accounts.RemoveMember(t.Context(), owner, p.team.ID, memberID(t, h, p, "member")); err != nil {
		t.Fatal(err)
	}
	if text := read(); !strings.HasPrefix(text, "not_found") {
		t.Errorf("after its person has left the team: %s", text)
	}
}

// Nobody is sent to an address that a client has not registered, and a client learns what was wrong with its request.
func TestRequestsOfOAuth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.people(t)
	b := h.signedInBrowser(t, "member@example.com")
	c := h.oauthClient(t, "One", loopback)
	web := h.oauthClient(t, "Web", "https://client.example/callback")

	for _, redirect := range []string{"https://evil.example/", "http://127.0.0.1:7777/other", "http://127.0.0.1.evil.example/callback", "http://user@127.0.0.1:7777/callback", "http://localhost:7777/callback",
		"http://127.0.0.1:7777/callback#x", "javascript:alert(1)", "", "//evil.example", "http://127.0.0.1:7777/callback?x=1"} {
		r := b.get(c.asks("redirect_uri", redirect))
		if r.StatusCode != 400 || r.Header.Get("Location") != "" || r.Header.Get("Refresh") != "" || redirect != "" && strings.Contains(string(r.body), "href=\""+redirect) {
			t.Errorf("redirect_uri %q: %d %v %s", redirect, r.StatusCode, r.Header, r.body)
		}
	}
	if r := b.get(c.asks("client_id", "client_x")); r.StatusCode != 401 || r.Header.Get("Location") != "" {
		t.Errorf("nobody's client: %d", r.StatusCode)
	}
	if v := b.allow(c.asks("redirect_uri", "http://127.0.0.1:50123/callback"), nil); v.Get("code") == "" || v.Get("state") != "a state&more" || v.Get("iss") != h.url {
		t.Errorf("at another port of the person's own machine: %v", v)
	}

	for what, c2 := range map[string]struct {
		changes []string
		code    string
	}{
		"without PKCE":          {[]string{"code_challenge", "", "code_challenge_method", ""}, "invalid_request"},
		"with plain PKCE":       {[]string{"code_challenge_method", "plain"}, "invalid_request"},
		"with a method missing": {[]string{"code_challenge_method", ""}, "invalid_request"},
		"for a token at once":   {[]string{"response_type", "token"}, "unsupported_response_type"},
		"for another resource":  {[]string{"resource", "https://elsewhere.example/mcp"}, "invalid_target"},
	} {
		r := b.get(c.asks(c2.changes...))
		u, err := url.Parse(r.Header.Get("Location"))
		if err != nil || r.StatusCode != 303 || !strings.HasPrefix(u.String(), loopback+"?") || u.Query().Get("error") != c2.code || u.Query().Get("state") != "a state&more" || u.Query().Get("iss") != h.url {
			t.Errorf("%s: %d %s %s", what, r.StatusCode, u, r.body)
		}
		// Anybody can register an address elsewhere: nobody is led there without having been asked.
		r = b.get(web.asks(append(c2.changes, "redirect_uri", "https://client.example/callback")...))
		if r.StatusCode != 400 || r.Header.Get("Location") != "" || r.Header.Get("Refresh") != "" || !strings.Contains(string(r.body), "https://client.example/callback?error="+c2.code) {
			t.Errorf("%s, elsewhere: %d %s", what, r.StatusCode, r.body)
		}
	}
	if r := b.get(c.asks() + "&client_id=" + c.id); r.StatusCode != 400 {
		t.Errorf("a parameter twice: %d", r.StatusCode)
	}
	if r := b.get(c.asks("state", strings.Repeat("s", 4000))); r.StatusCode != 400 {
		t.Errorf("a huge request: %d", r.StatusCode)
	}

	// Who is not signed in signs in first and comes back to the same request.
	r := h.do("GET", c.asks(), "")
	u, err := url.Parse(r.Header.Get("Location"))
	if err != nil || r.StatusCode != 303 || u.Path != "/login" || !strings.HasPrefix(u.Query().Get("next"), "/oauth/authorize?") {
		t.Fatalf("%d %s", r.StatusCode, u)
	}
	if v := b.allow(u.Query().Get("next"), nil); v.Get("code") == "" || v.Get("state") != "a state&more" {
		t.Errorf("after signing in: %v", v)
	}
	if r := h.do("GET", c.asks(), "", bearer(h.bounded(t, caller{name: "x", userID: h.userID(t, "member@example.com")}, []accounts.Scope{accounts.ScopeAdmin}).header.Get("Authorization")[len("Bearer "):])...); r.StatusCode == 200 {
		t.Error("an API token is shown the page")
	}
}

func (h *harness) userID(t *testing.T, email string) string {
	t.Helper()
	u, err := h.accounts.UserByEmail(t.Context(), email)
	if err != nil {
		t.Fatal(err)
	}
	return u.ID
}

// A person's answer is taken from the page that they were shown, and from nothing else.
func TestTheConsentPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.people(t)
	b := h.signedInBrowser(t, "member@example.com")
	evil := h.oauthClient(t, "<img src=x onerror=alert(1)>\u202e\n Claude", loopback)
	r := b.get(evil.asks())
	page := string(r.body)
	if strings.Contains(page, "<img") || !strings.Contains(page, "&lt;img src=x") || strings.Contains(page, "\u202e") {
		t.Errorf("the client's name is not shown as text: %s", page)
	}
	policy := r.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	if strings.Contains(policy, "script-src") || strings.Contains(policy, "unsafe") || strings.Contains(page, "<script") || r.Header.Get("X-Frame-Options") != "DENY" || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", r.Header)
	}
	if !strings.Contains(page, "member@example.com") || !strings.Contains(page, "127.0.0.1:7777") {
		t.Errorf("the page does not say who is asked, or where it leads: %s", page)
	}

	form := fields(t, page)
	form.Set("decision", "allow")
	with := func(changes ...string) url.Values {
		v := maps.Clone(form)
		for i := 0; i < len(changes); i += 2 {
			if v[changes[i]] = []string{changes[i+1]}; changes[i+1] == "" {
				v.Del(changes[i])
			}
		}
		return v
	}
	otherSession, another := h.signedInBrowser(t, "member@example.com"), h.oauthClient(t, "Another", loopback)
	for what, r := range map[string]reply{
		"from a page elsewhere":          b.post("/oauth/authorize", form, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"),
		"without the proof":              b.post("/oauth/authorize", with("proof", "")),
		"with another session's proof":   otherSession.post("/oauth/authorize", form),
		"with the proof of another form": b.post("/oauth/authorize", with("client_id", another.id)),
		"with a redirect elsewhere":      b.post("/oauth/authorize", with("redirect_uri", "https://evil.example/")),
		"with everything allowed":        b.post("/oauth/authorize", with("allow", "admin")),
		"with nothing allowed":           b.post("/oauth/authorize", with("allow", "")),
		"for somebody else's team":       b.post("/oauth/authorize", with("team", "elsewhere")),
	} {
		if r.StatusCode < 400 || r.Header.Get("Refresh") != "" || r.Header.Get("Location") != "" {
			t.Errorf("%s: %d %v", what, r.StatusCode, r.Header)
		}
	}
	if r := h.do("POST", "/oauth/authorize", form.Encode(), "Content-Type", "application/x-www-form-urlencoded"); r.StatusCode != 303 || !strings.HasPrefix(r.Header.Get("Location"), "/login?") {
		t.Errorf("without a login: %d", r.StatusCode)
	}
	if v := b.sentBack(b.post("/oauth/authorize", with("decision", "deny"))); v.Get("error") != "access_denied" || v.Get("code") != "" || v.Get("state") != "a state&more" {
		t.Errorf("denied: %v", v)
	}

	// An application's own scheme, and what a person takes away from what was asked for.
	for _, redirect := range []string{"cursor://anysphere.cursor-mcp/oauth/callback", "com.example.app:/callback", "https://client.example/callback?x=1", "http://[::1]/callback"} {
		c := h.oauthClient(t, "App", redirect)
		r := b.get(c.asks("redirect_uri", redirect, "scope", "openid workspaces:write workspaces:read admin"))
		v := fields(t, string(r.body))
		if !slices.Equal(v["allow"], []string{"workspaces:read", "workspaces:write"}) {
			t.Errorf("ticked: %v", v["allow"])
		}
		v["allow"], v["decision"] = []string{"workspaces:read"}, []string{"allow"}
		if strings.HasPrefix(redirect, "https:") { // one click is not enough
			if r = b.post("/oauth/authorize", v); r.StatusCode != 422 || r.Header.Get("Refresh") != "" {
				t.Errorf("without confirming who began: %d", r.StatusCode)
			}
			v.Set("mine", "yes")
		}
		r = b.post("/oauth/authorize", v)
		to := strings.TrimPrefix(r.Header.Get("Refresh"), "0;url=")
		if !strings.HasPrefix(to, redirect) || !strings.Contains(html.UnescapeString(string(r.body)), `<a href="`+to+`"`) {
			t.Errorf("%s: led to %s: %s", redirect, to, r.body)
		}
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		if a := c.exchange(u.Query().Get("code"), "redirect_uri", redirect); a.Scope != "workspaces:read" {
			t.Errorf("%s: %+v", redirect, a)
		}
	}

	// A browser that was left open does not allow anything.
	if _, err := h.db.Exec(t.Context(), `UPDATE login_sessions SET confirmed_at = 1`); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]reply{"asked": b.get(evil.asks()), "answered": b.post("/oauth/authorize", form)} {
		if !strings.HasPrefix(r.Header.Get("Location"), "/confirm?next=%2Foauth%2Fauthorize") || r.StatusCode != 303 {
			t.Errorf("%s without a recent proof: %d %s", what, r.StatusCode, r.Header.Get("Location"))
		}
	}
}

// What registers itself is bounded in what it says, and how often.
func TestRegistrationOfClients(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	many := `"https://client.example/` + strings.Repeat(`","https://client.example/`, 10) + `"`
	for what, c := range map[string]struct {
		metadata string
		status   int
		code     string
	}{
		"no JSON":             {`client_name=x`, 400, "invalid_client_metadata"},
		"no redirect":         {`{"client_name":"x"}`, 400, "invalid_redirect_uri"},
		"many redirects":      {`{"redirect_uris":[` + many + `]}`, 400, "invalid_redirect_uri"},
		"a script":            {`{"redirect_uris":["javascript:alert(1)"]}`, 400, "invalid_redirect_uri"},
		"a file":              {`{"redirect_uris":["file:///etc/passwd"]}`, 400, "invalid_redirect_uri"},
		"data":                {`{"redirect_uris":["data:text/html,x"]}`, 400, "invalid_redirect_uri"},
		"http elsewhere":      {`{"redirect_uris":["http://client.example/"]}`, 400, "invalid_redirect_uri"},
		"a name before it":    {`{"redirect_uris":["https://parawork@client.example/"]}`, 400, "invalid_redirect_uri"},
		"a fragment":          {`{"redirect_uris":["https://client.example/#x"]}`, 400, "invalid_redirect_uri"},
		"a host in disguise":  {`{"redirect_uris":["https://%D1%81laude.ai/cb"]}`, 400, "invalid_redirect_uri"},
		"a line break":        {`{"redirect_uris":["https://client.example/\nx"]}`, 400, "invalid_redirect_uri"},
		"a huge one":          {`{"redirect_uris":["https://client.example/"],"client_name":"` + strings.Repeat("x", maxStranger) + `"}`, 413, "invalid_request"},
		"another grant":       {`{"redirect_uris":["https://client.example/"],"grant_types":["client_credentials"]}`, 400, "invalid_client_metadata"},
		"one with a secret":   {`{"redirect_uris":["https://client.example/"],"token_endpoint_auth_method":"client_secret_basic"}`, 201, ""},
		"one of a page":       {`{"redirect_uris":["https://client.example/"],"client_name":"","logo_uri":"https://evil.example/x.png"}`, 201, ""},
		"an application's":    {`{"redirect_uris":["cursor://x/y","com.example.app:/z","http://localhost:1/cb","http://[::1]/cb"]}`, 201, ""},
		"an unknown scheme's": {`{"redirect_uris":["ms-settings://x"]}`, 400, "invalid_redirect_uri"},
	} {
		r := h.register(t, c.metadata)
		var a struct {
			Error  string `json:"error"`
			Name   string `json:"client_name"`
			Secret string `json:"client_secret"`
			Method string `json:"token_endpoint_auth_method"`
		}
		if err := json.Unmarshal(r.body, &a); err != nil || r.StatusCode != c.status || a.Error != c.code || c.status == 201 && (a.Secret != "" || a.Method != "none" || a.Name == "") {
			t.Errorf("%s: %d %s, want %d %s", what, r.StatusCode, r.body, c.status, c.code)
		}
	}
	status := 0
	for range 40 {
		status = h.register(t, `{"redirect_uris":["https://client.example/"]}`).StatusCode
	}
	if status != 429 {
		t.Errorf("after many: %d", status)
	}
}
