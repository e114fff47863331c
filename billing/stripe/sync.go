package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// keptInvoices is how many of a team's invoices are copied.
const keptInvoices = 24

// errNotOurs says that a customer is no team's of this instance: the account at the service sells other things, too.
var errNotOurs = errors.New("no team here has this customer")

// errRead says that somebody stored what was read later: it is to be read again.
var errRead = errors.New("another server has read the customer meanwhile")

// finding is what the payment service says of a customer.
type finding struct {
	gone     bool // the customer was deleted
	sub      *sdk.Subscription
	plan     string
	seats    int64
	invoices []*sdk.Invoice
}

// SyncCustomer reads a customer's subscription and invoices from the payment service and stores what they mean for the team. It may be
// called as often as one likes, from wherever; one customer is read by one caller at a time, and what was read earlier never takes the
// place of what was read later. errNotOurs when it is no team's.
func (s *Service) SyncCustomer(ctx context.Context, customerID string) (Account, error) {
	return s.sync(ctx, customerID, nil)
}

// sync is SyncCustomer; also runs in the transaction that stores what was read, with the account as it is then.
func (s *Service) sync(ctx context.Context, customerID string, also func(ctx context.Context, a Account) error) (Account, error) {
	if !s.Enabled() {
		return Account{}, errOff
	}
	unlock, err := s.customers.LockContext(ctx, customerID)
	if err != nil {
		return Account{}, err
	}
	defer unlock()
	before, err := s.owner(ctx, customerID)
	if err != nil {
		return Account{}, err
	}
	for range 3 {
		f, err := s.read(ctx, customerID, before.TeamID)
		if err != nil {
			return Account{}, err
		}
		after, err := s.keep(ctx, before, f, also)
		if errors.Is(err, errRead) {
			if before, err = s.cfg.Store.Account(ctx, before.TeamID); err != nil {
				return Account{}, fmt.Errorf("reading a team's account: %w", err)
			}
			continue
		}
		if err != nil {
			return Account{}, err
		}
		if shown(before) != shown(after) {
			s.changed(ctx, after.TeamID)
		}
		return after, nil
	}
	return Account{}, errRead
}

// shown is what of an account anybody sees.
func shown(a Account) Account {
	a.SyncedAt, a.UpdatedAt = 0, 0
	return a
}

// owner finds the team of a customer. One that was made for a team of ours, and whose making this server does not remember, is taken up.
func (s *Service) owner(ctx context.Context, customerID string) (Account, error) {
	a, found, err := s.cfg.Store.AccountByCustomer(ctx, customerID)
	if err != nil || found {
		return a, err
	}
	c, err := s.calls.customers.Get(customerID, &sdk.CustomerParams{Params: params(ctx)})
	if missing(err) || err == nil && c.Deleted {
		return a, errNotOurs
	}
	if err != nil {
		return a, fmt.Errorf("reading a customer: %w", err)
	}
	ours, err := s.Instance(ctx)
	if err != nil {
		return a, err
	}
	teamID := c.Metadata[metaTeam]
	if teamID == "" || c.Metadata[metaInstance] != ours {
		return a, errNotOurs
	}
	switch _, err := s.cfg.Team(ctx, teamID); {
	case fault.Is(err, fault.NotFound):
		return a, errNotOurs
	case err != nil:
		return a, fmt.Errorf("reading a team: %w", err)
	}
	switch ok, err := s.cfg.Store.BindCustomer(ctx, teamID, customerID, s.now()); {
	case err != nil:
		return a, fmt.Errorf("storing a customer: %w", err)
	case !ok:
		return a, errNotOurs
	}
	return s.cfg.Store.Account(ctx, teamID)
}

// read asks the payment service about a customer.
func (s *Service) read(ctx context.Context, customerID, teamID string) (finding, error) {
	var f finding
	ours, err := s.Instance(ctx)
	if err != nil {
		return f, err
	}
	byID, err := s.plansByPrice(ctx)
	if err != nil {
		return f, err
	}
	c, err := s.calls.customers.Get(customerID, &sdk.CustomerParams{Params: params(ctx)})
	if missing(err) || err == nil && c.Deleted {
		f.gone = true
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("reading a customer: %w", err)
	}
	subs := s.calls.subscriptions.List(&sdk.SubscriptionListParams{ListParams: listParams(ctx), Customer: sdk.String(customerID), Status: sdk.String("all")})
	live := 0
	for subs.Next() {
		sub := subs.Subscription()
		if other := sub.Metadata[metaInstance]; other != "" && other != ours {
			continue
		}
		plan, seats := planOf(sub, byID)
		if plan == "" {
			continue // of something else that is sold there
		}
		if holds(string(sub.Status)) {
			live++
		}
		if f.sub == nil || better(sub, f.sub) {
			f.sub, f.plan, f.seats = sub, plan, seats
		}
	}
	if err := subs.Err(); err != nil {
		return f, fmt.Errorf("reading subscriptions: %w", err)
	}
	if live > 1 {
		s.cfg.Log.Error("team has more than one subscription", "team_id", teamID, "customer", customerID, "count", live, "hint", "cancel all but one at the payment service")
	}
	invoices := s.calls.invoices.List(&sdk.InvoiceListParams{ListParams: sdk.ListParams{Context: ctx, Limit: sdk.Int64(keptInvoices), Single: true}, Customer: sdk.String(customerID)})
	for invoices.Next() {
		f.invoices = append(f.invoices, invoices.Invoice())
	}
	if err := invoices.Err(); err != nil {
		return f, fmt.Errorf("reading invoices: %w", err)
	}
	return f, nil
}

// plansByPrice are the plans whose prices were made for this instance, by the price's id there.
func (s *Service) plansByPrice(ctx context.Context) (map[string][2]string, error) {
	objects, err := s.cfg.Store.Objects(ctx, s.live)
	if err != nil {
		return nil, fmt.Errorf("reading what was made at the payment service: %w", err)
	}
	out := map[string][2]string{}
	for name, objectID := range objects {
		if parts := strings.Split(name, ":"); len(parts) == 3 && parts[0] == "price" {
			out[objectID] = [2]string{parts[1], parts[2]}
		}
	}
	return out, nil
}

// planOf is the plan a subscription is for, and its seats: by our own record of the price, else by what the price says of itself, as of one
// that has been replaced. "" when it is none of ours.
func planOf(sub *sdk.Subscription, byID map[string][2]string) (plan string, seats int64) {
	item := seatItem(sub, byID)
	if item == nil {
		return "", 0
	}
	if own, ok := byID[item.Price.ID]; ok {
		return own[0], item.Quantity
	}
	return item.Price.Metadata[metaPlan], item.Quantity
}

// seatItem is the item of a subscription that counts its seats; nil when it has none of ours.
func seatItem(sub *sdk.Subscription, byID map[string][2]string) *sdk.SubscriptionItem {
	if sub.Items == nil {
		return nil
	}
	for _, it := range sub.Items.Data {
		if it.Price == nil {
			continue
		}
		if own, ok := byID[it.Price.ID]; ok && own[1] == KindSeat || !ok && it.Price.Metadata[metaPlan] != "" && it.Price.Metadata[metaKind] == KindSeat {
			return it
		}
	}
	return nil
}

// better reports whether of two subscriptions of one customer a is the one that counts: the one that gives more, then the newer.
func better(a, b *sdk.Subscription) bool {
	if x, y := rank(string(a.Status)), rank(string(b.Status)); x != y {
		return x > y
	}
	return a.Created > b.Created
}

// keep stores what was read.
func (s *Service) keep(ctx context.Context, before Account, f finding, also func(ctx context.Context, a Account) error) (Account, error) {
	plans, err := s.cfg.Store.Plans(ctx)
	if err != nil {
		return before, fmt.Errorf("reading plans: %w", err)
	}
	var after Account
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		now, err := s.cfg.Store.Account(ctx, before.TeamID)
		if err != nil {
			return err
		}
		if now.SyncedAt != before.SyncedAt || now.CustomerID != before.CustomerID {
			return errRead
		}
		after = s.stateOf(now, f)
		s.choose(&after, plans)
		if f.gone {
			if err := s.cfg.Store.Unbind(ctx, now.TeamID, now.CustomerID, after.UpdatedAt); err != nil {
				return err
			}
			after.CustomerID = ""
		}
		if err := s.cfg.Store.SaveAccount(ctx, after); err != nil {
			return err
		}
		for _, inv := range f.invoices {
			if err := s.cfg.Store.PutInvoice(ctx, invoiceOf(inv, now.TeamID, after.SyncedAt)); err != nil {
				return err
			}
		}
		if err := s.notifyChange(ctx, now, after, plans); err != nil {
			return err
		}
		if also != nil {
			return also(ctx, after)
		}
		return nil
	})
	if err != nil {
		return before, err
	}
	failpoint.Reach(failpoint.CustomerSynced)
	return after, nil
}

// stateOf returns an account as the payment service has it, all but the plan that follows from it.
func (s *Service) stateOf(a Account, f finding) Account {
	a.UpdatedAt = s.now()
	a.SyncedAt = max(a.UpdatedAt, a.SyncedAt+1) // it orders what was read, also when the clock goes back
	if f.sub == nil {
		a.SubscriptionID, a.Status, a.PaidPlanID, a.Seats = "", "", "", 0
		a.TrialEndsAt, a.PeriodStart, a.PeriodEnd, a.CancelAt, a.PastDueSince = 0, 0, 0, 0, 0
		return a
	}
	sub := f.sub
	a.SubscriptionID, a.Status, a.PaidPlanID, a.Seats = sub.ID, string(sub.Status), f.plan, f.seats
	a.PeriodStart, a.PeriodEnd = sub.CurrentPeriodStart*1000, sub.CurrentPeriodEnd*1000
	a.TrialEndsAt, a.CancelAt = 0, sub.CancelAt*1000
	if a.Status == Trialing {
		a.TrialEndsAt = sub.TrialEnd * 1000
	}
	if a.CancelAt == 0 && sub.CancelAtPeriodEnd {
		a.CancelAt = a.PeriodEnd
	}
	switch {
	case a.Status != PastDue && a.Status != Unpaid:
		a.PastDueSince = 0
	case a.PastDueSince == 0:
		a.PastDueSince = owedSince(f.invoices, sub.ID, a.UpdatedAt)
	}
	return a
}

// owedSince is when the oldest invoice of a subscription was made final that is open and has no paid one after it. An invoice of another
// subscription, or one that was passed over long ago, takes no day of grace. invoices begin with the newest.
func owedSince(invoices []*sdk.Invoice, subscriptionID string, now int64) int64 {
	since := now
	for _, inv := range invoices {
		if inv.Subscription == nil || inv.Subscription.ID != subscriptionID {
			continue
		}
		if inv.Status == sdk.InvoiceStatusPaid {
			break
		}
		if inv.Status != sdk.InvoiceStatusOpen || inv.AmountRemaining <= 0 {
			continue
		}
		at := inv.Created * 1000
		if t := inv.StatusTransitions; t != nil && t.FinalizedAt > 0 {
			at = t.FinalizedAt * 1000
		}
		since = min(since, at)
	}
	return since
}

func invoiceOf(i *sdk.Invoice, teamID string, at int64) Invoice {
	return Invoice{ID: i.ID, TeamID: teamID, Number: i.Number, Status: string(i.Status), Total: i.Total, Due: i.AmountRemaining, Currency: string(i.Currency),
		PeriodStart: i.PeriodStart * 1000, PeriodEnd: i.PeriodEnd * 1000, URL: i.HostedInvoiceURL, CreatedAt: i.Created * 1000, SyncedAt: at}
}

// byService is the actor of changes that the payment service caused.
func byService(ctx context.Context) context.Context {
	return audit.By(ctx, audit.Source{Kind: audit.BySystem, ActorName: "Stripe"})
}

// notifyChange records what became of a team's plan and payment, and tells its owners what they should know.
func (s *Service) notifyChange(ctx context.Context, before, after Account, plans []Plan) error {
	ctx = byService(ctx)
	if before.Status != after.Status || before.PaidPlanID != after.PaidPlanID {
		if err := s.note(ctx, audit.Entry{Chain: after.TeamID, Action: "billing.subscription_changed", TargetKind: "plan", TargetID: after.PaidPlanID,
			TargetName: nameOf(plans, after.PaidPlanID), Data: map[string]string{"before": before.Status, "status": after.Status}}); err != nil {
			return err
		}
	}
	if before.PlanID != after.PlanID {
		if err := s.notePlan(ctx, before, after, plans); err != nil {
			return err
		}
	}
	if after.PastDueSince != 0 && before.PastDueSince == 0 {
		return s.notifyPastDue(ctx, after, plans)
	}
	return nil
}

func (s *Service) notePlan(ctx context.Context, before, after Account, plans []Plan) error {
	return s.note(ctx, audit.Entry{Chain: after.TeamID, Action: "billing.plan_changed", TargetKind: "plan", TargetID: after.PlanID, TargetName: nameOf(plans, after.PlanID),
		Data: map[string]string{"before": cmp.Or(before.PlanID, "default"), "plan": cmp.Or(after.PlanID, "default"), "status": after.Status}})
}

func nameOf(plans []Plan, id string) string {
	for _, p := range plans {
		if p.ID == id {
			return p.Name
		}
	}
	return id
}
