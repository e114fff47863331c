package sso_test

import (
	"bytes"
	"cmp"
	"context"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
	"github.com/parawork/parawork/testing/testissuer"
)

const (
	base   = "https://parawork.example.com"
	client = "parawork"
	secret = "a secret of the client"
)

var meta = accounts.Meta{IP: "192.0.2.7", UserAgent: "Firefox"}

// harness is the service over a real store, a real provider over HTTP, and a clock of its own.
type harness struct {
	t        *testing.T
	sso      *sso.Service
	accounts *testaccounts.Accounts
	issuer   *testissuer.Issuer
	store    *store.SSO
	db       *store.DB

	mu      sync.Mutex
	time    time.Time
	changed []string
	noted   []audit.Entry
}

func (h *harness) now() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.time }

func (h *harness) pass(d time.Duration) { h.mu.Lock(); defer h.mu.Unlock(); h.time = h.time.Add(d) }

// Append keeps what the audit would.
func (h *harness) Append(_ context.Context, e audit.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noted = append(h.noted, e)
	return nil
}

func (h *harness) Record(ctx context.Context, e audit.Entry, _ bool) error { return h.Append(ctx, e) }

// did returns the entries of an action since the last call, as result and code.
func (h *harness) did(action string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.noted {
		if e.Action == action {
			out = append(out, strings.TrimSpace(string(e.Result)+" "+e.Code))
		}
	}
	h.noted = nil
	return out
}

func (h *harness) took(userID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.changed = nil }()
	return slices.Contains(h.changed, userID)
}

// newHarness makes a harness whose providers are "corp" (OpenID Connect) and "github", as tune leaves them.
func newHarness(t *testing.T, db *store.DB, tune ...func(corp, gh *sso.Provider)) *harness {
	t.Helper()
	h := &harness{t: t, time: time.UnixMilli(1_800_000_000_000), db: db, store: store.NewSSO(db)}
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	h.issuer = testissuer.New(server.URL, h.now)
	server.Config.Handler = h.issuer
	h.issuer.Register(testissuer.Client{ID: client, Secret: secret, Redirects: []string{sso.Callback(base, "corp"), sso.Callback(base, "github")}})
	h.issuer.Know(ada())
	corp := sso.Provider{ID: "corp", Name: "Corp", Kind: sso.OIDC, Issuer: server.URL, ClientID: client, ClientSecret: secret, CreateUsers: true}
	gh := sso.Provider{ID: "github", Name: "GitHub", Kind: sso.GitHub, BaseURL: h.issuer.GitHub(), ClientID: client, ClientSecret: secret, CreateUsers: true}
	for _, fn := range tune {
		fn(&corp, &gh)
	}
	h.accounts = testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db), Key: bytes.Repeat([]byte{7}, vault.KeyBytes), Now: h.now})
	h.sso = sso.New(sso.Config{Providers: []sso.Provider{corp, gh}, Store: h.store, Directory: h.accounts, SignIn: h.accounts, Audit: h, Now: h.now,
		Client:  egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}).Client,
		Changed: func(id string) { h.mu.Lock(); defer h.mu.Unlock(); h.changed = append(h.changed, id) }})
	return h
}

func ada() testissuer.Person {
	return testissuer.Person{Subject: "4711", Email: "ada@example.com", Verified: true, Name: "Ada Lovelace", Login: "ada", Orgs: []string{"engines"}, Teams: []string{"engines/weavers"}}
}

// owner is a user who was here before, with a team that they own.
func (h *harness) owner(email string) (accounts.User, accounts.Team) {
	h.t.Helper()
	u, err := h.accounts.CreateOutsideUser(h.t.Context(), email, "Owner")
	if err != nil {
		h.t.Fatal(err)
	}
	team, err := h.accounts.CreateTeam(h.all(), accounts.Actor{User: u}, "Engines", "engines")
	if err != nil {
		h.t.Fatal(err)
	}
	return u, team
}

func (h *harness) all() context.Context { return tenant.All(h.t.Context(), "a test") }

// browser is a browser on its way.
type browser struct {
	cookie string
	login  string // of the login session
}

// signIn goes the whole way as the person with this subject.
func (h *harness) signIn(b *browser, provider, subject string) (sso.Outcome, error) {
	h.t.Helper()
	begun, err := h.sso.Begin(h.t.Context(), sso.BeginRequest{Provider: provider, Base: base, Next: "/teams", Browser: b.cookie, Meta: meta})
	if err != nil {
		return sso.Outcome{}, err
	}
	b.cookie = begun.Browser
	return h.sso.Finish(h.t.Context(), h.answer(b, provider, begun.URL, subject))
}

// answer is what the browser comes back with when the person decided.
func (h *harness) answer(b *browser, provider, authURL, subject string) sso.Answer {
	h.t.Helper()
	to, err := h.issuer.Decide(authURL, subject)
	if err != nil {
		h.t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		h.t.Fatal(err)
	}
	q := u.Query()
	return sso.Answer{Provider: provider, Browser: b.cookie, State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error"), Issuer: q.Get("iss"), Meta: meta}
}

func (h *harness) roles(userID string) map[string]string {
	h.t.Helper()
	all, err := h.store.MembershipsWithSource(h.all(), userID)
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range all {
		out[m.Team.Slug] = strings.TrimSuffix(string(m.Role)+" by "+m.Source, " by ")
	}
	return out
}

func each(t *testing.T, fn func(t *testing.T, db *store.DB)) {
	t.Parallel()
	storetest.Each(t, fn)
}

// The first time makes a user, the second finds the same one, whatever their address is by then.
func TestASVS_10_5_2_WhoSomebodyIsIsIssuerAndSubject(t *testing.T) {
	each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		h.owner("owner@example.com")
		b := &browser{}
		first, err := h.signIn(b, "corp", "4711")
		if err != nil || first.Next != "/teams" || first.Entered.Cookie == "" || first.Link {
			t.Fatalf("%+v %v", first, err)
		}
		actor, err := h.accounts.Authenticate(t.Context(), first.Entered.Cookie)
		if err != nil || actor.User.Email != "ada@example.com" || actor.User.Name != "Ada Lovelace" || actor.User.Operator || actor.SecondFactor {
			t.Fatalf("%+v %v", actor, err)
		}
		moved := ada()
		moved.Email, moved.Verified = "ada@elsewhere.example", false
		h.issuer.Know(moved)
		again, err := h.signIn(b, "corp", "4711")
		if err != nil || again.UserID != first.UserID {
			t.Fatalf("%+v %v", again, err)
		}
		// Somebody else with Ada's old address is not Ada.
		h.issuer.Know(testissuer.Person{Subject: "666", Email: "ada@example.com", Verified: true, Name: "Mallory"})
		if _, err := h.signIn(b, "corp", "666"); fault.CodeOf(err) != "sso_link_first" {
			t.Errorf("an address that is taken: %v", err)
		}
		// Another provider's same subject is somebody else.
		if _, err := h.signIn(b, "github", "4711"); fault.CodeOf(err) != "sso_email_unverified" {
			t.Errorf("the same subject elsewhere: %v", err)
		}
		ids, err := h.sso.Identities(t.Context(), first.UserID)
		if err != nil || len(ids) != 1 || ids[0].Email != "ada@elsewhere.example" || ids[0].Provider != "corp" || ids[0].Subject != "4711" || ids[0].Issuer != h.issuer.Base() {
			t.Errorf("%+v %v", ids, err)
		}
		if got := h.did("user.sign_in"); !slices.Equal(got, []string{"", "", "refused sso_link_first", "refused sso_email_unverified"}) {
			t.Errorf("noted: %q", got)
		}
	})
}

// Tokens that are not for this server, this client, this sign-in or this minute are refused; so are those nobody signed.
func TestASVS_10_5_TokensThatLie(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.owner("owner@example.com")
	set := func(k string, v any) func(map[string]any) { return func(c map[string]any) { c[k] = v } }
	for name, lie := range map[string]testissuer.Tamper{
		"10_5_1 the nonce of another sign-in":                {Claims: set("nonce", "of-another")},
		"10_5_1 no nonce":                                    {Claims: func(c map[string]any) { delete(c, "nonce") }},
		"10_5_3 another issuer":                              {Claims: set("iss", "https://evil.example.com")},
		"10_5_4 another audience":                            {Claims: set("aud", "another-client")},
		"10_5_4 many audiences and no azp":                   {Claims: set("aud", []string{client, "another-client"})},
		"10_5_4 another authorized party":                    {Claims: set("azp", "another-client")},
		"expired":                                            {Claims: set("exp", h.now().Add(-time.Hour).Unix())},
		"not signed":                                         {Alg: "none"},
		"signed with what the client knows":                  {Alg: "HS256"},
		"signed with an algorithm the provider does not use": {Alg: "ES256"},
		"signed with another key":                            {OtherKey: true},
		"of another access token":                            {Claims: set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA")},
		"of nobody":                                          {Claims: set("sub", "")},
		"no ID token at all":                                 {Mute: true},
		"the user info is of somebody else":                  {Claims: func(c map[string]any) { delete(c, "name") }, UserInfo: map[string]any{"sub": "1"}},
		"10_2_2 an answer of another provider":               {Issuer: "https://evil.example.com"},
	} {
		h.issuer.Lie(lie)
		out, err := h.signIn(&browser{}, "corp", "4711")
		if fault.CodeOf(err) != "sso_answer_invalid" || out.Entered.Cookie != "" {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.(interface{ Error() string }).Error(), secret) {
			t.Errorf("%s: the client's secret is in the error", name)
		}
	}
	h.issuer.Lie(testissuer.Tamper{})
	if _, err := h.signIn(&browser{}, "corp", "4711"); err != nil {
		t.Errorf("an honest provider: %v", err)
	}
}

// What comes back is believed once, in time, in the browser it was begun in, and from the provider it was begun with.
func TestASVS_10_2_1_AnswersOfOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.owner("owner@example.com")
	begin := func(provider string, b *browser) string {
		begun, err := h.sso.Begin(t.Context(), sso.BeginRequest{Provider: provider, Base: base, Browser: b.cookie, Meta: meta})
		if err != nil {
			t.Fatal(err)
		}
		b.cookie = begun.Browser
		return begun.URL
	}
	expired := func(name string, a sso.Answer) {
		t.Helper()
		if out, err := h.sso.Finish(t.Context(), a); fault.CodeOf(err) != "sso_expired" || out.Entered.Cookie != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	victim, attacker := &browser{}, &browser{}
	begin("corp", victim)
	a := h.answer(attacker, "corp", begin("corp", attacker), "4711")
	a.Browser = victim.cookie
	expired("an address made in another browser", a)
	a.Browser = ""
	expired("no cookie", a)
	a.Browser = attacker.cookie
	other := a
	other.Provider = "github"
	expired("the callback of another provider", other)
	other = a
	other.State = strings.Repeat("A", 43)
	expired("a state that was made up", other)
	other.State = ""
	expired("no state", other)
	if _, err := h.sso.Finish(t.Context(), a); err != nil {
		t.Errorf("the right one after all that: %v", err)
	}
	expired("the same again", a)
	late := h.answer(attacker, "corp", begin("corp", attacker), "4711")
	h.pass(11 * time.Minute)
	expired("too late", late)

	// Two tabs of one browser.
	one, two := begin("corp", victim), begin("corp", victim)
	for _, u := range []string{two, one} {
		if _, err := h.sso.Finish(t.Context(), h.answer(victim, "corp", u, "4711")); err != nil {
			t.Errorf("one of two tabs: %v", err)
		}
	}
	denied := h.answer(attacker, "corp", begin("corp", attacker), "")
	if _, err := h.sso.Finish(t.Context(), denied); fault.CodeOf(err) != "sso_denied" {
		t.Errorf("denied: %v", err)
	}
	stolen := h.answer(attacker, "corp", begin("corp", attacker), "4711")
	mine := h.answer(victim, "corp", begin("corp", victim), "4711")
	mine.Code = stolen.Code // PKCE and the code belong together
	if _, err := h.sso.Finish(t.Context(), mine); fault.CodeOf(err) != "sso_provider_refused" {
		t.Errorf("a code of another sign-in: %v", err)
	}
}

// Who may come in is the operator's decision.
func TestWhoMayComeIn(t *testing.T) {
	each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db, func(corp, gh *sso.Provider) {
			corp.AllowedDomains, corp.CreateUsers = []string{"Example.com"}, false
			gh.AllowedOrganizations, gh.LinkByEmail = []string{"looms", "engines"}, true
		})
		owner, _ := h.owner("grace@example.com")
		b := &browser{}
		try := func(provider string, p testissuer.Person) string {
			t.Helper()
			p.Name = cmp.Or(p.Name, "X")
			h.issuer.Know(p)
			_, err := h.signIn(b, provider, p.Subject)
			return fault.CodeOf(err)
		}
		for want, p := range map[string]testissuer.Person{
			"sso_email_unverified":   {Subject: "1", Email: "eve@example.com"},
			"sso_domain_not_allowed": {Subject: "2", Email: "eve@example.com.evil.org", Verified: true},
			"sso_no_account":         {Subject: "3", Email: "eve@example.com", Verified: true},
			"sso_link_first":         {Subject: "4", Email: "GRACE@example.com", Verified: true},
		} {
			if got := try("corp", p); got != want {
				t.Errorf("%+v: got %q, want %q", p, got, want)
			}
		}
		for want, p := range map[string]testissuer.Person{
			"sso_organization_required": {Subject: "5", Email: "eve@example.com", Verified: true, Orgs: []string{"pending:engines", "others"}},
			"sso_email_unverified":      {Subject: "6", Email: "grace@example.com", Orgs: []string{"engines"}},
			"":                          {Subject: "7", Email: "grace@example.com", Verified: true, Orgs: []string{"engines"}},
		} {
			if got := try("github", p); got != want {
				t.Errorf("%+v: got %q, want %q", p, got, want)
			}
		}
		if ids, err := h.sso.Identities(t.Context(), owner.ID); err != nil || len(ids) != 1 || ids[0].Subject != "7" || ids[0].Issuer != h.issuer.GitHub() {
			t.Errorf("%+v %v", ids, err)
		}
	})
}

// Nobody becomes the first user of a server by a provider: that one is its operator.
func TestTheFirstUserIsMadeByTheSetupLink(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	if _, err := h.signIn(&browser{}, "corp", "4711"); fault.CodeOf(err) != "sso_setup_first" {
		t.Errorf("%v", err)
	}
	if needed, err := h.accounts.SetupNeeded(t.Context()); err != nil || !needed {
		t.Errorf("the server counts as set up: %v", err)
	}
}

// Groups say at each sign-in which teams somebody is in; what people decided stays, and so does a team's last owner.
func TestGroups(t *testing.T) {
	each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db, func(corp, gh *sso.Provider) {
			corp.GroupsClaim = "realm_access.roles"
			corp.Groups = map[string][]sso.Place{"staff": {{"engines", accounts.Viewer}, {"looms", accounts.Member}}, "leads": {{"engines", accounts.Admin}, {"not-there", accounts.Owner}}, "founders": {{"looms", accounts.Owner}}}
			gh.Groups = map[string][]sso.Place{"Engines/Weavers": {{"engines", accounts.Member}}}
			gh.LinkByEmail = true
		})
		owner, _ := h.owner("owner@example.com")
		looms, err := h.accounts.CreateTeam(h.all(), accounts.Actor{User: owner}, "Looms", "looms")
		if err != nil {
			t.Fatal(err)
		}
		b := &browser{}
		var userID string
		in := func(want map[string]string, groups ...string) {
			t.Helper()
			p := ada()
			p.Claims = map[string]any{"realm_access": map[string]any{"roles": groups}}
			h.issuer.Know(p)
			out, err := h.signIn(b, "corp", p.Subject)
			if err != nil {
				t.Fatal(err)
			}
			userID = out.UserID
			if got := h.roles(userID); len(got) != len(want) || !slices.Equal(sorted(got), sorted(want)) {
				t.Errorf("in %q: %v, want %v", groups, got, want)
			}
		}
		in(map[string]string{}, "nobody")
		in(map[string]string{"engines": "viewer by corp", "looms": "member by corp"}, "staff")
		if h.took(userID) {
			t.Error("sockets were asked again although nothing was lost")
		}
		in(map[string]string{"engines": "admin by corp", "looms": "member by corp"}, "leads", "staff")
		in(map[string]string{"engines": "admin by corp"}, "leads")
		if !h.took(userID) {
			t.Error("open sockets were not asked again")
		}
		if got := h.did("member.remove"); len(got) != 1 {
			t.Errorf("noted: %v", got)
		}
		in(map[string]string{"engines": "viewer by corp", "looms": "owner by corp"}, "staff", "founders")
		// Two owners, then one: that one stays.
		if err := h.store.SetRole(h.all(), looms.ID, owner.ID, accounts.Viewer); err != nil {
			t.Fatal(err)
		}
		in(map[string]string{"looms": "owner by corp"})
		// What people gave is not taken by groups.
		if err := h.store.DeleteMember(h.all(), looms.ID, userID); err != nil {
			t.Fatal(err)
		}
		if _, err := h.store.InsertMember(h.all(), looms.ID, userID, accounts.Viewer, 1); err != nil {
			t.Fatal(err)
		}
		in(map[string]string{"looms": "viewer", "engines": "viewer by corp"}, "staff")
		in(map[string]string{"looms": "viewer"})
		// Another provider knows other groups, and does not take what the first gave.
		in(map[string]string{"looms": "viewer", "engines": "viewer by corp"}, "staff")
		if _, err := h.signIn(b, "github", "4711"); err != nil {
			t.Fatal(err)
		}
		if got := h.roles(userID); got["engines"] != "viewer by corp" {
			t.Errorf("%v", got)
		}
		p := ada()
		p.Claims = map[string]any{"_claim_names": map[string]any{"realm_access.roles": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example.com"}}}
		h.issuer.Know(p)
		if _, err := h.signIn(b, "corp", p.Subject); fault.CodeOf(err) != "sso_groups_missing" {
			t.Errorf("too many groups: %v", err)
		}
		if got := h.roles(userID); got["engines"] != "viewer by corp" {
			t.Errorf("%v", got)
		}
		if got := h.sso.Try(t.Context()); len(got) != 2 || fault.CodeOf(got[0].Err) != "team_not_found" || got[1].Err != nil {
			t.Errorf("%+v", got)
		}
	})
}

func sorted(m map[string]string) (out []string) {
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// A second factor at the provider counts where the operator says so, and only when the provider says that it asked for one.
func TestSecondFactorOfTheProvider(t *testing.T) {
	t.Parallel()
	for _, trust := range []bool{true, false} {
		h := newHarness(t, storetest.SQLite(t), func(corp, _ *sso.Provider) { corp.TrustSecondFactor = trust })
		h.owner("owner@example.com")
		for _, tc := range []struct {
			claims map[string]any
			strong bool
		}{
			{nil, false}, {map[string]any{"amr": []string{"pwd"}}, false}, {map[string]any{"amr": []string{"pwd", "otp"}}, true}, {map[string]any{"amr": []string{"mfa"}}, true},
			{map[string]any{"amr": "mfa"}, true}, {map[string]any{"amr": []string{"otp"}}, false}, {map[string]any{"acr": "https://refeds.org/profile/mfa"}, true}, {map[string]any{"acr": "1"}, false},
		} {
			p := ada()
			p.Claims = tc.claims
			h.issuer.Know(p)
			out, err := h.signIn(&browser{}, "corp", p.Subject)
			if err != nil {
				t.Fatal(err)
			}
			actor, err := h.accounts.Authenticate(t.Context(), out.Entered.Cookie)
			if err != nil || actor.SecondFactor != (trust && tc.strong) {
				t.Errorf("trusted %v, %v: second factor %v, %v", trust, tc.claims, actor.SecondFactor, err)
			}
		}
	}
}

// Who has a second factor here is asked for it, unless the provider asked for one.
func TestSecondFactorOfTheUser(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t), func(corp, _ *sso.Provider) { corp.TrustSecondFactor = true })
	h.owner("owner@example.com")
	out, err := h.signIn(&browser{}, "corp", "4711")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.NewAccounts(h.db).PutTOTP(t.Context(), accounts.TOTP{UserID: out.UserID, Sealed: "x", CreatedAt: 1}); err != nil {
		t.Fatal(err)
	}
	if err := store.NewAccounts(h.db).ConfirmTOTP(t.Context(), out.UserID, 1); err != nil {
		t.Fatal(err)
	}
	out, err = h.signIn(&browser{}, "corp", "4711")
	if err != nil || out.Entered.Cookie != "" || out.Entered.Pending == "" || !slices.Contains(out.Entered.Methods, accounts.ProofTOTP) {
		t.Errorf("let in without it: %+v %v", out, err)
	}
	p := ada()
	p.Claims = map[string]any{"amr": []string{"mfa"}}
	h.issuer.Know(p)
	if out, err = h.signIn(&browser{}, "corp", "4711"); err != nil || out.Entered.Cookie == "" {
		t.Errorf("the provider asked for one: %+v %v", out, err)
	}
}

// A user links accounts to their own, and ends such links; the last way to sign in stays.
func TestLinkAndUnlink(t *testing.T) {
	each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		owner, _ := h.owner("owner@example.com")
		enter := func(userID string) accounts.Actor {
			cookie, _, err := h.accounts.SignIn(t.Context(), signin.Request{UserID: userID, Factors: []string{accounts.ProofPassword}, Meta: meta})
			if err != nil {
				t.Fatal(err)
			}
			a, err := h.accounts.Authenticate(t.Context(), cookie)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		actor := enter(owner.ID)
		link := func(actor accounts.Actor, as, provider, subject string) error {
			t.Helper()
			begun, err := h.sso.BeginLink(t.Context(), actor, sso.BeginRequest{Provider: provider, Base: base, Next: "/account", Meta: meta})
			if err != nil {
				return err
			}
			b := &browser{cookie: begun.Browser}
			a := h.answer(b, provider, begun.URL, subject)
			a.UserID = as
			out, err := h.sso.Finish(t.Context(), a)
			if !out.Link || out.Next != "/account" || out.Entered.Cookie != "" {
				t.Errorf("%+v", out)
			}
			return err
		}
		if err := link(actor, "", "corp", "4711"); fault.CodeOf(err) != "sso_other_user" {
			t.Errorf("signed out meanwhile: %v", err)
		}
		if err := link(actor, "usr_other", "corp", "4711"); fault.CodeOf(err) != "sso_other_user" {
			t.Errorf("signed in as somebody else meanwhile: %v", err)
		}
		if err := link(actor, owner.ID, "corp", "4711"); err != nil {
			t.Fatal(err)
		}
		if err := link(actor, owner.ID, "corp", "4711"); err != nil {
			t.Errorf("linked already: %v", err)
		}
		in, err := h.signIn(&browser{}, "corp", "4711")
		if err != nil || in.UserID != owner.ID {
			t.Fatalf("signed in as %s, %v", in.UserID, err)
		}
		h.issuer.Know(testissuer.Person{Subject: "9", Email: "bob@example.com", Verified: true, Name: "Bob"})
		bob, err := h.signIn(&browser{}, "corp", "9")
		if err != nil {
			t.Fatal(err)
		}
		if err := link(actor, owner.ID, "corp", "9"); fault.CodeOf(err) != "sso_linked_elsewhere" {
			t.Errorf("somebody else's: %v", err)
		}
		ids, err := h.sso.Identities(t.Context(), owner.ID)
		if err != nil || len(ids) != 1 {
			t.Fatal(ids, err)
		}
		if err := h.sso.Unlink(t.Context(), enter(bob.UserID), ids[0].ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("somebody else's: %v", err)
		}
		if err := h.sso.Unlink(t.Context(), actor, ids[0].ID); fault.CodeOf(err) != "last_sign_in" {
			t.Errorf("the last way: %v", err)
		}
		if err := link(actor, owner.ID, "github", "4711"); err != nil {
			t.Fatal(err)
		}
		if err := h.sso.Unlink(t.Context(), actor, ids[0].ID); err != nil {
			t.Fatal(err)
		}
		if _, err := h.accounts.Authenticate(t.Context(), in.Entered.Cookie); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session that the account began goes on: %v", err)
		}
		if !h.took(owner.ID) {
			t.Error("open sockets were not asked again")
		}
		h.pass(16 * time.Minute)
		if _, err := h.sso.BeginLink(t.Context(), actor, sso.BeginRequest{Provider: "corp", Base: base, Meta: meta}); fault.CodeOf(err) != "confirm_needed" {
			t.Errorf("long after: %v", err)
		}
		if err := h.sso.Unlink(t.Context(), actor, "idn_x"); fault.CodeOf(err) != "confirm_needed" {
			t.Errorf("long after: %v", err)
		}
		token := actor
		token.TokenID, token.SessionHash = "tok_1", ""
		if err := h.sso.Unlink(t.Context(), token, "idn_x"); fault.CodeOf(err) != "token_not_allowed" {
			t.Errorf("with a token: %v", err)
		}
	})
}

// A provider that is down says so in words, is not asked at each request, and is asked again.
func TestProviderDown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	h.owner("owner@example.com")
	h.issuer.Down(true)
	for range 3 {
		if _, err := h.signIn(&browser{}, "corp", "4711"); fault.CodeOf(err) != "sso_provider_unreachable" {
			t.Fatalf("%v", err)
		}
	}
	if n := h.issuer.Calls("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("asked %d times in a row", n)
	}
	h.issuer.Down(false)
	h.pass(time.Minute)
	b := &browser{}
	if _, err := h.signIn(b, "corp", "4711"); err != nil {
		t.Fatal(err)
	}
	h.pass(2 * time.Hour) // what it said is old, and it cannot be asked: what was known goes on
	h.issuer.Down(true)
	if _, err := h.sso.Begin(t.Context(), sso.BeginRequest{Provider: "corp", Base: base, Meta: meta}); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := h.signIn(b, "corp", "4711"); fault.CodeOf(err) != "sso_provider_refused" && fault.CodeOf(err) != "sso_provider_unreachable" {
		t.Errorf("%v", err)
	}
	if _, err := h.sso.Begin(t.Context(), sso.BeginRequest{Provider: "nobody", Base: base, Meta: meta}); fault.CodeOf(err) != "sso_unknown_provider" {
		t.Errorf("%v", err)
	}
}

// The error about a wrong client secret says that an operator must fix it, and does not contain it.
func TestWrongClientSecret(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t), func(corp, gh *sso.Provider) { corp.ClientSecret, gh.ClientSecret = "wrong-secret-1", "wrong-secret-1" })
	h.owner("owner@example.com")
	for _, p := range []string{"corp", "github"} {
		_, err := h.signIn(&browser{}, p, "4711")
		if fault.CodeOf(err) != "sso_provider_refused" || strings.Contains(err.Error(), "wrong-secret-1") || !strings.Contains(err.Error(), "operator") {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// One address that begins sign-ins without end is slowed down; others are not.
func TestBeginningsAreLimited(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	begin := func(ip string) error {
		_, err := h.sso.Begin(t.Context(), sso.BeginRequest{Provider: "github", Base: base, Meta: accounts.Meta{IP: ip}})
		return err
	}
	for range 30 {
		if err := begin("2001:db8::1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("2001:db8::2"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("the same network: %v", err)
	}
	if err := begin("2001:db8:0:1::1"); err != nil {
		t.Errorf("another network: %v", err)
	}
	h.pass(3 * time.Second)
	if err := begin("2001:db8::1"); err != nil {
		t.Errorf("later: %v", err)
	}
}

// Next leads to a page of this server, and nowhere else.
func TestCleanNext(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "/", "/": "/", "/t/engines?x=1#y": "/t/engines?x=1#y", "//evil.example": "/", "/\\evil.example": "/", "https://evil.example": "/", "/a\nb": "/", "javascript:alert(1)": "/",
		"/api/v1/logout": "/", "/%2f/evil": "/", "/" + strings.Repeat("a", 4000): "/", "/\tevil": "/"} {
		if got := sso.CleanNext(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// The server reaches no provider inside its own network unless the operator allows that.
func TestProvidersInsideAreNotReached(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	s := sso.New(sso.Config{Providers: []sso.Provider{{ID: "corp", Name: "Corp", Kind: sso.OIDC, Issuer: h.issuer.Base(), ClientID: client}}, Store: h.store, Directory: h.accounts, SignIn: h.accounts, Client: egress.New(egress.Config{}).Client})
	_, err := s.Begin(t.Context(), sso.BeginRequest{Provider: "corp", Base: base, Meta: meta})
	if fault.CodeOf(err) != "sso_provider_unreachable" || !strings.Contains(err.Error(), "does not reach out to") || h.issuer.Calls("/.well-known/openid-configuration") != 0 {
		t.Errorf("%v", err)
	}
}
