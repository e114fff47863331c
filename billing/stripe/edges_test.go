package stripe_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/teststripe"
)

// buyAhead pays for more seats than there are members, and returns what the payment is called here.
func (h *paying) buyAhead(seats int64) string {
	h.t.Helper()
	o := h.order()
	o.Seats = &seats
	way, err := h.s.Checkout(h.ctx, o)
	if err != nil || way.Portal {
		h.t.Fatalf("%+v %v", way, err)
	}
	back, err := url.Parse(h.pay(way.URL[strings.LastIndex(way.URL, "/")+1:]))
	if err != nil {
		h.t.Fatal(err)
	}
	return back.Query().Get("paid")
}

// timesSet is how often a number of seats was sent.
func (h *paying) timesSet() (n int) {
	for _, c := range h.fake.Calls("") {
		if c.Method == http.MethodPost && strings.HasPrefix(c.Path, "/v1/subscription_items/") {
			n++
		}
	}
	return n
}

// Seats that were bought ahead stay, whether the browser, a look at the seats or the webhook of the subscription comes first: the payment
// is not known to be done then.
func TestSeatsBoughtAheadStayWhateverComesFirst(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(h *paying, checkout string) error{
		"the way back": func(h *paying, checkout string) error {
			_, err := h.s.Sync(h.ctx, h.team.ID, checkout)
			return err
		},
		"a reading and a sweep": func(h *paying, _ string) error {
			_, err := h.s.SyncCustomer(h.ctx, h.account().CustomerID)
			h.s.Sweep(h.ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newPaying(t, storetest.SQLite(t))
			h.fake.Hold()
			if err := first(h, h.buyAhead(5)); err != nil {
				t.Fatal(err)
			}
			h.work()
			h.fake.Release(1)
			h.settle()
			h.s.Sweep(h.ctx)
			h.settle()
			if n := h.timesSet(); n != 0 || h.seats() != "5" || h.account().Seats != 5 {
				t.Errorf("%s seats there, %d here, changed %d times", h.seats(), h.account().Seats, n)
			}
		})
	}
}

// Seats the service refuses to set are given up once, not again with every look at them; more of them are another wish.
func TestRefusedSeatsAreGivenUpOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newPaying(t, db)
		h.subscribe()
		h.fake.Break(teststripe.Fault{Path: "POST /v1/subscription_items", Times: -1, Status: 400, Code: "parameter_invalid"})
		look := func(times int) (calls, given int) {
			for range times {
				h.s.Sweep(h.ctx)
				h.later(time.Minute)
			}
			return h.timesSet(), count(h.kinds(), "outbox_failed")
		}
		h.join(1)
		if calls, given := look(5); calls != 1 || given != 1 {
			t.Errorf("%d calls, and operators were notified %d times", calls, given)
		}
		h.join(1)
		if calls, given := look(3); calls != 2 || given != 2 {
			t.Errorf("another wish: %d calls, told %d times", calls, given)
		}
		h.fake.Repair()
		h.later(25 * time.Hour)
		look(1)
		if h.seats() != "3" || h.account().Seats != 3 {
			t.Errorf("a day later: %s seats there, %d here", h.seats(), h.account().Seats)
		}
	})
}

// An invoice of long ago that nobody paid takes no day of grace from a subscription that was begun since.
func TestOldDebtsTakeNoGrace(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	customer := h.account().CustomerID
	h.fake.Card(customer, teststripe.Declined)
	h.later(33 * 24 * time.Hour)
	old := h.account()
	if old.Status != stripe.PastDue {
		t.Fatalf("%+v", old)
	}
	h.delete("/v1/subscriptions/" + old.SubscriptionID)
	h.settle()
	h.later(60 * 24 * time.Hour)
	h.fake.Card(customer, teststripe.Good)
	h.subscribe()
	h.fake.Card(customer, teststripe.Declined)
	h.later(33 * 24 * time.Hour)
	h.s.Sweep(h.ctx)
	a := h.account()
	if owing := h.s.Owing(a); a.Status != stripe.PastDue || a.PlanID != "pro" || owing == nil || owing.DaysLeft < 1 {
		t.Errorf("%+v %+v", a, owing)
	}
}

// Somebody pays in the moment between two questions: the second payment is not begun.
func TestPaidBetweenTwoQuestions(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	first := h.checkout()
	release := h.fake.Slow("GET /v1/invoices") // after the subscriptions were read
	type answer struct {
		way stripe.Way
		err error
	}
	second := make(chan answer, 1)
	go func() {
		way, err := h.s.Checkout(h.ctx, h.order())
		second <- answer{way, err}
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if calls := h.fake.Calls("GET /v1/invoices"); len(calls) > 1 && calls[len(calls)-1].Status == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the second order does not ask")
		}
	}
	h.pay(first)
	release()
	if got := <-second; got.err != nil || !got.way.Portal || len(h.fake.Objects("checkout.session")) != 1 {
		t.Errorf("%+v %v, %d payments", got.way, got.err, len(h.fake.Objects("checkout.session")))
	}
}

// delete asks the payment service to end something, as its dashboard does.
func (h *paying) delete(path string) {
	h.t.Helper()
	r, _ := http.NewRequestWithContext(h.ctx, http.MethodDelete, h.fake.Base()+path, nil)
	r.Header.Set("Authorization", "Bearer "+h.fake.Key())
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %+v %v", path, resp, err)
	}
	resp.Body.Close()
}

// A database that fails for a moment does not make an event one of nobody's: it is tried again.
func TestAFailureIsNotNobodysCustomer(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	h := newPaying(t, storetest.SQLite(t), func(c *stripe.Config) {
		team := c.Team
		c.Team = func(ctx context.Context, id string) (stripe.Team, error) {
			if broken.Load() {
				return stripe.Team{}, errors.New("the disk is full")
			}
			return team(ctx, id)
		}
	})
	h.pay(h.checkout())
	h.sql(`DELETE FROM team_billing`) // a copy of the database of a day before
	broken.Store(true)
	h.settle()
	for id, e := range h.events() {
		if e.Type == "customer.subscription.created" && e.State != stripe.EventNew {
			t.Errorf("%s: %s %s", id, e.State, e.Reason)
		}
	}
	broken.Store(false)
	h.later(time.Minute)
	if a := h.account(); a.PlanID != "pro" || a.CustomerID == "" {
		t.Errorf("%+v", a)
	}
}

// A dispute and a warning of fraud of one payment come at the same time: the team is held back for both.
func TestDisputeAndFraudAtOnce(t *testing.T) {
	t.Parallel()
	both := &meeting{paths: []string{"/v1/disputes/", "/v1/radar/early_fraud_warnings/"}, skip: 1, met: make(chan struct{})}
	h := newPaying(t, storetest.SQLite(t), func(c *stripe.Config) { c.Transport = both })
	h.subscribe()
	customer := h.account().CustomerID
	if err := errors.Join(h.fake.Dispute(customer, "needs_response"), h.fake.WarnOfFraud(customer)); err != nil {
		t.Fatal(err)
	}
	h.settle()
	named, err := h.st.Mark(h.ctx, "stripe.suspended."+h.team.ID)
	if err != nil || len(strings.Fields(named)) != 2 {
		t.Errorf("held back for %q %v", named, err)
	}
}

// meeting has the first question below each of some paths, after those that are skipped, wait for that below the others.
type meeting struct {
	paths []string
	skip  int
	met   chan struct{}

	mu   sync.Mutex
	seen map[string]int
	here int
}

// RoundTrip waits, and asks.
func (m *meeting) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	wait := false
	for _, p := range m.paths {
		if strings.HasPrefix(r.URL.Path, p) {
			if m.seen == nil {
				m.seen = map[string]int{}
			}
			if m.seen[p]++; m.seen[p] == m.skip+1 {
				if m.here++; m.here == len(m.paths) {
					close(m.met)
				}
				wait = true
			}
		}
	}
	m.mu.Unlock()
	if wait {
		select {
		case <-m.met:
		case <-time.After(3 * time.Second): // the other one waits for this one
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A customer that was deleted at the service, and nobody told: the team may begin anew at once.
func TestOrderOfADeletedCustomer(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	h.fake.Hold()
	h.delete("/v1/customers/" + h.account().CustomerID)
	h.pay(h.checkout())
	if a, err := h.s.Sync(h.ctx, h.team.ID, ""); err != nil || a.PlanID != "pro" || len(h.fake.Objects("customer")) == 0 {
		t.Errorf("%+v %v", a, err)
	}
}

// Somebody joins and leaves while the service cannot be reached: nothing is charged for them afterwards.
func TestSeatsOfWhoHasLeftAgain(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	h.fake.Break(teststripe.Fault{Path: "POST /v1/subscription_items", Times: -1, Status: 503})
	who := h.join(1)
	h.s.Sweep(h.ctx)
	h.work()
	h.sql(`DELETE FROM members WHERE user_id = ?`, who[0])
	before := h.timesSet()
	h.fake.Repair()
	h.s.Sweep(h.ctx)
	h.later(10 * time.Minute)
	rows, err := h.st.PendingOutgoing(h.ctx, h.team.ID, "seats")
	if n := h.timesSet() - before; n != 0 || h.seats() != "1" || err != nil || len(rows) != 0 {
		t.Errorf("set %d times more, %s seats, waiting: %+v %v", n, h.seats(), rows, err)
	}
}

// A customer the service cannot read does not keep the other teams from being read.
func TestOneTeamThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.subscribe()
	other := h.post("/v1/customers", "email", "z@example.com")["id"].(string)
	h.sql(`INSERT INTO teams (id, slug, name, created_at) VALUES ('zz', 'zz', 'ZZ', 1)`)
	h.sql(`INSERT INTO team_billing (team_id, customer_id, updated_at) VALUES ('zz', ?, 1)`, other)
	h.settle()
	h.sql(`UPDATE team_billing SET synced_at = 0 WHERE team_id = 'zz'`)
	h.fake.Break(teststripe.Fault{Path: "GET /v1/customers/" + h.account().CustomerID, Times: -1, Status: 500})
	h.pass(7 * time.Hour)
	h.s.Sweep(h.ctx)
	if a, err := h.st.Account(h.ctx, "zz"); err != nil || a.SyncedAt == 0 {
		t.Errorf("%+v %v", a, err)
	}
}

// Word of a trial's end that comes when it is over is not passed on.
func TestATrialThatIsOverDoesNotEndSoon(t *testing.T) {
	t.Parallel()
	h := newPaying(t, storetest.SQLite(t))
	h.sql(`UPDATE plans SET trial_days = 14 WHERE id = 'pro'`)
	h.subscribe()
	h.fake.Hold()
	h.pass(15 * 24 * time.Hour)
	h.fake.Advance(0)
	h.fake.Release(1)
	h.settle()
	if a := h.account(); a.Status != stripe.Active {
		t.Fatalf("%+v", a)
	}
	for _, n := range h.given {
		if n.Kind == "trial_ends" {
			t.Errorf("told: %s", n.Text)
		}
	}
}
