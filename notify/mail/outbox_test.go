package mail_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/testing/testsmtp"
)

// outbox is the storage of mails in memory.
type outbox struct {
	mu       sync.Mutex
	mails    []mail.Mail
	claimed  map[string]int64 // until when
	hidden   bool             // the transaction that wrote them has not ended
	broken   error
	attempts []time.Time // when one was stored
	drops    []int64
}

func (o *outbox) do(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn()
}

func (o *outbox) InsertMail(_ context.Context, m mail.Mail) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken == nil {
		o.mails = append(o.mails, m)
	}
	return o.broken
}

func (o *outbox) DueMails(_ context.Context, now int64, limit int) (due []mail.Mail, next int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil || o.hidden {
		return nil, 0, o.broken
	}
	for _, m := range o.mails {
		at := max(m.NextAt, o.claimed[m.ID])
		switch {
		case m.State != mail.Pending:
		case at <= now:
			due = append(due, m)
		case next == 0 || at < next:
			next = at
		}
	}
	return due[:min(limit, len(due))], next, nil
}

func (o *outbox) ClaimMail(_ context.Context, id string, now, until int64) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.claimed[id] > now {
		return false, nil
	}
	o.claimed[id] = until
	return true, nil
}

func (o *outbox) UpdateMail(_ context.Context, m mail.Mail) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.mails, func(x mail.Mail) bool { return x.ID == m.ID })
	o.mails[i] = m
	delete(o.claimed, m.ID)
	o.attempts = append(o.attempts, time.Now())
	return nil
}

func (o *outbox) MailCounts(_ context.Context, since int64) (pending, givenUp int, last string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.mails {
		switch {
		case m.State == mail.Pending:
			pending++
		case m.State == mail.GivenUp && m.DoneAt >= since:
			givenUp++
		}
		if m.Error != "" {
			last = m.Error
		}
	}
	return pending, givenUp, last, o.broken
}

func (o *outbox) DropMails(_ context.Context, before int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drops = append(o.drops, before)
	return o.broken
}

// open seals nothing, so that a test sees what is stored.
type open struct{ lost, broken error }

func (s *open) Seal(name, value string) (string, error) { return name + "|" + value, s.broken }

func (s *open) Unseal(name, sealed string) (string, error) {
	value, ok := strings.CutPrefix(sealed, name+"|")
	if !ok {
		return "", errors.New("not sealed for this mail")
	}
	return value, s.lost
}

// nobody is a mail server that is not there.
var nobody = mail.Server{Host: "127.0.0.1", Port: 1, From: "parawork@example.com", TLS: mail.Plain}

// sending is a Service over an outbox in memory that runs in a bubble.
type sending struct {
	*outbox
	*open
	svc  *mail.Service
	stop func()
}

func inBubble(t *testing.T, fn func(t *testing.T, s *sending)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sending{outbox: &outbox{claimed: map[string]int64{}}, open: &open{}}
		s.svc = mail.New(mail.Config{Server: nobody, Store: s.outbox, Sealer: s.open})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.svc.Run(ctx) }()
		s.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		defer s.stop()
		fn(t, s)
	})
}

func (s *sending) queue(t *testing.T, to string) {
	t.Helper()
	if err := s.svc.Queue(t.Context(), accounts.Mail{Kind: "invite", TeamID: "team", To: to, Subject: "Join", Text: "https://pw.example.com/join#secret"}); err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// No mail is lost while the mail server is down for less than a day. After that the sender gets an error, and the mail is dropped.
func TestAMailServerThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sending) {
		began := time.Now()
		s.queue(t, "grace@example.com")
		pass(23 * time.Hour)
		s.do(func() {
			m := s.mails[0]
			if m.State != mail.Pending || m.Attempts != 7 || !strings.Contains(m.Sealed, "#secret") || m.Error != "nothing answers at its address and port" || m.DoneAt != 0 {
				t.Errorf("after 23 h: %+v", m)
			}
		})
		pass(4 * time.Hour)
		s.do(func() {
			m := s.mails[0]
			if m.State != mail.GivenUp || m.Attempts != 8 || m.Sealed != "" || m.DoneAt == 0 || m.Error == "" || m.To != "grace@example.com" || m.TeamID != "team" {
				t.Errorf("after 27 h: %+v", m)
			}
			if len(s.attempts) != 8 {
				t.Fatalf("tried at %v", s.attempts)
			}
			at := began
			for i, wait := range []time.Duration{0, 10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour} {
				if got := s.attempts[i].Sub(at); got < wait || got > wait+wait/10+time.Second {
					t.Errorf("attempt %d came %s after the one before, want about %s", i+1, got, wait)
				}
				at = s.attempts[i]
			}
		})
		pass(48 * time.Hour)
		if len(s.attempts) != 8 {
			t.Error("it is tried for ever")
		}
		st, err := s.svc.Status(t.Context())
		if err != nil || !st.Enabled || st.Host != "127.0.0.1:1" || st.From != "parawork@example.com" || st.Pending != 0 || st.GivenUp != 1 || st.LastError == "" {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

func TestWhatNoAttemptWouldHelp(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sending) {
		s.queue(t, "no address")
		s.queue(t, "grace@example.com\r\nBcc: everybody@example.com")
		pass(5 * time.Second)
		s.do(func() {
			for _, m := range s.mails {
				if m.State != mail.GivenUp || m.Attempts != 1 || m.Sealed != "" || strings.ContainsAny(m.Error, "\r\n") {
					t.Errorf("%+v", m)
				}
			}
			s.lost = errors.New("another key")
		})
		s.queue(t, "grace@example.com")
		pass(5 * time.Second)
		s.do(func() {
			if m := s.mails[2]; m.State != mail.GivenUp || m.Attempts != 1 || !strings.Contains(m.Error, "secret.key") {
				t.Errorf("one that cannot be opened: %+v", m)
			}
		})
	})
}

// A mail is of the transaction that queued it: it is looked for when that has ended.
func TestAMailIsSentWhenItsTransactionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sending) {
		pass(time.Minute)
		s.do(func() { s.hidden = true })
		s.queue(t, "grace@example.com")
		pass(300 * time.Millisecond)
		s.do(func() {
			if len(s.attempts) != 0 {
				t.Error("it was sent before it was there")
			}
			s.hidden = false
		})
		pass(time.Second)
		s.do(func() {
			if len(s.attempts) != 1 {
				t.Errorf("tried at %v", s.attempts)
			}
		})
	})
}

// Of several servers one sends a mail; where that one died, another does once it may.
func TestAMailAnotherServerHas(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sending) {
		pass(time.Minute)
		s.do(func() { s.hidden = true })
		s.queue(t, "grace@example.com")
		s.do(func() {
			s.claimed[s.mails[0].ID] = time.Now().Add(5 * time.Minute).UnixMilli()
			s.hidden = false
		})
		pass(4*time.Minute + 50*time.Second)
		s.do(func() {
			if len(s.attempts) != 0 {
				t.Errorf("tried at %v", s.attempts)
			}
		})
		pass(20 * time.Second)
		s.do(func() {
			if len(s.attempts) != 1 {
				t.Errorf("tried at %v", s.attempts)
			}
		})
	})
}

func TestTheOutboxOutlivesTroubleOfItsStorage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sending) {
		gone := errors.New("the disk is gone")
		s.do(func() { s.outbox.broken = gone })
		if err := s.svc.Queue(t.Context(), invite); !errors.Is(err, gone) {
			t.Errorf("Queue: %v", err)
		}
		if _, err := s.svc.Status(t.Context()); !errors.Is(err, gone) {
			t.Errorf("Status: %v", err)
		}
		pass(time.Hour)
		s.do(func() { s.outbox.broken, s.open.broken = nil, errors.New("no key") })
		if err := s.svc.Queue(t.Context(), invite); !errors.Is(err, s.open.broken) || len(s.mails) != 0 {
			t.Errorf("what cannot be sealed is queued: %v, %v", s.mails, err)
		}
		s.do(func() { s.open.broken = nil })
		s.queue(t, "grace@example.com")
		pass(5 * time.Second)
		s.do(func() {
			if len(s.attempts) != 1 {
				t.Errorf("tried at %v", s.attempts)
			}
		})
	})
}

func TestOldMailsAreForgottenEachHour(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sending) {
		began := time.Now()
		pass(3*time.Hour + time.Minute)
		s.do(func() {
			if len(s.drops) != 4 {
				t.Fatalf("%d times", len(s.drops))
			}
			if want := began.Add(-30 * 24 * time.Hour).UnixMilli(); s.drops[0] != want || s.drops[1]-s.drops[0] < time.Hour.Milliseconds() {
				t.Errorf("before %v, want %d and an hour on", s.drops, want)
			}
		})
	})
}

func TestAServerWithoutMail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outbox{}
		svc := mail.New(mail.Config{Store: o, Sealer: &open{}})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- svc.Run(ctx) }()
		for what, err := range map[string]error{"Queue": svc.Queue(t.Context(), invite), "Check": svc.Check(t.Context()), "Test": svc.Test(t.Context(), "ada@example.com")} {
			if fault.CodeOf(err) != "mail_off" {
				t.Errorf("%s: %v", what, err)
			}
		}
		pass(2 * time.Hour)
		if st, err := svc.Status(t.Context()); err != nil || st.Enabled || st.Host != "" || svc.Enabled() || len(o.mails)+len(o.drops) != 0 {
			t.Errorf("%+v, %v; %+v", st, err, o.drops)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Where config.json leaves out how the way is kept private, it is: by the port.
func TestTheWayToTheMailServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server mail.Server
		want   string
	}{
		{mail.Server{Host: "mx"}, "mx:587"}, {mail.Server{Host: "mx", TLS: mail.TLS}, "mx:465"}, {mail.Server{Host: "mx", TLS: mail.Plain}, "mx:587"},
		{mail.Server{Host: "mx", Port: 465}, "mx:465"}, {mail.Server{Host: "mx", Port: 25}, "mx:25"},
	} {
		if st, err := mail.New(mail.Config{Server: c.server, Store: &outbox{}}).Status(t.Context()); err != nil || st.Host != c.want {
			t.Errorf("%+v: %s, %v", c.server, st.Host, err)
		}
	}
	check := func(what string, s mail.Server, code, words string) {
		t.Helper()
		err := mail.New(mail.Config{Server: s, Store: &outbox{}}).Check(t.Context())
		if fault.CodeOf(err) != code || err != nil && (!strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "password")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	smtp := testsmtp.New(t)
	check("as it should be", at(smtp), "", "")
	wrong := at(smtp)
	wrong.Password = "another password"
	check("a wrong login", wrong, "mail_failed", "535")
	plain := at(testsmtp.New(t, func(s *testsmtp.Server) { s.NoTLS = true }))
	check("a server without TLS", plain, "mail_failed", "STARTTLS")
	check("nobody", nobody, "mail_failed", "nothing answers at its address and port")
	if n := len(smtp.Taken()); n != 0 {
		t.Errorf("a look sent %d mails", n)
	}
}
