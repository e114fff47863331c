package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
)

// States of a discrepancy.
const (
	DiscrepancyOpen     = "open"
	DiscrepancyRepaired = "repaired"
	DiscrepancyAccepted = "accepted" // an operator leaves it as it is
)

// Discrepancy is an hour of which the payment service does not count what was reported.
type Discrepancy struct {
	TeamID    string
	Meter     string
	Hour      int64
	Ours      int64 // whole seconds
	Theirs    int64
	State     string
	FoundAt   int64
	UpdatedAt int64
}

const (
	// lag is how long after its end an hour is compared: the service counts with a delay, ms.
	lag = hourMs
	// lookedBack is how far back hours are compared each time, ms.
	lookedBack = 7 * dayMs
	// mendable is for how long after it was first sent a report may be sent again without being counted twice, ms.
	mendable = known
)

// Comparison is what a team's reports of a meter came to in its billing period, and what the payment service made of them.
type Comparison struct {
	PeriodStart int64 `json:"period_start"`
	Reported    int64 `json:"reported"` // taken by the service up to Until, whole seconds
	Theirs      int64 `json:"theirs"`
	Until       int64 `json:"until"` // hours before this were compared
	At          int64 `json:"at"`
}

func markCompared(teamID, meter string) string { return "stripe.compared:" + teamID + ":" + meter }

// Compared is what came of the last comparison; false when there was none yet.
func (r *Reporter) Compared(ctx context.Context, teamID, meter string) (c Comparison, ok bool, err error) {
	text, err := r.s.cfg.Store.Mark(ctx, markCompared(teamID, meter))
	if err != nil || text == "" {
		return c, false, err
	}
	return c, true, json.Unmarshal([]byte(text), &c)
}

// follow flushes and compares when an invoice is drawn up, and compares when it is final.
func (r *Reporter) follow(ctx context.Context, e Event, a Account) error {
	switch e.Type {
	case "invoice.created":
		plans, err := r.s.cfg.Store.Plans(ctx)
		if err != nil {
			return fmt.Errorf("reading plans: %w", err)
		}
		if !metered(a, plans) {
			return nil
		}
		if err := r.prepare(ctx, a); err != nil {
			return err
		}
		r.stir()
		return r.compare(ctx, a)
	case "invoice.finalized":
		return r.compare(ctx, a)
	}
	return nil
}

// Reconcile compares all teams' reports with what the payment service counts.
func (r *Reporter) Reconcile(ctx context.Context) error {
	if r.calls == nil {
		return errOff
	}
	accounts, err := r.s.cfg.Store.Accounts(ctx)
	if err != nil {
		return fmt.Errorf("reading accounts: %w", err)
	}
	var failed error
	for _, a := range accounts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.compare(ctx, a); err != nil {
			failed = fmt.Errorf("team %s: %w", a.TeamID, err)
		}
	}
	return failed
}

// ReconcileNow is Reconcile for somebody who waits. Errors: payments_off, payments_*.
func (r *Reporter) ReconcileNow(ctx context.Context) error {
	if r.calls == nil {
		return errOff
	}
	began := r.s.now()
	if err := r.Reconcile(ctx); fault.CodeOf(err) == "billing_not_set_up" {
		return err
	} else if err != nil {
		return r.s.asked("comparing usage", err)
	}
	return r.s.cfg.Store.SetMark(ctx, markReconcile, strconv.FormatInt(began, 10))
}

// compare compares a team's hours.
func (r *Reporter) compare(ctx context.Context, a Account) error {
	now := r.s.now()
	until := now - lag
	until -= until % hourMs
	from := max(min(a.PeriodStart, now-lookedBack), now-oldest)
	from -= from % hourMs
	rows, err := r.cfg.Store.Reports(ctx, a.TeamID, from, until)
	if err != nil || len(rows) == 0 {
		return err
	}
	objects, err := r.s.cfg.Store.Objects(ctx, r.s.live)
	if err != nil {
		return fmt.Errorf("reading what was made at the payment service: %w", err)
	}
	for _, meter := range Meters {
		id := objects[MeterName(meter)]
		if id == "" {
			return fault.New(fault.Unavailable, "billing_not_set_up", "The meter %s has not been made at the payment service: run `parawork billing setup`.", meter)
		}
		theirs, err := r.summaries(ctx, id, a.CustomerID, from, until)
		if err != nil {
			return err
		}
		hours := map[int64][]Report{}
		for _, row := range rows {
			if row.Meter == meter && row.CustomerID == a.CustomerID {
				at := row.Hour - row.Hour%hourMs
				hours[at] = append(hours[at], row)
			}
		}
		for at := range theirs {
			if _, ours := hours[at]; !ours {
				hours[at] = nil // told by somebody else
			}
		}
		for at, reports := range hours {
			if err := r.compareHour(ctx, a, meter, at, reports, theirs[at]); err != nil {
				return err
			}
		}
		if err := r.noteComparison(ctx, a, meter, until, hours, theirs); err != nil {
			return err
		}
	}
	return nil
}

// summaries are what the service counts of a customer and meter by hour.
func (r *Reporter) summaries(ctx context.Context, meterID, customerID string, from, until int64) (map[int64]int64, error) {
	out := map[int64]int64{}
	list := r.calls.summaries.List(&sdk.BillingMeterEventSummaryListParams{ListParams: listParams(ctx), ID: sdk.String(meterID), Customer: sdk.String(customerID),
		StartTime: sdk.Int64(from / 1000), EndTime: sdk.Int64(until / 1000), ValueGroupingWindow: sdk.String("hour")})
	for list.Next() {
		s := list.BillingMeterEventSummary()
		if s.AggregatedValue != math.Trunc(s.AggregatedValue) || math.Abs(s.AggregatedValue) >= 1<<53 {
			return nil, errors.New("the payment service counts something that is no whole number")
		}
		out[s.StartTime*1000] += int64(s.AggregatedValue) // a whole number that a float64 holds exactly; the library has no other type for it
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("reading what the payment service counts: %w", err)
	}
	return out, nil
}

// compareHour looks at one hour: what is there is confirmed, what is missing and may be sent again is, and the rest is written down.
func (r *Reporter) compareHour(ctx context.Context, a Account, meter string, hour int64, rows []Report, theirs int64) error {
	now, ours, waiting := r.s.now(), int64(0), false
	for _, row := range rows {
		if row.Reason != replaced {
			ours += row.Quantity
		}
		waiting = waiting || row.State == ReportPending
	}
	if waiting {
		return nil // it is compared when it was sent
	}
	if ours == theirs {
		for _, row := range rows {
			if row.State == ReportSent || row.State == ReportUnknown || row.State == ReportFailed && row.Reason != replaced {
				row.State, row.Reason = ReportConfirmed, ""
				if err := r.cfg.Store.SaveReport(ctx, row); err != nil {
					return fmt.Errorf("storing a report: %w", err)
				}
			}
		}
		d, found, err := r.cfg.Store.Discrepancy(ctx, a.TeamID, meter, hour)
		if err != nil || !found || d.State == DiscrepancyRepaired {
			return err
		}
		d.Ours, d.Theirs, d.State, d.UpdatedAt = ours, theirs, DiscrepancyRepaired, now
		return r.cfg.Store.PutDiscrepancy(ctx, d)
	}
	lost := lostOf(rows, ours-theirs)
	again := false
	for _, row := range rows {
		switch {
		case lost[row.Identifier]:
			// It surely did not arrive. The service has forgotten the identifier, so that it may be used again.
			row.State, row.Reason, row.FirstSentAt, row.Attempts, row.TryAt = ReportPending, "", 0, 0, now
		case (row.State == ReportSent || row.State == ReportConfirmed) && row.FirstSentAt > now-mendable && (row.Quantity > 0) == (theirs < ours):
			// The service knows the identifier: what is there is not counted twice.
			row.State, row.Reason, row.TryAt = ReportPending, "", now
		default:
			continue
		}
		again = true
		if err := r.cfg.Store.SaveReport(ctx, row); err != nil {
			return fmt.Errorf("storing a report: %w", err)
		}
	}
	if again {
		r.s.cfg.Log.Warn("payment service did not count a usage report; sending it again", "team_id", a.TeamID, "meter", meter, "hour", time.UnixMilli(hour).UTC().Format(time.RFC3339), "ours", ours, "theirs", theirs)
		r.stir()
	}
	return r.found(ctx, Discrepancy{TeamID: a.TeamID, Meter: meter, Hour: hour, Ours: ours, Theirs: theirs}, !again)
}

// lostOf are the reports of unknown outcome that make up what is missing: all of them, or the only one that does. Where it is not clear
// none is.
func lostOf(rows []Report, missing int64) map[string]bool {
	all, one := map[string]bool{}, map[string]bool{}
	sum := int64(0)
	for _, row := range rows {
		if row.State != ReportUnknown {
			continue
		}
		sum += row.Quantity
		all[row.Identifier] = true
		if row.Quantity == missing {
			one[row.Identifier] = true
		}
	}
	switch {
	case sum == missing:
		return all
	case len(one) == 1:
		return one
	}
	return nil
}

// found stores a discrepancy, and notifies operators of a new one that does not repair itself.
func (r *Reporter) found(ctx context.Context, d Discrepancy, notify bool) error {
	now := r.s.now()
	return r.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		old, known, err := r.cfg.Store.Discrepancy(ctx, d.TeamID, d.Meter, d.Hour)
		if err != nil || known && old.State == DiscrepancyAccepted && old.Ours == d.Ours && old.Theirs == d.Theirs {
			return err
		}
		same := known && old.State == DiscrepancyOpen && old.Ours == d.Ours && old.Theirs == d.Theirs
		d.State, d.FoundAt = DiscrepancyOpen, now
		if known && old.State == DiscrepancyOpen {
			d.FoundAt, d.UpdatedAt = old.FoundAt, old.UpdatedAt
		}
		if notify {
			d.UpdatedAt = now // 0 until operators were notified
		}
		if err := r.cfg.Store.PutDiscrepancy(ctx, d); err != nil || !notify || same && old.UpdatedAt != 0 {
			return err
		}
		if err := r.s.note(byService(ctx), audit.Entry{Chain: audit.Instance, Action: "billing.discrepancy", TargetKind: "team", TargetID: d.TeamID, Result: audit.Failed,
			Data: map[string]string{"meter": d.Meter, "hour": time.UnixMilli(d.Hour).UTC().Format(time.RFC3339), "ours": fmt.Sprint(d.Ours), "theirs": fmt.Sprint(d.Theirs)}}); err != nil {
			return err
		}
		return r.s.notify(ctx, Notice{Kind: "discrepancy", Operators: true, Subject: "The ledger and the payment service do not say the same",
			Text: fmt.Sprintf("Of the hour of %s the ledger has %d of %s of team %s, and the payment service %d.\nLook at Settings > Payments.\n", time.UnixMilli(d.Hour).UTC().Format("2 January 2006, 15:04 (UTC)"), d.Ours, d.Meter, d.TeamID, d.Theirs)})
	})
}

// noteComparison keeps the sums of the billing period for people to see.
func (r *Reporter) noteComparison(ctx context.Context, a Account, meter string, until int64, hours map[int64][]Report, theirs map[int64]int64) error {
	c := Comparison{PeriodStart: a.PeriodStart, Until: until, At: r.s.now()}
	first := a.PeriodStart - a.PeriodStart%hourMs
	for at, rows := range hours {
		for _, row := range rows {
			if row.Hour >= a.PeriodStart && (row.State == ReportSent || row.State == ReportConfirmed) {
				c.Reported += row.Quantity
			}
			if at == first && row.Hour < a.PeriodStart && (row.State == ReportSent || row.State == ReportConfirmed) {
				c.Theirs -= row.Quantity // of the hour the period began in, what belongs to the one before
			}
		}
	}
	for at, n := range theirs {
		if at >= first {
			c.Theirs += n
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("packing a comparison: %w", err)
	}
	return r.s.cfg.Store.SetMark(ctx, markCompared(a.TeamID, meter), string(text))
}

// replaced is why a lost report no longer counts.
const replaced = "the payment service lost it: the next revision tells it again"

// Retry sends a report again that failed, was lost, or of which nobody knows what became. Where the service may have forgotten its
// identifier, a further revision is sent, and only when the service surely does not count the first. Errors: report_not_found,
// report_counted, report_waiting, payments_*.
func (r *Reporter) Retry(ctx context.Context, identifier string) (Report, error) {
	if r.calls == nil {
		return Report{}, errOff
	}
	var row Report
	later := false // the service may have forgotten the identifier
	err := r.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		var found bool
		if row, found, err = r.cfg.Store.Report(ctx, identifier); err != nil {
			return fmt.Errorf("reading a report: %w", err)
		}
		now := r.s.now()
		forgotten := row.FirstSentAt != 0 && now-row.FirstSentAt > known
		switch {
		case !found:
			return fault.New(fault.NotFound, "report_not_found", "There is no such report of usage.")
		case row.Reason == replaced:
			return fault.New(fault.Conflict, "report_counted", "Another report has taken this one's place.")
		case forgotten:
			later = row.State != ReportPending // which is looked at by itself
			return nil
		case row.State != ReportPending:
			row.State, row.Reason, row.Attempts = ReportPending, "", 0
		}
		row.TryAt = now
		return r.cfg.Store.SaveReport(ctx, row)
	})
	if err != nil {
		return row, err
	}
	audit.Target(ctx, "report", row.Identifier, row.TeamID)
	if !later {
		r.stir()
		return row, nil
	}
	return r.replace(ctx, row)
}

// replace sends a further revision for a report the service does not count.
func (r *Reporter) replace(ctx context.Context, row Report) (Report, error) {
	hour := row.Hour - row.Hour%hourMs
	objects, err := r.s.cfg.Store.Objects(ctx, r.s.live)
	if err != nil {
		return row, fmt.Errorf("reading what was made at the payment service: %w", err)
	}
	theirs, err := r.summaries(ctx, objects[MeterName(row.Meter)], row.CustomerID, hour, hour+hourMs)
	if err != nil {
		return row, r.s.asked("reading what it counts", err)
	}
	instance, err := r.s.Instance(ctx)
	if err != nil {
		return row, err
	}
	next := Report{TeamID: row.TeamID, Meter: row.Meter, Hour: row.Hour, Quantity: row.Quantity, CustomerID: row.CustomerID, State: ReportPending, TryAt: r.s.now(), CreatedAt: r.s.now()}
	err = r.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		rows, err := r.cfg.Store.Reports(ctx, row.TeamID, hour, hour+hourMs)
		if err != nil {
			return err
		}
		ours := int64(0)
		for _, other := range rows {
			if other.Meter != row.Meter || other.CustomerID != row.CustomerID || other.Reason == replaced {
				continue
			}
			if other.Identifier == row.Identifier && (other.State != row.State || other.Reason != row.Reason) {
				return fault.New(fault.Conflict, "report_counted", "Somebody has sent this report again meanwhile.")
			}
			if other.State == ReportPending {
				return fault.New(fault.Conflict, "report_waiting", "Another report of the same hour is on its way. Try again when it has arrived.")
			}
			ours += other.Quantity
			if other.Hour == row.Hour {
				next.Revision = max(next.Revision, other.Revision+1)
			}
		}
		if theirs := theirs[hour]; theirs != ours-row.Quantity {
			return fault.New(fault.Conflict, "report_counted", "The payment service counts %d for this hour and should count %d: sending this report again would not put it right.", theirs, ours)
		}
		row.State, row.Reason = ReportFailed, replaced
		if err := r.cfg.Store.SaveReport(ctx, row); err != nil {
			return err
		}
		next.Identifier = identifier(instance, next)
		return r.cfg.Store.AddReport(ctx, next)
	})
	if err != nil {
		return row, err
	}
	r.stir()
	return next, nil
}

// Accept leaves a discrepancy as it is. Error: discrepancy_not_found.
func (r *Reporter) Accept(ctx context.Context, teamID, meter string, hour int64) error {
	return r.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		d, found, err := r.cfg.Store.Discrepancy(ctx, teamID, meter, hour)
		if err != nil {
			return err
		}
		if !found || d.State == DiscrepancyRepaired {
			return fault.New(fault.NotFound, "discrepancy_not_found", "There is no such discrepancy.")
		}
		audit.Target(ctx, "team", teamID, meter)
		audit.Note(ctx, "ours", fmt.Sprint(d.Ours))
		audit.Note(ctx, "theirs", fmt.Sprint(d.Theirs))
		d.State, d.UpdatedAt = DiscrepancyAccepted, r.s.now()
		return r.cfg.Store.PutDiscrepancy(ctx, d)
	})
}
