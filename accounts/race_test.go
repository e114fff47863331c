package accounts_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testaccounts"
)

// between is a store in which something else happens in the midst of a sign-in.
type between struct {
	testaccounts.Store
	then func()
}

func (b *between) Factors(ctx context.Context, userID string) (accounts.Factors, error) {
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return b.Store.Factors(ctx, userID)
}

// hooked calls before the first read of a salt.
type hooked struct {
	io.Reader
	then func()
}

func (r *hooked) Read(p []byte) (int, error) {
	if then := r.then; then != nil && len(p) == 16 {
		r.then = nil
		then()
	}
	return r.Reader.Read(p)
}

// Who began to sign in with a password that is changed meanwhile is not in, whichever second factor they have, and brings no old password
// back.
func TestASVS_7_4_3_SignInsOfAnOldPasswordEnd(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		weak := weakHash(password)
		kept := store.NewAccounts(h.db)
		set := func(hash string) {
			t.Helper()
			if err := kept.SetPasswordHash(ctx, ada.ID, hash); err != nil {
				t.Fatal(err)
			}
		}
		reset := func() {
			if err := h.ResetPassword(ctx, ada.ID, "eight lamps over water", false); err != nil {
				t.Error(err)
			}
		}
		midst, salt := &between{Store: kept}, &hooked{Reader: rand.Reader}
		late := testaccounts.New(testaccounts.Config{Store: midst, Key: bytes.Repeat([]byte{7}, vault.KeyBytes), Now: h.now, Rand: salt})

		midst.then = reset
		_, err := late.Login(ctx, ada.Email, password, accounts.Meta{IP: "192.0.2.1"})
		wantCode(t, err, "wrong_credentials")

		set(weak)
		salt.then = reset
		_, err = late.Login(ctx, ada.Email, password, accounts.Meta{IP: "192.0.2.1"})
		wantCode(t, err, "wrong_credentials")
		if _, _, _, err := h.Login(ctx, ada.Email, "eight lamps over water", accounts.Meta{IP: "192.0.2.2"}); err != nil {
			t.Errorf("the new password: %v", err)
		}

		set(ada.PasswordHash)
		a, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
		_, recovery := h.withApp(t, a)
		midst.then = reset
		e, err := late.Login(ctx, ada.Email, password, accounts.Meta{IP: "192.0.2.1"})
		if err != nil || e.Pending == "" {
			t.Fatal(e, err)
		}
		_, err = late.LoginByCode(ctx, e.Pending, accounts.ProofRecovery, recovery[0], accounts.Meta{IP: "192.0.2.1"})
		wantCode(t, err, "wrong_credentials")
	})
}

// A token that was asked for just before its user is suspended is not made just after: it would work again once they are restored.
func TestASVS_7_4_2_SuspendedUsersGetNoTokens(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		u := h.bare(t, accounts.User{Email: "bob@example.com"})
		underWay, _ := h.signIn(t, u.ID, accounts.ProofPassword)
		if _, err := h.SuspendUser(ctx, accounts.Actor{}, u.ID); err != nil {
			t.Fatal(err)
		}
		_, value, err := h.IssueToken(ctx, underWay, signin.TokenRequest{Name: "t"})
		wantCode(t, err, "suspended")
		if _, err := h.RestoreUser(ctx, u.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := h.AuthenticateToken(ctx, value); err == nil {
			t.Error("a token of before works after the suspension")
		}
	})
}
