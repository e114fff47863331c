package accounts_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts/directory"
	hashes "github.com/parawork/parawork/accounts/password"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testaccounts"
)

// appCode is what an authenticator app shows, by a way of its own.
func (h *harness) appCode(t *testing.T, secret string) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha1.New, key)
	binary.Write(m, binary.BigEndian, h.now().Unix()/30)
	sum := m.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1000000)
}

// withApp gives a user an authenticator app and returns its secret and the recovery codes.
func (h *harness) withApp(t *testing.T, a accounts.Actor) (secret string, recovery []string) {
	t.Helper()
	secret, uri, err := h.BeginTOTP(t.Context(), a)
	if err != nil {
		t.Fatalf("BeginTOTP: %v", err)
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "otpauth" || u.Query().Get("secret") != secret || u.Query().Get("issuer") != "Parawork" {
		t.Errorf("address of the app: %s %v", uri, err)
	}
	if recovery, err = h.ConfirmTOTP(t.Context(), a, h.appCode(t, secret)); err != nil {
		t.Fatalf("ConfirmTOTP: %v", err)
	}
	return secret, recovery
}

// begin signs in with a password as far as that goes.
func (h *harness) begin(t *testing.T, email string, meta accounts.Meta) signin.Entered {
	t.Helper()
	e, err := h.Accounts.Login(t.Context(), email, password, meta)
	if err != nil {
		t.Fatalf("Login: %v", err)
	}
	return e
}

// With an authenticator app a password alone signs nobody in; each code does so once, and so does each recovery code.
func TestASVS_6_5_1_CodesAreTakenOnce(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		a, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
		secret, recovery := h.withApp(t, a)
		var clear int
		if err := h.db.QueryRow(ctx, `SELECT COUNT(*) FROM totp WHERE sealed LIKE ?`, "%"+secret+"%").Scan(&clear); err != nil || clear != 0 {
			t.Errorf("the secret is kept in clear: %d %v", clear, err)
		}
		if len(recovery) != 10 || len(recovery[0]) != 19 {
			t.Fatalf("recovery codes: %v", recovery)
		}
		at := accounts.Meta{IP: "192.0.2.1"}
		e := h.begin(t, "ada@example.com", at)
		if e.Cookie != "" || e.Pending == "" || strings.Join(e.Methods, " ") != "totp recovery_code" {
			t.Fatalf("after the password: %+v", e)
		}
		if _, err := h.Authenticate(ctx, e.Pending); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("what a sign-in goes on with is a session: %v", err)
		}
		used := h.appCode(t, secret)
		_, err := h.LoginByCode(ctx, e.Pending, accounts.ProofTOTP, used, at)
		wantCode(t, err, "wrong_code") // ConfirmTOTP took it
		h.pass(30 * time.Second)
		code := h.appCode(t, secret)
		done, err := h.LoginByCode(ctx, e.Pending, accounts.ProofTOTP, code[:3]+" "+code[3:], at)
		if err != nil || done.Cookie == "" {
			t.Fatalf("LoginByCode: %+v %v", done, err)
		}
		if got, err := h.Authenticate(ctx, done.Cookie); err != nil || !got.SecondFactor {
			t.Errorf("a session with a second factor: %+v %v", got, err)
		}
		_, err = h.LoginByCode(ctx, e.Pending, accounts.ProofTOTP, code, at)
		wantCode(t, err, "login_ended")
		e = h.begin(t, "ada@example.com", at)
		_, err = h.LoginByCode(ctx, e.Pending, accounts.ProofTOTP, code, at)
		wantCode(t, err, "wrong_code")
		_, err = h.LoginByCode(ctx, e.Pending, accounts.ProofPassword, code, at)
		wantCode(t, err, "invalid_method")
		if done, err = h.LoginByCode(ctx, e.Pending, accounts.ProofRecovery, strings.ToUpper(recovery[3]), at); err != nil {
			t.Fatalf("a recovery code: %v", err)
		}
		e = h.begin(t, "ada@example.com", at)
		_, err = h.LoginByCode(ctx, e.Pending, accounts.ProofRecovery, recovery[3], at)
		wantCode(t, err, "wrong_code")
		if w, err := h.WaysIn(ctx, a); err != nil || w.RecoveryCodes != 9 || w.TOTP.ConfirmedAt == 0 || !w.HasPassword {
			t.Errorf("WaysIn: %+v %v", w, err)
		}
	})
}

// Wrong codes end the sign-in, then are refused wherever they come from; a device of the user's own goes on.
func TestASVS_6_3_1_CodesAreNotGuessed(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		a, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
		secret, _ := h.withApp(t, a)
		h.pass(time.Minute)
		home := accounts.Meta{IP: "192.0.2.1"}
		e := h.begin(t, "ada@example.com", home)
		done, err := h.LoginByCode(ctx, e.Pending, accounts.ProofTOTP, h.appCode(t, secret), home)
		if err != nil || done.Device == "" {
			t.Fatal(done, err)
		}
		var refused bool
		for i := range 40 {
			from := accounts.Meta{IP: fmt.Sprintf("198.51.100.%d", i)}
			if i%5 == 0 {
				e = h.begin(t, "ada@example.com", from)
			}
			_, err := h.LoginByCode(ctx, e.Pending, accounts.ProofTOTP, "000000", from)
			switch code := fault.CodeOf(err); {
			case code == "too_many_attempts":
				refused = true
			case i%5 == 4 && code != "login_ended" && !refused:
				t.Fatalf("after five wrong codes: %v", err)
			}
			if refused {
				break
			}
		}
		if !refused {
			t.Fatal("40 codes from 40 addresses were all tried")
		}
		h.pass(30 * time.Second)
		other := h.begin(t, "ada@example.com", accounts.Meta{IP: "203.0.113.5"})
		_, err = h.LoginByCode(ctx, other.Pending, accounts.ProofTOTP, h.appCode(t, secret), accounts.Meta{IP: "203.0.113.5"})
		wantCode(t, err, "too_many_attempts")
		home.Device = done.Device
		own := h.begin(t, "ada@example.com", home)
		if _, err := h.LoginByCode(ctx, own.Pending, accounts.ProofTOTP, h.appCode(t, secret), home); err != nil {
			t.Errorf("the user's own device is locked out: %v", err)
		}
	})
}

// Guessing at an account from behind its owner's address keeps nobody out who signed in with this browser before; the value that says
// so is good for this account alone.
func TestASVS_6_3_1_GuessingLocksNobodyOut(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.user(t, "ada@example.com")
		h.bare(t, accounts.User{Email: "eve@example.com"})
		home := accounts.Meta{IP: "192.0.2.1"}
		home.Device = h.begin(t, "ada@example.com", home).Device
		stranger := accounts.Meta{IP: "192.0.2.1"}
		for range 40 {
			h.Accounts.Login(ctx, "ada@example.com", strings.Repeat("x", 2000), stranger)
		}
		_, err := h.Accounts.Login(ctx, "ada@example.com", password, stranger)
		wantCode(t, err, "too_many_attempts")
		h.begin(t, "ada@example.com", home)
		forged := home
		forged.Device += "x"
		_, err = h.Accounts.Login(ctx, "ada@example.com", password, forged)
		wantCode(t, err, "too_many_attempts")
		var n int
		for n = range 40 {
			if _, err = h.Accounts.Login(ctx, "ada@example.com", strings.Repeat("x", 2000), home); fault.Is(err, fault.RateLimited) {
				break
			}
		}
		if n > 15 {
			t.Errorf("a device may guess %d times", n)
		}
		for n = range 40 { // eve's account, with ada's device: counted as from anywhere
			if _, err = h.Accounts.Login(ctx, "eve@example.com", strings.Repeat("x", 2000), home); fault.Is(err, fault.RateLimited) {
				break
			}
		}
		if n > 15 {
			t.Errorf("another's device may guess %d times", n)
		}
	})
}

// How somebody signs in changes only with a fresh proof of who they are, in a session and not with a token; with the factor that was
// there where there was one.
func TestASVS_7_5_1_ChangesNeedAFreshProof(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		a, cookie := h.signIn(t, ada.ID, accounts.ProofPassword)
		token := a
		token.TokenID, token.SessionHash = "tok_x", ""
		_, _, err := h.BeginTOTP(ctx, token)
		wantCode(t, err, "token_not_allowed")
		h.pass(16 * time.Minute)
		_, _, err = h.BeginTOTP(ctx, a)
		wantCode(t, err, "confirm_needed")
		wantCode(t, h.ConfirmByPassword(ctx, a, "wrong password"), "wrong_password")
		if err := h.ConfirmByPassword(ctx, a, password); err != nil {
			t.Fatal(err)
		}
		again := func(cookie string) accounts.Actor {
			a, err := h.Authenticate(ctx, cookie)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		a = again(cookie)
		secret, recovery := h.withApp(t, a)
		if a = again(cookie); !a.SecondFactor {
			t.Error("the session that set up the app does not count as one with it")
		}
		_, _, err = h.BeginTOTP(ctx, a)
		wantCode(t, err, "totp_enabled")

		// A session that a provider vouches for is asked for the factor before it may take it away.
		b, other := h.signIn(t, ada.ID, accounts.ProofSSO)
		wantCode(t, h.RemoveTOTP(ctx, b), "confirm_needed")
		wantCode(t, h.ConfirmByCode(ctx, b, "000000"), "wrong_code")
		if err := h.ConfirmByCode(ctx, b, recovery[0]); err != nil {
			t.Fatal(err)
		}
		if b = again(other); !b.SecondFactor {
			t.Error("a confirmed code does not count as a second factor")
		}
		if codes, err := h.RenewRecoveryCodes(ctx, b); err != nil || codes[0] == recovery[0] {
			t.Errorf("RenewRecoveryCodes: %v", err)
		}
		wantCode(t, h.ConfirmByCode(ctx, b, recovery[1]), "wrong_code")
		h.pass(30 * time.Second)
		if err := h.ConfirmByCode(ctx, a, h.appCode(t, secret)); err != nil {
			t.Error(err)
		}
		// Without the app no session passes for one with a second factor.
		if err := h.RemoveTOTP(ctx, b); err != nil {
			t.Fatal(err)
		}
		_, err = h.Authenticate(ctx, cookie)
		wantCode(t, err, "signed_out")
		if b = again(other); b.SecondFactor {
			t.Error("the session still counts as one with a second factor")
		}
		_, err = h.RenewRecoveryCodes(ctx, b)
		wantCode(t, err, "no_second_factor")
		if e := h.begin(t, "ada@example.com", accounts.Meta{}); e.Cookie == "" {
			t.Error("a second factor is asked for that is there no more")
		}
	})
}

// A link sets a password once, in time, and ends every session and sign-in under way of its user.
func TestASVS_6_4_3_ResetLinks(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		a, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
		secret, _ := h.withApp(t, a)
		e := h.begin(t, "ada@example.com", accounts.Meta{})
		link := func(life time.Duration) string {
			token := fmt.Sprint("token-of-a-link-", h.now().UnixNano(), life)
			_, err := h.db.Exec(ctx, `INSERT INTO password_links (token_hash, user_id, created_by, created_at, expires_at) VALUES (?, ?, '', ?, ?)`,
				hashes.Digest(token), ada.ID, h.now().UnixMilli(), h.now().Add(life).UnixMilli())
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		token, brief := link(time.Hour), link(time.Minute)
		h.pass(2 * time.Minute)
		_, err := h.ResetByLink(ctx, brief, "a new and good one", false, accounts.Meta{})
		wantCode(t, err, "link_ended")
		_, err = h.ResetByLink(ctx, "nothing", "a new and good one", false, accounts.Meta{})
		wantCode(t, err, "link_ended")
		_, err = h.ResetByLink(ctx, token, "short", false, accounts.Meta{})
		wantCode(t, err, "weak_password")
		if _, err := h.ResetByLink(ctx, token, "a new and good one", false, accounts.Meta{}); err != nil || !h.took(ada.ID) {
			t.Fatalf("ResetByLink: %v", err)
		}
		_, err = h.ResetByLink(ctx, token, "another new one", false, accounts.Meta{})
		wantCode(t, err, "link_ended")
		_, err = h.Authenticate(ctx, a.SessionHash)
		wantCode(t, err, "signed_out")
		h.pass(time.Minute)
		_, err = h.LoginByCode(ctx, e.Pending, accounts.ProofTOTP, h.appCode(t, secret), accounts.Meta{})
		wantCode(t, err, "login_ended")
		if e, err = h.Accounts.Login(ctx, "ada@example.com", "a new and good one", accounts.Meta{}); err != nil || e.Cookie != "" {
			t.Errorf("after a reset the second factor is not asked for: %+v %v", e, err)
		}
	})
}

// A request for a password link gets the same answer for every address; only a user who may have a link receives it, a few times.
func TestASVS_6_3_8_ForgottenPasswordsTellNothing(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		bob := h.bare(t, accounts.User{Email: "bob@example.com", SuspendedAt: 1})
		_, err := h.ForgotPassword(ctx, ada.Email, accounts.Meta{})
		wantCode(t, err, "no_mail")
		mail := &post{}
		svc := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: h.key, Now: h.now, Mailer: mail, PublicURL: "https://parawork.example.com"})
		for _, email := range []string{"nobody@example.com", "no address", bob.Email} {
			if id, err := svc.ForgotPassword(ctx, email, accounts.Meta{}); err != nil || id != "" || len(mail.sent) != 0 {
				t.Errorf("%s: %q %v %v", email, id, err, mail.sent)
			}
		}
		for range 5 {
			if _, err := svc.ForgotPassword(ctx, "ADA@example.com", accounts.Meta{}); err != nil {
				t.Fatal(err)
			}
		}
		if len(mail.sent) != 3 || mail.sent[0].To != ada.Email {
			t.Fatalf("mails: %+v", mail.sent)
		}
		_, rest, ok := strings.Cut(mail.sent[2].Text, "https://parawork.example.com/reset#")
		token, _, _ := strings.Cut(rest, "\n")
		if !ok {
			t.Fatalf("no link in %q", mail.sent[2].Text)
		}
		if id, err := svc.ResetByLink(ctx, token, "a new and good one", false, accounts.Meta{}); err != nil || id != ada.ID {
			t.Errorf("ResetByLink: %v", err)
		}
	})
}

// A link that went to a wrong address is worth nothing once the address was put right.
func TestASVS_6_4_3_LinksEndWithTheAddressTheyWentTo(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		u := h.person(t, "typo@example.com")
		token, _, _, err := h.ResetLink(ctx, "", u.ID, true)
		if err != nil {
			t.Fatal(err)
		}
		name, right := "Bob", "bob@example.com"
		if _, err := h.UpdateUser(ctx, u.ID, directory.UserChange{Name: &name}); err != nil {
			t.Fatal(err)
		}
		_, err = h.ResetByLink(ctx, token, "short", false, accounts.Meta{})
		wantCode(t, err, "weak_password") // it works still
		if _, err := h.UpdateUser(ctx, u.ID, directory.UserChange{Email: &right}); err != nil {
			t.Fatal(err)
		}
		_, err = h.ResetByLink(ctx, token, password, false, accounts.Meta{})
		wantCode(t, err, "link_ended")
	})
}

// A session of before the second factor makes no token, which would count as one with it.
func TestASVS_7_5_1_TokensNeedTheSecondFactor(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		u := h.bare(t, accounts.User{Email: "ada@example.com"})
		old, _ := h.signIn(t, u.ID, accounts.ProofPassword)
		a, cookie := h.signIn(t, u.ID, accounts.ProofPassword)
		h.withApp(t, a)
		_, _, err := h.IssueToken(t.Context(), old, signin.TokenRequest{Name: "t"})
		wantCode(t, err, "confirm_needed")
		if a, err = h.Authenticate(t.Context(), cookie); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.IssueToken(t.Context(), a, signin.TokenRequest{Name: "t"}); err != nil {
			t.Errorf("with the second factor: %v", err)
		}
	})
}
