package money

import (
	"context"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// GetInstanceBilling tells operators how payment goes.
func (h Instance) GetInstanceBilling(ctx context.Context, _ api.GetInstanceBillingRequestObject) (api.GetInstanceBillingResponseObject, error) {
	b, err := h.instanceBilling(ctx)
	return api.GetInstanceBilling200JSONResponse(b), err
}

// ReconcileBilling compares what was reported with what the payment service counts.
func (h Instance) ReconcileBilling(ctx context.Context, _ api.ReconcileBillingRequestObject) (api.ReconcileBillingResponseObject, error) {
	if err := h.cfg.Reports.ReconcileNow(ctx); err != nil {
		return nil, err
	}
	b, err := h.instanceBilling(ctx)
	return api.ReconcileBilling200JSONResponse(b), err
}

// SyncTeamBilling asks the payment service how a team stands.
func (h Instance) SyncTeamBilling(ctx context.Context, req api.SyncTeamBillingRequestObject) (api.SyncTeamBillingResponseObject, error) {
	t, err := h.cfg.Directory.TeamByID(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "team", t.ID, t.Slug)
	_, err = h.cfg.Payments.Sync(ctx, t.ID, "")
	return api.SyncTeamBilling204Response{}, err
}

// RetryReport sends a report of usage again.
func (h Instance) RetryReport(ctx context.Context, req api.RetryReportRequestObject) (api.RetryReportResponseObject, error) {
	r, err := h.cfg.Reports.Retry(ctx, req.Identifier)
	if err != nil {
		return nil, err
	}
	t, err := h.cfg.Directory.TeamByID(ctx, r.TeamID)
	if err != nil && !fault.Is(err, fault.NotFound) { // usage of a team that was deleted is billed, too
		return nil, err
	}
	return api.RetryReport200JSONResponse(reportOf(r, map[string]stripe.Team{r.TeamID: {ID: t.ID, Slug: t.Slug, Name: t.Name}})), nil
}

// RetryBillingEvent acts on an event again.
func (h Instance) RetryBillingEvent(ctx context.Context, req api.RetryBillingEventRequestObject) (api.RetryBillingEventResponseObject, error) {
	return api.RetryBillingEvent204Response{}, h.cfg.Reports.RetryEvent(ctx, req.Id)
}

// RetryOutgoing sends a row of the outbox again.
func (h Instance) RetryOutgoing(ctx context.Context, req api.RetryOutgoingRequestObject) (api.RetryOutgoingResponseObject, error) {
	return api.RetryOutgoing204Response{}, h.cfg.Reports.RetryOutgoing(ctx, req.Id)
}

// AcceptDiscrepancy leaves an hour as it is.
func (h Instance) AcceptDiscrepancy(ctx context.Context, req api.AcceptDiscrepancyRequestObject) (api.AcceptDiscrepancyResponseObject, error) {
	return api.AcceptDiscrepancy204Response{}, h.cfg.Reports.Accept(ctx, req.Body.TeamId, string(req.Body.Meter), req.Body.Hour)
}

func (h Instance) instanceBilling(ctx context.Context) (api.InstanceBilling, error) {
	o, err := h.cfg.Reports.Overview(ctx)
	if err != nil {
		return api.InstanceBilling{}, err
	}
	out := api.InstanceBilling{Payments: o.Enabled, Livemode: o.Livemode, SetUp: o.SetUp, ReconciledAt: rest.Ptr(o.ReconciledAt)}
	out.Webhooks.Taken, out.Webhooks.LastAt, out.Webhooks.New, out.Webhooks.Failed = o.AcceptsWebhooks, rest.Ptr(o.LastWebhook), o.NewEvents, o.FailedEvents
	out.Events = rest.List(o.Events, func(e stripe.Event) api.BillingEvent {
		return api.BillingEvent{Id: e.ID, Type: e.Type, CustomerId: rest.Text(e.CustomerID), ReceivedAt: e.ReceivedAt, Attempts: e.Attempts, Reason: e.Reason}
	})
	out.Outbox.Pending, out.Outbox.Failed = o.PendingOut, o.FailedOut
	out.Outbox.Items = rest.List(o.Outbox, func(r stripe.Outgoing) api.BillingOutgoing {
		return api.BillingOutgoing{Id: r.ID, Kind: r.Kind, Team: billedTeam(r.TeamID, o.Names), Attempts: r.Attempts, CreatedAt: r.CreatedAt, Reason: r.Reason}
	})
	n := &out.Reports
	n.Pending, n.Sent, n.Confirmed = o.Reports[stripe.ReportPending], o.Reports[stripe.ReportSent], o.Reports[stripe.ReportConfirmed]
	n.Failed, n.Unknown = o.Reports[stripe.ReportFailed], o.Reports[stripe.ReportUnknown]
	n.Items = rest.List(o.Trouble, func(r stripe.Report) api.BillingReport { return reportOf(r, o.Names) })
	out.Teams = rest.List(o.Teams, func(t stripe.TeamBill) api.TeamBill {
		return api.TeamBill{Team: billedTeam(t.TeamID, o.Names), Plan: t.PlanName, Status: rest.Text(t.Status), CustomerId: t.CustomerID, PeriodStart: rest.Ptr(t.PeriodStart), PeriodEnd: rest.Ptr(t.PeriodEnd),
			SuspendedFor: rest.Text(t.SuspendedFor), PastDueSince: rest.Ptr(t.PastDueSince), SyncedAt: rest.Ptr(t.SyncedAt), Meters: rest.List(t.Meters, func(m stripe.MeterBill) api.MeterBill {
				return api.MeterBill{Meter: api.MeterBillMeter(m.Meter), Ledger: m.Ledger, Reported: m.Reported, Theirs: m.Theirs, Until: m.Until, ComparedAt: rest.Ptr(m.ComparedAt)}
			})}
	})
	out.Discrepancies = rest.List(o.Discrepancies, func(d stripe.Discrepancy) api.Discrepancy {
		return api.Discrepancy{Team: billedTeam(d.TeamID, o.Names), Meter: api.DiscrepancyMeter(d.Meter), Hour: d.Hour, Ours: d.Ours, Theirs: d.Theirs, FoundAt: d.FoundAt}
	})
	return out, nil
}

func reportOf(r stripe.Report, names map[string]stripe.Team) api.BillingReport {
	return api.BillingReport{Identifier: r.Identifier, Team: billedTeam(r.TeamID, names), Meter: api.BillingReportMeter(r.Meter), Hour: r.Hour, Quantity: r.Quantity, State: api.BillingReportState(r.State),
		Reason: rest.Text(r.Reason), Attempts: r.Attempts, FirstSentAt: rest.Ptr(r.FirstSentAt), SentAt: rest.Ptr(r.SentAt)}
}

func billedTeam(id string, names map[string]stripe.Team) api.BilledTeam {
	t := names[id]
	return api.BilledTeam{Id: id, Slug: rest.Text(t.Slug), Name: rest.Text(t.Name)}
}
