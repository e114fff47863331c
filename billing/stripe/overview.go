package stripe

import (
	"context"
	"fmt"
	"strconv"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
)

// How many rows of a kind operators are shown.
const (
	mostTrouble = 50
	mostTeams   = 500
)

// Overview is how payment goes, for operators.
type Overview struct {
	Enabled, Livemode, AcceptsWebhooks bool
	SetUp                              bool // prices were made at the service
	LastWebhook                        int64
	NewEvents, FailedEvents            int64
	Events                             []Event // failed ones
	PendingOut, FailedOut              int64
	Outbox                             []Outgoing // failed rows
	Reports                            map[string]int64
	Trouble                            []Report // failed, or of unknown outcome
	Discrepancies                      []Discrepancy
	Teams                              []TeamBill
	ReconciledAt                       int64
	Names                              map[string]Team // of the teams that are named
}

// TeamBill is how a team stands, with its usage in this billing period as the ledger has it and as the service counts it.
type TeamBill struct {
	Account
	PlanName string
	Meters   []MeterBill // none where usage is not billed
}

// MeterBill compares a meter's whole seconds. What is compared ends at Until; hours that are not over, or not counted by the service
// yet, lie behind it.
type MeterBill struct {
	Meter      string
	Ledger     int64
	Reported   int64
	Theirs     *int64 // nil = it was not compared yet
	Until      int64
	ComparedAt int64
}

// Traffic is what operators are shown of events and of the outbox.
type Traffic struct {
	LastWebhook             int64
	NewEvents, FailedEvents int64
	PendingOut, FailedOut   int64
}

// TroubleStore is the storage that an Overview needs, and that the repairs of what it shows need.
type TroubleStore interface {
	Traffic(ctx context.Context) (Traffic, error)
	FailedEvents(ctx context.Context, limit int) ([]Event, error)
	FailedOutgoing(ctx context.Context, limit int) ([]Outgoing, error)
	ReportsIn(ctx context.Context, state string, limit int) ([]Report, error)
	// RetryEvent and RetryOutgoing make a failed row new again; false when there is no such failed row.
	RetryEvent(ctx context.Context, id string, now int64) (bool, error)
	RetryOutgoing(ctx context.Context, id string, now int64) (bool, error)
}

// Overview tells how payment goes.
func (r *Reporter) Overview(ctx context.Context) (Overview, error) {
	o := Overview{Enabled: r.s.Enabled(), Livemode: r.s.Livemode(), AcceptsWebhooks: r.s.AcceptsWebhooks(), Names: map[string]Team{}}
	st := r.cfg.Store
	t, err := st.Traffic(ctx)
	if err != nil {
		return o, fmt.Errorf("reading the events: %w", err)
	}
	o.LastWebhook, o.NewEvents, o.FailedEvents, o.PendingOut, o.FailedOut = t.LastWebhook, t.NewEvents, t.FailedEvents, t.PendingOut, t.FailedOut
	if o.Events, err = st.FailedEvents(ctx, mostTrouble); err != nil {
		return o, fmt.Errorf("reading events: %w", err)
	}
	if o.Outbox, err = st.FailedOutgoing(ctx, mostTrouble); err != nil {
		return o, fmt.Errorf("reading the outbox: %w", err)
	}
	if o.Reports, err = st.ReportCounts(ctx); err != nil {
		return o, fmt.Errorf("counting reports: %w", err)
	}
	for _, state := range []string{ReportFailed, ReportUnknown} {
		rows, err := st.ReportsIn(ctx, state, mostTrouble)
		if err != nil {
			return o, fmt.Errorf("reading reports: %w", err)
		}
		for _, row := range rows {
			if row.Reason == replaced {
				o.Reports[state]-- // another has taken its place: nothing is to be done
				continue
			}
			o.Trouble = append(o.Trouble, row)
		}
	}
	if o.Discrepancies, err = st.Discrepancies(ctx, DiscrepancyOpen, mostTrouble); err != nil {
		return o, fmt.Errorf("reading discrepancies: %w", err)
	}
	text, err := r.s.cfg.Store.Mark(ctx, markReconcile)
	if err != nil {
		return o, fmt.Errorf("reading when it was compared: %w", err)
	}
	o.ReconciledAt, _ = strconv.ParseInt(text, 10, 64) // what is no time has not been done
	objects, err := r.s.cfg.Store.Objects(ctx, r.s.live)
	if err != nil {
		return o, fmt.Errorf("reading what was made at the payment service: %w", err)
	}
	o.SetUp = objects[PortalName] != ""
	if o.Teams, err = r.bills(ctx); err != nil {
		return o, err
	}
	return o, r.names(ctx, &o)
}

// names adds what teams are called.
func (r *Reporter) names(ctx context.Context, o *Overview) error {
	ids := map[string]bool{}
	for _, t := range o.Teams {
		ids[t.TeamID] = true
	}
	for _, d := range o.Discrepancies {
		ids[d.TeamID] = true
	}
	for _, row := range o.Trouble {
		ids[row.TeamID] = true
	}
	for _, row := range o.Outbox {
		ids[row.TeamID] = true
	}
	for id := range ids {
		t, err := r.s.cfg.Team(ctx, id)
		if fault.Is(err, fault.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("reading a team: %w", err)
		}
		o.Names[id] = t
	}
	return nil
}

// bills are the teams with a customer at the service.
func (r *Reporter) bills(ctx context.Context) ([]TeamBill, error) {
	accounts, err := r.s.cfg.Store.Accounts(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading accounts: %w", err)
	}
	plans, err := r.s.cfg.Store.Plans(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading plans: %w", err)
	}
	frozen, err := r.cfg.Frozen(ctx)
	if err != nil {
		return nil, err
	}
	var out []TeamBill
	for _, a := range accounts[:min(len(accounts), mostTeams)] {
		b := TeamBill{Account: a, PlanName: nameOf(plans, a.PlanID)}
		if a.PlanID == "" {
			b.PlanName = nameOf(plans, r.s.cfg.DefaultPlan(ctx))
		}
		if metered(a, plans) {
			for _, m := range Meters {
				mb, err := r.bill(ctx, a, m, frozen)
				if err != nil {
					return nil, err
				}
				b.Meters = append(b.Meters, mb)
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// bill compares one meter of a team.
func (r *Reporter) bill(ctx context.Context, a Account, meter string, frozen int64) (MeterBill, error) {
	b := MeterBill{Meter: meter, Until: frozen}
	c, compared, err := r.Compared(ctx, a.TeamID, meter)
	if err != nil {
		return b, fmt.Errorf("reading a comparison: %w", err)
	}
	if compared && c.PeriodStart == a.PeriodStart {
		b.Until, b.ComparedAt, b.Theirs = c.Until, c.At, &c.Theirs
	}
	b.Until = max(min(b.Until, a.PeriodEnd), a.PeriodStart)
	used, err := r.cfg.Store.UsedBetween(ctx, a.TeamID, a.PeriodStart, b.Until)
	if err != nil {
		return b, fmt.Errorf("reading what was used: %w", err)
	}
	b.Ledger = used.of(meter) / 1000
	rows, err := r.cfg.Store.Reports(ctx, a.TeamID, a.PeriodStart, b.Until)
	if err != nil {
		return b, fmt.Errorf("reading reports: %w", err)
	}
	for _, row := range rows {
		if row.Meter == meter && (row.State == ReportSent || row.State == ReportConfirmed) {
			b.Reported += row.Quantity
		}
	}
	return b, nil
}

// RetryEvent acts on an event again that was given up. Error: event_not_found.
func (r *Reporter) RetryEvent(ctx context.Context, id string) error {
	ok, err := r.cfg.Store.RetryEvent(ctx, id, r.s.now())
	if err != nil {
		return fmt.Errorf("storing an event: %w", err)
	}
	if !ok {
		return fault.New(fault.NotFound, "event_not_found", "There is no such event that was given up.")
	}
	audit.Target(ctx, "event", id, "")
	r.s.stir()
	return nil
}

// RetryOutgoing sends a row of the outbox again that was given up. Error: outgoing_not_found.
func (r *Reporter) RetryOutgoing(ctx context.Context, id string) error {
	ok, err := r.cfg.Store.RetryOutgoing(ctx, id, r.s.now())
	if err != nil {
		return fmt.Errorf("storing a row of the outbox: %w", err)
	}
	if !ok {
		return fault.New(fault.NotFound, "outgoing_not_found", "There is nothing of that id that was given up.")
	}
	audit.Target(ctx, "outbox", id, "")
	r.s.stir()
	return nil
}
