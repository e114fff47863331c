package stripe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestWebhookBelievesOnlyWhoIsSigned(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t), func(c *stripe.Config) { c.WebhookSecrets = []string{secret, another} })
	body := eventBody("evt_1", "customer.updated", map[string]any{"id": "cus_1", "object": "customer"})
	now := h.now()
	good := sign(body, now, secret)
	for name, c := range map[string]struct {
		body   []byte
		header string
		code   string
	}{
		"signed":                           {body, good, ""},
		"signed with the other secret":     {body, sign(body, now, another), ""},
		"one of several signatures":        {body, sign(body, now, "whsec_somebodyelse", secret), ""},
		"just within the past":             {body, sign(body, now.Add(-299*time.Second), secret), ""},
		"too old":                          {body, sign(body, now.Add(-301*time.Second), secret), "webhook_signature"},
		"a day ahead":                      {body, sign(body, now.Add(24*time.Hour), secret), "webhook_signature"},
		"unsigned":                         {body, "", "webhook_signature"},
		"without a signature":              {body, fmt.Sprintf("t=%d", now.Unix()), "webhook_signature"},
		"signed with nothing":              {body, sign(body, now, ""), "webhook_signature"},
		"signed by somebody else":          {body, sign(body, now, "whsec_somebodyelse"), "webhook_signature"},
		"of an older scheme":               {body, strings.Replace(good, "v1=", "v0=", 1), "webhook_signature"},
		"a changed body":                   {append(bytes.Clone(body), ' '), good, "webhook_signature"},
		"another time than what is signed": {body, strings.Replace(good, "t=", "t=0,t=", 1)[:len(good)-1] + "x", "webhook_signature"},
		"no event":                         {[]byte(`{"id":"evt_2"}`), sign([]byte(`{"id":"evt_2"}`), now, secret), "webhook_invalid"},
		"no JSON":                          {[]byte("x"), sign([]byte("x"), now, secret), "webhook_invalid"},
		"real money on a test key": {bytes.Replace(body, []byte(`"livemode":false`), []byte(`"livemode":true`), 1),
			sign(bytes.Replace(body, []byte(`"livemode":false`), []byte(`"livemode":true`), 1), now, secret), "webhook_mode"},
	} {
		if err := h.s.Webhook(h.ctx, c.body, c.header); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
	if all := h.events(); len(all) != 1 || all["evt_1"].CustomerID != "cus_1" || all["evt_1"].State != stripe.EventNew || all["evt_1"].Source != "webhook" {
		t.Errorf("stored: %+v", all)
	}
}

func TestWithoutKeyOrSecretNoWebhookIsTaken(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t), func(c *stripe.Config) { c.WebhookSecrets = nil })
	body := eventBody("evt_1", "customer.updated", map[string]any{"id": "cus_1", "object": "customer"})
	if err := h.s.Webhook(h.ctx, body, sign(body, h.now(), "")); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a secret: %v", err)
	}
	h.restart(func(c *stripe.Config) { c.SecretKey = "" })
	if err := h.s.Webhook(h.ctx, body, sign(body, h.now(), secret)); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a key: %v", err)
	}
	for _, bad := range []string{"", "whsec_", "secret"} {
		if err := (&stripe.Config{Store: h.st, Team: func(context.Context, string) (stripe.Team, error) { return stripe.Team{}, nil }, WebhookSecrets: []string{bad}}).Validate(); err == nil {
			t.Errorf("the secret %q was taken", bad)
		}
	}
	for base, ok := range map[string]bool{"": true, "https://proxy.example.com": true, "http://127.0.0.1:12111": true, "http://[::1]:1": true, "http://localhost:1": true,
		"http://api.stripe.com": false, "https://user:pw@example.com": false, "ftp://127.0.0.1": false, "api.stripe.com": false, "http://127.0.0.1.example.com": false} {
		if err := stripe.CheckBase(base); (err == nil) != ok {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// Webhooks that arrive together are stored each, and the same one once.
func TestWebhooksInABurst(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				body := eventBody(fmt.Sprintf("evt_%d", i%100), "invoice.paid", map[string]any{"id": fmt.Sprintf("in_%d", i%100), "object": "invoice", "customer": "cus_1"})
				if err := h.s.Webhook(h.ctx, body, sign(body, h.now(), secret)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(h.events()); n != 100 {
			t.Errorf("%d events", n)
		}
	})
}

// failing stores no event.
type failing struct{ *store.Stripe }

var errDisk = errors.New("the disk is full")

func (failing) AddEvents(context.Context, []stripe.Event) error { return errDisk }

// What is not stored is not answered with success: the service sends it again.
func TestWebhookThatCannotBeStored(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t), func(c *stripe.Config) { c.Store = failing{c.Store.(*store.Stripe)} })
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			body := eventBody(fmt.Sprintf("evt_%d", i), "invoice.paid", map[string]any{"id": "in_1", "object": "invoice"})
			if err := h.s.Webhook(h.ctx, body, sign(body, h.now(), secret)); !errors.Is(err, errDisk) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestEventsNobodyActsOnAreIgnored(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	body := eventBody("evt_1", "payout.paid", map[string]any{"id": "po_1", "object": "payout"})
	if err := h.s.Webhook(h.ctx, body, sign(body, h.now(), secret)); err != nil {
		t.Fatal(err)
	}
	if e := h.events()["evt_1"]; e.State != stripe.EventIgnored {
		t.Errorf("%+v", e)
	}
}
