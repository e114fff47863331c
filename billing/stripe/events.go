package stripe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/accounts/audit"
)

// waits are the pauses between attempts, a day in all; after the last one somebody has to look.
var waits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}

const (
	// claimFor is for how long what one server works on is nobody else's; longer than its calls may take.
	claimFor = 2 * time.Minute

	eventsAtOnce = 100
	workers      = 4
	keepEvents   = 60 * 24 * time.Hour // twice as long as the service lists them
)

// pause is how long to wait after so many attempts; false when it is enough.
func pause(attempts int) (time.Duration, bool) {
	if attempts > len(waits) {
		return 0, false
	}
	w := waits[attempts-1]
	return w + rand.N(w/10+1), true
}

// actOnEvents acts on what is due. next is when something else will be, 0 = nothing is known of; done is how many there were.
func (s *Service) actOnEvents(ctx context.Context) (next int64, done int, err error) {
	due, next, err := s.cfg.Store.DueEvents(ctx, s.now(), eventsAtOnce)
	if err != nil {
		return 0, 0, fmt.Errorf("reading events: %w", err)
	}
	// Events of one customer are acted on by one reading of it.
	groups := map[string][]Event{}
	var order []string
	for _, e := range due {
		ok, err := s.cfg.Store.ClaimEvent(ctx, e, s.now()+claimFor.Milliseconds())
		if err != nil {
			return 0, done, fmt.Errorf("claiming an event: %w", err)
		}
		if !ok {
			continue
		}
		done++
		key := e.CustomerID
		if key == "" {
			key = "event " + e.ID
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], e)
	}
	turns := make(chan struct{}, workers)
	var all sync.WaitGroup
	for _, key := range order {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			s.actOn(ctx, groups[key])
		})
	}
	all.Wait()
	return next, done, nil
}

// actOn acts on events of one customer, and stores how it went.
func (s *Service) actOn(ctx context.Context, group []Event) {
	customerID, err := s.customerOf(ctx, group[0])
	if err == nil {
		_, err = s.sync(ctx, customerID, nil)
	}
	for _, e := range group {
		e.CustomerID = customerID
		each := err
		if each == nil {
			each = s.follow(ctx, e)
		}
		s.settle(ctx, e, each)
	}
}

// customerOf is whose an event is, which some do not say.
func (s *Service) customerOf(ctx context.Context, e Event) (string, error) {
	if e.CustomerID != "" {
		return e.CustomerID, nil
	}
	var c *sdk.Customer
	switch {
	case strings.HasPrefix(e.Type, "charge.dispute."):
		p := &sdk.DisputeParams{Params: params(ctx)}
		p.AddExpand("charge")
		d, err := s.calls.disputes.Get(e.ObjectID, p)
		if missing(err) {
			return "", errNotOurs // it is gone, or was never there
		}
		if err != nil {
			return "", fmt.Errorf("reading a dispute: %w", err)
		}
		if d.Charge != nil {
			c = d.Charge.Customer
		}
	case strings.HasPrefix(e.Type, "radar.early_fraud_warning."):
		p := &sdk.RadarEarlyFraudWarningParams{Params: params(ctx)}
		p.AddExpand("charge")
		w, err := s.calls.warnings.Get(e.ObjectID, p)
		if missing(err) {
			return "", errNotOurs // it is gone, or was never there
		}
		if err != nil {
			return "", fmt.Errorf("reading a warning of fraud: %w", err)
		}
		if w.Charge != nil {
			c = w.Charge.Customer
		}
	case strings.HasPrefix(e.Type, "checkout.session."):
		cs, err := s.calls.checkouts.Get(e.ObjectID, &sdk.CheckoutSessionParams{Params: params(ctx)})
		if missing(err) {
			return "", errNotOurs // it is gone, or was never there
		}
		if err != nil {
			return "", fmt.Errorf("reading a checkout: %w", err)
		}
		c = cs.Customer
	}
	if c == nil || c.ID == "" {
		return "", errNotOurs
	}
	return c.ID, nil
}

// follow does what an event asks for beyond the reading of its customer. It may be called more than once for an event.
func (s *Service) follow(ctx context.Context, e Event) error {
	switch {
	case strings.HasPrefix(e.Type, "checkout.session."):
		return s.settleCheckout(ctx, e.ObjectID)
	case strings.HasPrefix(e.Type, "charge.dispute."), strings.HasPrefix(e.Type, "radar.early_fraud_warning."), e.Type == "charge.refunded":
		return s.review(ctx, e)
	}
	a, found, err := s.cfg.Store.AccountByCustomer(ctx, e.CustomerID)
	if err != nil || !found {
		return err // deleted, and forgotten by now
	}
	for _, fn := range s.following {
		if err := fn(ctx, e, a); err != nil {
			return err
		}
	}
	switch e.Type {
	case "customer.subscription.trial_will_end":
		if a.TrialEndsAt <= s.now() {
			return nil // it came late: the trial is over, or was given up
		}
		return s.notifyOnce(ctx, e, Notice{TeamID: a.TeamID, Kind: "trial_ends", Subject: "Your team's trial of Parawork ends soon",
			Text: fmt.Sprintf("The trial ends on %s (UTC). From then on the plan is charged to the card that was entered; change or cancel it under Settings > Billing.\n", day(a.TrialEndsAt))})
	case "invoice.payment_action_required":
		return s.notifyOnce(ctx, e, Notice{TeamID: a.TeamID, Kind: "payment_action", Subject: "A payment for Parawork needs you",
			Text: "Your bank asks you to confirm a payment for your team's plan. Open the invoice under Settings > Billing.\n"})
	case "invoice.finalization_failed":
		return s.notifyOnce(ctx, e, Notice{TeamID: a.TeamID, Kind: "invoice_failed", Operators: true, Subject: "An invoice could not be made final",
			Text: fmt.Sprintf("The payment service could not finalize invoice %s of customer %s. Look at it there.\n", e.ObjectID, e.CustomerID)})
	}
	return nil
}

func day(ms int64) string { return time.UnixMilli(ms).UTC().Format("2 January 2006") }

// notifyOnce notifies people of an event, in the transaction that records that it was handled.
func (s *Service) notifyOnce(ctx context.Context, e Event, n Notice) error {
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		e.State, e.Reason, e.Attempts = EventDone, "", e.Attempts+1
		if err := s.cfg.Store.SaveEvent(ctx, e); err != nil {
			return err
		}
		return s.notify(ctx, n)
	})
	if err != nil {
		return fmt.Errorf("telling of an event: %w", err)
	}
	return nil
}

// settle stores how acting on an event went.
func (s *Service) settle(ctx context.Context, e Event, err error) {
	if ctx.Err() != nil && err != nil {
		e.TryAt = s.now() // the next server goes on at once
		s.keepEvent(ctx, e)
		return
	}
	e.Attempts++
	switch {
	case err == nil:
		e.State, e.Reason = EventDone, ""
	case errors.Is(err, errNotOurs):
		e.State, e.Reason = EventIgnored, "it is about no team of this server"
	default:
		wait, more := pause(e.Attempts)
		e.Reason, e.TryAt = said(err), s.now()+wait.Milliseconds()
		if !more {
			e.State = EventFailed
		}
	}
	switch e.State {
	case EventFailed:
		s.cfg.Log.Error("event of the payment service given up", "event", e.ID, "type", e.Type, "reason", e.Reason)
	case EventNew:
		s.cfg.Log.Warn("event of the payment service not handled yet", "event", e.ID, "type", e.Type, "attempts", e.Attempts, "error", err)
	}
	s.keepEvent(ctx, e)
}

// said is what went wrong, for operators: the service's own words, or that it was ours.
func said(err error) string {
	if errorOf(err) != nil {
		return wordsOf(err)
	}
	return cut(err.Error(), 300)
}

func cut(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func (s *Service) keepEvent(ctx context.Context, e Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if err := s.cfg.Store.SaveEvent(ctx, e); err != nil || e.State != EventFailed {
			return err
		}
		if err := s.note(byService(ctx), audit.Entry{Chain: audit.Instance, Action: "billing.event_failed", TargetKind: "event", TargetID: e.ID, TargetName: e.Type, Result: audit.Failed}); err != nil {
			return err
		}
		return s.notify(ctx, Notice{Kind: "event_failed", Operators: true, Subject: "Parawork could not handle an event of the payment service",
			Text: fmt.Sprintf("Event %s (%s) failed for a day, and Parawork gave up: %s.\nOpen Settings > Payments, fix the problem and synchronise the team there.\n", e.ID, e.Type, e.Reason)})
	})
	if err != nil {
		s.cfg.Log.Warn("result of an event not stored", "event", e.ID, "error", err)
	}
}
