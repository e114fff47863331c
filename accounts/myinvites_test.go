package accounts_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testaccounts"
)

// linkIn is the token of the link in a mail.
func linkIn(t *testing.T, m accounts.Mail) string {
	t.Helper()
	_, rest, ok := strings.Cut(m.Text, "#")
	token, _, _ := strings.Cut(rest, "\n")
	if !ok || token == "" {
		t.Fatalf("no link in %q", m.Text)
	}
	return token
}

// The link that was shown to who invites proves nothing about the address; the one that went by mail alone does.
func TestWhatProvesAnAddress(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		mails := &post{}
		h.Accounts = testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: h.key, Now: h.now, Mailer: mails, PublicURL: "https://pw.example.com/"})
		second, err := h.CreateTeam(ctx, ada, "Second", "")
		if err != nil {
			t.Fatal(err)
		}
		ada = h.actor(t, ada.User.ID)
		signUp := func(name string, mailed bool) accounts.Actor {
			t.Helper()
			_, token, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Member, Email: name + "@example.com"})
			if err != nil {
				t.Fatal(err)
			}
			if mailed {
				token = linkIn(t, mails.sent[len(mails.sent)-1])
			}
			u, _, err := h.SignUp(ctx, token, accounts.NewUser{Name: name, Password: password}, accounts.Meta{IP: "192.0.2.1"})
			if err != nil {
				t.Fatal(err)
			}
			return h.actor(t, u.ID)
		}
		typed, mailed := signUp("eve", false), signUp("grace", true)
		for _, email := range []string{"eve@example.com", "grace@example.com"} {
			if _, _, err := h.CreateInvite(ctx, ada, second.ID, accounts.NewInvite{Role: accounts.Member, Email: email}); err != nil {
				t.Fatal(err)
			}
		}
		seen := func(a accounts.Actor) int {
			t.Helper()
			all, err := h.MyInvites(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		if seen(typed) != 0 || seen(mailed) != 1 {
			t.Errorf("typed: %d, mailed: %d", seen(typed), seen(mailed))
		}
		// A link to a new password that went by mail proves the address, too; one that an operator was shown does not.
		for _, byMail := range []bool{false, true} {
			token, _, _, err := h.ResetLink(ctx, ada.User.ID, typed.User.ID, false)
			if byMail {
				_, err = h.ForgotPassword(ctx, "eve@example.com", accounts.Meta{IP: "192.0.2.1"})
				token = linkIn(t, mails.sent[len(mails.sent)-1])
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.ResetByLink(ctx, token, "eight lamps over water", false, accounts.Meta{IP: "192.0.2.1"}); err != nil {
				t.Fatal(err)
			}
			if typed = h.actor(t, typed.User.ID); typed.User.EmailUnverified == byMail || seen(typed) == 1 != byMail {
				t.Errorf("by mail %v: %+v sees %d", byMail, typed.User, seen(typed))
			}
		}
	})
}

// An invite that has ended, and one to a suspended team, is not shown and cannot be accepted.
func TestEndedInvitesAreNotShown(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		bob := h.actor(t, h.person(t, "bob@example.com").ID)
		i, _, err := h.CreateInvite(ctx, ada, team.ID, accounts.NewInvite{Role: accounts.Member, Email: "bob@example.com"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.SuspendTeam(ctx, team.ID); err != nil {
			t.Fatal(err)
		}
		_, err = h.AcceptInvite(ctx, bob, i.ID)
		wantCode(t, err, "team_suspended")
		if all, err := h.MyInvites(ctx, bob); err != nil || len(all) != 0 {
			t.Errorf("of a suspended team: %+v %v", all, err)
		}
		if _, err := h.RestoreTeam(ctx, team.ID); err != nil {
			t.Fatal(err)
		}
		h.pass(7*24*60*60*1e9 + 1e6)
		_, err = h.AcceptInvite(ctx, bob, i.ID)
		wantCode(t, err, "invite_ended")
		_, err = h.DeclineInvite(ctx, bob, i.ID)
		wantCode(t, err, "invite_ended")
		if all, err := h.MyInvites(ctx, bob); err != nil || len(all) != 0 {
			t.Errorf("after seven days: %+v %v", all, err)
		}
	})
}
