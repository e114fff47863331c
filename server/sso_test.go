package server

import (
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/server/people"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testissuer"
)

// withIssuer makes a harness whose provider "corp" is a real one over HTTP.
func withIssuer(t *testing.T) (*harness, *testissuer.Issuer) {
	t.Helper()
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	issuer := testissuer.New(web.URL, nil)
	web.Config.Handler = issuer
	h := newHarness(t)
	h.cfg.SSO = sso.New(sso.Config{Store: store.NewSSO(h.db), Directory: h.accounts, SignIn: h.accounts, Client: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}).Client,
		Providers: []sso.Provider{{ID: "corp", Name: "Corp", Kind: sso.OIDC, Issuer: web.URL, ClientID: "parawork", ClientSecret: "of the client", CreateUsers: true}}})
	var err error
	if h.server, err = New(h.cfg); err != nil {
		t.Fatal(err)
	}
	h.serve()
	issuer.Register(testissuer.Client{ID: "parawork", Secret: "of the client", Redirects: []string{sso.Callback(h.url, "corp")}})
	issuer.Know(testissuer.Person{Subject: "1", Email: "ada@example.com", Verified: true, Name: "Ada"})
	return h, issuer
}

// callback is the path a provider's answer leads to.
func callback(t *testing.T, issuer *testissuer.Issuer, authURL, subject string) string {
	t.Helper()
	to, err := issuer.Decide(authURL, subject)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return u.RequestURI()
}

// From the button to the cookie and back, and the errors a browser sees.
func TestSignInWithAProvider(t *testing.T) {
	t.Parallel()
	h, issuer := withIssuer(t)
	h.people(t)
	begin := func(with ...string) (string, []string) {
		t.Helper()
		r := h.do("GET", "/api/v1/login/providers/corp?next=/t/engines", "", with...)
		if r.StatusCode != 302 || len(r.Cookies()) != 1 || r.Cookies()[0].Name != people.HostTripCookie {
			t.Fatalf("begin: %d %s %v", r.StatusCode, r.body, r.Cookies())
		}
		if c := r.Header.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "Secure") || !strings.Contains(c, "SameSite=Lax") || strings.Contains(c, "Domain") {
			t.Errorf("cookie: %s", c)
		}
		return r.Header.Get("Location"), []string{"Cookie", people.HostTripCookie + "=" + r.Cookies()[0].Value}
	}
	to, trip := begin()
	back := callback(t, issuer, to, "1")
	if r := h.do("GET", back, ""); r.StatusCode != 302 || r.Header.Get("Location") != "/login?error=sso_expired&provider=corp" || len(r.Cookies()) != 0 {
		t.Errorf("in another browser: %d %v", r.StatusCode, r.Header)
	}
	r := h.do("GET", back, "", append(trip, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")...)
	if r.StatusCode != 302 || r.Header.Get("Location") != "/t/engines" || len(r.Cookies()) == 0 || r.Cookies()[0].Name != rest.HostCookie {
		t.Fatalf("callback: %d %v %s", r.StatusCode, r.Header, r.body)
	}
	with := []string{"Cookie", rest.HostCookie + "=" + r.Cookies()[0].Value}
	if r := h.do("GET", "/api/v1/me", "", with...); r.StatusCode != 200 || !strings.Contains(string(r.body), "ada@example.com") {
		t.Errorf("me: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", back, "", trip...); r.Header.Get("Location") != "/login?error=sso_expired&provider=corp" {
		t.Errorf("again: %v", r.Header)
	}
	to, trip = begin()
	if r := h.do("GET", callback(t, issuer, to, ""), "", trip...); r.Header.Get("Location") != "/login?error=sso_denied&provider=corp" {
		t.Errorf("denied: %v", r.Header)
	}
	if r := h.do("GET", "/api/v1/login/providers/nobody", ""); r.Header.Get("Location") != "/login?error=sso_unknown_provider&provider=nobody" {
		t.Errorf("no such provider: %v", r.Header)
	}
	if r := h.do("GET", "/api/v1/login/providers/corp?next=https://evil.example/", ""); r.StatusCode == 302 {
		_, trip := r.Header.Get("Location"), []string{"Cookie", people.HostTripCookie + "=" + r.Cookies()[0].Value}
		if r := h.do("GET", callback(t, issuer, r.Header.Get("Location"), "1"), "", trip...); r.Header.Get("Location") != "/" {
			t.Errorf("led elsewhere: %v", r.Header)
		}
	}
	to, trip = begin()
	issuer.Down(true)
	if r := h.do("GET", callback(t, issuer, to, "1"), "", trip...); r.StatusCode != 302 || !strings.HasPrefix(r.Header.Get("Location"), "/login?error=sso_provider_") {
		t.Errorf("provider down: %v", r.Header)
	}
}

// Linking an account needs a session, a page of our own, and ends on the page asked for.
func TestLinkIdentity(t *testing.T) {
	t.Parallel()
	h, issuer := withIssuer(t)
	h.people(t)
	owner, err := h.accounts.UserByEmail(t.Context(), "owner@example.com")
	if err != nil {
		t.Fatal(err)
	}
	cookie, _, err := h.accounts.SignIn(t.Context(), signin.Request{UserID: owner.ID, Factors: []string{accounts.ProofPassword}})
	if err != nil {
		t.Fatal(err)
	}
	session := rest.HostCookie + "=" + cookie
	if r := h.do("POST", "/api/v1/me/identities/corp", "", "Cookie", session, "Sec-Fetch-Site", "cross-site"); r.StatusCode != 403 {
		t.Errorf("a foreign page links: %d", r.StatusCode)
	}
	if r := h.do("POST", "/api/v1/me/identities/corp", ""); r.StatusCode != 401 {
		t.Errorf("nobody links: %d", r.StatusCode)
	}
	r := h.do("POST", "/api/v1/me/identities/corp?next=/account", "", "Cookie", session)
	var way struct{ URL string }
	r.into(t, &way)
	if r.StatusCode != 200 || len(r.Cookies()) != 1 {
		t.Fatalf("link: %d %s", r.StatusCode, r.body)
	}
	trip := people.HostTripCookie + "=" + r.Cookies()[0].Value
	back := callback(t, issuer, way.URL, "1")
	if r := h.do("GET", back, "", "Cookie", session+"; "+trip); r.StatusCode != 302 || r.Header.Get("Location") != "/account" || len(r.Cookies()) != 0 {
		t.Fatalf("callback: %d %v", r.StatusCode, r.Header)
	}
	r = h.do("POST", "/api/v1/me/identities/corp?next=/account?tab=security", "", "Cookie", session)
	r.into(t, &way)
	trip = people.HostTripCookie + "=" + r.Cookies()[0].Value
	if r := h.do("GET", callback(t, issuer, way.URL, "1"), "", "Cookie", trip); r.Header.Get("Location") != "/account?tab=security&error=sso_other_user&provider=corp" {
		t.Errorf("signed out meanwhile: %v", r.Header)
	}
	if r := h.do("GET", "/api/v1/me/sign-in", "", "Cookie", session); r.StatusCode != 200 || !strings.Contains(string(r.body), `"provider":"corp"`) {
		t.Errorf("ways in: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/sign-in", ""); !strings.Contains(string(r.body), `{"id":"corp","kind":"oidc","name":"Corp"}`) {
		t.Errorf("ways: %s", r.body)
	}
	if r := h.do("DELETE", "/api/v1/me/identities/idn_nope", "", "Cookie", session); r.StatusCode != 404 {
		t.Errorf("unlink: %d %s", r.StatusCode, r.body)
	}
}
