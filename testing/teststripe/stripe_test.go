package teststripe

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// client asks as a program does.
type client struct {
	t *testing.T
	s *Stripe
}

func (c client) ask(method, path, key string, pairs ...string) (int, map[string]any, http.Header, error) {
	c.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	at, body := c.s.Base()+path, ""
	if method == http.MethodPost {
		body = form.Encode()
	} else if len(form) > 0 {
		at += "?" + form.Encode()
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.s.Key())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, nil, nil, err
	}
	var out map[string]any
	json.Unmarshal(b, &out)
	return resp.StatusCode, out, resp.Header, nil
}

// post makes something, and fails when it is refused.
func (c client) post(path string, pairs ...string) map[string]any {
	c.t.Helper()
	status, out, _, err := c.ask(http.MethodPost, path, "", pairs...)
	if err != nil || status != http.StatusOK {
		c.t.Fatalf("POST %s: %d %v %v", path, status, out, err)
	}
	return out
}

func (c client) get(path string, pairs ...string) map[string]any {
	c.t.Helper()
	status, out, _, err := c.ask(http.MethodGet, path, "", pairs...)
	if err != nil || status != http.StatusOK {
		c.t.Fatalf("GET %s: %d %v %v", path, status, out, err)
	}
	return out
}

// refused asks for something wrong, and returns the message.
func (c client) refused(want int, method, path string, pairs ...string) string {
	c.t.Helper()
	status, out, _, err := c.ask(method, path, "", pairs...)
	if err != nil || status != want {
		c.t.Fatalf("%s %s: %d %v %v, want %d", method, path, status, out, err, want)
	}
	e := out["error"].(map[string]any)
	return e["message"].(string)
}

func start(t *testing.T, o Options) (*Stripe, client) {
	s := Start(t, o)
	return s, client{t, s}
}

// plan makes a product with a price for seats and one for usage, and returns the prices.
func (c client) plan() (seat, used, meter string) {
	c.t.Helper()
	product := c.post("/v1/products", "name", "Pro")["id"].(string)
	seat = c.post("/v1/prices", "product", product, "currency", "usd", "unit_amount", "2000", "recurring[interval]", "month", "lookup_key", "pro:seat")["id"].(string)
	meter = c.post("/v1/billing/meters", "display_name", "vCPU seconds", "event_name", "vcpu_seconds", "default_aggregation[formula]", "sum")["id"].(string)
	used = c.post("/v1/prices", "product", product, "currency", "usd", "unit_amount_decimal", "0.0014", "recurring[interval]", "month", "recurring[usage_type]", "metered", "recurring[meter]", meter)["id"].(string)
	return seat, used, meter
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	_, first, _, _ := c.ask("POST", "/v1/customers", "k1", "email", "a@example.org")
	_, again, h, _ := c.ask("POST", "/v1/customers", "k1", "email", "a@example.org")
	if first["id"] != again["id"] || h.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("a repeated call made another: %v, %v", first["id"], again["id"])
	}
	status, out, _, _ := c.ask("POST", "/v1/customers", "k1", "email", "b@example.org")
	if status != 400 || out["error"].(map[string]any)["type"] != "idempotency_error" {
		t.Fatalf("a key with other parameters: %d %v", status, out)
	}
	s.Break(Fault{Path: "POST /v1/customers", When: After, Status: 500})
	for i := range 2 {
		if status, _, _, _ := c.ask("POST", "/v1/customers", "k2", "email", "c@example.org"); status != 500 {
			t.Fatalf("try %d: %d, want the stored 500", i, status)
		}
	}
	if n := len(s.Objects("customer")); n != 2 {
		t.Fatalf("%d customers, want the one of the error too", n)
	}
	s.Break(Fault{Path: "POST /v1/customers", When: After, Cut: true, Times: -1})
	if _, _, _, err := c.ask("POST", "/v1/customers", "k3", "email", "d@example.org"); err == nil {
		t.Fatal("the connection was not cut")
	}
	s.Repair()
	if status, out, _, _ := c.ask("POST", "/v1/customers", "k3", "email", "d@example.org"); status != 200 || out["email"] != "d@example.org" || len(s.Objects("customer")) != 3 {
		t.Fatalf("after a cut: %d %v", status, out)
	}
	s.Break(Fault{Status: 429})
	if status, _, _, _ := c.ask("POST", "/v1/customers", "k4", "email", "e@example.org"); status != 429 {
		t.Fatalf("%d, want 429", status)
	}
	if status, _, _, _ := c.ask("POST", "/v1/customers", "k4", "email", "e@example.org"); status != 200 {
		t.Fatalf("%d: a 429 was stored", status)
	}
	s.Advance(25 * time.Hour)
	if _, fresh, _, _ := c.ask("POST", "/v1/customers", "k1", "email", "a@example.org"); fresh["id"] == first["id"] {
		t.Fatal("a key was remembered for longer than a day")
	}
}

func TestStrict(t *testing.T) {
	t.Parallel()
	_, c := start(t, Options{})
	seat, used, _ := c.plan()
	customer := c.post("/v1/customers", "email", "a@example.org")["id"].(string)
	for _, bad := range [][]string{
		{"POST", "/v1/customers", "emial", "x"},
		{"POST", "/v1/customers", "metadata[x][y]", "z"},
		{"POST", "/v1/prices", "currency", "usd", "unit_amount", "1.5", "product", "x"},
		{"POST", "/v1/prices", "currency", "usd"},
		{"POST", "/v1/billing/meters", "display_name", "x", "event_name", "vcpu_seconds", "default_aggregation[formula]", "sum"},
		{"POST", "/v1/billing/meters", "display_name", "x", "event_name", "y", "default_aggregation[formula]", "last"},
		{"POST", "/v1/checkout/sessions", "mode", "subscription", "success_url", "https://x.example/", "line_items[0][price]", used, "line_items[0][quantity]", "1"},
		{"POST", "/v1/checkout/sessions", "mode", "subscription", "success_url", "https://x.example/", "line_items[0][price]", seat},
		{"POST", "/v1/subscriptions", "customer", customer, "items[0][price]", seat}, // nothing to pay with
		{"POST", "/v1/billing_portal/sessions", "customer", customer},
		{"POST", "/v1/webhook_endpoints", "url", "https://x.example/", "enabled_events[]", "nonsense"},
		{"GET", "/v1/customers", "limit", "1000"},
	} {
		c.refused(400, bad[0], bad[1], bad[2:]...)
	}
	c.refused(404, "GET", "/v1/customers/cus_none")
	c.refused(404, "GET", "/v1/nothing")
	other := client{t, New(c.s.Base(), Options{Key: "sk_test_other"})}
	other.s.base = c.s.Base()
	other.refused(401, "GET", "/v1/customers")
}

func TestMeters(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC)
	s, c := start(t, Options{Now: func() time.Time { return at }})
	_, _, meter := c.plan()
	customer := c.post("/v1/customers")["id"].(string)
	notify := func(id string, value, when int64) []string {
		return []string{"event_name", "vcpu_seconds", "identifier", id, "timestamp", strconv.FormatInt(when, 10), "payload[stripe_customer_id]", customer, "payload[value]", strconv.FormatInt(value, 10)}
	}
	hour := at.Truncate(time.Hour).Unix()
	c.post("/v1/billing/meter_events", notify("a", 100, hour-1)...)
	c.post("/v1/billing/meter_events", notify("b", 7200, hour+5)...)
	c.post("/v1/billing/meter_events", notify("c", -200, hour+6)...)
	if m := c.refused(400, "POST", "/v1/billing/meter_events", notify("a", 100, hour-1)...); !strings.HasPrefix(m, "An event already exists with identifier") {
		t.Fatal(m)
	}
	c.refused(400, "POST", "/v1/billing/meter_events", notify("d", 1, at.Unix()+301)...)
	c.refused(400, "POST", "/v1/billing/meter_events", notify("d", 1, at.Unix()-35*day-1)...)
	c.refused(400, "POST", "/v1/billing/meter_events", "event_name", "vcpu_seconds", "payload[stripe_customer_id]", customer, "payload[value]", "1.5")
	c.refused(400, "GET", "/v1/billing/meters/"+meter+"/event_summaries", "customer", customer, "start_time", strconv.FormatInt(hour+60, 10), "end_time", strconv.FormatInt(hour+3600, 10), "value_grouping_window", "hour")
	sums := func() (out []string) {
		for _, o := range c.get("/v1/billing/meters/"+meter+"/event_summaries", "customer", customer, "start_time", strconv.FormatInt(hour-7200, 10), "end_time", strconv.FormatInt(hour+3600, 10), "value_grouping_window", "hour")["data"].([]any) {
			m := o.(map[string]any)
			out = append(out, strconv.FormatFloat(m["start_time"].(float64), 'f', 0, 64)+" "+strconv.FormatFloat(m["aggregated_value"].(float64), 'f', -1, 64))
		}
		return out
	}
	want := []string{strconv.FormatInt(hour, 10) + " 7000", strconv.FormatInt(hour-3600, 10) + " 100"}
	if got := sums(); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	c.post("/v1/billing/meter_event_adjustments", "event_name", "vcpu_seconds", "type", "cancel", "cancel[identifier]", "a")
	if got := sums(); !slices.Equal(got, want[:1]) {
		t.Fatalf("after a cancellation: %v", got)
	}
	s.Advance(25 * time.Hour)
	c.refused(400, "POST", "/v1/billing/meter_event_adjustments", "event_name", "vcpu_seconds", "type", "cancel", "cancel[identifier]", "b")
	c.post("/v1/billing/meter_events", notify("b", 1, hour+5)...) // forgotten by now, and so it counts twice

	release := s.Slow("POST /v1/billing/meter_events")
	done := make(chan int)
	go func() {
		status, _, _, _ := c.ask("POST", "/v1/billing/meter_events", "", notify("e", 1, hour)...)
		done <- status
	}()
	eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.meterBusy) == 1 && s.meterBusy["vcpu_seconds "+customer] == 1
	})
	if status, _, _, _ := c.ask("POST", "/v1/billing/meter_events", "", notify("f", 1, hour)...); status != 429 {
		t.Fatalf("two calls at once for a customer and meter: %d", status)
	}
	release()
	if status := <-done; status != 200 {
		t.Fatal(status)
	}
}

// sink is an endpoint that takes webhooks.
type sink struct {
	mu    sync.Mutex
	types []string
	ids   map[string]int
	bad   int
	say   int
}

func (k *sink) serve(t *testing.T, secret func() string) string {
	k.ids, k.say = map[string]int{}, 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		k.mu.Lock()
		defer k.mu.Unlock()
		head := r.Header.Get("Stripe-Signature")
		stamp, _, _ := strings.Cut(strings.TrimPrefix(head, "t="), ",")
		at, _ := strconv.ParseInt(stamp, 10, 64)
		if !strings.Contains(head, "v1="+signature(secret(), at, b)) {
			k.bad++
		}
		var e struct{ ID, Type string }
		json.Unmarshal(b, &e)
		if k.say == 200 {
			k.types = append(k.types, e.Type)
			k.ids[e.ID]++
		}
		w.WriteHeader(k.say)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func (k *sink) had() []string { k.mu.Lock(); defer k.mu.Unlock(); return slices.Clone(k.types) }

func (k *sink) answer(status int) { k.mu.Lock(); defer k.mu.Unlock(); k.say = status }

func eventually(t *testing.T, fn func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !fn(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to be")
		}
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC)
	s, c := start(t, Options{Now: func() time.Time { return at }})
	seat, used, _ := c.plan()
	var k sink
	var secret string
	hook := c.post("/v1/webhook_endpoints", "url", k.serve(t, func() string { return secret }), "enabled_events[0]", "*")
	secret = hook["secret"].(string)
	if c.get("/v1/webhook_endpoints/" + hook["id"].(string))["secret"] != nil {
		t.Fatal("the secret is shown more than once")
	}
	session := c.post("/v1/checkout/sessions", "mode", "subscription", "success_url", "https://p.example/done?id={CHECKOUT_SESSION_ID}", "client_reference_id", "team", "line_items[0][price]", seat, "line_items[0][quantity]", "3",
		"line_items[1][price]", used, "subscription_data[trial_period_days]", "14", "subscription_data[metadata][team]", "t1", "expand[0]", "line_items")
	if n := len(session["line_items"].(map[string]any)["data"].([]any)); n != 2 {
		t.Fatalf("%d line items", n)
	}
	resp, err := http.Get(session["url"].(string))
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(err, resp)
	}
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(page), "14 days free, then $60.00") {
		t.Fatalf("%s", page)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err = browser.PostForm(session["url"].(string), url.Values{"do": {"pay"}})
	if err != nil || resp.Header.Get("Location") != "https://p.example/done?id="+session["id"].(string) {
		t.Fatal(err, resp.Header)
	}
	resp.Body.Close()
	paid := c.get("/v1/checkout/sessions/"+session["id"].(string), "expand[0]", "subscription")
	sub := paid["subscription"].(map[string]any)
	id, customer := sub["id"].(string), paid["customer"].(string)
	if paid["status"] != "complete" || sub["status"] != "trialing" || sub["metadata"].(map[string]any)["team"] != "t1" {
		t.Fatalf("%v", paid)
	}
	status := func() string { return c.get("/v1/subscriptions/" + id)["status"].(string) }
	eventually(t, s.Idle)
	if got := k.had(); !slices.Contains(got, "checkout.session.completed") || !slices.Contains(got, "customer.subscription.created") || k.bad > 0 {
		t.Fatalf("%v, %d with a wrong signature", got, k.bad)
	}
	s.Advance(12 * 24 * time.Hour)
	eventually(t, s.Idle)
	if got := k.had(); !slices.Contains(got, "customer.subscription.trial_will_end") {
		t.Fatalf("%v", got)
	}
	s.Advance(2*24*time.Hour + 2*time.Hour)
	if status() != "active" {
		t.Fatal(status())
	}
	latest := func() map[string]any {
		return c.get("/v1/invoices", "customer", customer, "limit", "1")["data"].([]any)[0].(map[string]any)
	}
	if inv := latest(); inv["status"] != "paid" || inv["total"] != 6000.0 {
		t.Fatalf("%v", inv)
	}
	// A month of usage, and more of it told while the invoice is a draft.
	notify := func(name string, value string, when time.Time) {
		c.post("/v1/billing/meter_events", "event_name", "vcpu_seconds", "identifier", name, "timestamp", strconv.FormatInt(when.Unix(), 10), "payload[stripe_customer_id]", customer, "payload[value]", value)
	}
	notify("x", "1000000", s.Now())
	end := time.Unix(int64(c.get("/v1/subscriptions/" + id)["current_period_end"].(float64)), 0)
	s.Advance(end.Sub(s.Now()) + time.Minute)
	if inv := latest(); inv["status"] != "draft" {
		t.Fatalf("%v", inv)
	}
	notify("y", "1000000", end.Add(-time.Second))
	s.Card(customer, Declined)
	s.Advance(time.Hour)
	if inv := latest(); inv["status"] != "open" || inv["total"] != 6000.0+2800 {
		t.Fatalf("%v %v", inv["status"], inv["total"])
	}
	if status() != "past_due" {
		t.Fatal(status())
	}
	s.Card(customer, Good)
	s.Advance(3 * 24 * time.Hour)
	if status() != "active" {
		t.Fatal(status())
	}
	item := c.get("/v1/subscriptions/" + id)["items"].(map[string]any)["data"].([]any)[0].(map[string]any)["id"].(string)
	if got := c.post("/v1/subscription_items/"+item, "quantity", "5"); got["quantity"] != 5.0 {
		t.Fatalf("%v", got)
	}
	c.post("/v1/subscriptions/"+id, "cancel_at_period_end", "true")
	s.Advance(31 * 24 * time.Hour)
	if status() != "canceled" {
		t.Fatal(status())
	}
	if err := s.Dispute(customer, "needs_response"); err != nil {
		t.Fatal(err)
	}
	eventually(t, s.Idle)
	got := k.had()
	for _, want := range []string{"invoice.created", "invoice.finalized", "invoice.paid", "invoice.payment_failed", "customer.subscription.updated", "customer.subscription.deleted", "charge.dispute.created"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %v", want, got)
		}
	}
}

func TestUndelivered(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	var k sink
	var secret string
	at := k.serve(t, func() string { return secret })
	secret = c.post("/v1/webhook_endpoints", "url", at, "enabled_events[]", "customer.created")["secret"].(string)
	k.answer(500)
	for range 3 {
		c.post("/v1/customers")
	}
	eventually(t, s.Idle)
	if n := len(c.get("/v1/events", "delivery_success", "false")["data"].([]any)); n != 3 {
		t.Fatalf("%d undelivered", n)
	}
	k.answer(200)
	s.Advance(2 * time.Hour)
	eventually(t, func() bool { return len(k.had()) == 3 && s.Idle() })
	if n := len(c.get("/v1/events", "delivery_success", "false")["data"].([]any)); n != 0 {
		t.Fatalf("%d undelivered", n)
	}
	s.Copies(2)
	s.Hold()
	for range 3 {
		c.post("/v1/customers")
	}
	if len(k.had()) != 3 {
		t.Fatal("held webhooks were sent")
	}
	s.Release(7)
	eventually(t, func() bool { return len(k.had()) == 9 })
	if len(k.ids) != 6 {
		t.Fatalf("%d events in 9 deliveries, want 6", len(k.ids))
	}
	s.Hold()
	c.post("/v1/customers")
	if s.Lose() != 2 {
		t.Fatal("nothing was lost")
	}
	if n := len(c.get("/v1/events", "delivery_success", "false", "types[0]", "customer.created")["data"].([]any)); n != 1 {
		t.Fatalf("%d undelivered", n)
	}
}

func TestPortal(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	seat, _, _ := c.plan()
	config := c.post("/v1/billing_portal/configurations", "features[subscription_cancel][enabled]", "true", "features[invoice_history][enabled]", "true", "business_profile[headline]", "x")["id"].(string)
	session := c.post("/v1/checkout/sessions", "mode", "subscription", "success_url", "https://p.example/", "line_items[0][price]", seat, "line_items[0][quantity]", "1")
	if _, err := s.Pay(session["id"].(string)); err != nil {
		t.Fatal(err)
	}
	customer := s.Objects("customer")[0]["id"].(string)
	sub := s.Objects("subscription")[0]["id"].(string)
	at := c.post("/v1/billing_portal/sessions", "customer", customer, "configuration", config, "return_url", "https://p.example/back")["url"].(string)
	resp, err := http.PostForm(at, url.Values{"do": {"cancel"}, "subscription": {sub}})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(page), "ends with the period") || !strings.Contains(string(page), "Keep plan") || strings.Contains(string(page), "Change seats") {
		t.Fatalf("%s", page)
	}
	if c.get("/v1/subscriptions/" + sub)["cancel_at_period_end"] != true {
		t.Fatal("not cancelled")
	}
}
