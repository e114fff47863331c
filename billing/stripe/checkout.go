package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

const (
	// openFor is for how long a payment that was begun may be finished; the service wants 30 minutes at least.
	openFor = time.Hour

	// mostSeats bounds what somebody may ask for by mistake.
	mostSeats = 10_000
)

// Order is what somebody wants to buy.
type Order struct {
	TeamID string
	PlanID string
	Seats  *int64 // nil = as many as members
	By     string // user id
	Base   string // this server's address, as the browser knows it
}

// Way leads a browser to the payment service.
type Way struct {
	URL    string
	Portal bool // there is a subscription, which is changed and not begun again
}

// Checkout begins a payment, or leads to the portal where the team has a subscription. Errors: payments_off, plan_not_found, plan_given,
// plan_not_for_sale, billing_not_set_up, seats_too_few, plan_too_small, payments_*.
func (s *Service) Checkout(ctx context.Context, o Order) (Way, error) {
	if !s.Enabled() {
		return Way{}, errOff
	}
	unlock, err := s.teams.LockContext(ctx, o.TeamID)
	if err != nil {
		return Way{}, err
	}
	defer unlock()
	plan, seats, err := s.checkOrder(ctx, o)
	if err != nil {
		return Way{}, err
	}
	lines, err := s.lines(ctx, plan, seats)
	if err != nil {
		return Way{}, err
	}
	customerID, err := s.customer(ctx, o.TeamID)
	if err != nil {
		return Way{}, err
	}
	// The stored state may be old, and a second subscription would be charged in addition to the first.
	a, err := s.SyncCustomer(ctx, customerID)
	if err != nil && !errors.Is(err, errNotOurs) {
		return Way{}, s.asked("reading a customer", err)
	}
	if err == nil && a.CustomerID == "" { // it was deleted there
		if customerID, err = s.customer(ctx, o.TeamID); err != nil {
			return Way{}, err
		}
	}
	if holds(a.Status) {
		return s.portal(ctx, o.TeamID, customerID, o.Base)
	}
	way, paid, err := s.clearCheckouts(ctx, o, plan.ID)
	if err != nil {
		return Way{}, err
	}
	if paid { // perhaps since the customer was read
		if a, err = s.SyncCustomer(ctx, customerID); err != nil {
			return Way{}, s.asked("reading a customer", err)
		}
		if holds(a.Status) {
			return s.portal(ctx, o.TeamID, customerID, o.Base)
		}
	}
	if way.URL != "" {
		return way, nil
	}
	return s.begin(ctx, o, plan, customerID, a, lines)
}

// checkOrder looks at what is asked for.
func (s *Service) checkOrder(ctx context.Context, o Order) (Plan, int64, error) {
	plans, err := s.cfg.Store.Plans(ctx)
	if err != nil {
		return Plan{}, 0, fmt.Errorf("reading plans: %w", err)
	}
	i := slices.IndexFunc(plans, func(p Plan) bool { return p.ID == o.PlanID })
	if i < 0 || !plans[i].Offered {
		return Plan{}, 0, fault.New(fault.Invalid, "plan_not_found", "There is no such plan to choose.").With("field", "plan_id")
	}
	plan := plans[i]
	audit.Target(ctx, "plan", plan.ID, plan.Name)
	if plan.SeatMonthNano == 0 {
		return Plan{}, 0, fault.New(fault.Invalid, "plan_not_for_sale", "The plan %s costs nothing. To go back to it, end your subscription under Manage payment.", plan.Name).With("field", "plan_id")
	}
	a, err := s.cfg.Store.Account(ctx, o.TeamID)
	if err != nil {
		return Plan{}, 0, fmt.Errorf("reading a team's account: %w", err)
	}
	if a.PlanSource == FromOperator {
		return Plan{}, 0, fault.New(fault.Conflict, "plan_given", "An operator of this server chose this team's plan. Ask them before you pay for another.")
	}
	members, err := s.cfg.Store.CountMembers(ctx, o.TeamID)
	if err != nil {
		return Plan{}, 0, fmt.Errorf("counting members: %w", err)
	}
	seats := max(members, 1)
	if o.Seats != nil {
		if *o.Seats < seats || *o.Seats > mostSeats {
			return Plan{}, 0, fault.New(fault.Invalid, "seats_too_few", "The team has %d members: take at least as many seats, and %d at most.", members, mostSeats).
				With("field", "seats").With("used", members)
		}
		seats = *o.Seats
	}
	if plan.Seats != nil && seats > *plan.Seats {
		return Plan{}, 0, fault.New(fault.Conflict, "plan_too_small", "The plan %s is for %d members at most, and this would be %d. Choose a larger plan.", plan.Name, *plan.Seats, seats).
			With("limit", *plan.Seats).With("used", seats)
	}
	audit.Note(ctx, "seats", strconv.FormatInt(seats, 10))
	return plan, seats, nil
}

// lines are what a plan is charged by: seats, and its meters where usage comes on top.
func (s *Service) lines(ctx context.Context, plan Plan, seats int64) ([]*sdk.CheckoutSessionLineItemParams, error) {
	made, err := s.cfg.Store.ObjectsMade(ctx, s.live)
	if err != nil {
		return nil, fmt.Errorf("reading what was made at the payment service: %w", err)
	}
	kinds := []string{KindSeat}
	if plan.MeteredUsage {
		kinds = append(kinds, Meters...)
	}
	out := make([]*sdk.CheckoutSessionLineItemParams, 0, len(kinds))
	for _, kind := range kinds {
		price := made[PriceName(plan.ID, kind)]
		// Nobody is charged another price than the one they were shown.
		other := kind == KindSeat && price.Fingerprint != "" && price.Fingerprint != seatPrint(made["product:"+plan.ID].ID, plan)
		if price.ID == "" || other {
			s.cfg.Log.Error("plan has no price at the payment service", "plan", plan.ID, "price", kind, "hint", "run: parawork billing setup")
			return nil, fault.New(fault.Unavailable, "billing_not_set_up", "This plan cannot be bought yet: an operator must run `parawork billing setup` first.")
		}
		line := &sdk.CheckoutSessionLineItemParams{Price: sdk.String(price.ID)}
		if kind == KindSeat {
			line.Quantity = sdk.Int64(seats)
		}
		out = append(out, line)
	}
	return out, nil
}

// Meters are what usage is reported by.
var Meters = []string{"vcpu_seconds", "mib_seconds"}

// clearCheckouts sees to it that no payment begun earlier can be finished beside a new one. Where one is for the same, the browser is led
// back to it. paid says that one has been finished.
func (s *Service) clearCheckouts(ctx context.Context, o Order, planID string) (way Way, paid bool, err error) {
	open, err := s.cfg.Store.OpenCheckouts(ctx, o.TeamID)
	if err != nil {
		return way, false, fmt.Errorf("reading a team's checkouts: %w", err)
	}
	for _, c := range open {
		if c.ExternalID == "" { // nobody was ever led there
			c.State, c.EndedAt = CheckoutFailed, s.now()
			if err := s.cfg.Store.SaveCheckout(ctx, c); err != nil {
				return way, false, fmt.Errorf("closing a checkout: %w", err)
			}
			continue
		}
		cs, err := s.calls.checkouts.Get(c.ExternalID, &sdk.CheckoutSessionParams{Params: params(ctx)})
		if err != nil && !missing(err) {
			return way, false, s.asked("reading a checkout", err)
		}
		fresh := s.now()-c.CreatedAt < (openFor / 2).Milliseconds()
		switch {
		case missing(err):
			c.State = CheckoutExpired
		case cs.Status == sdk.CheckoutSessionStatusOpen && fresh && way.URL == "" && c.PlanID == planID && c.Seats == asked(o) && c.CreatedBy == o.By && cs.URL != "":
			way = Way{URL: cs.URL}
			continue
		case cs.Status == sdk.CheckoutSessionStatusOpen:
			ended, err := s.calls.checkouts.Expire(c.ExternalID, &sdk.CheckoutSessionExpireParams{Params: keyedParams(ctx, c.ID+"-expire")})
			if err != nil { // finished in this very moment
				s.cfg.Log.Info("checkout not expired", "checkout", c.ID, "answer", wordsOf(err))
				return way, false, fault.New(fault.Conflict, "payments_busy", "Somebody in your team is paying just now. Look again in a moment.")
			}
			c.State = stateOf(ended)
		default:
			c.State = stateOf(cs)
			paid = paid || cs.Status == sdk.CheckoutSessionStatusComplete
		}
		c.EndedAt = s.now()
		if err := s.cfg.Store.SaveCheckout(ctx, c); err != nil {
			return way, false, fmt.Errorf("closing a checkout: %w", err)
		}
	}
	return way, paid, nil
}

// asked is how many seats were asked for by hand, 0 = as many as members.
func asked(o Order) int64 {
	if o.Seats == nil {
		return 0
	}
	return *o.Seats
}

// begin begins a payment.
func (s *Service) begin(ctx context.Context, o Order, plan Plan, customerID string, a Account, lines []*sdk.CheckoutSessionLineItemParams) (Way, error) {
	ours, err := s.Instance(ctx)
	if err != nil {
		return Way{}, err
	}
	t, err := s.cfg.Team(ctx, o.TeamID)
	if err != nil {
		return Way{}, err
	}
	c := Checkout{ID: id.New("chk"), TeamID: o.TeamID, PlanID: plan.ID, Seats: asked(o), State: CheckoutOpen, CreatedBy: o.By, CreatedAt: s.now()}
	if err := s.cfg.Store.InsertCheckout(ctx, c); err != nil {
		return Way{}, fmt.Errorf("storing a checkout: %w", err)
	}
	meta := map[string]string{metaTeam: o.TeamID, metaInstance: ours, metaPlan: plan.ID}
	p := &sdk.CheckoutSessionParams{Params: keyedParams(ctx, c.ID), Mode: sdk.String(string(sdk.CheckoutSessionModeSubscription)), Customer: sdk.String(customerID),
		ClientReferenceID: sdk.String(o.TeamID), LineItems: lines, SubscriptionData: &sdk.CheckoutSessionSubscriptionDataParams{Metadata: meta},
		SuccessURL: sdk.String(page(o.Base, t.Slug, url.Values{"paid": {c.ID}})), CancelURL: sdk.String(page(o.Base, t.Slug, url.Values{"canceled": {c.ID}})),
		ExpiresAt: sdk.Int64(c.CreatedAt/1000 + int64(openFor/time.Second))}
	p.Metadata = meta
	if plan.TrialDays > 0 && !s.triedBefore(ctx, a) {
		p.SubscriptionData.TrialPeriodDays = sdk.Int64(plan.TrialDays)
	}
	if s.cfg.AutomaticTax {
		p.AutomaticTax = &sdk.CheckoutSessionAutomaticTaxParams{Enabled: sdk.Bool(true)}
		p.CustomerUpdate = &sdk.CheckoutSessionCustomerUpdateParams{Address: sdk.String("auto"), Name: sdk.String("auto")}
		p.TaxIDCollection = &sdk.CheckoutSessionTaxIDCollectionParams{Enabled: sdk.Bool(true)}
	}
	cs, err := s.calls.checkouts.New(p)
	if err != nil {
		c.State, c.EndedAt = CheckoutFailed, s.now()
		if kept := s.cfg.Store.SaveCheckout(context.WithoutCancel(ctx), c); kept != nil {
			s.cfg.Log.Warn("checkout not closed", "checkout", c.ID, "error", kept)
		}
		return Way{}, s.asked("beginning a checkout", err)
	}
	failpoint.Reach(failpoint.CheckoutBegun)
	c.ExternalID = cs.ID
	if err := s.cfg.Store.SaveCheckout(ctx, c); err != nil {
		return Way{}, fmt.Errorf("storing a checkout: %w", err)
	}
	return Way{URL: cs.URL}, nil
}

// triedBefore reports whether the team has had a subscription: a trial is for those who have not.
func (s *Service) triedBefore(ctx context.Context, a Account) bool {
	_, paid, err := s.cfg.Store.LastPaid(ctx, a.TeamID)
	return err != nil || paid || a.SubscriptionID != ""
}

// page is the team's page about its plan.
func page(base, slug string, q url.Values) string {
	u := base + "/" + url.PathEscape(slug) + "/settings/billing"
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	return u
}

// Portal leads to the page of the payment service where the team changes how it pays, reads invoices and ends its subscription. Errors:
// payments_off, no_customer, payments_*.
func (s *Service) Portal(ctx context.Context, teamID, base string) (Way, error) {
	if !s.Enabled() {
		return Way{}, errOff
	}
	a, err := s.cfg.Store.Account(ctx, teamID)
	if err != nil {
		return Way{}, fmt.Errorf("reading a team's account: %w", err)
	}
	if a.CustomerID == "" {
		return Way{}, fault.New(fault.Conflict, "no_customer", "This team has not paid yet. Choose a plan first.")
	}
	return s.portal(ctx, teamID, a.CustomerID, base)
}

func (s *Service) portal(ctx context.Context, teamID, customerID, base string) (Way, error) {
	t, err := s.cfg.Team(ctx, teamID)
	if err != nil {
		return Way{}, err
	}
	objects, err := s.cfg.Store.Objects(ctx, s.live)
	if err != nil {
		return Way{}, fmt.Errorf("reading what was made at the payment service: %w", err)
	}
	p := &sdk.BillingPortalSessionParams{Params: params(ctx), Customer: sdk.String(customerID), ReturnURL: sdk.String(page(base, t.Slug, url.Values{"managed": {"1"}}))}
	if conf := objects[PortalName]; conf != "" {
		p.Configuration = sdk.String(conf)
	}
	ps, err := s.calls.portals.New(p)
	if err != nil {
		return Way{}, s.asked("opening the portal", err)
	}
	return Way{URL: ps.URL, Portal: true}, nil
}

// Sync reads the team's status from the payment service now, so that a user who returns from there need not wait for a webhook. checkoutID names a
// payment that was begun, "" = none. Errors: payments_off, payments_*.
func (s *Service) Sync(ctx context.Context, teamID, checkoutID string) (Account, error) {
	if !s.Enabled() {
		return Account{}, errOff
	}
	a, err := s.cfg.Store.Account(ctx, teamID)
	if err != nil {
		return a, fmt.Errorf("reading a team's account: %w", err)
	}
	if a.CustomerID == "" {
		return a, nil
	}
	if a, err = s.SyncCustomer(ctx, a.CustomerID); err != nil {
		return a, s.asked("reading a customer", err)
	}
	if err := s.countSeats(ctx); err != nil { // of this team: the caller's scope
		return a, err
	}
	if checkoutID == "" {
		return a, nil
	}
	c, found, err := s.cfg.Store.Checkout(ctx, checkoutID)
	if err != nil || !found || c.TeamID != teamID || c.ExternalID == "" || c.State != CheckoutOpen {
		return a, err
	}
	if err := s.settleCheckout(ctx, c.ExternalID); err != nil {
		return a, s.asked("reading a checkout", err)
	}
	return a, nil
}

// settleCheckout stores what became of a payment that was begun.
func (s *Service) settleCheckout(ctx context.Context, externalID string) error {
	c, found, err := s.cfg.Store.CheckoutByExternal(ctx, externalID)
	if err != nil || !found || c.State == CheckoutDone {
		return err
	}
	cs, err := s.calls.checkouts.Get(externalID, &sdk.CheckoutSessionParams{Params: params(ctx)})
	if err != nil {
		return fmt.Errorf("reading a checkout: %w", err)
	}
	state := stateOf(cs)
	if state == c.State {
		return nil
	}
	c.State, c.EndedAt = state, s.now()
	if err := s.cfg.Store.SaveCheckout(ctx, c); err != nil {
		return fmt.Errorf("storing a checkout: %w", err)
	}
	s.changed(ctx, c.TeamID)
	return nil
}

// stateOf is what became of a payment, as the service has it now.
func stateOf(cs *sdk.CheckoutSession) string {
	switch {
	case cs.Status == sdk.CheckoutSessionStatusExpired:
		return CheckoutExpired
	case cs.Status == sdk.CheckoutSessionStatusComplete && cs.PaymentStatus == sdk.CheckoutSessionPaymentStatusUnpaid:
		// A way of paying that takes days, and may have failed by now.
		if cs.Subscription != nil && cs.Subscription.Status == sdk.SubscriptionStatusIncompleteExpired {
			return CheckoutFailed
		}
		return CheckoutOpen
	case cs.Status == sdk.CheckoutSessionStatusComplete:
		return CheckoutDone
	}
	return CheckoutOpen
}
