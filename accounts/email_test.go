package accounts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testaccounts"
)

// A user's address changes when the link is used that went to the new one, once, in time, and a mail goes to the earlier address.
func TestEmailIsChangedByALink(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, bob := h.user(t, "ada@example.com"), h.user(t, "bob@example.com")
		a, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
		mail := &post{}
		svc := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: h.key, Now: h.now, Mailer: mail, PublicURL: "https://parawork.example.com"})
		ask := func(to string) string {
			t.Helper()
			u, mailed, err := svc.ChangeEmail(ctx, a, to)
			if err != nil || !mailed || u.Email != "ada@example.com" {
				t.Fatalf("ChangeEmail: %+v %t %v", u, mailed, err)
			}
			last := mail.sent[len(mail.sent)-1]
			_, rest, ok := strings.Cut(last.Text, "https://parawork.example.com/email#")
			if !ok || last.To != strings.ToLower(to) {
				t.Fatalf("the mail: %+v", last)
			}
			token, _, _ := strings.Cut(rest, "\n")
			return token
		}
		late, taken, first := ask("late@example.com"), ask(bob.Email), ask("Ada@new.example.com")
		_, err := svc.ConfirmEmail(ctx, taken, accounts.Meta{})
		wantCode(t, err, "email_taken")
		_, err = svc.ConfirmEmail(ctx, "nothing", accounts.Meta{})
		wantCode(t, err, "link_ended")
		if id, err := svc.ConfirmEmail(ctx, first, accounts.Meta{}); err != nil || id != ada.ID {
			t.Fatalf("ConfirmEmail: %v", err)
		}
		if told := mail.sent[len(mail.sent)-1]; told.To != "ada@example.com" || strings.Contains(told.Text, "new.example.com") {
			t.Errorf("the mail to the earlier address: %+v", told)
		}
		for _, token := range []string{first, late} { // used, and of an address that is no more
			_, err = svc.ConfirmEmail(ctx, token, accounts.Meta{})
			wantCode(t, err, "link_ended")
		}
		if u, err := h.UserByEmail(ctx, "ada@new.example.com"); err != nil || u.ID != ada.ID || u.EmailUnverified {
			t.Errorf("%+v %v", u, err)
		}
		if _, err := svc.Login(ctx, "ada@new.example.com", password, accounts.Meta{}); err != nil {
			t.Errorf("signing in by the new address: %v", err)
		}
		// Mails are bounded, and a browser that was left open changes nothing.
		_, _, err = svc.ChangeEmail(ctx, a, "more@example.com")
		wantCode(t, err, "too_many_attempts")
		h.pass(20 * time.Minute)
		_, _, err = svc.ChangeEmail(ctx, a, "more@example.com")
		wantCode(t, err, "confirm_needed")
		a.TokenID = "tok"
		_, _, err = svc.ChangeEmail(ctx, a, "more@example.com")
		wantCode(t, err, "token_not_allowed")
	})
}

// Without mail an address changes at once and counts as not verified.
func TestEmailIsChangedWithoutMail(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		h.user(t, "bob@example.com")
		a, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
		for to, code := range map[string]string{"ada@example.com": "email_same", "bob@example.com": "email_taken", "no address": "invalid_email"} {
			_, _, err := h.ChangeEmail(ctx, a, to)
			wantCode(t, err, code)
		}
		u, mailed, err := h.ChangeEmail(ctx, a, "ada@new.example.com")
		if err != nil || mailed || u.Email != "ada@new.example.com" || !u.EmailUnverified || !h.took(ada.ID) {
			t.Errorf("%+v %t %v", u, mailed, err)
		}
	})
}
