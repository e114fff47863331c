package stripe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/teststripe"
)

// paying is a harness with a payment service that stores what it receives. Both have the same clock.
type paying struct {
	*harness
	fake  *teststripe.Stripe
	price string // of a seat of pro
	hook  string // where webhooks go
	tune  []func(*stripe.Config)
}

func newPaying(t testing.TB, db *store.DB, tune ...func(*stripe.Config)) *paying {
	t.Helper()
	h := &paying{harness: newHarness(t, db)}
	h.fake = teststripe.Start(t, teststripe.Options{Now: h.now, DefaultPortal: true})
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := h.door.Load().Webhook(h.ctx, body, r.Header.Get("Stripe-Signature")); err != nil {
			t.Logf("webhook: %v", err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(door.Close)
	var secret string
	h.tune = append(tune, func(c *stripe.Config) {
		c.SecretKey, c.APIBase = h.fake.Key(), h.fake.Base()
		c.WebhookSecrets = []string{secret}
	})
	endpoint := h.post("/v1/webhook_endpoints", "url", door.URL, "enabled_events[0]", "*")
	secret, h.hook = endpoint["secret"].(string), endpoint["id"].(string)
	product := h.post("/v1/products", "name", "Pro")["id"].(string)
	h.price = h.post("/v1/prices", "product", product, "currency", "usd", "unit_amount", "2000", "recurring[interval]", "month", "metadata[parawork_plan]", "pro", "metadata[parawork_kind]", "seat")["id"].(string)
	h.sql(`INSERT INTO stripe_objects (name, livemode, object_id, updated_at) VALUES ('price:pro:seat', FALSE, ?, 1) ON CONFLICT (name, livemode) DO UPDATE SET object_id = excluded.object_id`, h.price)
	h.restart()
	return h
}

func (h *paying) restart() { h.harness.restart(h.tune...) }

func (h *harness) sql(query string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(h.ctx, "/* every team: a test */ "+query, args...); err != nil {
		h.t.Fatal(err)
	}
}

// post asks the payment service for something, as its dashboard does.
func (h *paying) post(path string, pairs ...string) map[string]any {
	h.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, _ := http.NewRequestWithContext(h.ctx, http.MethodPost, h.fake.Base()+path, strings.NewReader(form.Encode()))
	r.Header.Set("Authorization", "Bearer "+h.fake.Key())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %d %v %v", path, resp.StatusCode, out, err)
	}
	return out
}

// settle waits until every webhook that can be has been delivered, and acts on them.
func (h *paying) settle() {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !h.fake.Idle(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatal("webhooks are still on their way")
		}
	}
	h.work()
}

func (h *paying) work() {
	h.t.Helper()
	if err := h.s.Work(h.ctx); err != nil {
		h.t.Fatal(err)
	}
}

// later lets time go by, for both.
func (h *paying) later(d time.Duration) {
	h.t.Helper()
	h.pass(d)
	h.fake.Advance(0)
	h.settle()
}

func (h *paying) account() stripe.Account {
	h.t.Helper()
	a, err := h.st.Account(h.ctx, h.team.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h *paying) order() stripe.Order {
	return stripe.Order{TeamID: h.team.ID, PlanID: "pro", By: h.user.ID, Base: "http://parawork.test"}
}

// checkout begins a payment and returns what it is called there.
func (h *paying) checkout() string {
	h.t.Helper()
	way, err := h.s.Checkout(h.ctx, h.order())
	if err != nil || way.Portal {
		h.t.Fatalf("%+v %v", way, err)
	}
	return way.URL[strings.LastIndex(way.URL, "/")+1:]
}

func (h *paying) pay(checkout string) string {
	h.t.Helper()
	back, err := h.fake.Pay(checkout)
	if err != nil {
		h.t.Fatal(err)
	}
	return back
}

func (h *paying) subscribe() {
	h.t.Helper()
	h.pay(h.checkout())
	h.settle()
	if a := h.account(); a.PlanID != "pro" {
		h.t.Fatalf("not subscribed: %+v", a)
	}
}

func (h *harness) join(n int) (ids []string) {
	h.t.Helper()
	st := store.NewAccounts(h.db)
	for range n {
		u := accounts.User{ID: id.New("usr"), Email: id.New("x") + "@example.com", Name: "x", PasswordHash: "!", CreatedAt: 1}
		if _, err := st.InsertUser(h.ctx, u); err != nil {
			h.t.Fatal(err)
		}
		if _, err := st.InsertMember(h.ctx, h.team.ID, u.ID, accounts.Member, 1); err != nil {
			h.t.Fatal(err)
		}
		ids = append(ids, u.ID)
	}
	return ids
}

func (h *harness) kinds() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.given {
		out = append(out, n.Kind)
	}
	return out
}

func (h *harness) actions() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		out = append(out, e.Action)
	}
	return out
}

// A team pays, and its webhooks come in any order, each three times.
func TestCheckoutWhateverTheOrderOfWebhooks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for seed := range int64(3) {
			h := newPaying(t, db)
			h.fake.Copies(3)
			h.fake.Hold()
			back := h.pay(h.checkout())
			if want := "http://parawork.test/" + h.team.Slug + "/settings/billing?paid=chk_"; !strings.HasPrefix(back, want) {
				t.Errorf("sent back to %s, want %s...", back, want)
			}
			h.fake.Release(seed)
			h.settle()
			a := h.account()
			if a.PlanID != "pro" || a.PlanSource != stripe.FromStripe || a.Status != stripe.Active || a.Seats != 1 || a.PeriodEnd <= a.PeriodStart || a.PastDueSince != 0 {
				t.Errorf("%+v", a)
			}
			st, err := h.s.Standing(h.ctx, h.team.ID)
			if err != nil || len(st.Invoices) != 1 || st.Invoices[0].Status != "paid" || st.Invoices[0].Total != 2000 || st.Plan.ID != "pro" {
				t.Errorf("%+v %v", st, err)
			}
			if c, paid, err := h.st.LastPaid(h.ctx, h.team.ID); err != nil || !paid || c.PlanID != "pro" {
				t.Errorf("%+v %v %v", c, paid, err)
			}
			for id, e := range h.events() {
				if e.State != stripe.EventDone && e.State != stripe.EventIgnored {
					t.Errorf("event %s %s: %s %s", id, e.Type, e.State, e.Reason)
				}
			}
			if got := h.actions(); !slices.Equal(got, []string{"billing.subscription_changed", "billing.plan_changed"}) {
				t.Errorf("audit: %q", got)
			}
			if n := len(h.fake.Objects("customer")); n != 1 {
				t.Errorf("%d customers", n)
			}
			// It is not begun again: the portal is where it is changed.
			if way, err := h.s.Checkout(h.ctx, h.order()); err != nil || !way.Portal {
				t.Errorf("%+v %v", way, err)
			}
		}
	})
}

// Who comes back before the webhook has what they paid for.
func TestTheWayBackNeedsNoWebhook(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.fake.Hold()
	back, err := url.Parse(h.pay(h.checkout()))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := h.s.Sync(h.ctx, h.team.ID, back.Query().Get("paid")); err != nil || a.PlanID != "pro" {
		t.Fatalf("%+v %v", a, err)
	}
	if c, _, err := h.st.Checkout(h.ctx, back.Query().Get("paid")); err != nil || c.State != stripe.CheckoutDone {
		t.Errorf("%+v %v", c, err)
	}
}

// Two admins, or one in two windows: there is never more than one payment that can be finished.
func TestOnePaymentAtATime(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	open := func() (n int) {
		for _, o := range h.fake.Objects("checkout.session") {
			if o["status"] == "open" {
				n++
			}
		}
		return n
	}
	first := h.checkout()
	if again := h.checkout(); again != first {
		t.Error("the same wish leads to another page")
	}
	o := h.order()
	o.Seats = new(int64(5))
	if _, err := h.s.Checkout(h.ctx, o); err != nil || open() != 1 {
		t.Errorf("%v, %d open", err, open())
	}
	h.later(40 * time.Minute)
	second := h.checkout()
	if open() != 1 {
		t.Errorf("%d open", open())
	}
	h.pay(second)
	if way, err := h.s.Checkout(h.ctx, h.order()); err != nil || !way.Portal {
		t.Errorf("paid a moment ago: %+v %v", way, err)
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.join(2)
	h.sql(`INSERT INTO plans (id, name, seat_month_nano) VALUES ('new', 'New', 5000000000)`)
	h.sql(`INSERT INTO plans (id, name, seats, seat_month_nano) VALUES ('duo', 'Duo', 2, 5000000000)`)
	for name, c := range map[string]struct {
		change func(o *stripe.Order)
		code   string
	}{
		"unknown":             {func(o *stripe.Order) { o.PlanID = "gold" }, "plan_not_found"},
		"not offered":         {func(o *stripe.Order) { o.PlanID = "enterprise" }, "plan_not_found"},
		"free":                {func(o *stripe.Order) { o.PlanID = "free" }, "plan_not_for_sale"},
		"without a price yet": {func(o *stripe.Order) { o.PlanID = "new" }, "billing_not_set_up"},
		"too small":           {func(o *stripe.Order) { o.PlanID = "duo" }, "plan_too_small"},
		"too few seats":       {func(o *stripe.Order) { o.Seats = new(int64(2)) }, "seats_too_few"},
		"absurdly many":       {func(o *stripe.Order) { o.Seats = new(int64(1 << 40)) }, "seats_too_few"},
	} {
		o := h.order()
		c.change(&o)
		if _, err := h.s.Checkout(h.ctx, o); codeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if _, err := h.s.Portal(h.ctx, h.team.ID, "http://x"); codeOf(err) != "no_customer" {
		t.Errorf("the portal of who never paid: %v", err)
	}
	if n := len(h.fake.Calls("POST /v1/customers")); n != 0 {
		t.Errorf("a customer was made for nothing, %d times", n)
	}
	h.sql(`INSERT INTO team_billing (team_id, plan_id, plan_source, updated_at) VALUES (?, 'enterprise', 'operator', 1)`, h.team.ID)
	if _, err := h.s.Checkout(h.ctx, h.order()); codeOf(err) != "plan_given" {
		t.Errorf("given: %v", err)
	}
}

// Webhooks that are lost for good cost no more than time.
func TestLostWebhooks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newPaying(t, db)
		h.s.Sweep(h.ctx)
		h.fake.Hold()
		h.pay(h.checkout())
		if h.fake.Lose() == 0 {
			t.Fatal("nothing was lost")
		}
		h.settle()
		if a := h.account(); a.PlanID != "" {
			t.Fatalf("known without a webhook: %+v", a)
		}
		h.pass(61 * time.Minute)
		h.s.Sweep(h.ctx)
		h.work()
		if a := h.account(); a.PlanID != "pro" || a.Status != stripe.Active {
			t.Errorf("%+v", a)
		}
		if e := slices.Collect(mapValues(h.events())); len(e) == 0 || e[0].Source != "sweep" {
			t.Errorf("%+v", e)
		}
	})
}

func mapValues[K comparable, V any](m map[K]V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// A payment fails: days of grace, then the plan is taken back; it is paid: the plan is back.
func TestPastDue(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newPaying(t, db)
		h.subscribe()
		customer := h.account().CustomerID
		h.fake.Card(customer, teststripe.Declined)
		h.later(32 * 24 * time.Hour)
		a := h.account()
		owing := h.s.Owing(a)
		if a.Status != stripe.PastDue || a.PlanID != "pro" || owing == nil || owing.DaysLeft < 5 || owing.DaysLeft > 7 {
			t.Fatalf("%+v %+v", a, owing)
		}
		h.later(time.Hour)
		if n := count(h.kinds(), "past_due"); n != 1 {
			t.Errorf("told %d times", n)
		}
		h.s.Sweep(h.ctx)
		if a := h.account(); a.PlanID != "pro" {
			t.Errorf("taken back too early: %+v", a)
		}
		since := a.PastDueSince
		for h.account().Status == stripe.PastDue && h.now().UnixMilli() < since+7*24*3600_000 {
			h.later(12 * time.Hour)
		}
		h.s.Sweep(h.ctx)
		if a := h.account(); a.PlanID != "" || a.PaidPlanID != "pro" {
			t.Errorf("kept too long: %+v", a)
		}
		if a := h.account(); a.Status == stripe.PastDue {
			h.fake.Card(customer, teststripe.Good)
			for _, inv := range h.fake.Objects("invoice") {
				if inv["status"] == "open" {
					h.post("/v1/invoices/" + inv["id"].(string) + "/pay")
				}
			}
			h.settle()
			if a := h.account(); a.PlanID != "pro" || a.Status != stripe.Active || a.PastDueSince != 0 || h.s.Owing(a) != nil {
				t.Errorf("paid: %+v", a)
			}
		} else {
			t.Errorf("the service gave up before we did: %+v", a)
		}
	})
}

func count(all []string, s string) (n int) {
	for _, one := range all {
		if one == s {
			n++
		}
	}
	return n
}

func TestTrialIsGivenOnce(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.sql(`UPDATE plans SET trial_days = 14 WHERE id = 'pro'`)
	h.subscribe()
	a := h.account()
	if a.Status != stripe.Trialing || a.TrialEndsAt <= h.now().UnixMilli() {
		t.Fatalf("%+v", a)
	}
	h.later(12 * 24 * time.Hour)
	if n := count(h.kinds(), "trial_ends"); n != 1 {
		t.Errorf("notified of the trial's end %d times", n)
	}
	h.post("/v1/subscriptions/"+a.SubscriptionID, "cancel_at_period_end", "true")
	h.settle()
	if a = h.account(); a.CancelAt == 0 || a.PlanID != "pro" {
		t.Errorf("cancelled: %+v", a)
	}
	h.later(3 * 24 * time.Hour)
	if a = h.account(); a.Status != stripe.Canceled || a.PlanID != "" {
		t.Fatalf("ended: %+v", a)
	}
	h.subscribe()
	if a = h.account(); a.Status != stripe.Active || a.TrialEndsAt != 0 {
		t.Errorf("a second trial: %+v", a)
	}
}

// Whatever goes wrong while a customer is made, there is one in the end.
func TestOneCustomerWhateverFails(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]teststripe.Fault{
		"too many requests":      {Status: 429},
		"unavailable":            {Status: 503, Times: 3},
		"a stored error":         {Status: 500, When: teststripe.Stored},
		"done and then an error": {Status: 500, When: teststripe.After},
		"done and cut":           {Cut: true, When: teststripe.After, Times: 3},
		"cut before":             {Cut: true, Times: 3},
		"half an answer":         {Half: true, When: teststripe.After, Times: 3},
		"a page of a proxy's":    {Status: 502, HTML: true, Times: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newPaying(t, storetest.SQLite(t))
			f.Path = "POST /v1/customers"
			h.fake.Break(f)
			if _, err := h.s.Checkout(h.ctx, h.order()); err != nil && codeOf(err) != "payments_unavailable" && codeOf(err) != "payments_refused" {
				t.Fatal(err)
			}
			h.restart() // the server is another one
			for range 6 {
				h.later(10 * time.Minute)
			}
			h.checkout()
			if n := len(h.fake.Objects("customer")); n != 1 {
				t.Errorf("%d customers", n)
			}
		})
	}
}

// seats is how many are paid at the service.
func (h *paying) seats() string {
	for _, sub := range h.fake.Objects("subscription") {
		data := sub["items"].(map[string]any)["data"].([]any)
		return fmt.Sprint(data[0].(map[string]any)["quantity"])
	}
	return ""
}

func TestSeatsFollowTheMembers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newPaying(t, db)
		h.subscribe()
		sweep := func() { h.s.Sweep(h.ctx); h.settle() }
		who := h.join(3)
		sweep()
		if a := h.account(); a.Seats != 4 || h.seats() != "4" {
			t.Errorf("three joined: %d here, %s there", a.Seats, h.seats())
		}
		h.sql(`DELETE FROM members WHERE user_id = ?`, who[0])
		h.fake.Break(teststripe.Fault{Path: "POST /v1/subscription_items", When: teststripe.After, Status: 500})
		sweep()
		h.restart()
		h.later(time.Minute)
		if a := h.account(); a.Seats != 3 || h.seats() != "3" {
			t.Errorf("one left, and the answer was lost: %d here, %s there", a.Seats, h.seats())
		}
		// The wish changes while it cannot be sent.
		h.fake.Break(teststripe.Fault{Path: "POST /v1/subscription_items", Times: -1, Status: 503})
		h.join(1)
		sweep()
		h.join(2)
		sweep()
		h.fake.Repair()
		h.later(10 * time.Minute)
		h.later(10 * time.Minute)
		if a := h.account(); a.Seats != 6 || h.seats() != "6" {
			t.Errorf("three more: %d here, %s there", a.Seats, h.seats())
		}
		rows, err := h.st.PendingOutgoing(h.ctx, h.team.ID, "seats")
		if err != nil || len(rows) != 0 {
			t.Errorf("%+v %v", rows, err)
		}
	})
}

// Seats bought ahead are kept for the period they were bought in.
func TestSeatsBoughtAhead(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	o := h.order()
	o.Seats = new(int64(5))
	way, err := h.s.Checkout(h.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	h.pay(way.URL[strings.LastIndex(way.URL, "/")+1:])
	h.settle()
	h.s.Sweep(h.ctx)
	h.settle()
	if h.seats() != "5" {
		t.Errorf("%s seats", h.seats())
	}
	h.later(33 * 24 * time.Hour)
	h.s.Sweep(h.ctx)
	h.settle()
	if h.seats() != "1" {
		t.Errorf("%s seats in the next period", h.seats())
	}
}

func TestDisputesAndFraudHoldBack(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	a := h.account()
	if err := h.fake.Dispute(a.CustomerID, "needs_response"); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if a = h.account(); a.SuspendedFor != stripe.ForDispute || a.PlanID != "pro" {
		t.Errorf("disputed: %+v", a)
	}
	if err := h.fake.WarnOfFraud(a.CustomerID); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if a = h.account(); a.SuspendedFor != stripe.ForFraud {
		t.Errorf("fraud: %+v %+v", a, h.events())
	}
	if n := count(h.kinds(), "suspended"); n != 2 {
		t.Errorf("operators were notified %d times", n)
	}
	if err := h.s.LiftSuspension(h.ctx, h.team.ID); err != nil {
		t.Fatal(err)
	}
	h.fake.Redeliver("")
	h.settle()
	if a = h.account(); a.SuspendedFor != "" {
		t.Errorf("lifted, and a webhook came once more: %+v", a)
	}
	if err := h.s.LiftSuspension(h.ctx, h.team.ID); codeOf(err) != "not_suspended" {
		t.Error(err)
	}
	if !slices.Contains(h.actions(), "billing.suspended") || !slices.Contains(h.actions(), "billing.suspension_lifted") {
		t.Errorf("%q", h.actions())
	}
}

// What an operator gave stays, and what is paid is remembered beside it.
func TestAnOperatorsPlanStays(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	h.sql(`UPDATE team_billing SET plan_id = 'enterprise', plan_source = 'operator' WHERE team_id = ?`, h.team.ID)
	if _, err := h.s.Sync(h.ctx, h.team.ID, ""); err != nil {
		t.Fatal(err)
	}
	if a := h.account(); a.PlanID != "enterprise" || a.PaidPlanID != "pro" || a.Status != stripe.Active {
		t.Errorf("%+v", a)
	}
}

// The account at the service sells other things, too, and may bill for another instance.
func TestOthersCustomersAreNotOurs(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.post("/v1/customers", "email", "stranger@example.com")
	h.post("/v1/customers", "email", "theirs@example.com", "metadata[parawork_team]", h.team.ID, "metadata[parawork_instance]", "i_another")
	h.settle()
	if a := h.account(); a.CustomerID != "" {
		t.Errorf("%+v", a)
	}
	for id, e := range h.events() {
		if e.State != stripe.EventIgnored {
			t.Errorf("%s %s: %s %s", id, e.Type, e.State, e.Reason)
		}
	}
}

// A customer that is deleted there ends the plan here; the team may begin anew.
func TestDeletedCustomer(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	r, _ := http.NewRequestWithContext(h.ctx, http.MethodDelete, h.fake.Base()+"/v1/customers/"+h.account().CustomerID, nil)
	r.Header.Set("Authorization", "Bearer "+h.fake.Key())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	h.settle()
	if a := h.account(); a.CustomerID != "" || a.PlanID != "" || a.SubscriptionID != "" {
		t.Errorf("%+v", a)
	}
	h.subscribe()
}

// Parawork gives up an event that fails for a day, and notifies an operator.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	h.fake.Break(teststripe.Fault{Path: "GET /v1/subscriptions", Times: -1, Status: 400, Code: "parameter_invalid"})
	customer := h.account().CustomerID
	body := eventBody("evt_bad", "customer.updated", map[string]any{"id": customer, "object": "customer"})
	secrets := stripe.Config{}
	h.tune[len(h.tune)-1](&secrets)
	if err := h.s.Webhook(h.ctx, body, sign(body, h.now(), secrets.WebhookSecrets...)); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		h.work()
		h.pass(18 * time.Hour)
	}
	if e := h.events()["evt_bad"]; e.State != stripe.EventFailed || !strings.Contains(e.Reason, "HTTP 400") || e.Attempts != 8 {
		t.Errorf("%+v", e)
	}
	if count(h.kinds(), "event_failed") != 1 || count(h.actions(), "billing.event_failed") != 1 {
		t.Errorf("%q %q", h.kinds(), h.actions())
	}
	if a := h.account(); a.PlanID != "pro" {
		t.Errorf("an answer that failed took the plan: %+v", a)
	}
}

// What was read earlier never takes the place of what was read later, also where two servers read.
func TestTheLatestReadingStands(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	a := h.account()
	old := h.s
	release := h.fake.Slow("GET /v1/subscriptions")
	slow := make(chan error, 1)
	go func() { _, err := old.SyncCustomer(h.ctx, a.CustomerID); slow <- err }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if calls := h.fake.Calls("GET /v1/subscriptions"); len(calls) > 0 && calls[len(calls)-1].Status == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the slow reading did not begin")
		}
	}
	h.restart() // a second server, with locks of its own
	h.post("/v1/subscriptions/"+a.SubscriptionID, "cancel_at_period_end", "true")
	if after, err := h.s.SyncCustomer(h.ctx, a.CustomerID); err != nil || after.CancelAt == 0 {
		t.Fatalf("%+v %v", after, err)
	}
	release()
	if err := <-slow; err != nil {
		t.Fatal(err)
	}
	if a := h.account(); a.CancelAt == 0 {
		t.Errorf("what is old took the place of what is new: %+v", a)
	}
}

// The key is shown to the service alone.
func TestTheKeyIsNotTold(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t), func(c *stripe.Config) {})
	h.tune = append(h.tune, func(c *stripe.Config) { c.SecretKey = "sk_test_wrongwrongwrong" })
	h.restart()
	_, err := h.s.Checkout(h.ctx, h.order())
	if codeOf(err) != "payments_misconfigured" || strings.Contains(err.Error(), "wrongwrong") {
		t.Errorf("%v", err)
	}
}
