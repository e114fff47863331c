package testkit_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testkit"
	"github.com/parawork/parawork/testing/teststripe"
)

const hookSecret = "whsec_of_the_kill_tests_0123456789"

// till is an instance beside a payment service.
type till struct {
	*testkit.Instance
	t    *testing.T
	fake *teststripe.Stripe
	db   *store.DB
}

// serviceDoes asks the payment service for something, as its dashboard does.
func (p *till) serviceDoes(path string, pairs ...string) map[string]any {
	p.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.fake.Base()+path, strings.NewReader(form.Encode()))
	must(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.fake.Key())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	must(p.t, err)
	defer resp.Body.Close()
	var out map[string]any
	must(p.t, json.NewDecoder(resp.Body).Decode(&out))
	return out
}

// webhook sends one; 0 = the server died over it.
func (p *till) webhook(event map[string]any) int {
	p.t.Helper()
	body, err := json.Marshal(event)
	must(p.t, err)
	at := time.Now()
	header := fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(webhook.ComputeSignature(at, body, hookSecret)))
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.URL+"/webhooks/stripe", bytes.NewReader(body))
	must(p.t, err)
	r.Header.Set("Stripe-Signature", header)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

type billing struct {
	Plan  struct{ ID string }
	Seats struct{ Paid *int64 }
}

func (p *till) billing() (b billing) {
	p.t.Helper()
	p.API("GET", "/teams/"+p.Team+"/billing", nil, &b)
	return b
}

func (p *till) count(query string) (n int) {
	p.t.Helper()
	must(p.t, p.db.QueryRow(tenant.All(p.t.Context(), "a test"), "/* every team: a test */ "+query).Scan(&n))
	return n
}

func (p *till) open() (n int) {
	for _, o := range p.fake.Objects("checkout.session") {
		if o["status"] == "open" {
			n++
		}
	}
	return n
}

// The server is killed at every point of paying: nothing is bought, made or reported twice, and no report is lost.
func TestKilledWhileTeamsPay(t *testing.T) {
	t.Parallel()
	fake := teststripe.Start(t, teststripe.Options{DefaultPortal: true})
	p := &till{t: t, fake: fake, Instance: testkit.Start(t, fmt.Sprintf(`"billing":{"stripe":{"secretKey":%q,"webhookSecrets":[%q],"apiBase":%q}}`, fake.Key(), hookSecret, fake.Base()))}
	var err error
	p.db, err = store.Open(t.Context(), store.Config{URL: "sqlite", DataDir: p.DataDir()})
	must(t, err)
	defer p.db.Close()
	product := p.serviceDoes("/v1/products", "name", "Pro")["id"].(string)
	price := p.serviceDoes("/v1/prices", "product", product, "currency", "usd", "unit_amount", "2000", "recurring[interval]", "month", "metadata[parawork_plan]", "pro", "metadata[parawork_kind]", "seat")["id"].(string)
	_, err = p.db.Exec(t.Context(), `INSERT INTO stripe_objects (name, livemode, object_id, updated_at) VALUES ('price:pro:seat', FALSE, ?, 1)`, price)
	must(t, err)
	checkout := func() { _ = p.Try("POST", "/teams/"+p.Team+"/billing/checkout", map[string]any{"plan_id": "pro"}, nil) }
	done := map[failpoint.Point]bool{}
	dies := func(at failpoint.Point, do func()) { t.Helper(); p.DieAt(at, do); done[at] = true }

	dies(failpoint.CustomerQueued, checkout)
	p.Wait("the customer is made by the next server", func() bool { return len(fake.Objects("customer")) == 1 })
	p.Wait("and known", func() bool { return p.count(`SELECT COUNT(*) FROM team_billing WHERE customer_id <> ''`) == 1 })

	// As if it were not: another team's.
	var other struct{ ID, Slug string }
	p.API("POST", "/teams", map[string]string{"name": "Elsewhere"}, &other)
	first := p.Team
	p.Team = other.Slug
	dies(failpoint.CustomerMade, checkout)
	p.Wait("its customer is known", func() bool { return p.count(`SELECT COUNT(*) FROM team_billing WHERE customer_id <> ''`) == 2 })
	if n := len(fake.Objects("customer")); n != 2 {
		t.Errorf("%d customers of two teams", n)
	}
	p.Team = first

	dies(failpoint.CheckoutBegun, checkout)
	var way struct{ URL string }
	p.API("POST", "/teams/"+p.Team+"/billing/checkout", map[string]any{"plan_id": "pro"}, &way)
	// The one nobody was led to stays there until it expires; nobody has its address.
	if n := p.open(); n != 2 {
		t.Errorf("%d checkouts are open", n)
	}
	_, err = fake.Pay(way.URL[strings.LastIndex(way.URL, "/")+1:])
	must(t, err)
	events := fake.Objects("event")
	var completed, paid map[string]any
	for _, e := range events {
		switch e["type"] {
		case "checkout.session.completed":
			completed = e
		case "invoice.paid":
			paid = e
		}
	}
	dies(failpoint.WebhookStored, func() {
		if status := p.webhook(completed); status != 0 {
			t.Errorf("acknowledged with %d by a server that died before", status)
		}
	})
	p.Wait("what was stored is acted on", func() bool { return p.billing().Plan.ID == "pro" })
	if status := p.webhook(completed); status != http.StatusOK {
		t.Errorf("sent again: %d", status)
	}
	p.Wait("it is done", func() bool { return p.count(`SELECT COUNT(*) FROM stripe_events WHERE state = 'done'`) == 1 })

	dies(failpoint.CustomerSynced, func() { p.webhook(paid) })
	p.Wait("the event is done by the next server", func() bool { return p.count(`SELECT COUNT(*) FROM stripe_events WHERE state = 'done'`) == 2 })

	p.NewUser("bob@example.com", "Bob")
	dies(failpoint.SeatsSet, func() {
		p.Admin("add-member", "--email", "bob@example.com", "--team", p.Team, "--role", "member")
		_ = p.Try("POST", "/teams/"+p.Team+"/billing/sync", map[string]any{}, nil)
	})
	p.Wait("both seats are paid, and known", func() bool { b := p.billing(); return b.Seats.Paid != nil && *b.Seats.Paid == 2 })
	p.Wait("nothing is left to tell", func() bool { return p.count(`SELECT COUNT(*) FROM stripe_outbox WHERE state <> 'sent'`) == 0 })
	for _, sub := range fake.Objects("subscription") {
		if q := sub["items"].(map[string]any)["data"].([]any)[0].(map[string]any)["quantity"]; fmt.Sprint(q) != "2" {
			t.Errorf("%v seats there", q)
		}
	}
	if n := len(fake.Objects("subscription")); n != 1 {
		t.Errorf("%d subscriptions", n)
	}
	for _, at := range failpoint.OfPayment {
		if !done[at] {
			t.Errorf("%s has no scenario", at)
		}
	}
}
