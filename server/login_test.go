package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/rest"
)

// body is v as JSON.
func body(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// From the setup link to signing out.
func TestSetupLoginLogout(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	token, needed, err := h.accounts.SetupToken(t.Context())
	if err != nil || !needed {
		t.Fatalf("setup token: %v %v", needed, err)
	}
	if r := h.do("GET", "/api/v1/setup", ""); string(r.body) != `{"needed":true}` {
		t.Errorf("setup: %s", r.body)
	}
	first := map[string]string{"token": "wrong", "name": "Mika", "email": "Mika@Example.com", "password": testPassword, "team": "Harbour Ltd"}
	if r := h.do("POST", "/api/v1/setup", body(t, first)); r.StatusCode != 403 || r.code() != "wrong_setup_token" || len(r.Cookies()) > 0 {
		t.Errorf("a wrong token: %d %s", r.StatusCode, r.body)
	}
	first["token"] = token
	if r := h.do("POST", "/api/v1/setup", body(t, first), "Origin", "https://evil.example"); r.StatusCode != 403 || r.code() != "cross_origin" {
		t.Errorf("a foreign page sets up: %d %s", r.StatusCode, r.body)
	}
	r := h.do("POST", "/api/v1/setup", body(t, first))
	if r.StatusCode != 201 || len(r.Cookies()) != 1 || r.Cookies()[0].Name != rest.HostCookie {
		t.Fatalf("setup: %d %s %v", r.StatusCode, r.body, r.Cookies())
	}
	var me struct {
		User struct {
			Email    string
			Operator bool
		}
		Teams []struct {
			Slug, Role string
			Actions    []string
		}
	}
	r.into(t, &me)
	if me.User.Email != "mika@example.com" || !me.User.Operator || len(me.Teams) != 1 || me.Teams[0].Slug != "harbour-ltd" || me.Teams[0].Role != "owner" || len(me.Teams[0].Actions) < 5 {
		t.Errorf("me: %s", r.body)
	}
	if r := h.do("POST", "/api/v1/setup", body(t, first)); r.StatusCode != 409 || r.code() != "setup_done" {
		t.Errorf("setup again: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/setup", ""); string(r.body) != `{"needed":false}` {
		t.Errorf("setup: %s", r.body)
	}

	if r := h.do("POST", "/api/v1/login", body(t, map[string]string{"email": "mika@example.com", "password": "wrong wrong wrong"})); r.StatusCode != 401 || r.code() != "wrong_credentials" || len(r.Cookies()) > 0 {
		t.Errorf("a wrong password: %d %s", r.StatusCode, r.body)
	}
	r = h.do("POST", "/api/v1/login", body(t, map[string]string{"email": "mika@example.com", "password": testPassword}))
	if r.StatusCode != 200 || len(r.Cookies()) != 2 {
		t.Fatalf("login: %d %s", r.StatusCode, r.body)
	}
	cookie := r.Cookies()[0]
	if c := r.Header.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "Secure") || !strings.Contains(c, "SameSite=Lax") || !strings.Contains(c, "Path=/") || strings.Contains(c, "Domain") {
		t.Errorf("cookie: %s", c)
	}
	with := []string{"Cookie", cookie.Name + "=" + cookie.Value}
	if r := h.do("GET", "/api/v1/me", "", with...); r.StatusCode != 200 {
		t.Errorf("me by cookie: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/me/tokens", `{"name":"x"}`, append(with, "Sec-Fetch-Site", "cross-site")...); r.StatusCode != 403 {
		t.Errorf("a foreign page uses the cookie: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/me", "", append(with, "Authorization", "Bearer pw_user_nonsense")...); r.StatusCode != 401 {
		t.Errorf("a wrong token beside a right cookie: %d %s", r.StatusCode, r.body)
	}
	r = h.do("POST", "/api/v1/logout", "", with...)
	if r.StatusCode != 204 || len(r.Cookies()) != 2 || r.Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %d %v", r.StatusCode, r.Cookies())
	}
	if r := h.do("GET", "/api/v1/me", "", with...); r.StatusCode != 401 {
		t.Errorf("me after logout: %d %s", r.StatusCode, r.body)
	}
}

// Guessing is slowed down per account and address, and the answer says for how long.
func TestLoginIsLimited(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.people(t)
	guess := body(t, map[string]string{"email": "owner@example.com", "password": "a wrong guess"})
	for range 30 {
		r := h.do("POST", "/api/v1/login", guess)
		if r.StatusCode == http.StatusTooManyRequests {
			if r.Header.Get("Retry-After") == "" || r.code() != "too_many_attempts" {
				t.Errorf("429 without how long: %v %s", r.Header, r.body)
			}
			return
		}
		if r.StatusCode != 401 {
			t.Fatalf("a guess: %d %s", r.StatusCode, r.body)
		}
	}
	t.Error("30 guesses in a row were all tried")
}

// Members, roles, tokens and accounts of agents through the API.
func TestTeamLife(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	owner := bearer(p.tokens["owner"])
	var members struct {
		Items []struct {
			User struct{ ID, Email string }
			Role string
		}
	}
	h.do("GET", "/api/v1/teams/harbour/members", "", owner...).into(t, &members)
	ids := map[string]string{}
	for _, m := range members.Items {
		ids[m.Role] = m.User.ID
	}
	if len(members.Items) != 4 {
		t.Fatalf("members: %+v", members)
	}
	for _, tc := range []struct {
		who, method, path, body string
		status                  int
		code                    string
	}{
		{"admin", "PATCH", "/teams/harbour/members/" + ids["member"], `{"role":"viewer"}`, 200, ""},
		{"admin", "PATCH", "/teams/harbour/members/" + ids["member"], `{"role":"king"}`, 400, "invalid_role"},
		{"admin", "PATCH", "/teams/harbour/members/" + ids["owner"], `{"role":"viewer"}`, 403, "forbidden"},
		{"owner", "PATCH", "/teams/harbour/members/" + ids["owner"], `{"role":"viewer"}`, 409, "last_owner"},
		{"owner", "DELETE", "/teams/harbour/members/" + ids["owner"], "", 409, "last_owner"},
		{"viewer", "DELETE", "/teams/harbour/members/" + ids["admin"], "", 403, "forbidden"},
		{"owner", "POST", "/teams/harbour/members", `{"email":"nobody@example.com","role":"member"}`, 202, ""},
		{"owner", "POST", "/teams/harbour/members", `{"email":"outsider@example.com","role":"member"}`, 202, ""},
		{"owner", "POST", "/teams/harbour/members", `{"email":"","role":"member"}`, 400, "invalid_email"},
		{"member", "POST", "/teams/harbour/members", `{"email":"someone@example.com","role":"viewer"}`, 403, "forbidden"},
		{"admin", "POST", "/teams/harbour/members", `{"email":"someone@example.com","role":"owner"}`, 403, "forbidden"},
		{"owner", "POST", "/teams/harbour/members", `{"email":"viewer@example.com","role":"member"}`, 409, "already_member"},
		{"viewer", "DELETE", "/teams/harbour/members/" + ids["viewer"], "", 204, ""},
		{"viewer", "GET", "/teams/harbour", "", 404, "not_found"},
		{"owner", "PATCH", "/teams/harbour", `{"name":"New name"}`, 200, ""},
		{"owner", "PUT", "/me/agent-accounts/codex", `{"kind":"existing_login"}`, 400, "consent_needed"},
		{"owner", "PUT", "/me/agent-accounts/codex", `{"kind":"api_key","api_key":"sk-0123456789abcdefghij"}`, 200, ""},
		{"owner", "POST", "/me/tokens", `{"name":"t","expires_at":1}`, 400, "invalid_expiry"},
		{"owner", "POST", "/logout", "", 400, "no_session"},
		{"owner", "PUT", "/me/password", `{"current_password":"x","new_password":"y"}`, 403, "token_not_allowed"},
	} {
		r := h.do(tc.method, "/api/v1"+tc.path, tc.body, bearer(p.tokens[tc.who])...)
		if r.StatusCode != tc.status || r.code() != tc.code {
			t.Errorf("%s %s %s by %s: %d %s, want %d %s", tc.method, tc.path, tc.body, tc.who, r.StatusCode, r.body, tc.status, tc.code)
		}
	}
	if r := h.do("GET", "/api/v1/me/agent-accounts", "", owner...); !strings.Contains(string(r.body), `"last_four":"ghij"`) || strings.Contains(string(r.body), "sk-0123") {
		t.Errorf("accounts: %s", r.body)
	}
}

// Who is not signed in is not read more of than a sign-in takes.
func TestASVS_15_2_2_StrangersSendLittle(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	long := strings.Repeat("x", 100<<10)
	for _, path := range []string{"/login", "/login/factor", "/login/passkey/options", "/login/passkey", "/password/forgot", "/password/reset", "/setup", "/invites/preview", "/invites/accept"} {
		if r := h.do("POST", "/api/v1"+path, `{"email":"`+long+`"}`); r.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
}
