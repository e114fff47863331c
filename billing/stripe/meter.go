package stripe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stripe/stripe-go/v76/billing/meter"
	"github.com/stripe/stripe-go/v76/billing/meterevent"
	"github.com/stripe/stripe-go/v76/billing/metereventsummary"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/locks"
)

const hourMs = 3_600_000

// States of a report of usage.
const (
	ReportPending   = "pending"   // it is to be sent; where FirstSentAt is not 0 an attempt was made of which nobody knows the outcome
	ReportSent      = "sent"      // the service has taken it
	ReportConfirmed = "confirmed" // and counts it
	ReportFailed    = "failed"    // the service refused it, or lost it and another was sent for it
	ReportUnknown   = "unknown"   // nobody knows the outcome, and the service has forgotten the identifier by now
)

// Report is the usage of an interval as Parawork reports it to the service: of an hour, or of the part of an hour that lies in a billing period.
// It never changes; a further revision corrects it.
type Report struct {
	Identifier  string
	TeamID      string
	Meter       string
	Hour        int64 // when the interval began
	Revision    int64
	Quantity    int64 // whole seconds; less than 0 where an earlier one was too much
	CustomerID  string
	State       string
	Reason      string
	Attempts    int
	TryAt       int64
	FirstSentAt int64
	SentAt      int64
	CreatedAt   int64
}

// Used is what a team's metered sandboxes used.
type Used struct {
	VCPUMs int64 // ms x vCPUs
	MiBMs  int64 // ms x MiB
}

// of is what was used by a meter's measure.
func (u Used) of(meter string) int64 {
	if meter == Meters[0] {
		return u.VCPUMs
	}
	return u.MiBMs
}

func (u Used) plus(v Used) Used { return Used{u.VCPUMs + v.VCPUMs, u.MiBMs + v.MiBMs} }

// HourUse is what was used in a frozen hour.
type HourUse struct {
	Hour int64
	Used
}

// ReportStore is what reports of usage need of the storage.
type ReportStore interface {
	TroubleStore
	UseStore
	UsageReportStore
	DiscrepancyStore

	Tx(ctx context.Context, fn func(ctx context.Context) error) error
}

// UseStore reads what teams used that is metered.
type UseStore interface {
	// UsedHours are a team's frozen hours that began in [from, to) in which it used something that is metered, in their order.
	UsedHours(ctx context.Context, teamID string, from, to int64) ([]HourUse, error)
	// UsedBetween is what segments say of [from, to), also of hours that are not frozen.
	UsedBetween(ctx context.Context, teamID string, from, to int64) (Used, error)
}

// UsageReportStore keeps reports of use until the payment service took them.
type UsageReportStore interface {
	// AddReport stores a report, unless there is one of the same interval and revision.
	AddReport(ctx context.Context, r Report) error
	// Reports returns a team's reports whose intervals began in [from, to), in their order.
	Reports(ctx context.Context, teamID string, from, to int64) ([]Report, error)
	Report(ctx context.Context, identifier string) (r Report, found bool, err error)
	DueReports(ctx context.Context, now int64, limit int) ([]Report, error)
	// ClaimReport notes, before an attempt, that it is made; false when another server did.
	ClaimReport(ctx context.Context, r Report, firstSentAt, until int64) (bool, error)
	// SaveReport writes state, reason, attempts and times.
	SaveReport(ctx context.Context, r Report) error
	ReportCounts(ctx context.Context) (map[string]int64, error)
}

// DiscrepancyStore keeps where the payment service counts something else.
type DiscrepancyStore interface {
	// PutDiscrepancy stores one, or what has become of it.
	PutDiscrepancy(ctx context.Context, d Discrepancy) error
	Discrepancy(ctx context.Context, teamID, meter string, hour int64) (d Discrepancy, found bool, err error)
	Discrepancies(ctx context.Context, state string, limit int) ([]Discrepancy, error)
}

// ReporterConfig is what a Reporter is made of.
type ReporterConfig struct {
	Payments *Service
	Store    ReportStore
	// Frozen is up to when the ledger's hours never change.
	Frozen func(ctx context.Context) (int64, error)
}

// Reporter tells the payment service what teams used, by the hours of the ledger, and compares what it makes of them. Safe for
// concurrent use. Its calls for one customer and meter follow each other: the service takes no two at a time.
type Reporter struct {
	s     *Service
	cfg   ReporterConfig
	calls *meterCalls // nil without a key

	mu    sync.Mutex  // one making of reports at a time
	turns locks.Keyed // by customer and meter
	wake  chan struct{}
}

type meterCalls struct {
	events    meterevent.Client
	summaries metereventsummary.Client
	meters    meter.Client
}

// NewReporter returns a Reporter that follows the invoices the payment service reports. It starts nothing and panics on an incomplete
// Config.
func NewReporter(cfg ReporterConfig) *Reporter {
	if cfg.Payments == nil || cfg.Store == nil || cfg.Frozen == nil {
		panic(errors.New("billing/stripe: a Reporter needs Payments, Store and Frozen"))
	}
	r := &Reporter{s: cfg.Payments, cfg: cfg, wake: make(chan struct{}, 1)}
	if c := cfg.Payments.calls; c != nil {
		r.calls = &meterCalls{events: meterevent.Client{B: c.backend, Key: c.key}, summaries: metereventsummary.Client{B: c.backend, Key: c.key}, meters: meter.Client{B: c.backend, Key: c.key}}
		cfg.Payments.following = append(cfg.Payments.following, r.follow)
	}
	return r
}

// MeterEvent is what the events of a meter are called at the service.
func MeterEvent(meter string) string { return "parawork_" + meter }

// MeterName returns the name under which a meter's id is stored, see Store.Objects.
func MeterName(meter string) string { return "meter:" + meter }

// settling is for how long after a billing period turned, within an hour, its last minutes are waited for: heartbeats and places' own
// records have come by then, ms. A draft of an invoice takes usage for an hour.
const settling = 5 * 60_000

// reported is up to when a team's usage lies in reports.
type reported struct {
	subscription string
	at           int64
}

func markReported(teamID string) string { return "stripe.reported:" + teamID }

func (r *Reporter) reported(ctx context.Context, teamID string) (reported, error) {
	text, err := r.s.cfg.Store.Mark(ctx, markReported(teamID))
	if err != nil {
		return reported{}, fmt.Errorf("reading up to when usage was reported: %w", err)
	}
	subscription, at, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(at, 10, 64)
	if text != "" && err != nil {
		return reported{}, fmt.Errorf("reading up to when usage was reported: %w", err)
	}
	return reported{subscription, n}, nil
}

// Prepare makes reports of all that is frozen and not in one yet, and of the ends of billing periods.
func (r *Reporter) Prepare(ctx context.Context) error {
	accounts, err := r.s.cfg.Store.Accounts(ctx)
	if err != nil {
		return fmt.Errorf("reading accounts: %w", err)
	}
	plans, err := r.s.cfg.Store.Plans(ctx)
	if err != nil {
		return fmt.Errorf("reading plans: %w", err)
	}
	var failed error
	for _, a := range accounts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !metered(a, plans) {
			continue
		}
		if err := r.prepare(ctx, a); err != nil {
			failed = fmt.Errorf("team %s: %w", a.TeamID, err)
		}
	}
	return failed
}

// metered reports whether a team's usage is billed.
func metered(a Account, plans []Plan) bool {
	if a.CustomerID == "" || a.SubscriptionID == "" || a.PeriodStart == 0 || rank(a.Status) == 0 || a.Status == Incomplete || a.Status == Paused {
		return false
	}
	for _, p := range plans {
		if p.ID == a.PaidPlanID {
			return p.MeteredUsage
		}
	}
	return false
}

// prepare makes a team's reports.
func (r *Reporter) prepare(ctx context.Context, a Account) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	frozen, err := r.cfg.Frozen(ctx)
	if err != nil {
		return err
	}
	instance, err := r.s.Instance(ctx)
	if err != nil {
		return err
	}
	done, err := r.reported(ctx, a.TeamID)
	if err != nil {
		return err
	}
	from := done.at
	if done.subscription != a.SubscriptionID {
		from = a.PeriodStart // another subscription than before; what was used until then is not its
	}
	until := frozen
	for _, turn := range []int64{a.PeriodStart, a.PeriodEnd} { // the hour a period ends in is not over when its invoice is drawn up
		if turn-turn%hourMs == frozen && turn > frozen && r.s.now() >= turn+settling {
			until = turn
		}
	}
	if a.Status == Canceled {
		until = min(until, a.PeriodEnd)
	}
	if until <= from {
		return nil
	}
	rows, err := r.intervals(ctx, a, from, until, frozen)
	if err != nil {
		return err
	}
	err = r.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		now, err := r.reported(ctx, a.TeamID)
		if err != nil || now != done {
			return err // another server was quicker
		}
		for _, row := range rows {
			row.TeamID, row.CustomerID, row.State, row.CreatedAt, row.TryAt = a.TeamID, a.CustomerID, ReportPending, r.s.now(), r.s.now()
			row.Identifier = identifier(instance, row)
			if err := r.cfg.Store.AddReport(ctx, row); err != nil {
				return err
			}
		}
		return r.s.cfg.Store.SetMark(ctx, markReported(a.TeamID), a.SubscriptionID+" "+strconv.FormatInt(until, 10))
	})
	if err != nil {
		return fmt.Errorf("storing reports of usage: %w", err)
	}
	if len(rows) > 0 {
		failpoint.Reach(failpoint.ReportsStored)
	}
	return nil
}

// identifier is by what the service knows a report: told twice within a day, it counts once.
func identifier(instance string, r Report) string {
	return fmt.Sprintf("pw_%s_%s_%s_%d_r%d", instance, r.TeamID, r.Meter, r.Hour/1000, r.Revision)
}

// intervals cuts [from, until) into hours, and an hour where a billing period ends in it. Seconds are rounded down on the usage since the
// month (UTC) began, so that the fraction cut off from one interval is part of the next.
func (r *Reporter) intervals(ctx context.Context, a Account, from, until, frozen int64) ([]Report, error) {
	first := from - from%hourMs
	hours, err := r.cfg.Store.UsedHours(ctx, a.TeamID, first, min(until, frozen))
	if err != nil {
		return nil, fmt.Errorf("reading hours: %w", err)
	}
	if until > frozen { // the part of the running hour that belongs to the period that is over
		used, err := r.cfg.Store.UsedBetween(ctx, a.TeamID, frozen, until)
		if err != nil {
			return nil, fmt.Errorf("reading what was used: %w", err)
		}
		hours = append(hours, HourUse{Hour: frozen, Used: used})
	}
	var out []Report
	var month int64
	var sum Used
	for _, h := range hours {
		if m := monthOf(h.Hour); m != month {
			month, sum = m, Used{}
			if before, err := r.cfg.Store.UsedHours(ctx, a.TeamID, m, h.Hour); err != nil {
				return nil, fmt.Errorf("reading hours: %w", err)
			} else {
				for _, b := range before {
					sum = sum.plus(b.Used)
				}
			}
		}
		cuts := []int64{max(h.Hour, from)}
		end := min(h.Hour+hourMs, until)
		for _, turn := range []int64{a.PeriodStart, a.PeriodEnd} {
			if turn > cuts[len(cuts)-1] && turn < end {
				cuts = append(cuts, turn)
			}
		}
		parts := len(cuts)
		if h.Hour < frozen && end < h.Hour+hourMs {
			cuts = append(cuts, end) // what was used behind it is on nobody's bill
		}
		for _, meter := range Meters {
			left := (sum.of(meter)+h.of(meter))/1000 - sum.of(meter)/1000
			if before, err := r.before(ctx, a.TeamID, meter, h.Hour, cuts[0]); err != nil {
				return nil, err
			} else {
				left -= before
			}
			for i, begin := range cuts {
				n := left
				if i+1 < len(cuts) {
					used, err := r.cfg.Store.UsedBetween(ctx, a.TeamID, begin, cuts[i+1])
					if err != nil {
						return nil, fmt.Errorf("reading what was used: %w", err)
					}
					n = used.of(meter) / 1000
				}
				if left -= n; n != 0 && i < parts {
					out = append(out, Report{Meter: meter, Hour: begin, Quantity: n})
				}
			}
		}
		sum = sum.plus(h.Used)
	}
	return out, nil
}

// before is what of an hour was used before a cut in it: as it was reported, or, where it belongs to nobody's bill, as segments say.
func (r *Reporter) before(ctx context.Context, teamID, meter string, hour, cut int64) (int64, error) {
	if cut == hour {
		return 0, nil
	}
	rows, err := r.cfg.Store.Reports(ctx, teamID, hour, cut)
	if err != nil {
		return 0, fmt.Errorf("reading reports: %w", err)
	}
	n, found := int64(0), false
	for _, row := range rows {
		if row.Meter == meter && row.Revision == 0 {
			n, found = n+row.Quantity, true
		}
	}
	if found {
		return n, nil
	}
	used, err := r.cfg.Store.UsedBetween(ctx, teamID, hour, cut)
	if err != nil {
		return 0, fmt.Errorf("reading what was used: %w", err)
	}
	return used.of(meter) / 1000, nil
}

// monthOf is when the month (UTC) of a time began.
func monthOf(ms int64) int64 {
	t := time.UnixMilli(ms).UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
}
