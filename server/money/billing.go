package money

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// GetBilling tells how the team stands.
func (h Billing) GetBilling(ctx context.Context, _ api.GetBillingRequestObject) (api.GetBillingResponseObject, error) {
	b, err := h.billing(ctx)
	return api.GetBilling200JSONResponse(b), err
}

// SyncBilling asks the payment service how the team stands.
func (h Billing) SyncBilling(ctx context.Context, req api.SyncBillingRequestObject) (api.SyncBillingResponseObject, error) {
	checkout := rest.Val(req.Body.CheckoutId)
	if !rest.PlainID(checkout) {
		checkout = ""
	}
	if _, err := h.cfg.Payments.Sync(ctx, rest.CallOf(ctx).Team.ID, checkout); err != nil {
		return nil, err
	}
	b, err := h.billing(ctx)
	return api.SyncBilling200JSONResponse(b), err
}

// BeginCheckout leads to a page where a plan is paid.
func (h Billing) BeginCheckout(ctx context.Context, req api.BeginCheckoutRequestObject) (api.BeginCheckoutResponseObject, error) {
	call := rest.CallOf(ctx)
	way, err := h.cfg.Payments.Checkout(ctx, stripe.Order{TeamID: call.Team.ID, PlanID: req.Body.PlanId, Seats: req.Body.Seats, By: call.Actor.User.ID, Base: h.Here(call.Request)})
	return api.BeginCheckout200JSONResponse{Url: way.URL, Portal: way.Portal}, err
}

// OpenPortal leads to the page where the team changes how it pays.
func (h Billing) OpenPortal(ctx context.Context, _ api.OpenPortalRequestObject) (api.OpenPortalResponseObject, error) {
	call := rest.CallOf(ctx)
	way, err := h.cfg.Payments.Portal(ctx, call.Team.ID, h.Here(call.Request))
	return api.OpenPortal200JSONResponse{Url: way.URL, Portal: way.Portal}, err
}

// ListInvoices lists the team's newest invoices.
func (h Billing) ListInvoices(ctx context.Context, _ api.ListInvoicesRequestObject) (api.ListInvoicesResponseObject, error) {
	st, err := h.cfg.Payments.Standing(ctx, rest.CallOf(ctx).Team.ID)
	return api.ListInvoices200JSONResponse{Items: rest.List(st.Invoices, invoiceOf)}, err
}

// LiftSuspension lets a team have paid sandboxes again.
func (h Billing) LiftSuspension(ctx context.Context, req api.LiftSuspensionRequestObject) (api.LiftSuspensionResponseObject, error) {
	t, err := h.cfg.Directory.TeamByID(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.InTeam(ctx, t.ID)
	audit.Target(ctx, "team", t.ID, t.Slug)
	if err := h.cfg.Payments.LiftSuspension(ctx, t.ID); err != nil {
		return nil, err
	}
	return api.LiftSuspension204Response{}, nil
}

// billing is how the team of a call stands, as far as who asks may know.
func (h Billing) billing(ctx context.Context) (api.Billing, error) {
	call := rest.CallOf(ctx)
	st, err := h.cfg.Payments.Standing(ctx, call.Team.ID)
	if err != nil {
		return api.Billing{}, err
	}
	a := st.Account
	b := api.Billing{Plan: planOf(st.Plan), Plans: rest.List(st.Offered, planOf), Payments: h.cfg.Payments.Enabled(), TestMode: h.cfg.Payments.Enabled() && !h.cfg.Payments.Livemode(),
		CanManage: call.Can(accounts.ManageQuotas) == nil, Given: a.PlanSource == stripe.FromOperator, Status: rest.Text(a.Status), SubscribedPlanId: rest.Text(a.PaidPlanID),
		TrialEndsAt: rest.Ptr(a.TrialEndsAt), PeriodEnd: rest.Ptr(a.PeriodEnd), CancelAt: rest.Ptr(a.CancelAt), SuspendedFor: rest.Text(a.SuspendedFor), SyncedAt: rest.Ptr(a.SyncedAt), Invoices: []api.Invoice{}}
	b.Seats.Used = st.Members
	if a.SubscriptionID != "" {
		b.Seats.Paid = &a.Seats
	}
	if o := st.Owing; o != nil {
		b.PastDue = &struct {
			DaysLeft int64 `json:"days_left"`
			EndsAt   int64 `json:"ends_at"`
			Since    int64 `json:"since"`
		}{o.DaysLeft, o.EndsAt, o.Since}
	}
	if b.CanManage {
		b.Invoices = rest.List(st.Invoices, invoiceOf)
	}
	return b, nil
}

func planOf(p stripe.Plan) api.BillingPlan {
	return api.BillingPlan{Id: p.ID, Name: p.Name, Description: p.Description, SeatMonthNano: p.SeatMonthNano, TrialDays: p.TrialDays, MeteredUsage: p.MeteredUsage, HoursMonth: p.HoursMonth,
		Concurrent: p.ConcurrentUser, ConcurrentTeam: p.ConcurrentTeam, Cpus: p.CPUs, MemoryMb: p.MemoryMB, SessionMinutes: p.SessionMinutes, Members: p.Seats}
}

func invoiceOf(i stripe.Invoice) api.Invoice {
	return api.Invoice{Id: i.ID, Number: rest.Text(i.Number), Status: i.Status, TotalCents: i.Total, DueCents: i.Due, Currency: i.Currency, PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd,
		Url: rest.Text(i.URL), CreatedAt: i.CreatedAt}
}
