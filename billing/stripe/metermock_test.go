package stripe_test

import (
	"context"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// Every call of a setup and of reports is one the API has, with parameters it knows.
func TestCallsOfMetersAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	seen := &strict{calls: map[string]int{}}
	base := startMock(t)
	h := newHarness(t, storetest.SQLite(t), func(c *stripe.Config) { c.APIBase, c.Transport = base, seen })
	h.sql(`UPDATE plans SET metered_usage = TRUE WHERE id = 'pro'`)
	kept := store.NewUsageReports(h.db)
	for _, public := range []string{"https://a.example.com", "https://b.example.com"} { // the second time things are there, and differ
		cfg := stripe.SetupConfig{Payments: h.s, Store: kept, Rates: stripe.Rates{VCPUSecondNano: 14_000, GiBSecondNano: 4_500}, PublicURL: public, Secret: func(string) error { return nil }}
		if _, err := stripe.Setup(h.ctx, cfg); err != nil {
			t.Fatal(err)
		}
		h.sql(`UPDATE plans SET name = 'Another', metered_usage = metered_usage WHERE id = 'pro'`)
	}
	h.sql(`UPDATE plans SET metered_usage = FALSE WHERE id = 'pro'`)
	h.sql(`INSERT INTO plans (id, name, position, seat_month_nano) VALUES ('max', 'Max', 4, 40000000000)`) // two to choose from in the portal
	if _, err := stripe.Setup(h.ctx, stripe.SetupConfig{Payments: h.s, Store: kept, PublicURL: "https://b.example.com", NewWebhook: true, Secret: func(string) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	now := h.now().UnixMilli()
	hour := now - now%hour - 3*hour
	report := stripe.NewReporter(stripe.ReporterConfig{Payments: h.s, Store: kept, Frozen: func(context.Context) (int64, error) { return now, nil }})
	h.sql(`INSERT INTO team_billing (team_id, customer_id, subscription_id, status, paid_plan_id, period_start, period_end, updated_at) VALUES (?, 'cus_1', 'sub_1', 'active', 'pro', ?, ?, 1)`, h.team.ID, hour, now+int64(24*time.Hour/time.Millisecond))
	h.sql(`UPDATE plans SET metered_usage = TRUE WHERE id = 'pro'`)
	for _, m := range stripe.Meters {
		h.sql(`INSERT INTO usage_reports (identifier, team_id, meter, hour, revision, quantity, customer_id, state, created_at) VALUES (?, ?, ?, ?, 0, 7200, 'cus_1', 'pending', 1)`, "pw_"+m, h.team.ID, m, hour)
	}
	if n, err := report.Send(h.ctx); n != 2 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if err := report.Reconcile(h.ctx); err != nil { // what it counts is made up
		t.Fatal(err)
	}
	for _, r := range seen.refused {
		t.Errorf("refused: %s", r)
	}
	for _, want := range []string{"GET /v1/billing/meters", "POST /v1/billing/meters", "GET /v1/products", "POST /v1/products", "GET /v1/prices", "POST /v1/prices", "GET /v1/webhook_endpoints", "POST /v1/webhook_endpoints",
		"GET /v1/billing_portal/configurations", "POST /v1/billing_portal/configurations", "POST /v1/billing/meter_events", "GET /v1/billing/meters/{id}/event_summaries"} {
		if seen.calls[want] == 0 {
			t.Errorf("%s was not called; called: %v", want, seen.calls)
		}
	}
}
