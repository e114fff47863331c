package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
)

// shapeOf is a JSON object without what differs from one invitation to the next.
func shapeOf(t *testing.T, raw []byte) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return strings.Join(slices.Sorted(maps.Keys(v)), " ")
}

// Whoever invites by e-mail learns nothing of who has an account, and nobody is a member before they have agreed.
func TestAddingAMemberIsAnInvitation(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	team := "/api/v1/teams/" + p.team.Slug
	add := func(email string) reply {
		t.Helper()
		return h.do("POST", team+"/members", body(t, map[string]string{"email": email, "role": "member"}), bearer(p.tokens["admin"])...)
	}
	known, unknown := add("outsider@example.com"), add("stranger@example.com")
	if known.StatusCode != 202 || unknown.StatusCode != known.StatusCode || shapeOf(t, known.body) != shapeOf(t, unknown.body) {
		t.Errorf("known: %d %s\nunknown: %d %s", known.StatusCode, known.body, unknown.StatusCode, unknown.body)
	}
	for _, leak := range []string{h.idOf(t, "outsider@example.com"), "operator", `"outsider"`} {
		if strings.Contains(string(known.body), leak) {
			t.Errorf("the answer holds %q: %s", leak, known.body)
		}
	}
	if r := h.do("GET", team, "", bearer(p.tokens["outsider"])...); r.StatusCode != 404 {
		t.Errorf("the team to who was invited only: %d %s", r.StatusCode, r.body)
	}
	if again := add("member@example.com"); again.StatusCode != 409 || again.code() != "already_member" {
		t.Errorf("a member: %d %s", again.StatusCode, again.body)
	}
}

// Who belongs to the team is for its members; addresses are for those who manage them, and who operates the server is in no team's list.
func TestMembersSeeNoAddressesOfOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	for who, sees := range map[string]bool{"owner": true, "admin": true, "member": false, "viewer": false} {
		r := h.do("GET", "/api/v1/teams/"+p.team.Slug+"/members", "", bearer(p.tokens[who])...)
		if r.StatusCode != 200 || strings.Contains(string(r.body), "operator") {
			t.Errorf("%s: %d %s", who, r.StatusCode, r.body)
		}
		others := strings.ReplaceAll(string(r.body), who+"@example.com", "")
		if strings.Contains(others, "@example.com") != sees || !strings.Contains(string(r.body), who+"@example.com") {
			t.Errorf("%s sees addresses of others: %v, wants %v: %s", who, !sees, sees, r.body)
		}
	}
}

// Who was invited finds it in the app, takes it or not; nobody else finds it.
func TestInvitationsInTheApp(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	team := "/api/v1/teams/" + p.team.Slug
	invite := func(email, role string) string {
		t.Helper()
		r := h.do("POST", team+"/members", body(t, map[string]string{"email": email, "role": role}), bearer(p.tokens["owner"])...)
		var made struct{ ID string }
		r.into(t, &made)
		if r.StatusCode != 202 || made.ID == "" {
			t.Fatalf("invited: %d %s", r.StatusCode, r.body)
		}
		return made.ID
	}
	type mine struct {
		Items []struct {
			ID, Role, Inviter string
			Team              struct{ Name, Slug string }
		}
		EmailVerified bool `json:"email_verified"`
	}
	of := func(b *browser) (m mine) {
		t.Helper()
		b.do("GET", "/me/invites", "").into(t, &m)
		b.want(200, "")
		return m
	}
	homeless, outsider := h.signedIn(t, h.idOf(t, "homeless@example.com")), h.signedIn(t, h.idOf(t, "outsider@example.com"))
	id := invite("homeless@example.com", "viewer")
	if m := of(homeless); len(m.Items) != 1 || m.Items[0].ID != id || m.Items[0].Team.Name != "Harbour" || m.Items[0].Inviter != "owner" || m.Items[0].Role != "viewer" || !m.EmailVerified {
		t.Fatalf("mine: %+v", m)
	}
	if m := of(outsider); len(m.Items) != 0 {
		t.Errorf("another's: %+v", m)
	}
	for _, act := range []string{"accept", "decline"} {
		outsider.do("POST", "/me/invites/"+id+"/"+act, "")
		outsider.want(404, "not_found")
		if r := h.do("POST", "/api/v1/me/invites/"+id+"/"+act, "", bearer(p.tokens["homeless"])...); r.StatusCode != 403 || r.code() != "token_not_allowed" {
			t.Errorf("%s with an API token: %d %s", act, r.StatusCode, r.body)
		}
	}
	homeless.do("POST", "/me/invites/"+id+"/decline", "")
	homeless.want(204, "")
	homeless.do("POST", "/me/invites/"+id+"/accept", "")
	homeless.want(410, "invite_ended")
	if r := h.do("GET", team+"/invites", "", bearer(p.tokens["owner"])...); strings.Contains(string(r.body), id) {
		t.Errorf("a declined one waits: %s", r.body)
	}
	id = invite("homeless@example.com", "member")
	homeless.do("POST", "/me/invites/"+id+"/accept", "")
	homeless.want(200, "")
	if !strings.Contains(string(homeless.last.body), `"role":"member"`) || len(of(homeless).Items) != 0 {
		t.Errorf("joined: %s", homeless.last.body)
	}
	homeless.do("GET", "/teams/"+p.team.Slug, "")
	homeless.want(200, "")
	homeless.do("POST", "/me/invites/"+id+"/accept", "")
	homeless.want(410, "invite_ended")
	if r := h.do("GET", team+"/audit", "", bearer(p.tokens["owner"])...); !strings.Contains(string(r.body), "invite.accept") || !strings.Contains(string(r.body), "invite.decline") {
		t.Errorf("the audit: %s", r.body)
	}
}

// An address that somebody typed at a link is no proof: what is sent to its owner is not shown to who typed it.
func TestATypedAddressIsShownNoInvitations(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	team := "/api/v1/teams/" + p.team.Slug
	var open struct{ URL string }
	h.do("POST", "/api/v1/teams/"+p.team.Slug+"/invites", `{"role":"viewer"}`, bearer(p.tokens["owner"])...).into(t, &open)
	_, token, _ := strings.Cut(open.URL, "#")
	r := h.do("POST", "/api/v1/invites/accept", body(t, map[string]string{"token": token, "name": "Eve", "email": "ceo@example.com", "password": testPassword}))
	if r.StatusCode != 200 {
		t.Fatalf("joining: %d %s", r.StatusCode, r.body)
	}
	eve := &browser{h: h, jar: map[string]string{r.Cookies()[0].Name: r.Cookies()[0].Value}}
	if r := h.do("DELETE", team+"/members/"+h.idOf(t, "ceo@example.com"), "", bearer(p.tokens["owner"])...); r.StatusCode != 204 {
		t.Fatalf("removing: %d %s", r.StatusCode, r.body)
	}
	var made struct{ ID string }
	h.do("POST", team+"/members", `{"email":"ceo@example.com","role":"member"}`, bearer(p.tokens["owner"])...).into(t, &made)
	if r := eve.do("GET", "/me/invites", ""); r.StatusCode != 200 || strings.Contains(string(r.body), made.ID) || !strings.Contains(string(r.body), `"email_verified":false`) {
		t.Errorf("the invitations: %d %s", r.StatusCode, r.body)
	}
	eve.do("POST", "/me/invites/"+made.ID+"/accept", "")
	eve.want(404, "not_found")
	// An operator who knows the person says so.
	if r := h.do("PATCH", "/api/v1/instance/users/"+h.idOf(t, "ceo@example.com"), `{"email":"ceo@example.com"}`, bearer(p.tokens["operator"])...); r.StatusCode != 200 || !strings.Contains(string(r.body), `"email_verified":true`) {
		t.Errorf("an operator vouches: %d %s", r.StatusCode, r.body)
	}
	eve.do("POST", "/me/invites/"+made.ID+"/accept", "")
	eve.want(200, "")
}

// A change of what people may do, and of where keys go, asks a browser that was left open who is there; scripts have a token instead.
func TestASVS_7_5_1_SensitiveChangesAskAgainWhoItIs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	team := "/teams/" + p.team.Slug
	script := bearer(p.tokens["owner"])
	var account, secret struct{ ID string }
	h.do("POST", "/api/v1/me/agent-accounts", `{"agent":"codex","name":"a","kind":"api_key","api_key":"sk-aaaabbbbccccdddd1"}`, script...).into(t, &account)
	h.do("POST", "/api/v1"+team+"/secrets", `{"kind":"env","name":"K_OF_MINE","value":"a value to hide"}`, script...).into(t, &secret)
	if account.ID == "" || secret.ID == "" {
		t.Fatalf("account %q, secret %q", account.ID, secret.ID)
	}
	owner := h.signedIn(t, h.idOf(t, "owner@example.com"))
	member := h.idOf(t, "member@example.com")
	for _, c := range []struct {
		method, path, body string
		asks               bool
		want               int
	}{
		{"PATCH", team + "/members/" + member, `{"role":"viewer"}`, true, 200},
		{"POST", team + "/invites", `{"role":"admin"}`, true, 201},
		{"POST", team + "/invites", `{"role":"owner"}`, true, 201},
		{"POST", team + "/invites", `{"role":"member"}`, false, 201},
		{"POST", team + "/members", `{"email":"new@example.com","role":"admin"}`, true, 202},
		{"POST", team + "/members", `{"email":"new2@example.com","role":"viewer"}`, false, 202},
		{"PATCH", "/agent-accounts/" + account.ID, `{"base_url":"https://elsewhere.example","api_key":"sk-aaaabbbbccccdddd2"}`, true, 200},
		{"PATCH", "/agent-accounts/" + account.ID, `{"name":"b"}`, false, 200},
		{"POST", "/me/agent-accounts", `{"agent":"codex","name":"c","kind":"api_key","api_key":"sk-aaaabbbbccccdddd3"}`, true, 201},
		{"PUT", "/me/agent-accounts/codex", `{"kind":"api_key","api_key":"sk-aaaabbbbccccdddd4","base_url":"https://elsewhere.example"}`, true, 200},
		{"POST", team + "/agent-accounts", `{"agent":"codex","name":"t","kind":"api_key","api_key":"sk-aaaabbbbccccdddd5"}`, true, 201},
		{"POST", team + "/secrets", `{"kind":"env","name":"L_OF_MINE","value":"another one to hide"}`, true, 201},
		{"POST", "/me/secrets", `{"kind":"env","name":"M_OF_MINE","value":"another one to hide"}`, true, 201},
		{"PATCH", "/secrets/" + secret.ID, `{"value":"a third one to hide"}`, true, 200},
		{"DELETE", "/secrets/" + secret.ID, "", true, 204},
		{"POST", "/me/tokens", `{"name":"t"}`, true, 201},
		{"PATCH", team, `{"second_factor":false}`, true, 200},
		{"PATCH", team, `{"name":"Harbour"}`, false, 200},
		{"GET", team + "/members", "", false, 200},
	} {
		name := fmt.Sprintf("%s %s %s", c.method, c.path, c.body)
		if _, err := h.db.Exec(t.Context(), `UPDATE login_sessions SET confirmed_at = 1`); err != nil {
			t.Fatal(err)
		}
		r := owner.do(c.method, c.path, c.body)
		if asked := r.StatusCode == http.StatusForbidden && r.code() == "confirm_needed"; asked != c.asks {
			t.Errorf("%s: %d %s, asks %v, want %v", name, r.StatusCode, r.body, asked, c.asks)
			continue
		}
		if !c.asks {
			if r.StatusCode != c.want {
				t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
			}
			continue
		}
		if _, err := h.db.Exec(t.Context(), `UPDATE login_sessions SET confirmed_at = ?`, h.server.cfg.Now().UnixMilli()); err != nil {
			t.Fatal(err)
		}
		if r := owner.do(c.method, c.path, c.body); r.StatusCode != c.want {
			t.Errorf("%s, once it is confirmed: %d %s", name, r.StatusCode, r.body)
		}
	}
	if r := h.do("PATCH", "/api/v1"+team+"/members/"+member, `{"role":"member"}`, script...); r.StatusCode != 200 {
		t.Errorf("a script: %d %s", r.StatusCode, r.body)
	}
	narrow := h.bounded(t, caller{name: "narrow", userID: h.idOf(t, "owner@example.com")}, []accounts.Scope{accounts.ScopeWrite})
	if r := h.do("PATCH", "/api/v1"+team+"/members/"+member, `{"role":"admin"}`, "Authorization", narrow.header.Get("Authorization")); r.StatusCode != 403 || r.code() != "wrong_scope" {
		t.Errorf("a script that may work alone: %d %s", r.StatusCode, r.body)
	}
}

// With a password, a factor or the sign-ins their tokens end, unless one says that they stay.
func TestTokensEndWithWhatTheyRestOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	u, err := h.accounts.CreateUser(t.Context(), accounts.NewUser{Email: "mika@example.com", Name: "Mika", Password: testPassword})
	if err != nil {
		t.Fatal(err)
	}
	works := func(token string) bool {
		t.Helper()
		return h.do("GET", "/api/v1/me", "", bearer(token)...).StatusCode == 200
	}
	password := testPassword
	for name, c := range map[string]struct {
		act, keep func(t *testing.T, b *browser)
	}{
		"a changed password": {
			func(t *testing.T, b *browser) {
				b.do("PUT", "/me/password", body(t, map[string]any{"current_password": password, "new_password": "a hat for nine lives"}))
				password = "a hat for nine lives"
			},
			func(t *testing.T, b *browser) {
				b.do("PUT", "/me/password", body(t, map[string]any{"current_password": password, "new_password": "eight lamps over water", "keep_tokens": true}))
				password = "eight lamps over water"
			},
		},
		"a link to a new password": {
			func(t *testing.T, b *browser) { h.resetBy(t, b, p, u.ID, false); password = "seven ships in the fog" },
			func(t *testing.T, b *browser) { h.resetBy(t, b, p, u.ID, true); password = "seven ships in the fog" },
		},
		"all sign-ins": {
			func(t *testing.T, b *browser) { b.do("POST", "/me/login-sessions/end-others", "") },
			func(t *testing.T, b *browser) {
				b.do("POST", "/me/login-sessions/end-others", `{"keep_tokens":true}`)
			},
		},
		"forgotten factors": {
			func(t *testing.T, b *browser) {
				b.last = h.do("POST", "/api/v1/instance/users/"+u.ID+"/reset-factors", "", bearer(p.tokens["operator"])...)
			},
			func(t *testing.T, b *browser) {
				b.last = h.do("POST", "/api/v1/instance/users/"+u.ID+"/reset-factors", `{"keep_tokens":true}`, bearer(p.tokens["operator"])...)
			},
		},
	} {
		for _, keep := range []bool{true, false} {
			act := c.act
			if keep {
				act = c.keep
			}
			_, token, err := h.accounts.CreateToken(t.Context(), u.ID, "script", 0)
			if err != nil {
				t.Fatal(err)
			}
			b := h.signedIn(t, u.ID)
			act(t, b)
			if b.last.StatusCode/100 != 2 {
				t.Fatalf("%s: %d %s", name, b.last.StatusCode, b.last.body)
			}
			if works(token) != keep {
				t.Errorf("%s: the token works: %v, asked to keep it: %v", name, !keep, keep)
			}
		}
	}
}

// resetBy chooses a new password by a link of an operator's.
func (h *harness) resetBy(t *testing.T, b *browser, p cast, userID string, keep bool) {
	t.Helper()
	var link struct{ URL string }
	h.do("POST", "/api/v1/instance/users/"+userID+"/reset-link", "", bearer(p.tokens["operator"])...).into(t, &link)
	_, token, _ := strings.Cut(link.URL, "#")
	in := map[string]any{"token": token, "password": "seven ships in the fog"}
	if keep {
		in["keep_tokens"] = true
	}
	b.last = h.do("POST", "/api/v1/password/reset", body(t, in))
}

// A token names what made it, and ends with it.
func TestTokensEndWithTheirParent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	owner := h.signedIn(t, h.idOf(t, "owner@example.com"))
	type made struct {
		Token struct {
			ID     string
			Parent *struct{ Kind, ID, Name string }
		}
		Value string
	}
	issue := func(name string, as ...string) (m made) {
		t.Helper()
		in := body(t, map[string]string{"name": name})
		r := reply{}
		if len(as) == 0 {
			r = owner.do("POST", "/me/tokens", in)
		} else {
			r = h.do("POST", "/api/v1/me/tokens", in, as...)
		}
		if r.StatusCode != 201 {
			t.Fatalf("%s: %d %s", name, r.StatusCode, r.body)
		}
		r.into(t, &m)
		return m
	}
	first := issue("first")
	second := issue("second", bearer(first.Value)...)
	third := issue("third", bearer(second.Value)...)
	if q := first.Token.Parent; q == nil || q.Kind != "session" || q.Name != "Firefox on Linux" {
		t.Errorf("made in the browser: %+v", q)
	}
	if q := third.Token.Parent; q == nil || q.Kind != "token" || q.ID != second.Token.ID || q.Name != "second" {
		t.Errorf("made by a token: %+v", q)
	}
	if r := owner.do("GET", "/me/tokens", ""); strings.Count(string(r.body), `"kind":"token"`) != 2 {
		t.Errorf("the list: %s", r.body)
	}
	if r := owner.do("DELETE", "/me/tokens/"+first.Token.ID, ""); r.StatusCode != 204 {
		t.Fatalf("ending the first: %d %s", r.StatusCode, r.body)
	}
	for name, value := range map[string]string{"first": first.Value, "second": second.Value, "third": third.Value} {
		if r := h.do("GET", "/api/v1/me", "", bearer(value)...); r.StatusCode != 401 {
			t.Errorf("%s after its parent: %d %s", name, r.StatusCode, r.body)
		}
	}
	if r := h.do("GET", "/api/v1/me", "", bearer(p.tokens["owner"])...); r.StatusCode != 200 {
		t.Errorf("one of another origin: %d %s", r.StatusCode, r.body)
	}
	// A sign-in that one does not know is ended with what was made in it; signing out oneself ends no token.
	strange := h.signedIn(t, h.idOf(t, "owner@example.com"))
	var left, kept made
	strange.do("POST", "/me/tokens", `{"name":"left"}`).into(t, &left)
	var list struct {
		Items []struct {
			ID      string
			Current bool
		}
	}
	strange.do("GET", "/me/login-sessions", "").into(t, &list)
	for _, s := range list.Items {
		if s.Current {
			owner.do("DELETE", "/me/login-sessions/"+s.ID, "")
			owner.want(204, "")
		}
	}
	if r := h.do("GET", "/api/v1/me", "", bearer(left.Value)...); r.StatusCode != 401 {
		t.Errorf("a token of the ended sign-in: %d %s", r.StatusCode, r.body)
	}
	other := h.signedIn(t, h.idOf(t, "owner@example.com"))
	other.do("POST", "/me/tokens", `{"name":"kept"}`).into(t, &kept)
	other.do("POST", "/logout", "")
	other.want(204, "")
	if r := h.do("GET", "/api/v1/me", "", bearer(kept.Value)...); r.StatusCode != 200 {
		t.Errorf("a token of who signed out: %d %s", r.StatusCode, r.body)
	}
}
