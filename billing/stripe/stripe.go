// Package stripe lets teams pay: customers, checkout, the portal, subscriptions and the events of the payment service about them. It is the
// only importer of stripe-go.
//
// The content of an event is never trusted. The service verifies, stores and answers a webhook; a worker then reads the customer again
// (SyncCustomer) and writes the team's status in one statement, so that order, repetition and loss of webhooks do not matter. Calls to the
// payment service wait in an outbox, whose row ids are the idempotency keys.
//
// Without a secret key everything but payment works: operators assign plans.
//
// Facts of the service: docs.stripe.com/webhooks, /idempotency, /billing/subscriptions/overview; API version 2023-10-16, which the library
// pins. Amounts of the service are whole cents.
//
// Goroutines: Run acts on events, empties the outbox and sweeps until its context ends. New starts nothing.
package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tasks"
)

const (
	dayMs = 24 * 3_600_000

	// timeout bounds one request to the payment service, connecting included.
	timeout = 20 * time.Second
)

// Notice is a message to people of a team, or to operators: what they should know or do.
type Notice struct {
	TeamID    string
	Kind      string // payment_failed, past_due, trial_ends, suspended, event_failed, outbox_failed, invoice_failed
	Subject   string
	Text      string
	Operators bool // for the instance's operators, else for the team's owners and admins
}

// Team is what the service needs to know of a team.
type Team struct {
	ID, Slug, Name string
	Email          string // of the owner who joined first
}

// Config is what a Service is made of.
type Config struct {
	SecretKey      string   // "" = no payment
	WebhookSecrets []string // each begins with whsec_; two while one is changed for another. None: webhooks are refused
	APIBase        string   // "" = the service's own; https, or http on this machine
	AutomaticTax   bool     // let the service work out taxes at checkout
	PastDueDays    int      // how long a team keeps its plan after a payment failed

	Store Store
	Team  func(ctx context.Context, teamID string) (Team, error)
	// DefaultPlan is the plan of teams that have none of their own; nil = free with a key, else enterprise.
	DefaultPlan func(ctx context.Context) string
	Changed     func(ctx context.Context, teamID string)  // a team's plan or status changed; optional
	Notify      func(ctx context.Context, n Notice) error // in the transaction of what it reports; optional
	Audit       audit.Appender                            // optional
	Events      events.Publisher                          // optional
	Now         func() time.Time
	Log         *slog.Logger

	// Transport carries requests to the service; nil = the usual one.
	Transport http.RoundTripper
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil || c.Team == nil {
		return errors.New("billing/stripe: a Service needs a Store and Team")
	}
	if err := CheckBase(c.APIBase); err != nil {
		return err
	}
	for _, s := range c.WebhookSecrets {
		if !strings.HasPrefix(s, "whsec_") || len(s) < len("whsec_")+8 {
			return errors.New("billing/stripe: a signing secret of webhooks begins with whsec_")
		}
	}
	if c.PastDueDays < 0 {
		return errors.New("billing/stripe: PastDueDays must not be negative")
	}
	if c.DefaultPlan == nil {
		plan := "enterprise"
		if c.SecretKey != "" {
			plan = "free"
		}
		c.DefaultPlan = func(context.Context) string { return plan }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// CheckBase refuses an address of the payment service over which the key would be readable.
func CheckBase(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("billing.stripe.apiBase %q is not an address", base)
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("billing.stripe.apiBase must be https: the secret key would be readable on the way")
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Service manages the payments of teams. Safe for concurrent use.
type Service struct {
	cfg   Config
	calls *calls // nil without a key
	live  bool

	customers locks.Keyed // one sync of a customer at a time
	teams     locks.Keyed // one checkout of a team at a time
	inbound   inbound     // webhooks that wait to be written
	wake      chan struct{}

	instance instance

	// following are called for each event of a team, after its customer was read; an event whose call fails is tried again.
	following []func(ctx context.Context, e Event, a Account) error
}

// New returns a Service. It starts nothing and panics on a Config that Validate refuses.
func New(cfg Config) *Service {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	s := &Service{cfg: cfg, live: liveKey(cfg.SecretKey), wake: make(chan struct{}, 1)}
	if cfg.SecretKey != "" {
		s.calls = newCalls(cfg)
	}
	return s
}

// Enabled reports whether teams can pay.
func (s *Service) Enabled() bool { return s.calls != nil }

// Livemode reports whether it is real money.
func (s *Service) Livemode() bool { return s.live }

// liveKey reports whether a key is one for real money: sk_live_ or, restricted, rk_live_.
func liveKey(key string) bool {
	return strings.HasPrefix(key, "sk_live_") || strings.HasPrefix(key, "rk_live_")
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// stir has the worker look at once.
func (s *Service) stir() {
	tasks.Wake(s.wake)
}

// changed notifies subscribers that a team's status changed.
func (s *Service) changed(ctx context.Context, teamID string) {
	if s.cfg.Changed != nil {
		s.cfg.Changed(ctx, teamID)
	}
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "billing.updated", ID: teamID, TeamID: teamID, Version: s.now()})
	}
}

// note appends an entry to a team's audit, as part of the transaction in ctx.
func (s *Service) note(ctx context.Context, e audit.Entry) error {
	if s.cfg.Audit == nil {
		return nil
	}
	if err := s.cfg.Audit.Append(ctx, e); err != nil {
		return fmt.Errorf("recording %s: %w", e.Action, err)
	}
	return nil
}

// notify notifies people, as part of the transaction in ctx.
func (s *Service) notify(ctx context.Context, n Notice) error {
	if s.cfg.Notify == nil {
		return nil
	}
	if err := s.cfg.Notify(ctx, n); err != nil {
		return fmt.Errorf("notifying of %s: %w", n.Kind, err)
	}
	return nil
}
