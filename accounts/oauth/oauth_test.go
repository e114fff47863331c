package oauth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/oauthstore"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

var verifier = strings.Repeat("v", 43)

// world has a person who allows a client something.
type world struct {
	*oauth.Service
	people *testaccounts.Accounts
	actor  accounts.Actor
	client oauth.Client
	now    time.Time
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{now: time.Now()}
	clock := func() time.Time { return w.now }
	w.people = testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db), Key: make([]byte, 32), Now: clock})
	w.Service = oauth.New(oauth.Config{Store: oauthstore.New(db), Tokens: w.people, Now: clock})
	user, _ := storetest.Seed(t, db)
	cookie, _, err := w.people.SignIn(t.Context(), signin.Request{UserID: user.ID, Factors: []string{accounts.ProofPassword}})
	if err != nil {
		t.Fatal(err)
	}
	if w.actor, err = w.people.Authenticate(t.Context(), cookie); err != nil {
		t.Fatal(err)
	}
	if w.client, err = w.Register(t.Context(), "One", []string{"http://127.0.0.1/callback"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) code(t *testing.T) string {
	t.Helper()
	sum := sha256.Sum256([]byte(verifier))
	code, _, err := w.Allow(t.Context(), w.actor, oauth.Allowed{Client: w.client, RedirectURI: "http://127.0.0.1:7/callback", Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
		Scopes: []accounts.Scope{accounts.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func (w *world) tokens(t *testing.T) []accounts.Token {
	t.Helper()
	list, err := w.people.Tokens(t.Context(), w.actor.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Of many that use a code or a refresh token at the same time one is given tokens, and since it was used twice they end.
func TestUsedAtTheSameTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		many := func(use func(ctx context.Context) (oauth.Issued, error)) {
			t.Helper()
			var mu sync.Mutex
			var won []oauth.Issued
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					got, err := use(t.Context())
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won = append(won, got)
					} else if fault.CodeOf(err) != "invalid_grant" {
						t.Errorf("refused with %v", err)
					}
				})
			}
			all.Wait()
			if len(won) != 1 {
				t.Fatalf("%d were given tokens", len(won))
			}
			if _, err := w.people.AuthenticateToken(t.Context(), won[0].Access); !fault.Is(err, fault.Unauthorized) {
				t.Errorf("its access token: %v", err)
			}
			if left := w.tokens(t); len(left) != 0 {
				t.Errorf("left: %+v", left)
			}
		}
		code := w.code(t)
		many(func(ctx context.Context) (oauth.Issued, error) {
			return w.Exchange(ctx, w.client.ID, code, verifier, "")
		})
		got, err := w.Exchange(t.Context(), w.client.ID, w.code(t), verifier, "")
		if err != nil {
			t.Fatal(err)
		}
		many(func(ctx context.Context) (oauth.Issued, error) { return w.Refresh(ctx, w.client.ID, got.Refresh, nil) })
	})
}

// What is not exchanged, not renewed and not used any more is forgotten, and a grant that is renewed stays one entry.
func TestWhatIsForgotten(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		sweep := func(after time.Duration) {
			t.Helper()
			w.now = w.now.Add(after)
			if err := w.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.code(t)
		sweep(time.Minute)
		if left := w.tokens(t); len(left) != 0 {
			t.Errorf("of a code that was not exchanged: %+v", left)
		}
		got, err := w.Exchange(t.Context(), w.client.ID, w.code(t), verifier, "http://127.0.0.1:7/callback")
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			sweep(29 * 24 * time.Hour)
			if got, err = w.Refresh(t.Context(), w.client.ID, got.Refresh, []string{"workspaces:read"}); err != nil {
				t.Fatal(err)
			}
		}
		if list := w.tokens(t); len(list) != 1 || list[0].ClientID != w.client.ID || list[0].Name != "One" || list[0].ExpiresAt != w.now.Add(time.Hour).UnixMilli() {
			t.Errorf("%+v", list)
		}
		a, err := w.people.AuthenticateToken(t.Context(), got.Access)
		if err != nil || a.Client != "One" || len(a.Scopes) != 1 {
			t.Errorf("%+v, %v", a, err)
		}
		w.now = w.now.Add(time.Hour)
		if _, err := w.people.AuthenticateToken(t.Context(), got.Access); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("an access token after an hour: %v", err)
		}
		sweep(30 * 24 * time.Hour)
		if left := w.tokens(t); len(left) != 0 {
			t.Errorf("of a grant that was not renewed: %+v", left)
		}
		if _, err := w.ClientFor(t.Context(), w.client.ID, "http://127.0.0.1:9/callback"); err != nil {
			t.Errorf("a client that was used lately: %v", err)
		}
		fresh, err := w.Register(t.Context(), "Two", []string{"https://two.example/"})
		if err != nil {
			t.Fatal(err)
		}
		sweep(24*time.Hour + time.Millisecond)
		if _, err := w.ClientFor(t.Context(), fresh.ID, "https://two.example/"); fault.CodeOf(err) != "invalid_client" {
			t.Errorf("a client that nobody allowed anything: %v", err)
		}
	})
}
