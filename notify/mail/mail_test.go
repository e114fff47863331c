package mail_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
	"github.com/parawork/parawork/testing/testsmtp"
)

// harness is a Service on a real store and mail server, with a clock of its own.
type harness struct {
	*mail.Service
	db    *store.DB
	store *store.Mails
	mu    sync.Mutex
	time  time.Time
}

func newHarness(db *store.DB, v mail.Server) *harness {
	h := &harness{db: db, store: store.NewMails(db), time: time.Now()}
	h.Service = mail.New(mail.Config{Server: v, Store: h.store, Now: h.now,
		Sealer: testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db), Key: bytes.Repeat([]byte{7}, vault.KeyBytes)})})
	return h
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

// run has the Service send until the test ends.
func (h *harness) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// until waits until the counts are such.
func (h *harness) until(t *testing.T, what string, ok func(s mail.Status) bool) mail.Status {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		s, err := h.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok(s) {
			return s
		}
		if time.Now().After(late) {
			t.Fatalf("waiting for %s: %+v", what, s)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func at(s *testsmtp.Server) mail.Server {
	return mail.Server{Host: "127.0.0.1", Port: s.Port, Username: s.Username, Password: s.Password, From: "Parawork <parawork@example.com>", Roots: s.Roots}
}

var invite = accounts.Mail{Kind: "invite", To: "grace@example.com", Subject: "Join Häfen on Parawork",
	Text: "Open this:\n\nhttps://pw.example.com/join#secretsecret\n.\nGrüße " + strings.Repeat("long ", 400) + "\n"}

func TestMailLeavesOnceAndIsForgotten(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		smtp := testsmtp.New(t)
		h := newHarness(db, at(smtp))
		ctx := t.Context()
		// What is undone is not sent.
		undone := errors.New("undone")
		if err := db.Tx(ctx, func(ctx context.Context) error { return errors.Join(h.Queue(ctx, invite), undone) }); !errors.Is(err, undone) {
			t.Fatal(err)
		}
		if err := db.Tx(ctx, func(ctx context.Context) error { return h.Queue(ctx, invite) }); err != nil {
			t.Fatal(err)
		}
		due, _, err := h.store.DueMails(ctx, h.now().UnixMilli(), 10)
		if err != nil || len(due) != 1 || due[0].Sealed == "" || strings.Contains(due[0].Sealed, "secret") {
			t.Fatalf("outbox: %+v %v", due, err)
		}
		h.run(t)
		got := smtp.Wait(t, 1)
		if got.From != "parawork@example.com" || got.To != "grace@example.com" || !strings.Contains(got.Data, "pw.example.com/join#secretsecret") ||
			!strings.Contains(got.Data, "Auto-Submitted: auto-generated") || !strings.Contains(got.Data, "Message-ID: <"+due[0].ID+"@") || strings.Contains(got.Data, "Häfen") {
			t.Errorf("mail: %+v", got)
		}
		h.until(t, "the end", func(s mail.Status) bool { return s.Pending == 0 })
		var sealed, state string
		if err := db.QueryRow(ctx, `SELECT sealed, state FROM mails WHERE id = ?`, due[0].ID).Scan(&sealed, &state); err != nil || sealed != "" || state != "sent" {
			t.Errorf("its row: %q %q %v", sealed, state, err)
		}
		h.pass(31 * 24 * time.Hour)
		if err := h.store.DropMails(ctx, h.now().Add(-30*24*time.Hour).UnixMilli()); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow(ctx, `SELECT state FROM mails WHERE id = ?`, due[0].ID).Scan(&state); !fault.Is(err, fault.NotFound) {
			t.Errorf("an old mail: %v", err)
		}
		if n := len(smtp.Taken()); n != 1 {
			t.Errorf("%d mails arrived", n)
		}
	})
}

func TestMailIsTriedAgainOrGivenUp(t *testing.T) {
	t.Parallel()
	h := newHarness(storetest.SQLite(t), mail.Server{})
	smtp := testsmtp.New(t)
	h = newHarness(h.db, at(smtp))
	ctx := t.Context()
	smtp.Refuse("grace@example.com", "451 4.3.0 later")
	smtp.Refuse("nobody@example.com", "550 5.1.1 no such user")
	if err := h.Queue(ctx, invite); err != nil {
		t.Fatal(err)
	}
	gone := invite
	gone.To = "nobody@example.com"
	if err := h.Queue(ctx, gone); err != nil {
		t.Fatal(err)
	}
	h.run(t)
	s := h.until(t, "one given up, one tried", func(s mail.Status) bool { return s.GivenUp == 1 && s.Pending == 1 && tried(t, h.db) == 1 })
	if s.LastError == "" || strings.Contains(s.LastError, "secret") {
		t.Errorf("%+v", s)
	}
	smtp.Refuse("grace@example.com", "")
	h.pass(15 * time.Second)
	if err := h.Queue(ctx, accounts.Mail{Kind: "reset", To: "ada@example.com", Subject: "s", Text: "t"}); err != nil { // has the outbox looked at
		t.Fatal(err)
	}
	smtp.Wait(t, 2)
	h.until(t, "all sent", func(s mail.Status) bool { return s.Pending == 0 && s.GivenUp == 1 })
}

// tried is how often the mail that waits was tried.
func tried(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), `SELECT COALESCE(MAX(attempts), 0) FROM mails WHERE state = 'pending'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMailTest(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	ctx := t.Context()
	check := func(name string, v mail.Server, code, words string) {
		t.Helper()
		err := newHarness(db, v).Test(ctx, "ada@example.com")
		if fault.CodeOf(err) != code || err != nil && (!strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "password")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good, implicit, bare := testsmtp.New(t), testsmtp.New(t, func(s *testsmtp.Server) { s.Implicit = true }), testsmtp.New(t, func(s *testsmtp.Server) { s.NoTLS = true })
	check("STARTTLS", at(good), "", "")
	v := at(implicit)
	v.TLS = mail.TLS
	check("TLS from the first byte", v, "", "")
	v = at(bare)
	check("a server without TLS", v, "mail_failed", "STARTTLS") // nothing is sent in clear, a login least of all
	v.TLS, v.Username = mail.Plain, ""
	check("a relay on this machine", v, "", "")
	v = at(good)
	v.Password = "wrong"
	check("a wrong login", v, "mail_failed", "535")
	v = at(good)
	v.Roots = nil
	check("a certificate nobody vouches for", v, "mail_failed", "certificate")
	check("no server", mail.Server{}, "mail_off", "mail.host")
	v = at(good)
	v.Port = 1
	check("nothing there", v, "mail_failed", "nothing answers")
	if n := len(good.Taken()) + len(implicit.Taken()) + len(bare.Taken()); n != 3 {
		t.Errorf("%d mails arrived", n)
	}
}
