package accounts_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

const password = "nine lives and a hat"

// harness is a Service on a real store with a clock of its own.
type harness struct {
	*testaccounts.Accounts
	db      *store.DB
	key     []byte
	mu      sync.Mutex
	time    time.Time
	changed []string
}

func newHarness(db *store.DB) *harness {
	h := &harness{db: db, key: bytes.Repeat([]byte{7}, vault.KeyBytes), time: time.UnixMilli(1_800_000_000_000)}
	h.Accounts = h.service()
	return h
}

func (h *harness) service() *testaccounts.Accounts {
	return testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: h.key, Now: h.now, Rand: rand.Reader,
		Changed: func(id string) { h.mu.Lock(); defer h.mu.Unlock(); h.changed = append(h.changed, id) },
		CheckAgent: func(agent string) error {
			if agent == "nobody" {
				return fault.New(fault.Invalid, "agent_unknown", "There is no such agent.")
			}
			return nil
		}})
}

func (h *harness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.time
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time = h.time.Add(d)
}

// took reports whether Changed was called for a user since it was last asked.
func (h *harness) took(userID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.changed = nil }()
	return slices.Contains(h.changed, userID)
}

func each(t *testing.T, fn func(t *testing.T, h *harness)) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) { fn(t, newHarness(db)) })
}

// first sets the instance up and returns the operator.
func (h *harness) first(t *testing.T) (accounts.Actor, accounts.Team) {
	t.Helper()
	token, needed, err := h.SetupToken(t.Context())
	if err != nil || !needed {
		t.Fatalf("SetupToken: %v, %v", needed, err)
	}
	u, team, err := h.Setup(t.Context(), accounts.SetupRequest{Token: token, Name: "Ada", Email: "Ada@Example.com", Password: password, Team: "Analytical Engines"})
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	return h.actor(t, u.ID), team
}

func (h *harness) actor(t *testing.T, userID string) accounts.Actor {
	t.Helper()
	a, err := h.Actor(t.Context(), userID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (h *harness) user(t *testing.T, email string) accounts.User {
	t.Helper()
	u, err := h.CreateUser(t.Context(), accounts.NewUser{Email: email, Name: "Somebody", Password: password})
	if err != nil {
		t.Fatalf("CreateUser: %v", err)
	}
	return u
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("got %v (%s), want %s", err, fault.CodeOf(err), code)
	}
}

func TestSetupWorksOnce(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		old, _, _ := h.SetupToken(ctx)
		token, _, err := h.SetupToken(ctx)
		if err != nil || token == old {
			t.Fatalf("SetupToken: %v", err)
		}
		req := accounts.SetupRequest{Name: "Ada", Email: "ada@example.com", Password: password, Team: "T"}
		for _, wrong := range []string{"", "x", old} { // a restart makes earlier links invalid
			req.Token = wrong
			_, _, err := h.Setup(ctx, req)
			wantCode(t, err, "wrong_setup_token")
		}
		req.Token = token
		h.pass(30 * time.Minute) // nor does one that lies about for long
		_, _, err = h.Setup(ctx, req)
		wantCode(t, err, "setup_link_ended")
		if token, _, err = h.SetupToken(ctx); err != nil {
			t.Fatal(err)
		}
		req.Token = token
		for code, bad := range map[string]func(*accounts.SetupRequest){
			"weak_password": func(r *accounts.SetupRequest) { r.Password = "short" },
			"invalid_email": func(r *accounts.SetupRequest) { r.Email = "nobody" },
			"invalid_name":  func(r *accounts.SetupRequest) { r.Team = " \n " },
		} {
			r := req
			bad(&r)
			_, _, err := h.Setup(ctx, r)
			wantCode(t, err, code)
		}
		// Several at once: one wins, nothing of the others stays.
		var wg sync.WaitGroup
		won := make(chan accounts.User, 4)
		for _, name := range []string{"a", "b", "c", "d"} {
			wg.Go(func() {
				r := req
				r.Email, r.Team = name+"@example.com", name
				if u, _, err := h.Setup(ctx, r); err == nil {
					won <- u
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d set-ups succeeded", len(won))
		}
		u := <-won
		if n, err := h.CountTeams(ctx); n != 1 || err != nil {
			t.Errorf("%d teams, %v", n, err)
		}
		if a := h.actor(t, u.ID); !a.User.Operator || len(a.Memberships) != 1 || a.Memberships[0].Role != accounts.Owner {
			t.Errorf("the first user is %+v", a)
		}
		_, _, err = h.Setup(ctx, req)
		wantCode(t, err, "setup_done")
		if tok, needed, err := h.SetupToken(ctx); tok != "" || needed || err != nil {
			t.Errorf("SetupToken afterwards: %q, %v, %v", tok, needed, err)
		}
		var n int
		if err := h.db.QueryRow(ctx, `SELECT COUNT(*) FROM instance`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d settings are left, %v", n, err)
		}
	})
}

func TestLoginSessionLifetime(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, _ := h.first(t)
		u, cookie, expires, err := h.Login(ctx, " ADA@example.com ", password, accounts.Meta{IP: "192.0.2.1", UserAgent: "x\x00\n\xff"})
		if err != nil || u.ID != ada.User.ID || expires != h.now().Add(30*24*time.Hour).UnixMilli() {
			t.Fatalf("Login: %+v, %d, %v", u, expires, err)
		}
		a, err := h.Authenticate(ctx, cookie)
		if err != nil || a.User.ID != ada.User.ID || len(a.Memberships) != 1 || a.SessionHash == "" || strings.Contains(a.SessionHash, cookie) {
			t.Fatalf("Authenticate: %+v, %v", a, err)
		}
		for range 4 { // used every six days it lives on
			h.pass(6 * 24 * time.Hour)
			if _, err := h.Authenticate(ctx, cookie); err != nil {
				t.Fatalf("in use: %v", err)
			}
		}
		h.pass(6 * 24 * time.Hour)
		_, err = h.Authenticate(ctx, cookie)
		wantCode(t, err, "signed_out") // thirty days are the end in any case

		_, cookie, _, _ = h.Login(ctx, "ada@example.com", password, accounts.Meta{})
		h.pass(7 * 24 * time.Hour)
		_, err = h.Authenticate(ctx, cookie)
		wantCode(t, err, "signed_out")

		_, cookie, _, _ = h.Login(ctx, "ada@example.com", password, accounts.Meta{})
		a, _ = h.Authenticate(ctx, cookie)
		h.took("")
		for range 2 {
			if err := h.Logout(ctx, a.SessionHash); err != nil {
				t.Error(err)
			}
		}
		if !h.took(ada.User.ID) {
			t.Error("no subscriber was notified of the end of the session")
		}
		for _, c := range []string{cookie, "", "x", strings.Repeat("x", 1000), a.SessionHash} {
			_, err := h.Authenticate(ctx, c)
			wantCode(t, err, "signed_out")
		}
		var n int
		if err := h.db.QueryRow(ctx, `SELECT COUNT(*) FROM login_sessions`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d sessions are left, %v", n, err)
		}
	})
}

func TestWrongLoginsLookTheSame(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.first(t)
		var said []string
		for _, c := range [][2]string{{"ada@example.com", "wrong password"}, {"nobody@example.com", password}, {"not an address", password},
			{"ada@example.com", ""}, {"ada@example.com", strings.Repeat("x", 5000)}, {"ada@example.com\x00", password}, {strings.Repeat("é", 500), password}} {
			_, _, _, err := h.Login(ctx, c[0], c[1], accounts.Meta{IP: "192.0.2.9"})
			if !fault.Is(err, fault.Unauthorized) {
				t.Errorf("%q: %v", c, err)
			}
			said = append(said, err.Error())
		}
		if len(slices.Compact(said)) != 1 {
			t.Errorf("the answers differ: %q", said)
		}
	})
}

// The time of a login must not tell whether there is such a user: both hash once, which is nearly all of it. The tolerance is
// wide for busy machines, and still far from the thirtyfold that no hash would make.
func TestUnknownUserTakesAsLong(t *testing.T) {
	h := newHarness(storetest.SQLite(t))
	h.first(t)
	best := map[string]time.Duration{"ada@example.com": time.Hour, "nobody@example.com": time.Hour}
	for range 7 {
		for email := range best {
			start := time.Now()
			h.Login(t.Context(), email, "wrong password", accounts.Meta{IP: "192.0.2.1"})
			best[email] = min(best[email], time.Since(start))
		}
	}
	known, unknown := best["ada@example.com"], best["nobody@example.com"]
	if unknown < known/4 || known < unknown/4 {
		t.Errorf("known %v, unknown %v", known, unknown)
	}
}

func TestGuessingIsSlowedWithoutLockingTheOwnerOut(t *testing.T) {
	t.Parallel()
	h := newHarness(storetest.SQLite(t))
	ctx := t.Context()
	h.first(t)
	attack := accounts.Meta{IP: "203.0.113.5"}
	tries := 0
	var err error
	canceled, cancel := context.WithCancel(ctx)
	cancel() // counted, without the cost of hashing
	for ; tries < 50; tries++ {
		if _, _, _, err = h.Login(canceled, "ada@example.com", "guess number "+string(rune('a'+tries)), attack); fault.Is(err, fault.RateLimited) {
			break
		}
	}
	if tries != 10 {
		t.Errorf("%d guesses were allowed", tries)
	}
	wantCode(t, err, "too_many_attempts")
	if _, _, _, err := h.Login(ctx, "ada@example.com", password, attack); !fault.Is(err, fault.RateLimited) {
		t.Errorf("the right guess from there: %v", err)
	}
	if _, _, _, err := h.Login(ctx, "ADA@example.com ", "x", attack); !fault.Is(err, fault.RateLimited) {
		t.Errorf("another spelling from there: %v", err)
	}
	if _, _, _, err := h.Login(ctx, "ada@example.com", password, accounts.Meta{IP: "198.51.100.1"}); err != nil {
		t.Errorf("the owner from elsewhere: %v", err)
	}
	h.pass(31 * time.Second)
	if _, _, _, err := h.Login(ctx, "ada@example.com", password, attack); err != nil {
		t.Errorf("after waiting: %v", err)
	}
	// Success forgets the failures.
	for range 10 {
		if _, _, _, err := h.Login(canceled, "ada@example.com", "wrong password", attack); fault.Is(err, fault.RateLimited) {
			t.Fatal("limited too early")
		}
	}
}

func TestOneAddressCannotTryManyAccounts(t *testing.T) {
	t.Parallel()
	h := newHarness(storetest.SQLite(t))
	limited := -1
	canceled, cancel := context.WithCancel(t.Context())
	cancel() // counted, without the cost of hashing
	for i := range 60 {
		ip := "2001:db8:1:2::" + string(rune('a'+i%6)) // one user's network
		_, _, _, err := h.Login(canceled, "user"+string(rune('a'+i))+"@example.com", "wrong password", accounts.Meta{IP: ip})
		if fault.Is(err, fault.RateLimited) {
			limited = i
			break
		}
	}
	if limited != 50 {
		t.Errorf("limited at attempt %d", limited)
	}
	if _, _, _, err := h.Login(t.Context(), "x@example.com", "wrong password", accounts.Meta{IP: "2001:db8:1:3::1"}); fault.Is(err, fault.RateLimited) {
		t.Error("the neighbouring network is limited too")
	}
}

func TestFloodFromEverywhereLetsKnownAddressesIn(t *testing.T) {
	t.Parallel()
	h := newHarness(storetest.SQLite(t))
	ctx := t.Context()
	h.first(t)
	home := accounts.Meta{IP: "198.51.100.1"}
	if _, _, _, err := h.Login(ctx, "ada@example.com", password, home); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel() // counted, without the cost of hashing
	for i := range 400 {
		h.Login(canceled, "ada@example.com", "x", accounts.Meta{IP: "10.0." + string(rune('0'+i/50)) + "." + string(rune('0'+i%10)) + string(rune('0'+i/10%5))})
	}
	if _, _, _, err := h.Login(ctx, "ada@example.com", password, accounts.Meta{IP: "192.0.2.77"}); !fault.Is(err, fault.RateLimited) {
		t.Errorf("from a new address during a flood: %v", err)
	}
	if _, _, _, err := h.Login(ctx, "ada@example.com", password, home); err != nil {
		t.Errorf("from home during a flood: %v", err)
	}
	ada, err := store.NewAccounts(h.db).UserByEmail(ctx, "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	signedIn, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
	if err := h.ConfirmByPassword(ctx, signedIn, password); err != nil {
		t.Errorf("who is signed in, during a flood: %v", err)
	}
}

// What is refused is not counted, and takes no memory.
func TestFloodTakesNoMemory(t *testing.T) {
	t.Parallel()
	h := newHarness(storetest.SQLite(t))
	canceled, cancel := context.WithCancel(t.Context())
	cancel() // counted, without the cost of hashing
	for i := range 1000 {
		h.Login(canceled, fmt.Sprintf("user%d@example.com", i), "x", accounts.Meta{IP: "203.0.113.5"})
	}
	if n := h.Limits.Counted(); n > 51 { // an address, and the accounts it tried before it was refused
		t.Errorf("%d counters after a flood from one address", n)
	}
}

func TestPasswordRules(t *testing.T) {
	t.Parallel()
	h := newHarness(storetest.SQLite(t))
	for _, bad := range []string{"", "ninechars", "password123", "PassWord123", "aaaaaaaaaaaa", "abababababab", "somebody@example.com", strings.Repeat("long", 300), "日本語日本語日本語"} {
		_, err := h.CreateUser(t.Context(), accounts.NewUser{Email: "somebody@example.com", Name: "S", Password: bad})
		wantCode(t, err, "weak_password")
	}
	for i, good := range []string{"ten chars!", "日本語のパスワード十文字", strings.Repeat("long ", 200), "spaces are fine "} {
		email := "good" + string(rune('a'+i)) + "@example.com"
		if _, err := h.CreateUser(t.Context(), accounts.NewUser{Email: email, Name: "S", Password: good}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
		if _, _, _, err := h.Login(t.Context(), email, good, accounts.Meta{}); err != nil {
			t.Errorf("signing in with %q: %v", good, err)
		}
	}
}

func TestHashesAreArgon2idAndRenewed(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, _ := h.first(t)
		if !strings.HasPrefix(ada.User.PasswordHash, "$argon2id$v=19$m=64,t=1,p=1$") { // testaccounts.Cost
			t.Errorf("hash %q", ada.User.PasswordHash)
		}
		// "nine lives and a hat" with weaker figures, as an older version might have stored it.
		weak := weakHash(password)
		if err := store.NewAccounts(h.db).SetPasswordHash(ctx, ada.User.ID, weak); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := h.Login(ctx, "ada@example.com", password, accounts.Meta{}); err != nil {
			t.Fatal(err)
		}
		if got := h.actor(t, ada.User.ID).User.PasswordHash; got == weak || !strings.Contains(got, "m=64,t=1,") {
			t.Errorf("the hash was not renewed: %q", got)
		}
		for _, broken := range []string{"", "!", "$argon2id$v=19$m=99999999,t=2,p=1$aaaaaaaaaaaaaaaa$bbbbbbbbbbbbbbbbbbbbbbbb", "$2a$10$abc"} {
			if err := store.NewAccounts(h.db).SetPasswordHash(ctx, ada.User.ID, broken); err != nil {
				t.Fatal(err)
			}
			for _, p := range []string{password, ""} {
				if _, _, _, err := h.Login(ctx, "ada@example.com", p, accounts.Meta{}); !fault.Is(err, fault.Unauthorized) {
					t.Errorf("hash %q: %v", broken, err)
				}
			}
		}
	})
}

func TestChangePassword(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, _ := h.first(t)
		_, here, _, _ := h.Login(ctx, "ada@example.com", password, accounts.Meta{IP: "1"})
		_, there, _, _ := h.Login(ctx, "ada@example.com", password, accounts.Meta{IP: "2"})
		a, _ := h.Authenticate(ctx, here)
		wantCode(t, h.ChangePassword(ctx, a, "wrong password", "another good one", false), "wrong_password")
		wantCode(t, h.ChangePassword(ctx, a, password, "short", false), "weak_password")
		h.took("")
		if err := h.ChangePassword(ctx, a, password, "another good one", false); err != nil {
			t.Fatal(err)
		}
		if !h.took(ada.User.ID) {
			t.Error("no subscriber was notified")
		}
		if _, err := h.Authenticate(ctx, here); err != nil {
			t.Errorf("this session: %v", err)
		}
		_, err := h.Authenticate(ctx, there)
		wantCode(t, err, "signed_out")
		if _, _, _, err := h.Login(ctx, "ada@example.com", password, accounts.Meta{}); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the old password: %v", err)
		}
		for range 12 {
			err = h.ChangePassword(ctx, a, "wrong password", "another good one", false)
		}
		if !fault.Is(err, fault.RateLimited) {
			t.Errorf("guessing through a session: %v", err)
		}
		byToken := a
		byToken.TokenID = "tok_1"
		wantCode(t, h.ChangePassword(ctx, byToken, "another good one", password, false), "token_not_allowed")
		if err := h.ResetPassword(ctx, a.User.ID, "a third one here", false); err != nil {
			t.Fatal(err)
		}
		_, err = h.Authenticate(ctx, here)
		wantCode(t, err, "signed_out")
	})
}

func TestTokens(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, _ := h.first(t)
		bob := h.user(t, "bob@example.com")
		tok, value, err := h.CreateToken(ctx, ada.User.ID, " laptop ", 0)
		if err != nil || tok.Name != "laptop" || !strings.HasPrefix(value, "pw_user_") || len(value) != 57 {
			t.Fatalf("CreateToken: %+v, %q, %v", tok, value, err)
		}
		a, err := h.AuthenticateToken(ctx, value)
		if err != nil || a.User.ID != ada.User.ID || a.TokenID != tok.ID || a.SessionHash != "" {
			t.Fatalf("AuthenticateToken: %+v, %v", a, err)
		}
		if list, _ := h.Tokens(ctx, ada.User.ID); len(list) != 1 || list[0].LastUsedAt != h.now().UnixMilli() {
			t.Errorf("Tokens = %+v", list)
		}
		flip := byte('0')
		if value[20] == flip {
			flip = '1'
		}
		for _, bad := range []string{"", "pw_user_", value[:56], value + "0", value[:20] + string(flip) + value[21:], strings.ToUpper(value), "Bearer " + value} {
			_, err := h.AuthenticateToken(ctx, bad)
			wantCode(t, err, "invalid_token")
		}
		_, err = h.AuthenticateToken(ctx, "pw_user_0000000000000000000000000000000000000000000"+"000000")
		wantCode(t, err, "invalid_token")

		short, brief, err := h.CreateToken(ctx, ada.User.ID, "brief", h.now().Add(time.Hour).UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		h.pass(time.Hour)
		_, err = h.AuthenticateToken(ctx, brief)
		wantCode(t, err, "invalid_token")
		_, _, err = h.CreateToken(ctx, ada.User.ID, "past", h.now().UnixMilli())
		wantCode(t, err, "invalid_expiry")

		if err := h.DeleteToken(ctx, bob.ID, tok.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another's token: %v", err)
		}
		if err := h.DeleteToken(ctx, ada.User.ID, tok.ID); err != nil || !h.took(ada.User.ID) {
			t.Errorf("DeleteToken: %v", err)
		}
		_, err = h.AuthenticateToken(ctx, value)
		wantCode(t, err, "invalid_token")
		if list, _ := h.Tokens(ctx, ada.User.ID); len(list) != 1 || list[0].ID != short.ID {
			t.Errorf("Tokens = %+v", list)
		}
	})
}

func TestEmailsAreUniqueWhateverTheirCase(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		h.user(t, "bob@example.com")
		_, err := h.CreateUser(t.Context(), accounts.NewUser{Email: "BOB@example.COM", Name: "B", Password: password})
		wantCode(t, err, "email_taken")
		for _, bad := range []string{"", "@", "a@", "@b", "a b@c", "a@b@c", "a\n@b", "<a@b>", strings.Repeat("x", 251) + "@b.c", "a@.b", "a@b.", "\xff@b.c"} {
			_, err := h.CreateUser(t.Context(), accounts.NewUser{Email: bad, Name: "B", Password: password})
			wantCode(t, err, "invalid_email")
		}
	})
}
