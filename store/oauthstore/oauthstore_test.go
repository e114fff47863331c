package oauthstore_test

import (
	"fmt"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/oauthstore"
	"github.com/parawork/parawork/store/storetest"
)

func TestGrantsLiveAsLongAsTheirTokens(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		user, team := storetest.Seed(t, db)
		s, kept := oauthstore.New(db), store.NewAccounts(db)
		if err := s.InsertClient(ctx, oauth.Client{ID: "client_1", Name: "One", RedirectURIs: []string{"https://one.example/", "one:/"}, CreatedAt: 10}); err != nil {
			t.Fatal(err)
		}
		grant := func(n string) oauth.Grant {
			t.Helper()
			tok := accounts.Token{ID: "tok_" + n, UserID: user.ID, Name: "One", CreatedAt: 20, ExpiresAt: 80, Scopes: []accounts.Scope{accounts.ScopeRead}, TeamID: team.ID}
			if err := kept.InsertToken(ctx, tok, "first"+n); err != nil {
				t.Fatal(err)
			}
			g := oauth.Grant{TokenID: tok.ID, ClientID: "client_1", CodeHash: "code" + n, Challenge: "c", RedirectURI: "one:/", CreatedAt: 20, ExpiresAt: 80}
			if err := s.InsertGrant(ctx, g); err != nil {
				t.Fatal(err)
			}
			return g
		}
		g := grant("a")
		got, err := s.Grant(ctx, oauth.ByCode, "codea")
		if err != nil || got.UserID != user.ID || got.UserEmail != user.Email || got.Name != "One" || got.TeamID != team.ID || len(got.Scopes) != 1 || got.FamilyHash != "" || got.RefreshHash != "" {
			t.Fatalf("%+v, %v", got, err)
		}
		g.FamilyHash, g.RefreshHash, g.ExpiresAt = "family", "refresh1", 500
		if ok, err := s.Renew(ctx, g, "", oauth.Access{Hash: "access1", At: 30, Until: 300}); !ok || err != nil {
			t.Fatalf("%v %v", ok, err)
		}
		g.RefreshHash = "refresh2"
		if ok, err := s.Renew(ctx, g, "", oauth.Access{Hash: "access2", At: 30, Until: 300}); ok || err != nil {
			t.Errorf("renewed from what is not valid any more: %v %v", ok, err)
		}
		if c, err := s.Client(ctx, "client_1"); err != nil || c.UsedAt != 30 {
			t.Errorf("%+v, %v", c, err)
		}
		tok, err := kept.TokenByHash(ctx, "access1")
		if err != nil || tok.ID != "tok_a" || tok.ExpiresAt != 300 || tok.ClientID != "client_1" {
			t.Errorf("%+v, %v", tok, err)
		}
		if _, err := kept.TokenByHash(ctx, "access2"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a refused renewal has changed the token: %v", err)
		}
		for by, hash := range map[oauth.By]string{oauth.ByFamily: "family", oauth.ByAccess: "access1", oauth.ByCode: "codea"} {
			if got, err := s.Grant(ctx, by, hash); err != nil || got.TokenID != "tok_a" || got.RefreshHash != "refresh1" {
				t.Errorf("by %d: %+v, %v", by, got, err)
			}
		}

		grant("b")
		if err := s.DropGrants(ctx, 80); err != nil {
			t.Fatal(err)
		}
		if list, err := kept.Tokens(ctx, user.ID); err != nil || len(list) != 1 || list[0].ID != "tok_a" {
			t.Errorf("left: %+v, %v", list, err)
		}
		if err := kept.DeleteTokens(ctx, user.ID, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Grant(ctx, oauth.ByFamily, "family"); !fault.Is(err, fault.NotFound) {
			t.Errorf("after its token has ended: %v", err)
		}
	})
}

func TestClientsThatNobodyUsesAreDropped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		user, _ := storetest.Seed(t, db)
		s := oauthstore.New(db)
		for name, used := range map[string]int64{"held": 1, "once": 1, "lately": 90} {
			if err := s.InsertClient(ctx, oauth.Client{ID: name, RedirectURIs: []string{"one:/"}, CreatedAt: 1, UsedAt: used}); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.NewAccounts(db).InsertToken(ctx, accounts.Token{ID: "tok_1", UserID: user.ID, Scopes: []accounts.Scope{accounts.ScopeRead}}, "h"); err != nil {
			t.Fatal(err)
		}
		if err := s.InsertGrant(ctx, oauth.Grant{TokenID: "tok_1", ClientID: "held", CodeHash: "c", CreatedAt: 2, ExpiresAt: 1000}); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if err := s.InsertClient(ctx, oauth.Client{ID: fmt.Sprint("new", i), RedirectURIs: []string{"one:/"}, CreatedAt: int64(10 * i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.DropClients(ctx, 10, 50, 2); err != nil {
			t.Fatal(err)
		}
		for name, stays := range map[string]bool{"held": true, "once": false, "lately": true, "new0": false, "new1": false, "new2": false, "new3": true, "new4": true} {
			if _, err := s.Client(ctx, name); stays && err != nil || !stays && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
