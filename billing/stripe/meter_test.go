package stripe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/teststripe"
)

const (
	minute = int64(60_000)
	hour   = 60 * minute
)

// counter is a clock both sides look at.
type counter struct{ ms atomic.Int64 }

func (c *counter) now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

func at(text string) int64 {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t.UnixMilli()
}

// usageHarness is a team that pays for what it uses, and the service it pays to.
type usageHarness struct {
	t       *testing.T
	ctx     context.Context
	db      *store.DB
	clock   *counter
	service *teststripe.Stripe
	pay     *stripe.Service
	report  *stripe.Reporter
	kept    *store.UsageReports
	frozen  int64
	given   []string
	account stripe.Account
	serial  int
}

// newUsageHarness begins a subscription at a time.
func newUsageHarness(t *testing.T, db *store.DB, begins string) *usageHarness {
	t.Helper()
	h := &usageHarness{t: t, ctx: tenant.All(t.Context(), "test"), db: db, clock: &counter{}}
	h.clock.ms.Store(at(begins))
	h.service = teststripe.Start(t, teststripe.Options{Now: h.clock.now})
	h.exec(`INSERT INTO teams (id, slug, name, created_at) VALUES ('t1', 'one', 'One', 1)`)
	h.exec(`UPDATE plans SET metered_usage = TRUE WHERE id = 'pro'`)
	h.pay = h.payments()
	h.kept = store.NewUsageReports(db)
	h.report = stripe.NewReporter(stripe.ReporterConfig{Payments: h.pay, Store: h.kept, Frozen: func(context.Context) (int64, error) { return h.frozen, nil }})
	h.setup(false)
	objects, err := store.NewStripe(db).Objects(h.ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	c := client{h.service, t}
	session := c.post("/v1/checkout/sessions", "mode", "subscription", "success_url", "https://p.example/", "line_items[0][price]", objects[stripe.PriceName("pro", stripe.KindSeat)], "line_items[0][quantity]", "1",
		"line_items[1][price]", objects[stripe.PriceName("pro", "vcpu_seconds")], "line_items[2][price]", objects[stripe.PriceName("pro", "mib_seconds")])
	if _, err := h.service.Pay(session["id"].(string)); err != nil {
		t.Fatal(err)
	}
	sub := h.service.Objects("subscription")[0]
	h.account = stripe.Account{TeamID: "t1", CustomerID: sub["customer"].(string), SubscriptionID: sub["id"].(string), Status: "active", PaidPlanID: "pro"}
	h.exec(`INSERT INTO team_billing (team_id, customer_id, updated_at) VALUES ('t1', ?, 1)`, h.account.CustomerID)
	h.sync()
	return h
}

func (h *usageHarness) payments() *stripe.Service {
	return stripe.New(stripe.Config{SecretKey: h.service.Key(), APIBase: h.service.Base(), Store: store.NewStripe(h.db), Now: h.clock.now, PastDueDays: 7,
		Team: func(context.Context, string) (stripe.Team, error) {
			return stripe.Team{ID: "t1", Slug: "one", Name: "One"}, nil
		},
		Notify: func(_ context.Context, n stripe.Notice) error { h.given = append(h.given, n.Kind); return nil }})
}

func (h *usageHarness) exec(query string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(h.ctx, query, args...); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
}

func (h *usageHarness) setup(dry bool) []stripe.Step {
	h.t.Helper()
	steps, err := stripe.Setup(h.ctx, stripe.SetupConfig{Payments: h.pay, Store: store.NewUsageReports(h.db), Rates: stripe.Rates{VCPUSecondNano: 14_000, GiBSecondNano: 4_500}, DryRun: dry})
	if err != nil {
		h.t.Fatal(err)
	}
	return steps
}

// sync reads the subscription, as a webhook makes the server do.
func (h *usageHarness) sync() {
	h.t.Helper()
	if _, err := h.pay.SyncCustomer(h.ctx, h.account.CustomerID); err != nil {
		h.t.Fatal(err)
	}
	a, err := store.NewStripe(h.db).Account(h.ctx, "t1")
	if err != nil {
		h.t.Fatal(err)
	}
	h.account = a
}

// ran is a sandbox of two vCPUs and 512 MiB that ran from a time on, and lies in the frozen hours unless they are not over.
func (h *usageHarness) ran(from string, ms int64) {
	h.t.Helper()
	begin := at(from)
	h.serial++
	id := fmt.Sprintf("seg%d", h.serial)
	h.exec(`INSERT INTO segments (id, team_id, workspace_id, sandbox_id, user_id, executor, purpose, cpus, memory_mb, price_nano, started_at, seen_at, ended_at, end_source, cost_nano, metered)
		VALUES (?, 't1', 'w', ?, 'u', 'e2b', 'workspace', 2, 512, 108900000, ?, ?, ?, 'server', 1, TRUE)`, id, id, begin, begin+ms, begin+ms)
	for t := begin; t < begin+ms; {
		end := min(t-t%hour+hour, begin+ms)
		h.exec(`INSERT INTO usage_hours (team_id, hour, segment_id, user_id, workspace_id, project_id, executor, purpose, metered, run_ms, vcpu_ms, mib_ms, cost_nano)
			VALUES ('t1', ?, ?, 'u', 'w', 'p', 'e2b', 'workspace', TRUE, ?, ?, ?, 1)`, t-t%hour, id, end-t, 2*(end-t), 512*(end-t))
		t = end
	}
}

// until puts the clock to a time, with the hours before frozen as the ledger freezes them.
func (h *usageHarness) until(text string) {
	h.t.Helper()
	now := at(text)
	h.clock.ms.Store(now)
	h.service.Advance(0) // what is due by then
	h.frozen = now - 5*minute - (now-5*minute)%hour
}

// notify makes and sends what is due.
func (h *usageHarness) notify() {
	h.t.Helper()
	if err := h.report.Prepare(h.ctx); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.report.Send(h.ctx); err != nil {
		h.t.Fatal(err)
	}
}

// counted is what the service counts of vCPU-seconds in [from, to).
func (h *usageHarness) counted(from, to string) (sum int64) {
	for _, e := range h.service.MeterEvents() {
		if e.Name == "parawork_vcpu_seconds" && e.Dropped == "" && !e.Cancelled && e.Timestamp*1000 >= at(from) && e.Timestamp*1000 < at(to) {
			sum += e.Value
		}
	}
	return sum
}

func (h *usageHarness) states() map[string]int64 {
	h.t.Helper()
	n, err := h.kept.ReportCounts(h.ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *usageHarness) want(what string, got, want any) {
	h.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestUsageIsReportedByFrozenHours(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newUsageHarness(t, db, "2026-11-20 10:40:00")
		h.ran("2026-11-20 10:00:00", 20*minute)      // before it was paid for
		h.ran("2026-11-20 10:30:00", 20*minute)      // half of it is
		h.ran("2026-11-20 10:50:00", 100*minute+333) // over two hours' ends, and not in whole seconds
		h.until("2026-11-20 11:04:00")
		h.notify()
		h.want("reports before the hour is frozen", h.states(), map[string]int64{})
		h.until("2026-11-20 12:10:00")
		h.notify()
		h.notify()
		h.want("vCPU-seconds of the first hour", h.counted("2026-11-20 10:00:00", "2026-11-20 11:00:00"), (10+10)*60*2)
		h.want("vCPU-seconds of the second", h.counted("2026-11-20 11:00:00", "2026-11-20 12:00:00"), 3600*2)
		h.until("2026-11-20 14:10:00")
		h.notify()
		h.want("all", h.counted("2026-11-20 00:00:00", "2026-11-21 00:00:00"), ((10+100)*60_000+333)*2/1000)
		h.want("states", h.states(), map[string]int64{"sent": 6})
		events := len(h.service.MeterEvents())
		if err := h.report.Reconcile(h.ctx); err != nil {
			t.Fatal(err)
		}
		h.want("states after a comparison", h.states(), map[string]int64{"confirmed": 6})
		h.want("events", len(h.service.MeterEvents()), events)
		c, ok, err := h.report.Compared(h.ctx, "t1", "vcpu_seconds")
		if err != nil || !ok || c.Reported != c.Theirs || c.Reported != ((10+100)*60_000+333)*2/1000 {
			t.Fatalf("%+v %v %v", c, ok, err)
		}
	})
}

func TestUsageOfAPeriodThatEndsWithinAnHour(t *testing.T) {
	t.Parallel()
	h := newUsageHarness(t, storetest.SQLite(t), "2026-10-20 10:03:00")
	h.ran("2026-11-20 10:00:00", 30*minute)
	h.until("2026-11-20 10:02:30")
	h.notify()
	h.want("states", h.states(), map[string]int64{})
	h.until("2026-11-20 10:03:10") // the period has turned
	h.sync()
	h.notify()
	h.want("too early", h.states(), map[string]int64{})
	h.until("2026-11-20 10:08:10") // its draft is open for an hour, and the hour is not over
	h.notify()
	h.want("of the period before", h.counted("2026-11-20 10:00:00", "2026-11-20 10:03:00"), 3*60*2)
	h.until("2026-11-20 11:10:00")
	h.notify()
	h.want("of the new one", h.counted("2026-11-20 10:03:00", "2026-11-20 11:00:00"), 27*60*2)
	invoices := h.service.Objects("invoice")
	last := invoices[len(invoices)-1]
	var billed []string
	for _, l := range last["lines"].(map[string]any)["data"].([]any) {
		line := l.(map[string]any)
		billed = append(billed, fmt.Sprint(line["quantity"]))
	}
	h.want("the invoice "+fmt.Sprint(last["status"]), billed, []string{"1", "360", fmt.Sprint(3 * 60 * 512)})
}

func TestReportsSurviveWhatNetworksDo(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]teststripe.Fault{
		"429":                  {Status: 429},
		"503":                  {Status: 503, Times: 2},
		"500 before":           {Status: 500, When: teststripe.Stored},
		"500 after":            {Status: 500, When: teststripe.After},
		"cut before":           {Cut: true, Times: 2},
		"cut after":            {Cut: true, When: teststripe.After, Times: 2},
		"half an answer":       {Half: true, When: teststripe.After, Times: 2},
		"a page":               {Status: 502, HTML: true, Times: 2},
		"another is under way": {Status: 429, Code: "lock_timeout", Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newUsageHarness(t, storetest.SQLite(t), "2026-11-20 10:00:00")
			h.ran("2026-11-20 10:00:00", 10*minute)
			h.until("2026-11-20 11:10:00")
			f.Path = "POST /v1/billing/meter_events"
			h.service.Break(f)
			h.notify()
			h.service.Repair()
			if h.states()["sent"] == 2 && name != "another is under way" && name != "503" && name != "a page" { // which the library tries again
				t.Log("the library tried again by itself")
			}
			for n := range 5 {
				h.clock.ms.Add(int64(n+1) * 5 * minute)
				h.notify()
			}
			h.want("states", h.states(), map[string]int64{"sent": 2})
			h.want("vCPU-seconds", h.counted("2026-11-20 10:00:00", "2026-11-20 11:00:00"), 1200)
		})
	}
}

func TestReportsAfterALongOutage(t *testing.T) {
	t.Parallel()
	h := newUsageHarness(t, storetest.SQLite(t), "2026-11-20 10:00:00")
	h.ran("2026-11-20 10:00:00", 10*minute)
	h.until("2026-11-20 11:10:00")
	// One of the two arrives and its answer is lost, the other does not arrive; then there is no network for two days.
	h.service.Break(teststripe.Fault{Path: "POST /v1/billing/meter_events", When: teststripe.After, Cut: true, Times: 2})
	h.service.Break(teststripe.Fault{Path: "POST /v1/billing/meter_events", Cut: true, Times: -1})
	h.notify()
	h.until("2026-11-22 12:00:00")
	h.notify()
	h.service.Repair()
	events := len(h.service.MeterEvents())
	h.notify()
	h.want("a blind attempt was made", len(h.service.MeterEvents()), events)
	h.want("states", h.states(), map[string]int64{"unknown": 2})
	if err := h.report.Reconcile(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.notify()
	h.clock.ms.Add(2 * hour)
	if err := h.report.Reconcile(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.want("states", h.states(), map[string]int64{"confirmed": 2})
	h.want("vCPU-seconds", h.counted("2026-11-20 10:00:00", "2026-11-20 11:00:00"), 1200)
	h.want("all events", len(h.service.MeterEvents()), 2)
}

func TestWhatTheServiceLosesIsFoundAndFixed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newUsageHarness(t, db, "2026-11-20 10:00:00")
		h.ran("2026-11-20 10:00:00", 10*minute)
		h.until("2026-11-20 11:10:00")
		h.notify()
		h.service.DropMeterEvents(func(e teststripe.MeterEvent) bool { return e.Name != "parawork_vcpu_seconds" })
		h.until("2026-11-20 13:10:00")
		if err := h.report.Reconcile(h.ctx); err != nil {
			t.Fatal(err)
		}
		h.want("notified of what repairs itself", h.given, []string{})
		h.notify() // the identifier is known there: it is refused, and nothing is better
		h.until("2026-11-22 12:00:00")
		if err := h.report.Reconcile(h.ctx); err != nil {
			t.Fatal(err)
		}
		open, err := h.kept.Discrepancies(h.ctx, stripe.DiscrepancyOpen, 10)
		if err != nil || len(open) != 1 || open[0].Ours != 1200 || open[0].Theirs != 0 {
			t.Fatalf("%+v %v", open, err)
		}
		h.want("told", h.given, []string{"discrepancy"})
		var lost string
		rows, _ := h.kept.Reports(h.ctx, "t1", 0, at("2027-01-01 00:00:00"))
		for _, r := range rows {
			if r.Meter == "vcpu_seconds" {
				lost = r.Identifier
			}
		}
		again, err := h.report.Retry(h.ctx, lost)
		if err != nil || again.Revision != 1 || !strings.HasSuffix(again.Identifier, "_r1") {
			t.Fatalf("%+v %v", again, err)
		}
		if _, err := h.report.Retry(h.ctx, lost); fault.CodeOf(err) != "report_counted" {
			t.Fatalf("a report was sent in place of another twice: %v", err)
		}
		h.notify()
		h.clock.ms.Add(2 * hour)
		if err := h.report.Reconcile(h.ctx); err != nil {
			t.Fatal(err)
		}
		h.want("vCPU-seconds", h.counted("2026-11-20 10:00:00", "2026-11-20 11:00:00"), 1200)
		repaired, _ := h.kept.Discrepancies(h.ctx, stripe.DiscrepancyRepaired, 10)
		h.want("repaired", len(repaired), 1)
	})
}

func TestReportsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := newUsageHarness(t, storetest.SQLite(t), "2026-11-20 10:00:00")
	h.ran("2026-11-20 10:00:00", 10*minute)
	h.until("2026-11-20 11:10:00")
	if err := h.report.Prepare(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.until("2026-12-30 10:00:00") // the service was not to be reached for longer than it takes usage
	h.notify()
	failed := h.states()["failed"]
	h.want("failed", failed, 2)
	h.want("told", h.given, []string{"report_failed", "report_failed"})
	h.want("events", len(h.service.MeterEvents()), 0)
}

// Usage of a subscription is reported up to its end, and from there on for the next one.
func TestSubscriptionsFollowEachOther(t *testing.T) {
	t.Parallel()
	h := newUsageHarness(t, storetest.SQLite(t), "2026-10-20 10:00:00")
	h.exec(`UPDATE team_billing SET status = 'canceled', period_end = ?`, at("2026-11-20 10:30:00"))
	h.exec(`INSERT INTO billing_marks (name, value) VALUES ('stripe.reported:t1', ?)`, fmt.Sprintf("%s %d", h.account.SubscriptionID, at("2026-11-20 10:00:00")))
	h.ran("2026-11-20 10:00:00", hour)
	h.ran("2026-11-20 11:00:00", hour)
	h.until("2026-11-20 12:10:00")
	h.notify()
	h.notify()
	h.want("vCPU-seconds until it ended", h.counted("2026-11-20 00:00:00", "2026-11-21 00:00:00"), 30*60*2)
	h.exec(`UPDATE team_billing SET status = 'active', subscription_id = 'sub_other', period_start = ?, period_end = ?`, at("2026-11-20 11:20:00"), at("2026-12-20 11:20:00"))
	h.notify()
	h.want("and after another began", h.counted("2026-11-20 00:00:00", "2026-11-21 00:00:00"), (30+40)*60*2)
}

func TestSetup(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newUsageHarness(t, db, "2026-11-20 10:00:00")
		dos := func(steps []stripe.Step) (out []string) {
			for _, s := range steps {
				out = append(out, s.Do+" "+s.Name)
			}
			return out
		}
		calls := len(h.service.Calls(""))
		steps := h.setup(true)
		for _, c := range h.service.Calls("")[calls:] {
			if c.Method != "GET" {
				t.Fatalf("a dry run changed something: %s %s", c.Method, c.Path)
			}
		}
		want := []string{"keep meter:vcpu_seconds", "keep meter:mib_seconds", "keep product:pro", "keep price:pro:seat", "keep price:pro:vcpu_seconds", "keep price:pro:mib_seconds", "keep portal", "skip webhook"}
		if got := dos(steps); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		prices := h.service.Objects("price")
		h.want("prices", len(prices), 3)
		for _, p := range prices {
			if name := fmt.Sprint(p["nickname"]); strings.Contains(name, "mib") && p["unit_amount_decimal"] != "0.000000439453" || strings.Contains(name, "vcpu") && p["unit_amount_decimal"] != "0.0014" {
				t.Fatalf("%v", p)
			}
		}
		// What this server remembers is gone, as with an old backup: it is found again.
		h.exec(`DELETE FROM stripe_objects`)
		if got := dos(h.setup(false)); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		// A plan is not sold for another price than people are shown.
		h.exec(`UPDATE plans SET seat_month_nano = 25000000000 WHERE id = 'pro'`)
		order := stripe.Order{TeamID: "t1", PlanID: "pro", By: "u", Base: "https://p.example"}
		if _, err := h.pay.Checkout(h.ctx, order); fault.CodeOf(err) != "billing_not_set_up" {
			t.Fatalf("the price at the service is another: %v", err)
		}
		defer func() {
			if _, err := h.pay.Checkout(h.ctx, order); err != nil {
				t.Errorf("set up again: %v", err)
			}
		}()
		// Another price takes the place of the first; a webhook endpoint is made once, and its secret handed over.
		h.exec(`UPDATE plans SET seat_month_nano = 25000000000, name = 'Professional' WHERE id = 'pro'`)
		var secrets []string
		cfg := stripe.SetupConfig{Payments: h.pay, Store: h.kept, Rates: stripe.Rates{VCPUSecondNano: 14_000, GiBSecondNano: 4_500}, PublicURL: "https://p.example", Secret: func(s string) error { secrets = append(secrets, s); return nil }}
		steps, err := stripe.Setup(h.ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := dos(steps); !slices.Contains(got, "replace price:pro:seat") || !slices.Contains(got, "update product:pro") || !slices.Contains(got, "create webhook") {
			t.Fatalf("%v", got)
		}
		if len(secrets) != 1 || !strings.HasPrefix(secrets[0], "whsec_") {
			t.Fatalf("%d secrets", len(secrets))
		}
		if steps, err = stripe.Setup(h.ctx, cfg); err != nil || slices.ContainsFunc(steps, func(s stripe.Step) bool { return s.Do != stripe.StepKeep }) {
			t.Fatalf("%v %v", dos(steps), err)
		}
		cfg.NewWebhook = true
		if steps, err = stripe.Setup(h.ctx, cfg); err != nil || !slices.Contains(dos(steps), "replace webhook") || len(secrets) != 2 || len(h.service.Objects("webhook_endpoint")) != 1 {
			t.Fatalf("%v %v", dos(steps), err)
		}
		active := 0
		for _, p := range h.service.Objects("price") {
			if p["active"] == true {
				active++
			}
		}
		h.want("active prices", active, 3)
		// A secret nobody could keep is not left with an endpoint.
		cfg.Secret = func(string) error { return fault.New(fault.Internal, "x", "no disk") }
		if _, err = stripe.Setup(h.ctx, cfg); err == nil || len(h.service.Objects("webhook_endpoint")) != 1 {
			t.Fatalf("%v, %d endpoints", err, len(h.service.Objects("webhook_endpoint")))
		}
	})
}

// client asks the service for what only people in a dashboard or a browser do.
type client struct {
	s *teststripe.Stripe
	t *testing.T
}

func (c client) post(path string, pairs ...string) map[string]any {
	c.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.s.Base()+path, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.s.Key())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("POST %s: %d %v %v", path, resp.StatusCode, out, err)
	}
	return out
}
