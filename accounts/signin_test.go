package accounts_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/store"
)

// signIn starts a login session and returns its actor and cookie.
func (h *harness) signIn(t *testing.T, userID string, factors ...string) (accounts.Actor, string) {
	t.Helper()
	cookie, _, err := h.SignIn(t.Context(), signin.Request{UserID: userID, Factors: factors, Meta: accounts.Meta{IP: "192.0.2.7", UserAgent: "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"}})
	if err != nil {
		t.Fatalf("SignIn: %v", err)
	}
	a, err := h.Authenticate(t.Context(), cookie)
	if err != nil {
		t.Fatalf("Authenticate: %v", err)
	}
	return a, cookie
}

// bare stores a user who has no password, which costs no hash.
func (h *harness) bare(t *testing.T, u accounts.User) accounts.User {
	t.Helper()
	u.PasswordHash, u.Name = "!", "Somebody"
	if u.ID == "" {
		u.ID = "usr_" + u.Email[:3]
	}
	if ok, err := store.NewAccounts(h.db).InsertUser(t.Context(), u); err != nil || !ok {
		t.Fatalf("user: %v %v", ok, err)
	}
	return u
}

// What proved who somebody is goes with the session, and decides whether it counts as more than a password.
func TestASVS_7_2_4_SignInMakesANewSessionEachTime(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		u := h.bare(t, accounts.User{Email: "ada@example.com"})
		a, first := h.signIn(t, u.ID, accounts.ProofPassword)
		if a.SecondFactor || a.SessionID == "" || a.ConfirmedAt != h.now().UnixMilli() {
			t.Errorf("a password's session: %+v", a)
		}
		for _, f := range []string{accounts.ProofTOTP, accounts.ProofRecovery, accounts.ProofPasskey, accounts.ProofSSOMFA} {
			b, cookie := h.signIn(t, u.ID, accounts.ProofPassword, f)
			if !b.SecondFactor || cookie == first || b.SessionID == a.SessionID {
				t.Errorf("%s: %+v", f, b)
			}
		}
		if b, _ := h.signIn(t, u.ID, accounts.ProofSSO); b.SecondFactor {
			t.Error("a provider that says nothing of a second factor counts as one")
		}
		all, err := h.LoginSessions(t.Context(), a)
		if err != nil || len(all) != 6 || !slices.Contains(all[0].Factors, accounts.ProofSSO) && len(all[0].Factors) == 0 {
			t.Errorf("LoginSessions: %+v %v", all, err)
		}
	})
}

// A suspended user's cookie, token and sign-in are refused, whatever is left of them in the database.
func TestASVS_7_4_2_SuspendedUsersAreOut(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		u := h.bare(t, accounts.User{Email: "bob@example.com"})
		_, cookie := h.signIn(t, u.ID, accounts.ProofPassword)
		_, token, err := h.CreateToken(ctx, u.ID, "t", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.db.Exec(ctx, `UPDATE users SET suspended_at = 1 WHERE id = ?`, u.ID); err != nil {
			t.Fatal(err)
		}
		_, err = h.Authenticate(ctx, cookie)
		wantCode(t, err, "suspended")
		_, err = h.AuthenticateToken(ctx, token)
		wantCode(t, err, "suspended")
		_, _, err = h.SignIn(ctx, signin.Request{UserID: u.ID, Factors: []string{accounts.ProofPasskey}})
		wantCode(t, err, "suspended")
	})
}

// People end their own login sessions by id: one, or all but this one. Whoever asks for another's finds nothing.
func TestASVS_7_5_2_PeopleEndTheirSessions(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, eve := h.bare(t, accounts.User{Email: "ada@example.com"}), h.bare(t, accounts.User{Email: "eve@example.com"})
		a, cookie := h.signIn(t, ada.ID, accounts.ProofPassword)
		b, other := h.signIn(t, ada.ID, accounts.ProofPassword)
		_, third := h.signIn(t, ada.ID, accounts.ProofPassword)
		e, _ := h.signIn(t, eve.ID, accounts.ProofPassword)
		wantCode(t, h.EndSession(ctx, e, b.SessionID, false), "not_found")
		if _, err := h.Authenticate(ctx, other); err != nil {
			t.Errorf("another's session was ended: %v", err)
		}
		h.took(ada.ID)
		if err := h.EndSession(ctx, a, b.SessionID, false); err != nil || !h.took(ada.ID) {
			t.Errorf("EndSession: %v, or no subscriber was notified", err)
		}
		_, err := h.Authenticate(ctx, other)
		wantCode(t, err, "signed_out")
		if err := h.EndOtherSessions(ctx, a, false); err != nil || !h.took(ada.ID) {
			t.Errorf("EndOtherSessions: %v, or no subscriber was notified", err)
		}
		_, err = h.Authenticate(ctx, third)
		wantCode(t, err, "signed_out")
		if _, err := h.Authenticate(ctx, cookie); err != nil {
			t.Errorf("this session has ended with the others: %v", err)
		}
		h.pass(31 * 24 * time.Hour)
		if all, err := h.LoginSessions(ctx, a); err != nil || len(all) != 0 {
			t.Errorf("ended sessions are listed: %+v %v", all, err)
		}
	})
}

// What a sign-in began is for its own kind, in time, once.
func TestCeremoniesGoOnOnce(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		begin := func() string {
			v, _, err := h.BeginCeremony(ctx, signin.CeremonyRequest{Kind: "a", Data: map[string]string{"k": "secret value"}, Life: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		v := begin()
		var data map[string]string
		_, err := h.TakeCeremony(ctx, "b", v, &data)
		wantCode(t, err, "login_ended")
		if _, err := h.TakeCeremony(ctx, "a", v, &data); err != nil || data["k"] != "secret value" {
			t.Errorf("TakeCeremony: %v %v", data, err)
		}
		_, err = h.TakeCeremony(ctx, "a", v, nil)
		wantCode(t, err, "login_ended")
		v = begin()
		var clear int
		if err := h.db.QueryRow(ctx, `SELECT COUNT(*) FROM ceremonies WHERE sealed LIKE '%secret%' OR id_hash = ?`, v).Scan(&clear); err != nil || clear != 0 {
			t.Errorf("what a ceremony holds is kept in clear: %d %v", clear, err)
		}
		h.pass(time.Minute)
		_, err = h.ReadCeremony(ctx, "a", v, nil)
		wantCode(t, err, "login_ended")
	})
}

// A token reaches as far as its scopes, in its team, and so does what it makes.
func TestASVS_8_2_1_TokensReachAsFarAsTheirScopes(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		u := h.bare(t, accounts.User{Email: "ada@example.com"})
		a, _ := h.signIn(t, u.ID, accounts.ProofPassword)
		for _, name := range []string{"One", "Two"} {
			if _, err := h.CreateTeam(ctx, a, name, ""); err != nil {
				t.Fatal(err)
			}
		}
		a = h.again(t, a)
		one, two := a.Memberships[0].Team, a.Memberships[1].Team
		as := func(req signin.TokenRequest) accounts.Actor {
			req.Name = "t"
			_, value, err := h.IssueToken(ctx, a, req)
			if err != nil {
				t.Fatalf("IssueToken: %v", err)
			}
			actor, err := h.AuthenticateTokenFrom(ctx, value, "192.0.2.9")
			if err != nil {
				t.Fatal(err)
			}
			return actor
		}
		for _, tc := range []struct {
			scopes []accounts.Scope
			action accounts.Action
			code   string
		}{
			{nil, accounts.ManageTeam, ""},
			{[]accounts.Scope{accounts.ScopeRead}, accounts.ViewWorkspace, ""},
			{[]accounts.Scope{accounts.ScopeRead}, accounts.EditWorkspace, "wrong_scope"},
			{[]accounts.Scope{accounts.ScopeRead}, accounts.ViewTerminal, "wrong_scope"},
			{[]accounts.Scope{accounts.ScopeWrite}, accounts.ViewWorkspace, ""},
			{[]accounts.Scope{accounts.ScopeWrite}, accounts.MergeWorkspace, ""},
			{[]accounts.Scope{accounts.ScopeWrite}, accounts.TypeTerminal, "wrong_scope"},
			{[]accounts.Scope{accounts.ScopeAttach}, accounts.TypeTerminal, ""},
			{[]accounts.Scope{accounts.ScopeAttach}, accounts.EditWorkspace, "wrong_scope"},
			{[]accounts.Scope{accounts.ScopeBill}, accounts.ViewCosts, ""},
			{[]accounts.Scope{accounts.ScopeBill}, accounts.ViewWorkspace, "wrong_scope"},
			{[]accounts.Scope{accounts.ScopeRead, accounts.ScopeWrite, accounts.ScopeAttach, accounts.ScopeBill}, accounts.ManageMember, "wrong_scope"},
			{[]accounts.Scope{accounts.ScopeAdmin}, accounts.ManageMember, ""},
			{[]accounts.Scope{accounts.ScopeRead}, "no.such.action", "forbidden"},
		} {
			wantCode(t, accounts.Can(as(signin.TokenRequest{Scopes: tc.scopes}), tc.action, accounts.InTeam(one.ID)), tc.code)
		}
		bound := as(signin.TokenRequest{Team: one.Slug})
		wantCode(t, accounts.Can(bound, accounts.ManageTeam, accounts.InTeam(one.ID)), "")
		wantCode(t, accounts.Can(bound, accounts.ViewTeam, accounts.InTeam(two.ID)), "not_found")
		wantCode(t, accounts.NeedAccount(bound), "wrong_scope")
		_, _, err := h.IssueToken(ctx, bound, signin.TokenRequest{Name: "wider"})
		wantCode(t, err, "wrong_scope")
		_, _, err = h.IssueToken(ctx, a, signin.TokenRequest{Name: "x", Scopes: []accounts.Scope{"root"}})
		wantCode(t, err, "invalid_scope")
		_, _, err = h.IssueToken(ctx, a, signin.TokenRequest{Name: "x", Team: "three"})
		wantCode(t, err, "team_not_found")
		end := h.now().Add(time.Hour).UnixMilli()
		brief := as(signin.TokenRequest{ExpiresAt: end})
		if made, _, err := h.IssueToken(ctx, brief, signin.TokenRequest{Name: "longer"}); err != nil || made.ExpiresAt != end {
			t.Errorf("a token made one that outlives it: %+v %v", made, err)
		}
		all, err := h.Tokens(ctx, u.ID)
		if err != nil || all[len(all)-1].LastUsedIP != "192.0.2.9" {
			t.Errorf("where tokens were used from: %+v %v", all, err)
		}
		h.pass(16 * time.Minute)
		_, _, err = h.IssueToken(ctx, a, signin.TokenRequest{Name: "late"})
		wantCode(t, err, "confirm_needed")
	})
}

// again reads an actor's memberships anew.
func (h *harness) again(t *testing.T, a accounts.Actor) accounts.Actor {
	t.Helper()
	a.Memberships = h.actor(t, a.User.ID).Memberships
	return a
}

// A team that asks for a second factor, and one that is suspended, tell their members so; outsiders learn nothing of either.
func TestTeamsThatAskForMore(t *testing.T) {
	t.Parallel()
	in := func(team accounts.Team) accounts.Actor {
		return accounts.Actor{User: accounts.User{ID: "u"}, SessionHash: "h", Memberships: []accounts.Membership{{Team: team, Role: accounts.Owner}}}
	}
	strict, shut := in(accounts.Team{ID: "t", SecondFactor: true}), in(accounts.Team{ID: "t", SuspendedAt: 1, SecondFactor: true})
	wantCode(t, accounts.Can(strict, accounts.ViewTeam, accounts.InTeam("t")), "second_factor_required")
	wantCode(t, accounts.Can(shut, accounts.ViewTeam, accounts.InTeam("t")), "team_suspended")
	wantCode(t, accounts.Can(strict, accounts.ViewTeam, accounts.InTeam("other")), "not_found")
	strict.SecondFactor = true
	wantCode(t, accounts.Can(strict, accounts.ViewTeam, accounts.InTeam("t")), "")
}

// Login is Service.Login for who has no second factor.
func (h *harness) Login(ctx context.Context, email, password string, meta accounts.Meta) (accounts.User, string, int64, error) {
	e, err := h.Accounts.Login(ctx, email, password, meta)
	if err != nil {
		return accounts.User{}, "", 0, err
	}
	u, err := store.NewAccounts(h.db).UserByID(context.WithoutCancel(ctx), e.UserID)
	return u, e.Cookie, e.ExpiresAt, err
}
