package server

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/store"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// browser keeps the cookies it is given, as one does.
type browser struct {
	h    *harness
	jar  map[string]string
	last reply
}

func (b *browser) do(method, path string, body string) reply {
	b.h.t.Helper()
	var all []string
	for k, v := range b.jar {
		all = append(all, k+"="+v)
	}
	b.last = b.h.do(method, "/api/v1"+path, body, "Cookie", strings.Join(all, "; "), "Origin", b.h.url, "User-Agent", firefox)
	for _, c := range b.last.Cookies() {
		if c.MaxAge < 0 {
			delete(b.jar, c.Name)
		} else {
			b.jar[c.Name] = c.Value
		}
	}
	return b.last
}

// want fails the test unless the last answer was this one.
func (b *browser) want(status int, code string) {
	b.h.t.Helper()
	if b.last.StatusCode != status || b.last.code() != code {
		b.h.t.Fatalf("%s %s: %d %s, want %d %s", b.last.Request.Method, b.last.Request.URL.Path, b.last.StatusCode, b.last.body, status, code)
	}
}

// signedIn is a browser in which a user has signed in.
func (h *harness) signedIn(t *testing.T, userID string) *browser {
	t.Helper()
	cookie, _, err := h.accounts.SignIn(t.Context(), signin.Request{UserID: userID, Factors: []string{accounts.ProofPassword},
		Meta: accounts.Meta{UserAgent: firefox}})
	if err != nil {
		t.Fatal(err)
	}
	return &browser{h: h, jar: map[string]string{rest.HostCookie: cookie}}
}

// codeAt is what an authenticator app with this secret shows.
func codeAt(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha1.New, key)
	binary.Write(m, binary.BigEndian, at.Unix()/30)
	sum := m.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1000000)
}

// From setting up an app to signing in with it, through the API and a browser's cookies.
func TestASVS_6_3_3_SigningInInTwoSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	u, err := h.accounts.CreateUser(t.Context(), accounts.NewUser{Email: "mika@example.com", Name: "Mika", Password: testPassword})
	if err != nil {
		t.Fatal(err)
	}
	if r := h.do("GET", "/api/v1/sign-in", ""); string(r.body) != `{"insecure":false,"mail":false,"passkeys":false,"password":true,"providers":[]}` {
		t.Errorf("ways: %s", r.body)
	}
	b := h.signedIn(t, u.ID)
	var app struct{ Secret, URI string }
	b.do("POST", "/me/totp", "").into(t, &app)
	b.want(200, "")
	b.do("POST", "/me/totp/confirm", `{"code":"not a code"}`)
	b.want(400, "wrong_code")
	var codes struct {
		Codes []string `json:"recovery_codes"`
	}
	b.do("POST", "/me/totp/confirm", body(t, map[string]string{"code": codeAt(t, app.Secret, time.Now())})).into(t, &codes)
	b.want(200, "")
	if len(codes.Codes) != 10 {
		t.Fatalf("recovery codes: %s", b.last.body)
	}
	if r := b.do("GET", "/me/sign-in", ""); !strings.Contains(string(r.body), `"recovery_codes_left":10`) || !strings.Contains(string(r.body), `"enabled":true`) || strings.Contains(string(r.body), app.Secret) {
		t.Errorf("ways of mine: %s", r.body)
	}
	if r := b.do("GET", "/me", ""); !strings.Contains(string(r.body), `"second_factor":true`) {
		t.Errorf("me: %s", r.body)
	}

	c := &browser{h: h, jar: map[string]string{}}
	r := c.do("POST", "/login", body(t, map[string]string{"email": "mika@example.com", "password": testPassword}))
	c.want(202, "")
	if _, in := c.jar[rest.HostCookie]; in || !strings.Contains(string(r.body), `"methods":["totp","recovery_code"]`) {
		t.Fatalf("after the password: %s %v", r.body, c.jar)
	}
	if sc := r.Header.Get("Set-Cookie"); !strings.HasPrefix(sc, "__Host-parawork-login=") || !strings.Contains(sc, "HttpOnly") || !strings.Contains(sc, "Secure") || !strings.Contains(sc, "SameSite=Strict") {
		t.Errorf("cookie: %s", sc)
	}
	c.do("GET", "/me", "")
	c.want(401, "signed_out")
	c.do("GET", "/login/factor", "")
	c.want(200, "")
	c.do("POST", "/login/factor", `{"method":"recovery_code","code":"nothing"}`)
	c.want(400, "wrong_code")
	c.do("POST", "/login/factor", body(t, map[string]string{"method": "recovery_code", "code": codes.Codes[0]}))
	c.want(200, "")
	if c.jar[rest.HostCookie] == "" || c.jar["__Host-parawork-login"] != "" || c.jar["__Host-parawork-device"] == "" {
		t.Errorf("cookies: %v", c.jar)
	}
	c.do("POST", "/login/factor", body(t, map[string]string{"method": "recovery_code", "code": codes.Codes[1]}))
	c.want(401, "login_ended")

	// Foreign pages begin no sign-in and go on with none.
	for _, path := range []string{"/login", "/login/factor", "/login/passkey/options", "/login/passkey", "/password/reset", "/password/forgot"} {
		if r := h.do("POST", "/api/v1"+path, `{}`, "Origin", "https://evil.example"); r.StatusCode != 403 || r.code() != "cross_origin" {
			t.Errorf("%s from a foreign page: %d %s", path, r.StatusCode, r.body)
		}
	}
	c.do("POST", "/password/forgot", `{"email":"mika@example.com"}`)
	c.want(409, "no_mail")
	c.do("POST", "/password/reset", `{"token":"x","password":"y"}`)
	c.want(410, "link_ended")
}

// Where passkeys can be: by name on this machine, at the address people use over https, nowhere else.
func TestPasskeysNeedAName(t *testing.T) {
	t.Parallel()
	at := func(s *Server, host, proto string) signin.Site {
		r, err := http.NewRequest("GET", "http://"+host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "10.0.0.1:1"
		if proto != "" {
			r.Header.Set("X-Forwarded-Proto", proto)
		}
		return s.Site(r)
	}
	here := bare(t)
	for host, want := range map[string]signin.Site{
		"localhost:8080": {Host: "localhost", Origin: "http://localhost:8080"}, "LOCALHOST": {Host: "localhost", Origin: "http://localhost"},
		"127.0.0.1:8080": {}, "[::1]:8080": {}, "parawork.lan": {},
	} {
		if got := at(here, host, ""); got != want {
			t.Errorf("%s: %+v", host, got)
		}
	}
	public := bare(t, func(c *Config) { c.PublicURL = "https://Parawork.example.com:443"; c.Loopback = false })
	for _, host := range []string{"parawork.example.com", "other.example.com"} {
		if got := at(public, host, ""); got != (signin.Site{Host: "parawork.example.com", Origin: "https://parawork.example.com"}) {
			t.Errorf("%s: %+v", host, got)
		}
	}
	if got := at(bare(t, func(c *Config) { c.PublicURL = "http://parawork.lan"; c.Loopback = false }), "parawork.lan", ""); got != (signin.Site{}) {
		t.Errorf("over plain http: %+v", got)
	}
}

// Ending a login session, by whatever way, closes the terminals that were opened with it, at once; those of others stay.
func TestASVS_7_4_1_EndedSessionsLoseTheirSockets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; cat")
	users := store.NewAccounts(h.db)
	owner, err := users.UserByEmail(t.Context(), "owner@example.com")
	if err != nil {
		t.Fatal(err)
	}
	open := func(b *browser) *tty {
		conn, resp, err := h.dial(t, "/sessions/"+id+"/terminal?from=0", http.Header{"Cookie": {rest.HostCookie + "=" + b.jar[rest.HostCookie]}, "Origin": {h.url}})
		if err != nil {
			t.Fatalf("attach: %v %v", err, resp)
		}
		k := &tty{t: t, conn: conn}
		k.see("ready")
		return k
	}
	for name, end := range map[string]func(b, other *browser){
		"signed out": func(b, _ *browser) { b.do("POST", "/logout", ""); b.want(204, "") },
		"ended from elsewhere": func(b, other *browser) {
			var all struct {
				Items []struct {
					ID, Browser string
					Current     bool
				}
			}
			b.do("GET", "/me/login-sessions", "").into(t, &all)
			for _, l := range all.Items {
				if l.Current {
					other.do("DELETE", "/me/login-sessions/"+l.ID, "")
					other.want(204, "")
				}
			}
		},
		"ended with the others": func(_, other *browser) {
			other.do("POST", "/me/login-sessions/end-others", `{"keep_tokens":true}`)
			other.want(204, "")
		},
		"password set": func(_, _ *browser) {
			if err := h.accounts.ResetPassword(t.Context(), owner.ID, "another good one", true); err != nil {
				t.Fatal(err)
			}
		},
	} {
		b, other := h.signedIn(t, owner.ID), h.signedIn(t, owner.ID)
		k, stays := open(b), h.attach(t, id, "from=0", p.tokens["owner"])
		stays.see("ready")
		end(b, other)
		if code := k.closed(); code != closeNotAllowed {
			t.Errorf("%s: closed with %d", name, code)
		}
		b.do("GET", "/me", "")
		b.want(401, "signed_out")
		stays.send(upPing, nil)
		if err := stays.until(func(op byte, _ []byte) bool { return op == downPong }); err != nil {
			t.Errorf("%s: a token's socket ended too: %v", name, err)
		}
		stays.conn.Close()
	}
	ends := h.attach(t, id, "from=0", p.tokens["owner"])
	ends.see("ready")
	if err := h.accounts.ResetPassword(t.Context(), owner.ID, "one more good one", false); err != nil {
		t.Fatal(err)
	}
	if code := ends.closed(); code != closeNotAllowed {
		t.Errorf("a token that ended with the password: its socket closed with %d", code)
	}
}

// A token reaches as far as its scopes at every door: routes of a team, of one's account, of operators, and sockets before the upgrade.
func TestASVS_8_2_1_ScopesAtEveryDoor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; cat")
	made := func(who, scopes, more string) string {
		t.Helper()
		r := h.do("POST", "/api/v1/me/tokens", `{"name":"t","scopes":[`+scopes+`]`+more+`}`, bearer(p.tokens[who])...)
		var out struct{ Value string }
		r.into(t, &out)
		if r.StatusCode != 201 || out.Value == "" {
			t.Fatalf("token: %d %s", r.StatusCode, r.body)
		}
		return out.Value
	}
	write := made("owner", `"workspaces:write"`, "")
	read, attach := made("owner", `"workspaces:read"`, ""), made("owner", `"sessions:attach"`, "")
	bound := made("owner", ``, `,"team":"`+p.team.Slug+`"`)
	operator := made("operator", `"workspaces:read","workspaces:write"`, "")
	for _, tc := range []struct {
		name, token, method, path, body string
		status                          int
		code                            string
	}{
		{"read", read, "GET", "/me", "", 200, ""},
		{"read", read, "GET", "/teams", "", 200, ""},
		{"read", read, "GET", "/workspaces/" + p.ids["workspace"], "", 200, ""},
		{"read", read, "PATCH", "/workspaces/" + p.ids["workspace"], `{"name":"x"}`, 403, "wrong_scope"},
		{"read", read, "GET", "/sessions/" + id + "/screen", "", 403, "wrong_scope"},
		{"read", read, "POST", "/sessions/" + id + "/input", `{"text":"x"}`, 403, "wrong_scope"},
		{"read", read, "GET", "/me/tokens", "", 403, "wrong_scope"},
		{"read", read, "POST", "/me/tokens", `{"name":"wider"}`, 403, "wrong_scope"},
		{"read", read, "GET", "/me/login-sessions", "", 403, "wrong_scope"},
		{"write", write, "POST", "/workspaces/" + p.ids["workspace"] + "/update/resolve", `{"how":"agent","session_id":"` + id + `"}`, 403, "wrong_scope"},
		{"attach", attach, "GET", "/sessions/" + id + "/screen", "", 200, ""},
		{"attach", attach, "PATCH", "/workspaces/" + p.ids["workspace"], `{"name":"x"}`, 403, "wrong_scope"},
		{"bound", bound, "GET", "/teams/" + p.team.Slug, "", 200, ""},
		{"bound", bound, "POST", "/me/tokens", `{"name":"x"}`, 403, "wrong_scope"},
		{"operator", operator, "GET", "/instance/places", "", 403, "wrong_scope"},
		{"whole", p.tokens["operator"], "GET", "/instance/places", "", 200, ""},
		{"whole", p.tokens["owner"], "POST", "/me/totp", "", 403, "token_not_allowed"},
		{"whole", p.tokens["owner"], "POST", "/me/confirm", `{"password":"x"}`, 403, "token_not_allowed"},
		{"whole", p.tokens["owner"], "POST", "/me/login-sessions/end-others", "", 400, "no_session"},
	} {
		r := h.do(tc.method, "/api/v1"+tc.path, tc.body, bearer(tc.token)...)
		if r.StatusCode != tc.status || r.code() != tc.code {
			t.Errorf("%s: %s %s: %d %s, want %d %s", tc.name, tc.method, tc.path, r.StatusCode, r.body, tc.status, tc.code)
		}
	}
	if code := h.attach(t, id, "from=0", read).closed(); code != closeNotAllowed {
		t.Errorf("a socket without the scope: closed with %d", code)
	}
	h.attach(t, id, "from=0", attach).see("ready")
}
