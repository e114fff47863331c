// Package mail sends mail: invites, links to choose a password, a test. Each mail is a row of an outbox, written in the transaction it
// belongs to, so that a mail is sent if and only if that transaction commits. Subject and text are sealed there, since they hold links, and
// deleted once the mail was sent or given up.
//
// While the mail server is unreachable or answers with a temporary error, the service retries for a day; it does not retry after a
// permanent error.
//
// Goroutines: Run sends until its context ends. New starts nothing.
package mail

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
)

// State of a mail.
type State string

// States of a mail.
const (
	Pending State = "pending"
	Sent    State = "sent"
	GivenUp State = "given_up"
)

// How the connection to the mail server is encrypted.
const (
	StartTLS = "starttls" // asked for after hello, and a server without it refused
	TLS      = "tls"      // from the first byte
	Plain    = "none"     // not at all: for a relay on this machine
)

// Mail is one message of the outbox. Times are ms UTC.
type Mail struct {
	ID        string
	TeamID    string // "" = of the instance
	Kind      string
	To        string
	Sealed    string // subject and text; "" once it has left or was given up
	State     State
	Attempts  int
	NextAt    int64 // not before
	Error     string
	CreatedAt int64
	DoneAt    int64
}

// content is what is sealed.
type content struct{ Subject, Text string }

// Store is the outbox.
type Store interface {
	InsertMail(ctx context.Context, m Mail) error
	// DueMails returns up to limit that are pending, due and not being sent, the longest due first, and when the next one is due (0 = none).
	DueMails(ctx context.Context, now int64, limit int) (due []Mail, next int64, err error)
	// ClaimMail takes one for the caller alone until a time; false when somebody else has it.
	ClaimMail(ctx context.Context, id string, now, until int64) (bool, error)
	// UpdateMail writes everything but what it is and to whom.
	UpdateMail(ctx context.Context, m Mail) error
	// MailCounts counts those that are pending, those given up since a time, and names the newest error since then.
	MailCounts(ctx context.Context, since int64) (pending, givenUp int, lastError string, err error)
	// DropMails forgets those done before a time.
	DropMails(ctx context.Context, before int64) error
}

// Sealer hides a value of the instance from readers of the database.
type Sealer interface {
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
}

// Server is the mail server that takes our mail.
type Server struct {
	Host     string // "" = none: no mail is sent
	Port     int    // 0 = 465 with TLS, else 587
	Username string // "" = without signing in
	Password string
	From     string         // an address, with or without a name
	TLS      string         // StartTLS, TLS or Plain; "" = TLS with port 465, else StartTLS
	Hello    string         // the name we say hello with; "" = this machine's
	Roots    *x509.CertPool // who may vouch for the server; nil = the system's
}

// Config is what a Service is made of.
type Config struct {
	Server Server
	Store  Store
	Sealer Sealer
	Now    func() time.Time
	Log    *slog.Logger
}

// Service queues mail and sends it. Safe for concurrent use.
type Service struct {
	cfg  Config
	post chan struct{}
}

var _ accounts.Mailer = (*Service)(nil)

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &cfg.Server
	if s.TLS == "" {
		s.TLS = StartTLS
		if s.Port == 465 {
			s.TLS = TLS
		}
	}
	if s.Port == 0 {
		s.Port = 587
		if s.TLS == TLS {
			s.Port = 465
		}
	}
	return &Service{cfg: cfg, post: make(chan struct{}, 1)}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Enabled reports whether mail is sent at all.
func (s *Service) Enabled() bool { return s.cfg.Server.Host != "" }

func sealName(mailID string) string { return "mail " + mailID }

// Queue has a mail sent soon. Within a transaction it is part of it.
func (s *Service) Queue(ctx context.Context, m accounts.Mail) error {
	if !s.Enabled() {
		return errOff
	}
	raw, err := json.Marshal(content{m.Subject, m.Text})
	if err != nil {
		return fmt.Errorf("packing a mail: %w", err)
	}
	row := Mail{ID: id.New("mail"), TeamID: m.TeamID, Kind: m.Kind, To: m.To, State: Pending, CreatedAt: s.now()}
	row.NextAt = row.CreatedAt
	if row.Sealed, err = s.cfg.Sealer.Seal(sealName(row.ID), string(raw)); err != nil {
		return fmt.Errorf("sealing a mail: %w", err)
	}
	if err := s.cfg.Store.InsertMail(ctx, row); err != nil {
		return fmt.Errorf("storing a mail: %w", err)
	}
	tasks.Wake(s.post)
	return nil
}

var errOff = fault.New(fault.Unavailable, "mail_off", "This server sends no mail: config.json names no mail server (mail.host).")

// Status is how sending goes.
type Status struct {
	Enabled   bool
	Host      string // with its port
	From      string
	Pending   int
	GivenUp   int    // in the last 30 days
	LastError string // in the last 30 days
}

// keepFor is how long it is remembered what became of a mail.
const keepFor = 30 * 24 * time.Hour

// Status says how sending goes. For operators.
func (s *Service) Status(ctx context.Context) (Status, error) {
	out := Status{Enabled: s.Enabled(), From: s.cfg.Server.From}
	if out.Enabled {
		out.Host = fmt.Sprintf("%s:%d", s.cfg.Server.Host, s.cfg.Server.Port)
	}
	var err error
	out.Pending, out.GivenUp, out.LastError, err = s.cfg.Store.MailCounts(ctx, s.cfg.Now().Add(-keepFor).UnixMilli())
	return out, err
}

// Check says hello to the mail server, and signs in where it is to, without sending anything. Errors: mail_off, mail_failed.
func (s *Service) Check(ctx context.Context) error {
	if !s.Enabled() {
		return errOff
	}
	c, hangUp, err := s.client()
	if err == nil {
		defer hangUp()
		if err = c.DialWithContext(ctx); err == nil {
			err = c.Close()
		}
	}
	if err != nil {
		return fault.New(fault.Unavailable, "mail_failed", "The mail server does not take mail: %s. Look at the keys mail.* of config.json.", wordsOf(err))
	}
	return nil
}

// Test sends a mail and waits until the server has taken or refused it. Errors: mail_off, mail_failed.
func (s *Service) Test(ctx context.Context, to string) error {
	if !s.Enabled() {
		return errOff
	}
	err := s.send(ctx, to, content{"Parawork can send mail", "This is a test, asked for by an operator of Parawork. Mail arrives.\n"}, id.New("mail"))
	if err != nil {
		return fault.New(fault.Unavailable, "mail_failed", "The mail server did not take the mail: %s. Look at the keys mail.* of config.json.", wordsOf(err))
	}
	return nil
}
