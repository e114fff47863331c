package stripe

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/tasks"
)

const (
	reportsAtOnce = 200
	reportSenders = 4

	// known is for how long the service surely remembers an identifier (24 h), less an hour.
	known = 23 * hourMs
	// oldest is how long ago usage may lie that the service takes (35 days), less an hour.
	oldest = 35*dayMs - hourMs

	// mostRefusals is how often a refused report is sent again, until somebody fixes the cause, such as missing meters: most of a day.
	mostRefusals = 24

	reportEach    = 30 * time.Second
	reconcileEach = 24 * time.Hour
	markReconcile = "stripe.reconciled_at"
)

// Run makes reports, sends them, and compares once a day, until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	if r.calls == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(reportEach)
	defer tick.Stop()
	warn := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			r.s.cfg.Log.Warn(what, "error", err)
		}
	}
	for ctx.Err() == nil {
		warn("usage was not made ready for the payment service", r.Prepare(ctx))
		sent, err := r.Send(ctx)
		warn("usage was not reported to the payment service", err)
		warn("usage was not compared with the payment service's", r.s.inTurn(ctx, markReconcile, reconcileEach, func(ctx context.Context, _ int64) error { return r.Reconcile(ctx) }))
		if sent == reportsAtOnce {
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-tick.C:
		}
	}
	return nil
}

func (r *Reporter) stir() {
	tasks.Wake(r.wake)
}

// Send sends what is due, and returns how many it looked at.
func (r *Reporter) Send(ctx context.Context) (int, error) {
	if r.calls == nil {
		return 0, nil
	}
	due, err := r.cfg.Store.DueReports(ctx, r.s.now(), reportsAtOnce)
	if err != nil {
		return 0, fmt.Errorf("reading reports: %w", err)
	}
	groups := map[string][]Report{}
	var order []string
	for _, row := range due {
		key := row.CustomerID + " " + row.Meter
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], row)
	}
	places := make(chan struct{}, reportSenders)
	var all sync.WaitGroup
	for _, key := range order {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			for _, row := range groups[key] {
				if ctx.Err() != nil || !r.send(ctx, row) {
					return // what holds for one holds for the next: it waits, too
				}
			}
		})
	}
	all.Wait()
	return len(due), ctx.Err()
}

// send makes one attempt at a report; false when the service does not take any now.
func (r *Reporter) send(ctx context.Context, row Report) bool {
	unlock, err := r.turns.LockContext(ctx, row.CustomerID+" "+row.Meter)
	if err != nil {
		return false
	}
	defer unlock()
	now := r.s.now()
	switch {
	case row.Hour < now-oldest:
		row.State, row.Reason = ReportFailed, "it is more than 35 days old, which the payment service does not take: bill it by hand"
		return r.keep(ctx, row) == nil
	case row.FirstSentAt != 0 && now-row.FirstSentAt > known:
		row.State, row.Reason = ReportUnknown, "no answer came within a day"
		return r.keep(ctx, row) == nil
	}
	row.FirstSentAt = cmp.Or(row.FirstSentAt, now)
	until := now + claimFor.Milliseconds()
	if ok, err := r.cfg.Store.ClaimReport(ctx, row, row.FirstSentAt, until); err != nil || !ok {
		return err == nil
	}
	row.Attempts++
	failpoint.Reach(failpoint.ReportClaimed)
	p := &sdk.BillingMeterEventParams{Params: keyedParams(ctx, row.Identifier+"-"+strconv.Itoa(row.Attempts)), EventName: sdk.String(MeterEvent(row.Meter)), Identifier: sdk.String(row.Identifier),
		Timestamp: sdk.Int64(row.Hour / 1000), Payload: map[string]string{"stripe_customer_id": row.CustomerID, "value": strconv.FormatInt(row.Quantity, 10)}}
	_, err = r.calls.events.New(p)
	failpoint.Reach(failpoint.ReportTaken)
	more := r.judge(ctx, &row, now, err)
	return r.keep(ctx, row) == nil && more
}

// judge says what the answer to an attempt that began at a time means for a report; false when the service does not take any now.
func (r *Reporter) judge(ctx context.Context, row *Report, began int64, err error) bool {
	switch {
	case err == nil || alreadyReported(err):
		row.State, row.Reason, row.SentAt = ReportSent, "", r.s.now()
		return true
	case ctx.Err() != nil:
		row.TryAt = r.s.now()
		return false
	case gone(err) || settled(err) && row.Attempts >= mostRefusals:
		row.State, row.Reason = ReportFailed, said(err)
		r.s.cfg.Log.Error("payment service refused usage", "report", row.Identifier, "team_id", row.TeamID, "reason", row.Reason)
		return true
	}
	if e := errorOf(err); e != nil && e.HTTPStatusCode < 500 && row.FirstSentAt == began {
		row.FirstSentAt = 0 // it was refused, so that it surely is not there
	}
	wait := min(30*time.Second<<min(row.Attempts-1, 7), time.Hour)
	row.Reason, row.TryAt = said(err), r.s.now()+(wait+rand.N(wait/10+1)).Milliseconds()
	r.s.cfg.Log.Warn("usage not reported yet", "report", row.Identifier, "team_id", row.TeamID, "attempts", row.Attempts, "reason", row.Reason)
	return false
}

// gone reports whether the service will never take a report: it is too old, or its customer no longer exists.
func gone(err error) bool {
	e := errorOf(err)
	return e != nil && e.HTTPStatusCode == http.StatusBadRequest && (e.Code == "timestamp_too_far_in_past" || e.Code == sdk.ErrorCodeResourceMissing && e.Param == "customer")
}

// given reports whether the service says that it has a report already. It comes as a refusal, mostly without a code.
func alreadyReported(err error) bool {
	e := errorOf(err)
	return e != nil && e.HTTPStatusCode == http.StatusBadRequest && (e.Code == "duplicate_meter_event" || strings.HasPrefix(e.Msg, "An event already exists with identifier"))
}

// keep stores a report after an attempt, also when ctx has ended, and tells operators of one that is given up.
func (r *Reporter) keep(ctx context.Context, row Report) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := r.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if err := r.cfg.Store.SaveReport(ctx, row); err != nil || row.State != ReportFailed {
			return err
		}
		if err := r.s.note(byService(ctx), audit.Entry{Chain: audit.Instance, Action: "billing.report_failed", TargetKind: "report", TargetID: row.Identifier, Result: audit.Failed,
			Data: map[string]string{"team": row.TeamID, "reason": row.Reason}}); err != nil {
			return err
		}
		return r.s.notify(ctx, Notice{Kind: "report_failed", Operators: true, Subject: "Usage could not be reported to the payment service",
			Text: fmt.Sprintf("The report %s of team %s is given up: %s.\nLook at Settings > Payments.\n", row.Identifier, row.TeamID, row.Reason)})
	})
	if err != nil {
		r.s.cfg.Log.Warn("result of a usage report not stored", "report", row.Identifier, "error", err)
	}
	return err
}
