package accounts_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testaccounts"
)

// post is a mail server that keeps what it is given.
type post struct {
	mu   sync.Mutex
	sent []accounts.Mail
}

func (p *post) Enabled() bool { return true }

func (p *post) Queue(_ context.Context, m accounts.Mail) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m)
	return nil
}

// person makes a user who never signs in with a password: hashing one takes long.
func (h *harness) person(t *testing.T, email string) accounts.User {
	t.Helper()
	u := accounts.User{ID: id.New("usr"), Email: email, Name: strings.Split(email, "@")[0], PasswordHash: "!", CreatedAt: h.now().UnixMilli()}
	if ok, err := store.NewAccounts(h.db).InsertUser(t.Context(), u); err != nil || !ok {
		t.Fatalf("user %s: %v %v", email, ok, err)
	}
	return u
}

func TestInvites(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		bob := h.actor(t, h.person(t, "bob@example.com").ID)

		i, token, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Viewer})
		if err != nil || i.ExpiresAt-i.CreatedAt != (7*24*time.Hour).Milliseconds() || i.MailedAt != 0 || len(token) < 40 {
			t.Fatalf("invite: %+v %v", i, err)
		}
		if seen, of, err := h.LookInvite(ctx, token); err != nil || seen.Role != accounts.Viewer || of.ID != team.ID || seen.CreatorName != "Ada" {
			t.Errorf("look: %+v %v", seen, err)
		}
		for _, wrong := range []string{"", "x", token + "x", strings.Repeat("a", 43), strings.Repeat("a", 9999)} {
			_, _, err := h.LookInvite(ctx, wrong)
			wantCode(t, err, "invite_ended")
		}
		byToken := bob
		byToken.TokenID = "tok_1"
		_, err = h.Join(ctx, byToken, token)
		wantCode(t, err, "token_not_allowed")
		if joined, err := h.Join(ctx, bob, token); err != nil || joined.ID != team.ID || h.actor(t, bob.User.ID).RoleIn(team.ID) != accounts.Viewer {
			t.Errorf("join: %v %v", joined, err)
		}
		_, err = h.Join(ctx, h.actor(t, h.person(t, "eve@example.com").ID), token) // single use
		wantCode(t, err, "invite_ended")

		// A viewer invites nobody, an admin no owners, an outsider sees no team.
		_, _, err = h.CreateInvite(ctx, h.actor(t, bob.User.ID), team.ID, accounts.NewInvite{Role: accounts.Viewer})
		wantCode(t, err, "forbidden")
		if _, err := h.SetRole(ctx, ada, team.ID, bob.User.ID, accounts.Admin); err != nil {
			t.Fatal(err)
		}
		bob = h.actor(t, bob.User.ID)
		_, _, err = h.CreateInvite(ctx, bob, team.ID, accounts.NewInvite{Role: accounts.Owner})
		wantCode(t, err, "forbidden")
		_, _, err = h.CreateInvite(ctx, accounts.Actor{User: accounts.User{ID: "usr_x", Operator: true}}, team.ID, accounts.NewInvite{Role: accounts.Viewer})
		wantCode(t, err, "not_found")
		_, _, err = h.CreateInvite(ctx, bob, team.ID, accounts.NewInvite{Role: "emperor"})
		wantCode(t, err, "invalid_role")

		// Somebody who is in already uses no invite up; one that is taken back or too old is none.
		_, token, err = h.CreateInvite(ctx, bob, team.ID, accounts.NewInvite{Role: accounts.Member})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Join(ctx, ada, token)
		wantCode(t, err, "already_member")
		waiting, err := h.Invites(ctx, bob, team.ID)
		if err != nil || len(waiting) != 1 {
			t.Fatalf("invites: %v %v", waiting, err)
		}
		if err := h.RevokeInvite(ctx, ada, waiting[0].ID); err != nil {
			t.Fatal(err)
		}
		wantCode(t, h.RevokeInvite(ctx, ada, waiting[0].ID), "invite_ended")
		_, _, err = h.LookInvite(ctx, token)
		wantCode(t, err, "invite_ended")
		_, old, err := h.CreateInvite(ctx, bob, team.ID, accounts.NewInvite{Role: accounts.Member})
		if err != nil {
			t.Fatal(err)
		}
		h.pass(7 * 24 * time.Hour)
		_, _, err = h.LookInvite(ctx, old)
		wantCode(t, err, "invite_ended")
	})
}

// Who may invite no more leaves no way back behind: invites of who is removed or made less end.
func TestInvitesEndWithWhoMadeThem(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		u := h.person(t, "bob@example.com")
		invite := func() string {
			t.Helper()
			if _, err := h.PutMember(ctx, team.ID, u.Email, accounts.Admin); err != nil && fault.CodeOf(err) != "already_member" {
				t.Fatal(err)
			}
			if _, err := h.SetRole(ctx, ada, team.ID, u.ID, accounts.Admin); err != nil {
				t.Fatal(err)
			}
			_, token, err := h.CreateInvite(ctx, h.actor(t, u.ID), team.ID, accounts.NewInvite{Role: accounts.Admin})
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		for name, less := range map[string]func() error{
			"removed": func() error { return h.RemoveMember(ctx, ada, team.ID, u.ID) },
			"left":    func() error { return h.RemoveMember(ctx, h.actor(t, u.ID), team.ID, u.ID) },
			"demoted": func() error { _, err := h.SetRole(ctx, ada, team.ID, u.ID, accounts.Member); return err },
		} {
			token := invite()
			if err := less(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, _, err := h.LookInvite(ctx, token); fault.CodeOf(err) != "invite_ended" {
				t.Errorf("an invite of somebody who was %s: %v", name, err)
			}
		}
		token := invite()
		if _, err := h.SuspendUser(ctx, ada, u.ID); err != nil {
			t.Fatal(err)
		}
		_, _, err := h.LookInvite(ctx, token)
		wantCode(t, err, "invite_ended")
	})
}

func TestInvitesByMail(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		mails := &post{}
		h.Accounts = testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: h.key, Now: h.now, Mailer: mails, PublicURL: "https://pw.example.com/"})
		i, token, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Member, Email: " Grace@Example.com "})
		if err != nil || i.Email != "grace@example.com" || i.MailedAt == 0 || len(mails.sent) != 1 {
			t.Fatalf("%+v %v, %d mails", i, err, len(mails.sent))
		}
		if m := mails.sent[0]; m.To != "grace@example.com" || m.TeamID != team.ID || !strings.Contains(m.Text, "https://pw.example.com/join#") || strings.Contains(m.Text, token) {
			t.Errorf("mail: %+v", m)
		}
		_, err = h.Join(ctx, h.actor(t, h.person(t, "mallory@example.com").ID), token)
		wantCode(t, err, "invite_other_email")
		_, _, err = h.SignUp(ctx, token, accounts.NewUser{Name: "Mallory", Email: "other@example.com", Password: password}, accounts.Meta{IP: "192.0.2.1"})
		wantCode(t, err, "invite_other_email")
		if _, again, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Viewer, Email: "grace@example.com"}); err != nil {
			t.Fatal(err)
		} else if _, _, err := h.LookInvite(ctx, token); fault.CodeOf(err) != "invite_ended" {
			t.Errorf("the earlier invite: %v", err)
		} else {
			token = again
		}
		_, _, err = h.SignUp(ctx, token, accounts.NewUser{Name: "Grace", Password: "short"}, accounts.Meta{IP: "192.0.2.1"})
		wantCode(t, err, "weak_password")
		u, joined, err := h.SignUp(ctx, token, accounts.NewUser{Name: "Grace", Password: password, Operator: true}, accounts.Meta{IP: "192.0.2.1"})
		if err != nil || u.Operator || joined.ID != team.ID || h.actor(t, u.ID).RoleIn(team.ID) != accounts.Viewer {
			t.Errorf("signing up: %+v %v", u, err)
		}
		_, _, err = h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Viewer, Email: "grace@example.com"})
		wantCode(t, err, "already_member")
		// The holder of an invite learns a few times that an address has an account.
		_, open, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			_, _, err = h.SignUp(ctx, open, accounts.NewUser{Name: "G", Email: "not an address", Password: password}, accounts.Meta{IP: "192.0.2.1"})
			wantCode(t, err, "invalid_email")
		}
		_, _, err = h.SignUp(ctx, open, accounts.NewUser{Name: "G", Email: "grace@example.com", Password: password}, accounts.Meta{IP: "192.0.2.1"})
		wantCode(t, err, "too_many_attempts")
		_, _, err = h.SignUp(ctx, open, accounts.NewUser{Name: "G", Email: "grace@example.com", Password: password}, accounts.Meta{IP: "192.0.2.2"})
		wantCode(t, err, "email_taken")
	})
}

// Where the server takes no passwords an invite makes none: who is invited signs in as they do there, then joins.
func TestInvitesWithoutPasswords(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		_, token, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Member})
		if err != nil {
			t.Fatal(err)
		}
		closed := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: h.key, Now: h.now, NoPassword: true})
		_, _, err = closed.SignUp(ctx, token, accounts.NewUser{Name: "G", Email: "g@example.com", Password: password}, accounts.Meta{IP: "192.0.2.1"})
		wantCode(t, err, "password_off")
		if _, err := closed.Join(ctx, h.actor(t, h.person(t, "g@example.com").ID), token); err != nil {
			t.Error(err)
		}
	})
}

// However many accept at once, one joins.
func TestInviteIsAcceptedOnce(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		_, token, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Member})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		joined := 0
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			actor := h.actor(t, h.person(t, name+"@example.com").ID)
			all.Go(func() {
				_, err := h.Join(ctx, actor, token)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					joined++
				} else if fault.CodeOf(err) != "invite_ended" {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if members, err := h.Members(ctx, team.ID); err != nil || joined != 1 || len(members) != 2 {
			t.Errorf("%d joined, %d members, %v", joined, len(members), err)
		}
	})
}

func TestASVS_7_4_2_SuspensionEndsEveryWayIn(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		u := h.person(t, "bob@example.com")
		if _, err := h.PutMember(ctx, team.ID, u.Email, accounts.Member); err != nil {
			t.Fatal(err)
		}
		cookie, _, err := h.SignIn(ctx, signin.Request{UserID: u.ID, Factors: []string{accounts.ProofPassword}})
		if err != nil {
			t.Fatal(err)
		}
		_, token, err := h.CreateToken(ctx, u.ID, "t", 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.SuspendUser(ctx, ada, ada.User.ID)
		wantCode(t, err, "suspend_self")
		_, err = h.SuspendUser(ctx, accounts.Actor{}, ada.User.ID)
		wantCode(t, err, "last_operator")
		h.took(u.ID)
		if after, err := h.SuspendUser(ctx, ada, u.ID); err != nil || after.SuspendedAt == 0 || !h.took(u.ID) {
			t.Fatalf("suspend: %+v %v", after, err)
		}
		_, err = h.Authenticate(ctx, cookie)
		wantCode(t, err, "signed_out")
		_, err = h.AuthenticateToken(ctx, token)
		wantCode(t, err, "invalid_token")
		// Nor does work that is taken up in the user's name.
		_, _, err = h.SignIn(ctx, signin.Request{UserID: u.ID, Factors: []string{accounts.ProofPassword}})
		wantCode(t, err, "suspended")
		wantCode(t, accounts.Can(h.actor(t, u.ID), accounts.ViewTeam, accounts.InTeam(team.ID)), "suspended")
		_, _, _, err = h.ResetLink(ctx, ada.User.ID, u.ID, false)
		wantCode(t, err, "user_suspended")

		if _, err := h.RestoreUser(ctx, u.ID); err != nil {
			t.Fatal(err)
		}
		if err := accounts.Can(h.actor(t, u.ID), accounts.ViewTeam, accounts.InTeam(team.ID)); err != nil {
			t.Errorf("restored: %v", err)
		}
		_, err = h.AuthenticateToken(ctx, token) // for good
		wantCode(t, err, "invalid_token")
		_, err = h.Authenticate(ctx, cookie)
		wantCode(t, err, "signed_out")
	})
}

func TestSuspendedTeams(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		other, err := h.CreateTeam(ctx, ada, "Other", "")
		if err != nil {
			t.Fatal(err)
		}
		_, invite, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		h.took("")
		if after, err := h.SuspendTeam(ctx, team.ID); err != nil || after.SuspendedAt == 0 || !h.took(ada.User.ID) {
			t.Fatalf("suspend: %+v %v", after, err)
		}
		ada = h.actor(t, ada.User.ID)
		for action := range matrix {
			if action != "team.destroy" {
				wantCode(t, accounts.Can(ada, action, accounts.InTeam(team.ID)), "team_suspended")
			}
		}
		wantCode(t, accounts.Can(accounts.Actor{User: accounts.User{ID: "usr_x"}}, accounts.ViewTeam, accounts.InTeam(team.ID)), "not_found")
		if err := accounts.Can(ada, accounts.ViewTeam, accounts.InTeam(other.ID)); err != nil {
			t.Errorf("another team: %v", err)
		}
		_, _, err = h.LookInvite(ctx, invite)
		wantCode(t, err, "team_suspended")
		if after, err := h.RestoreTeam(ctx, team.ID); err != nil || after.SuspendedAt != 0 {
			t.Fatalf("restore: %+v %v", after, err)
		}
		if err := accounts.Can(h.actor(t, ada.User.ID), accounts.ManageTeam, accounts.InTeam(team.ID)); err != nil {
			t.Errorf("restored: %v", err)
		}
	})
}

// A team that asks for a second factor is closed to who has shown none.
func TestTeamsAskForASecondFactor(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		_, err := h.SetSecondFactor(ctx, ada, team.ID, true)
		wantCode(t, err, "second_factor_required") // else they would shut themselves out
		ada.SecondFactor = true
		if after, err := h.SetSecondFactor(ctx, ada, team.ID, true); err != nil || !after.SecondFactor {
			t.Fatalf("%+v %v", after, err)
		}
		cookie, _, err := h.SignIn(ctx, signin.Request{UserID: ada.User.ID, Factors: []string{accounts.ProofPassword}})
		if err != nil {
			t.Fatal(err)
		}
		byPassword, err := h.Authenticate(ctx, cookie)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, accounts.Can(byPassword, accounts.ViewTeam, accounts.InTeam(team.ID)), "second_factor_required")
		byPassword.SecondFactor = true
		if err := accounts.Can(byPassword, accounts.ViewTeam, accounts.InTeam(team.ID)); err != nil {
			t.Error(err)
		}
		if after, err := h.SetSecondFactor(ctx, byPassword, team.ID, false); err != nil || after.SecondFactor {
			t.Errorf("%+v %v", after, err)
		}
	})
}

func TestOperatorsLookAtUsersAndTeams(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		h.pass(time.Second)
		u, err := h.InviteUser(ctx, accounts.NewUser{Name: "Grace_1", Email: "grace@example.com"}, team.Slug, accounts.Admin)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.InviteUser(ctx, accounts.NewUser{Name: "G", Email: "grace@example.com"}, "", "")
		wantCode(t, err, "email_taken")
		_, err = h.InviteUser(ctx, accounts.NewUser{Name: "G", Email: "g@example.com"}, "no-such", "")
		wantCode(t, err, "team_not_found")
		if _, _, _, err := h.Login(ctx, "grace@example.com", "", accounts.Meta{}); fault.CodeOf(err) != "wrong_credentials" {
			t.Errorf("who has no password signs in: %v", err)
		}
		list := func(q string) string {
			t.Helper()
			all, _, err := h.Users(ctx, q, page.Page{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, i := range all {
				names = append(names, i.User.Name)
			}
			return strings.Join(names, " ")
		}
		for q, want := range map[string]string{"": "Grace_1 Ada", "GRACE": "Grace_1", "e_1": "Grace_1", "a%": "", "example.com": "Grace_1 Ada", "'": ""} {
			if got := list(q); got != want {
				t.Errorf("%q finds %q, want %q", q, got, want)
			}
		}
		first, next, err := h.Users(ctx, "", page.Page{Limit: 1})
		if err != nil || len(first) != 1 || next == "" || first[0].HasPassword || len(first[0].Memberships) != 1 || first[0].Memberships[0].Role != accounts.Admin {
			t.Fatalf("%+v %q %v", first, next, err)
		}
		if rest, next, err := h.Users(ctx, "", page.Page{Limit: 1, Cursor: next}); err != nil || len(rest) != 1 || rest[0].User.Name != "Ada" || next != "" || !rest[0].HasPassword {
			t.Errorf("%+v %q %v", rest, next, err)
		}
		if teams, _, err := h.Teams(ctx, "analytical", page.Page{}); err != nil || len(teams) != 1 || teams[0].Members != 2 || len(teams[0].Owners) != 1 || teams[0].Owners[0].ID != ada.User.ID {
			t.Errorf("%+v %v", teams, err)
		}
		no, yes, name, taken := false, true, "Grace Hopper", "ada@example.com"
		_, err = h.UpdateUser(ctx, ada.User.ID, directory.UserChange{Operator: &no})
		wantCode(t, err, "last_operator")
		_, err = h.UpdateUser(ctx, u.ID, directory.UserChange{Email: &taken})
		wantCode(t, err, "email_taken")
		if after, err := h.UpdateUser(ctx, u.ID, directory.UserChange{Operator: &yes, Name: &name}); err != nil || !after.Operator || after.Name != name {
			t.Errorf("%+v %v", after, err)
		}
		if _, err := h.UpdateUser(ctx, ada.User.ID, directory.UserChange{Operator: &no}); err != nil {
			t.Error(err)
		}
		if made, err := h.CreateTeamFor(ctx, "grace@example.com", "Compilers", ""); err != nil || h.actor(t, u.ID).RoleIn(made.ID) != accounts.Owner {
			t.Errorf("%+v %v", made, err)
		}
		_, err = h.CreateTeamFor(ctx, "nobody@example.com", "Compilers", "")
		wantCode(t, err, "user_not_found")
		if _, err := h.ResetFactors(ctx, u.ID, false); err != nil {
			t.Error(err)
		}
	})
}

// An owner who is made less cannot let another owner in by a link of before.
func TestASVS_8_3_2_InvitesOfOwnersEndWithTheirRole(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		u := h.person(t, "bob@example.com")
		if _, err := h.PutMember(ctx, team.ID, u.Email, accounts.Owner); err != nil {
			t.Fatal(err)
		}
		_, token, err := h.CreateInvite(ctx, h.actor(t, u.ID), team.ID, accounts.NewInvite{Role: accounts.Owner})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.SetRole(ctx, ada, team.ID, u.ID, accounts.Admin); err != nil {
			t.Fatal(err)
		}
		_, _, err = h.LookInvite(ctx, token)
		wantCode(t, err, "invite_ended")
	})
}
