package stripe_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/store/storetest"
)

// startMock starts Stripe's own stand-in, which testing/scripts/test-setup.sh installs, and returns its address.
func startMock(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PARAWORK_TEST_STRIPE_MOCK")
	if path == "" {
		path, _ = filepath.Abs("../../.cache/stripe/stripe-mock")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("stripe-mock is not installed: %v", err)
		}
		t.Skip("!!! stripe-mock is not installed: run testing/scripts/test-setup.sh, or name the program in PARAWORK_TEST_STRIPE_MOCK")
	}
	cmd := exec.Command(path, "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0", "-strict-version-check=false")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "Listening for HTTP at address: "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the program
			return "http://" + addr
		}
	}
	t.Fatal("stripe-mock did not start")
	return ""
}

// strict notes every call, and those that were refused: stripe-mock refuses a path or a parameter that the API does not know.
type strict struct {
	mu      sync.Mutex
	calls   map[string]int
	refused []string
	keyless []string
}

func (s *strict) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked []byte
	if r.Body != nil {
		asked, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(asked))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	for i, p := range parts {
		if i > 2 && strings.Contains(p, "_") && !slices.Contains([]string{"billing_portal", "early_fraud_warnings", "subscription_items", "meter_events", "meter_event_adjustments", "event_summaries", "webhook_endpoints"}, p) {
			parts[i] = "{id}"
		}
	}
	s.calls[r.Method+" "+strings.Join(parts, "/")]++
	if r.Method == http.MethodPost && r.Header.Get("Idempotency-Key") == "" {
		s.keyless = append(s.keyless, r.URL.Path)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		s.refused = append(s.refused, fmt.Sprintf("%s %s?%s %s: %d %s", r.Method, r.URL.Path, r.URL.RawQuery, asked, resp.StatusCode, body))
	}
	return resp, nil
}

// Every call we make is one the API has, with parameters it knows.
func TestCallsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	seen := &strict{calls: map[string]int{}}
	base := startMock(t)
	h := newHarness(t, storetest.SQLite(t), func(c *stripe.Config) { c.APIBase, c.Transport, c.AutomaticTax = base, seen, true })
	h.sql(`UPDATE plans SET trial_days = 14, metered_usage = TRUE WHERE id = 'pro'`)
	for name, price := range map[string]string{"price:pro:seat": "price_seat", "price:pro:vcpu_seconds": "price_cpu", "price:pro:mib_seconds": "price_mib", "portal": "bpc_1"} {
		h.sql(`INSERT INTO stripe_objects (name, livemode, object_id, updated_at) VALUES (?, FALSE, ?, 1)`, name, price)
	}
	o := stripe.Order{TeamID: h.team.ID, PlanID: "pro", By: h.user.ID, Base: "https://parawork.example.com"}
	if way, err := h.s.Checkout(h.ctx, o); err != nil || way.Portal {
		t.Fatalf("checkout: %+v %v", way, err)
	}
	h.pass(45 * time.Minute)
	if _, err := h.s.Checkout(h.ctx, o); err != nil { // the first is expired
		t.Logf("a second checkout: %v", err) // stripe-mock keeps nothing: it says that all are open, or none is
	}
	if way, err := h.s.Portal(h.ctx, h.team.ID, o.Base); err != nil || !way.Portal {
		t.Errorf("portal: %+v %v", way, err)
	}
	if _, err := h.s.Sync(h.ctx, h.team.ID, ""); err != nil {
		t.Errorf("sync: %v", err)
	}
	a, err := h.st.Account(h.ctx, h.team.ID)
	if err != nil || a.CustomerID == "" {
		t.Fatalf("%+v %v", a, err)
	}
	for i, kind := range []string{"charge.dispute.created", "radar.early_fraud_warning.created", "checkout.session.completed", "invoice.paid", "charge.refunded"} {
		object := map[string]any{"id": map[int]string{0: "dp_1", 1: "issfr_1", 2: "cs_1", 3: "in_1", 4: "ch_1"}[i], "object": "x"}
		if i > 2 {
			object["customer"] = a.CustomerID
		}
		body := eventBody(fmt.Sprintf("evt_%d", i), kind, object)
		if err := h.s.Webhook(h.ctx, body, sign(body, h.now(), secret)); err != nil {
			t.Fatal(err)
		}
	}
	h.sql(`INSERT INTO stripe_outbox (id, team_id, kind, payload, state, try_at, created_at) VALUES ('obx_1', ?, 'seats', '{"subscription":"sub_1","quantity":7}', 'pending', 0, 0),
		('obx_2', ?, 'customer', '{"name":"n","email":"n@example.com","slug":"s","key":"obx_2-1"}', 'pending', 0, 0)`, h.team.ID, h.team.ID)
	h.sql(`UPDATE stripe_objects SET object_id = ? WHERE name = 'price:pro:seat'`, fixturePrice(t, base)) // so that the subscription is one of ours
	h.join(6)                                                                                             // so that the seat it has is not enough
	h.s.Sweep(h.ctx)
	if err := h.s.Work(h.ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range seen.refused {
		t.Errorf("refused: %s", r)
	}
	for _, p := range seen.keyless {
		if p != "/v1/billing_portal/sessions" {
			t.Errorf("changed something without an idempotency key: %s", p)
		}
	}
	for _, want := range []string{"POST /v1/customers", "GET /v1/customers", "GET /v1/customers/{id}", "POST /v1/checkout/sessions", "GET /v1/checkout/sessions/{id}", "POST /v1/billing_portal/sessions",
		"GET /v1/subscriptions", "GET /v1/subscriptions/{id}", "GET /v1/invoices", "GET /v1/events", "GET /v1/disputes/{id}", "GET /v1/radar/early_fraud_warnings/{id}", "POST /v1/subscription_items/{id}"} {
		if seen.calls[want] == 0 {
			t.Errorf("%s was not called; called: %v", want, seen.calls)
		}
	}
}

// fixturePrice is the price of the subscription stripe-mock always has.
func fixturePrice(t *testing.T, base string) string {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/subscriptions/sub_1", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var sub struct {
		Items struct {
			Data []struct{ Price struct{ ID string } }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&sub); err != nil || len(sub.Items.Data) == 0 {
		t.Fatalf("%+v %v", sub, err)
	}
	return sub.Items.Data[0].Price.ID
}
