package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/server/rest"
)

// From the link to a seat in the team, for who has a login and for who has none.
func TestJoiningByAnInvite(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	invite := func(who, in string) (url, id string) {
		t.Helper()
		r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/invites", in, bearer(p.tokens[who])...)
		var made struct{ URL, ID string }
		r.into(t, &made)
		if r.StatusCode != 201 || !strings.HasPrefix(made.URL, h.url+"/join#") {
			t.Fatalf("invite: %d %s", r.StatusCode, r.body)
		}
		return strings.TrimPrefix(made.URL, h.url+"/join#"), made.ID
	}
	token, id := invite("admin", `{"role":"member"}`)
	if r := h.do("GET", "/api/v1/teams/"+p.team.Slug+"/invites", "", bearer(p.tokens["owner"])...); r.StatusCode != 200 || !strings.Contains(string(r.body), id) || strings.Contains(string(r.body), token) {
		t.Errorf("list: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/invites/preview", body(t, map[string]string{"token": token})); r.StatusCode != 200 || !strings.Contains(string(r.body), `"inviter":"admin"`) {
		t.Errorf("look: %d %s", r.StatusCode, r.body)
	}
	accept := body(t, map[string]string{"token": token})
	if r := h.do("POST", "/api/v1/invites/accept", accept); r.StatusCode != 401 || r.code() != "signed_out" {
		t.Errorf("accepting as nobody: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/invites/accept", accept, "Authorization", "Bearer pw_user_wrong"); r.StatusCode != 401 {
		t.Errorf("accepting with a bad token: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/invites/accept", accept, bearer(p.tokens["homeless"])...); r.StatusCode != 403 || r.code() != "token_not_allowed" {
		t.Errorf("accepting with an API token: %d %s", r.StatusCode, r.body)
	}
	fresh := body(t, map[string]string{"token": token, "name": "Grace", "email": "grace@example.com", "password": testPassword})
	if r := h.do("POST", "/api/v1/invites/accept", fresh, "Origin", "https://evil.example"); r.StatusCode != 403 || r.code() != "cross_origin" {
		t.Errorf("a foreign page joins: %d %s", r.StatusCode, r.body)
	}
	r := h.do("POST", "/api/v1/invites/accept", fresh)
	if r.StatusCode != 200 || len(r.Cookies()) != 1 || !r.Cookies()[0].HttpOnly || !strings.Contains(string(r.body), `"role":"member"`) {
		t.Fatalf("joining: %d %s", r.StatusCode, r.body)
	}
	cookie := r.Cookies()[0].Name + "=" + r.Cookies()[0].Value
	if r := h.do("GET", "/api/v1/teams/"+p.team.Slug, "", "Cookie", cookie); r.StatusCode != 200 {
		t.Errorf("the team: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/invites/preview", body(t, map[string]string{"token": token})); r.StatusCode != 410 || r.code() != "invite_ended" {
		t.Errorf("looking again: %d %s", r.StatusCode, r.body)
	}
	// The same browser accepts an invite to another team as who it is signed in as, also with a cookie that has ended.
	if r := h.do("DELETE", "/api/v1/teams/"+p.team.Slug+"/members/"+h.idOf(t, "grace@example.com"), "", bearer(p.tokens["owner"])...); r.StatusCode != 204 {
		t.Fatalf("removing: %d %s", r.StatusCode, r.body)
	}
	token, _ = invite("owner", `{"role":"viewer"}`)
	r = h.do("POST", "/api/v1/invites/accept", body(t, map[string]string{"token": token}), "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	if r.StatusCode != 200 || len(r.Cookies()) != 0 || !strings.Contains(string(r.body), `"role":"viewer"`) {
		t.Errorf("joining as a user: %d %s", r.StatusCode, r.body)
	}
	token, id = invite("owner", `{"role":"viewer","email":"someone@example.com"}`)
	if r := h.do("POST", "/api/v1/invites/accept", body(t, map[string]string{"token": token, "name": "S", "password": testPassword}), "Cookie", "parawork=ended"); r.StatusCode != 200 || len(r.Cookies()) != 1 {
		t.Errorf("joining with a cookie that has ended: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("DELETE", "/api/v1/invites/"+id, "", bearer(p.tokens["owner"])...); r.StatusCode != 410 {
		t.Errorf("taking back what was used: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/invites", `{"role":"owner"}`, bearer(p.tokens["admin"])...); r.StatusCode != 403 || r.code() != "forbidden" {
		t.Errorf("an admin invites an owner: %d %s", r.StatusCode, r.body)
	}
}

// idOf is the id of the user with an address.
func (h *harness) idOf(t *testing.T, email string) string {
	t.Helper()
	u, err := h.accounts.UserByEmail(t.Context(), email)
	if err != nil {
		t.Fatal(err)
	}
	return u.ID
}

func TestOperatorsKeepUsersAndTeamsOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	op := bearer(p.tokens["operator"])
	do := func(method, path, in string, want int) reply {
		t.Helper()
		r := h.do(method, "/api/v1/instance"+path, in, op...)
		if r.StatusCode != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, r.StatusCode, r.body, want)
		}
		return r
	}
	r := do("POST", "/users", `{"email":"Grace@example.com","name":"Grace","team":"`+p.team.Slug+`","role":"member"}`, 201)
	var made struct {
		User struct {
			ID          string
			HasPassword bool `json:"has_password"`
			Teams       []struct{ Role string }
		}
		Link struct {
			URL    string
			Mailed bool
		}
	}
	r.into(t, &made)
	if made.User.HasPassword || len(made.User.Teams) != 1 || !strings.HasPrefix(made.Link.URL, h.url+"/reset#") || made.Link.Mailed {
		t.Errorf("made: %s", r.body)
	}
	if r := do("GET", "/users?q=grace", "", 200); strings.Contains(string(r.body), "ada@") || !strings.Contains(string(r.body), made.User.ID) {
		t.Errorf("users: %s", r.body)
	}
	do("POST", "/users/"+made.User.ID+"/reset-link", "", 200)
	do("POST", "/users/"+made.User.ID+"/reset-factors", "", 200)
	do("PATCH", "/users/"+made.User.ID, `{"name":"Grace H."}`, 200)
	do("GET", "/users/usr_nobody", "", 404)
	do("POST", "/users/usr_nobody/suspend", "", 404)
	do("POST", "/users/%FF/suspend", "", 404)
	if r := do("POST", "/users/"+h.idOf(t, "operator@example.com")+"/suspend", "", 409); r.code() != "suspend_self" {
		t.Errorf("oneself: %s", r.body)
	}

	// A suspended user's token ends, and the rest of the team works on.
	team := "/api/v1/teams/" + p.team.Slug
	do("POST", "/users/"+h.idOf(t, "member@example.com")+"/suspend", "", 200)
	if r := h.do("GET", team, "", bearer(p.tokens["member"])...); r.StatusCode != 401 {
		t.Errorf("a suspended user: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", team, "", bearer(p.tokens["viewer"])...); r.StatusCode != 200 {
		t.Errorf("another: %d %s", r.StatusCode, r.body)
	}
	do("POST", "/users/"+h.idOf(t, "member@example.com")+"/restore", "", 200)

	do("POST", "/teams/"+p.team.ID+"/suspend", "", 200)
	for who, want := range map[string]string{"owner": "team_suspended", "viewer": "team_suspended", "outsider": "not_found"} {
		if r := h.do("GET", team, "", bearer(p.tokens[who])...); r.code() != want {
			t.Errorf("a suspended team seen by %s: %d %s", who, r.StatusCode, r.body)
		}
	}
	if r := h.do("GET", "/api/v1/me", "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusOK || !strings.Contains(string(r.body), `"suspended":true`) {
		t.Errorf("me: %s", r.body)
	}
	if r := do("POST", "/teams/"+p.team.ID+"/restore", "", 200); !strings.Contains(string(r.body), `"suspended_at":null`) {
		t.Errorf("restored: %s", r.body)
	}
	if r := h.do("GET", team, "", bearer(p.tokens["owner"])...); r.StatusCode != 200 {
		t.Errorf("restored: %d %s", r.StatusCode, r.body)
	}
	do("POST", "/teams", `{"name":"New","owner":"grace@example.com"}`, 201)
	do("POST", "/teams", `{"name":"New","owner":"nobody@example.com"}`, 400)
	if r := do("GET", "/teams?q=new", "", 200); !strings.Contains(string(r.body), `"name":"Grace H."`) {
		t.Errorf("teams: %s", r.body)
	}
	if r := h.do("PATCH", team, `{"second_factor":true}`, bearer(p.tokens["owner"])...); r.StatusCode != 403 || r.code() != "second_factor_required" {
		t.Errorf("asking for what one has not: %d %s", r.StatusCode, r.body)
	}
}

// Being an operator is no way around what is asked of who changes how they sign in: neither with a browser left open nor with a token.
func TestASVS_7_5_1_OperatorsConfirmWhoTheyAre(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ctx := t.Context()
	operator, member := h.idOf(t, "operator@example.com"), h.idOf(t, "member@example.com")
	cookie, _, err := h.accounts.SignIn(ctx, signin.Request{UserID: operator, Factors: []string{accounts.ProofPassword}})
	if err != nil {
		t.Fatal(err)
	}
	browser, token := []string{"Cookie", rest.PlainCookie + "=" + cookie}, bearer(p.tokens["operator"])
	do := func(as []string, method, path, in, code string) {
		t.Helper()
		if r := h.do(method, "/api/v1/instance/users"+path, in, as...); r.code() != code {
			t.Errorf("%s %s: %d %s, want %q", method, path, r.StatusCode, r.body, code)
		}
	}
	do(browser, "POST", "/"+operator+"/reset-link", "", "")
	do(browser, "PATCH", "/"+member, `{"email":"mate@example.com"}`, "")
	if _, err := h.db.Exec(ctx, `UPDATE login_sessions SET confirmed_at = 1`); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{operator, member} {
		do(browser, "POST", "/"+id+"/reset-link", "", "confirm_needed")
		do(browser, "POST", "/"+id+"/reset-factors", "", "confirm_needed")
		do(browser, "PATCH", "/"+id, `{"email":"eve@example.com"}`, "confirm_needed")
	}
	do(browser, "PATCH", "/"+member, `{"operator":true}`, "confirm_needed")
	do(browser, "POST", "", `{"email":"eve@example.com","name":"Eve","operator":true}`, "confirm_needed")
	do(browser, "PATCH", "/"+member, `{"name":"Mate"}`, "")
	do(token, "POST", "/"+operator+"/reset-link", "", "token_not_allowed")
	do(token, "POST", "/"+operator+"/reset-factors", "", "token_not_allowed")
	do(token, "PATCH", "/"+operator, `{"email":"eve@example.com"}`, "token_not_allowed")
	do(token, "POST", "/"+member+"/reset-link", "", "")
}
