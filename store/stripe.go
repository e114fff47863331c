package store

import (
	"context"
	"database/sql"
	"strings"

	"github.com/parawork/parawork/billing/stripe"
)

// Stripe stores how teams pay, the payment service's events, and the calls that are to be made to it.
type Stripe struct{ db *DB }

var _ stripe.Store = (*Stripe)(nil)

// NewStripe returns the storage of payments in db.
func NewStripe(db *DB) *Stripe { return &Stripe{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Stripe) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

// Plans returns all plans in their order.
func (s *Stripe) Plans(ctx context.Context) ([]stripe.Plan, error) {
	rows, err := s.db.Query(ctx, `SELECT id, name, description, offered, hours_month, concurrent_user, concurrent_team, cpus, memory_mb, session_minutes, creations_hour, seats,
		seat_month_nano, trial_days, metered_usage FROM plans ORDER BY position, id`)
	return Collect(rows, err, func(r Scanner) (p stripe.Plan, err error) {
		err = r.Scan(&p.ID, &p.Name, &p.Description, &p.Offered, &p.HoursMonth, &p.ConcurrentUser, &p.ConcurrentTeam, &p.CPUs, &p.MemoryMB, &p.SessionMinutes, &p.CreationsHour, &p.Seats,
			&p.SeatMonthNano, &p.TrialDays, &p.MeteredUsage)
		return p, err
	})
}

const accountColumns = `team_id, COALESCE(plan_id, ''), plan_source, customer_id, subscription_id, status, paid_plan_id, seats, trial_ends_at, period_start, period_end, cancel_at,
	past_due_since, suspended_for, synced_at, updated_at`

func accountFields(a *stripe.Account) []any {
	return []any{&a.TeamID, &a.PlanID, &a.PlanSource, &a.CustomerID, &a.SubscriptionID, &a.Status, &a.PaidPlanID, &a.Seats, &a.TrialEndsAt, &a.PeriodStart, &a.PeriodEnd, &a.CancelAt,
		&a.PastDueSince, &a.SuspendedFor, &a.SyncedAt, &a.UpdatedAt}
}

func scanAccount(r Scanner) (a stripe.Account, err error) {
	err = r.Scan(accountFields(&a)...)
	return a, err
}

// Account returns a team's; one with nothing but the team where it has none.
func (s *Stripe) Account(ctx context.Context, teamID string) (stripe.Account, error) {
	a, found, err := Optional(scanAccount(s.db.QueryRow(ctx, `SELECT `+accountColumns+` FROM team_billing WHERE team_id = {team?}`, teamID)))
	if !found {
		a.TeamID = teamID
	}
	return a, err
}

// AccountByCustomer returns the account of a customer at the payment service.
func (s *Stripe) AccountByCustomer(ctx context.Context, customerID string) (stripe.Account, bool, error) {
	if customerID == "" {
		return stripe.Account{}, false, nil
	}
	return Optional(scanAccount(s.db.QueryRow(ctx, `SELECT `+accountColumns+` FROM team_billing WHERE customer_id = ? AND {team}`, customerID)))
}

// Accounts returns those with a customer.
func (s *Stripe) Accounts(ctx context.Context) ([]stripe.Account, error) {
	rows, err := s.db.Query(ctx, `SELECT `+accountColumns+` FROM team_billing WHERE customer_id <> '' AND {team} ORDER BY team_id`)
	return Collect(rows, err, scanAccount)
}

// BindCustomer gives a team its customer; false when it has another, or another team has this one.
func (s *Stripe) BindCustomer(ctx context.Context, teamID, customerID string, at int64) (bound bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		var others int
		err := s.db.QueryRow(ctx, `/* every team: a customer is one team's */ SELECT COUNT(*) FROM team_billing WHERE customer_id = ? AND team_id <> ?`, customerID, teamID).Scan(&others)
		if bound = false; err != nil || others > 0 {
			return err
		}
		bound, err = inserted(s.db.Exec(ctx, `INSERT INTO team_billing (team_id, customer_id, updated_at) VALUES ({team?}, ?, ?)
			ON CONFLICT (team_id) DO UPDATE SET customer_id = excluded.customer_id, updated_at = excluded.updated_at
			WHERE team_billing.customer_id = '' OR team_billing.customer_id = excluded.customer_id`, teamID, customerID, at))
		return err
	})
	return bound, err
}

// SaveAccount writes everything but the customer and what the team is suspended for.
func (s *Stripe) SaveAccount(ctx context.Context, a stripe.Account) error {
	_, err := s.db.Exec(ctx, `UPDATE team_billing SET plan_id = ?, plan_source = ?, subscription_id = ?, status = ?, paid_plan_id = ?, seats = ?, trial_ends_at = ?, period_start = ?, period_end = ?,
		cancel_at = ?, past_due_since = ?, synced_at = ?, updated_at = ? WHERE team_id = {team?}`,
		sql.NullString{String: a.PlanID, Valid: a.PlanID != ""}, a.PlanSource, a.SubscriptionID, a.Status, a.PaidPlanID, a.Seats, a.TrialEndsAt, a.PeriodStart, a.PeriodEnd,
		a.CancelAt, a.PastDueSince, a.SyncedAt, a.UpdatedAt, a.TeamID)
	return err
}

// Unbind removes a deleted customer.
func (s *Stripe) Unbind(ctx context.Context, teamID, customerID string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE team_billing SET customer_id = '', updated_at = ? WHERE team_id = {team?} AND customer_id = ?`, at, teamID, customerID)
	return err
}

// Suspend records why a team is suspended, "" = it no longer is.
func (s *Stripe) Suspend(ctx context.Context, teamID, why string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE team_billing SET suspended_for = ?, updated_at = ? WHERE team_id = {team?}`, why, at, teamID)
	return err
}

// SeatCounts returns the teams with a subscription, and how many members each has.
func (s *Stripe) SeatCounts(ctx context.Context) ([]stripe.SeatCount, error) {
	rows, err := s.db.Query(ctx, `SELECT `+accountColumns+`, (SELECT COUNT(*) FROM members m WHERE m.team_id = team_billing.team_id /* every team: that of the row outside */)
		FROM team_billing WHERE subscription_id <> '' AND {team} ORDER BY team_id`)
	return Collect(rows, err, func(r Scanner) (c stripe.SeatCount, err error) {
		err = r.Scan(append(accountFields(&c.Account), &c.Members)...)
		return c, err
	})
}

// CountMembers counts a team's members.
func (s *Stripe) CountMembers(ctx context.Context, teamID string) (n int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM members WHERE team_id = {team?}`, teamID).Scan(&n)
	return n, err
}

// PutInvoice stores an invoice as it is now.
func (s *Stripe) PutInvoice(ctx context.Context, i stripe.Invoice) error {
	_, err := s.db.Exec(ctx, `INSERT INTO invoices (id, team_id, number, status, total_cents, due_cents, currency, period_start, period_end, url, created_at, synced_at)
		VALUES (?, {team?}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET number = excluded.number, status = excluded.status, total_cents = excluded.total_cents, due_cents = excluded.due_cents, currency = excluded.currency,
			period_start = excluded.period_start, period_end = excluded.period_end, url = excluded.url, synced_at = excluded.synced_at WHERE invoices.team_id = excluded.team_id`,
		i.ID, i.TeamID, i.Number, i.Status, i.Total, i.Due, i.Currency, i.PeriodStart, i.PeriodEnd, i.URL, i.CreatedAt, i.SyncedAt)
	return err
}

// Invoices returns a team's, the newest first.
func (s *Stripe) Invoices(ctx context.Context, teamID string, limit int) ([]stripe.Invoice, error) {
	rows, err := s.db.Query(ctx, `SELECT id, team_id, number, status, total_cents, due_cents, currency, period_start, period_end, url, created_at, synced_at FROM invoices
		WHERE team_id = {team?} ORDER BY created_at DESC, id DESC LIMIT ?`, teamID, limit)
	return Collect(rows, err, func(r Scanner) (i stripe.Invoice, err error) {
		err = r.Scan(&i.ID, &i.TeamID, &i.Number, &i.Status, &i.Total, &i.Due, &i.Currency, &i.PeriodStart, &i.PeriodEnd, &i.URL, &i.CreatedAt, &i.SyncedAt)
		return i, err
	})
}

// Mark returns what was remembered under a name.
func (s *Stripe) Mark(ctx context.Context, name string) (value string, err error) {
	err = s.db.QueryRow(ctx, `SELECT value FROM billing_marks WHERE name = ?`, name).Scan(&value)
	return OrZero(value, err)
}

// SetMark remembers something under a name; "" forgets it.
func (s *Stripe) SetMark(ctx context.Context, name, value string) error {
	if value == "" {
		_, err := s.db.Exec(ctx, `DELETE FROM billing_marks WHERE name = ?`, name)
		return err
	}
	_, err := s.db.Exec(ctx, `INSERT INTO billing_marks (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}

// Release makes everything due at a time that waits for later.
func (s *Stripe) Release(ctx context.Context, at int64) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE stripe_events SET try_at = ? WHERE state = 'new' AND try_at > ?`, at, at); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `UPDATE stripe_outbox SET try_at = ? WHERE state = 'pending' AND try_at > ? AND {team}`, at, at)
		return err
	})
}

// Objects returns the ids of our objects at the payment service by their names.
func (s *Stripe) Objects(ctx context.Context, livemode bool) (map[string]string, error) {
	rows, err := s.db.Query(ctx, `SELECT name, object_id FROM stripe_objects WHERE livemode = ?`, livemode)
	pairs, err := Collect(rows, err, func(r Scanner) (p [2]string, err error) { err = r.Scan(&p[0], &p[1]); return p, err })
	out := make(map[string]string, len(pairs))
	for _, p := range pairs {
		out[p[0]] = p[1]
	}
	return out, err
}

// ObjectsMade are our objects at the payment service by their names, with what they were made with.
func (s *Stripe) ObjectsMade(ctx context.Context, livemode bool) (map[string]stripe.Object, error) {
	return NewUsageReports(s.db).ObjectsMade(ctx, livemode)
}

// AddEvents stores the events that are not there yet, all or none.
func (s *Stripe) AddEvents(ctx context.Context, all []stripe.Event) error {
	if len(all) == 0 {
		return nil
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		for len(all) > 0 {
			n := min(len(all), 50)
			args := make([]any, 0, n*10)
			for _, e := range all[:n] {
				args = append(args, e.ID, e.Type, e.ObjectID, e.CustomerID, e.Livemode, e.Created, e.ReceivedAt, e.Source, e.State, e.Reason)
			}
			_, err := s.db.Exec(ctx, `INSERT INTO stripe_events (id, type, object_id, customer_id, livemode, created, received_at, source, state, state_reason) VALUES `+
				strings.Repeat(`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?), `, n-1)+`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, args...)
			if err != nil {
				return err
			}
			all = all[n:]
		}
		return nil
	})
}

const eventColumns = `id, type, object_id, customer_id, livemode, created, received_at, source, state, state_reason, attempts, try_at`

func scanEvent(r Scanner) (e stripe.Event, err error) {
	err = r.Scan(&e.ID, &e.Type, &e.ObjectID, &e.CustomerID, &e.Livemode, &e.Created, &e.ReceivedAt, &e.Source, &e.State, &e.Reason, &e.Attempts, &e.TryAt)
	return e, err
}

// DueEvents returns new events to be tried now, and when another is due.
func (s *Stripe) DueEvents(ctx context.Context, now int64, limit int) ([]stripe.Event, int64, error) {
	rows, err := s.db.Query(ctx, `SELECT `+eventColumns+` FROM stripe_events WHERE state = 'new' AND try_at <= ? ORDER BY try_at, created, id LIMIT ?`, now, limit)
	due, err := Collect(rows, err, scanEvent)
	if err != nil {
		return nil, 0, err
	}
	var next int64
	err = s.db.QueryRow(ctx, `SELECT COALESCE(MIN(try_at), 0) FROM stripe_events WHERE state = 'new' AND try_at > ?`, now).Scan(&next)
	return due, next, err
}

// ClaimEvent takes an event for the caller until a time; false when somebody else has it.
func (s *Stripe) ClaimEvent(ctx context.Context, e stripe.Event, until int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE stripe_events SET try_at = ? WHERE id = ? AND state = 'new' AND try_at = ?`, until, e.ID, e.TryAt))
}

// SaveEvent writes how an event went.
func (s *Stripe) SaveEvent(ctx context.Context, e stripe.Event) error {
	_, err := s.db.Exec(ctx, `UPDATE stripe_events SET state = ?, state_reason = ?, attempts = ?, customer_id = ?, try_at = ? WHERE id = ?`, e.State, e.Reason, e.Attempts, e.CustomerID, e.TryAt, e.ID)
	return err
}

// DropEvents forgets events that were received before a time and wait for nobody.
func (s *Stripe) DropEvents(ctx context.Context, before int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM stripe_events WHERE received_at < ? AND state <> 'new'`, before)
	return err
}

const outgoingColumns = `id, team_id, kind, payload, result_id, state, state_reason, attempts, try_at, created_at, sent_at`

func scanOutgoing(r Scanner) (o stripe.Outgoing, err error) {
	err = r.Scan(&o.ID, &o.TeamID, &o.Kind, &o.Payload, &o.ResultID, &o.State, &o.Reason, &o.Attempts, &o.TryAt, &o.CreatedAt, &o.SentAt)
	return o, err
}

// AddOutgoing stores a row of the outbox; false when it is there already.
func (s *Stripe) AddOutgoing(ctx context.Context, o stripe.Outgoing) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO stripe_outbox (id, team_id, kind, payload, state, try_at, created_at) VALUES (?, {team?}, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		o.ID, o.TeamID, o.Kind, o.Payload, o.State, o.TryAt, o.CreatedAt))
}

// Outgoing returns a row of the outbox.
func (s *Stripe) Outgoing(ctx context.Context, id string) (stripe.Outgoing, bool, error) {
	return Optional(scanOutgoing(s.db.QueryRow(ctx, `SELECT `+outgoingColumns+` FROM stripe_outbox WHERE id = ? AND {team}`, id)))
}

// DueOutgoing returns rows that are to be sent now, and when another is due.
func (s *Stripe) DueOutgoing(ctx context.Context, now int64, limit int) ([]stripe.Outgoing, int64, error) {
	rows, err := s.db.Query(ctx, `SELECT `+outgoingColumns+` FROM stripe_outbox WHERE state = 'pending' AND try_at <= ? AND {team} ORDER BY try_at, created_at, id LIMIT ?`, now, limit)
	due, err := Collect(rows, err, scanOutgoing)
	if err != nil {
		return nil, 0, err
	}
	var next int64
	err = s.db.QueryRow(ctx, `SELECT COALESCE(MIN(try_at), 0) FROM stripe_outbox WHERE state = 'pending' AND try_at > ? AND {team}`, now).Scan(&next)
	return due, next, err
}

// ClaimOutgoing takes a row for the caller until a time; false when somebody else has it.
func (s *Stripe) ClaimOutgoing(ctx context.Context, o stripe.Outgoing, until int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE stripe_outbox SET try_at = ? WHERE id = ? AND state = 'pending' AND try_at = ? AND {team}`, until, o.ID, o.TryAt))
}

// SaveOutgoing writes what a row says and how it went.
func (s *Stripe) SaveOutgoing(ctx context.Context, o stripe.Outgoing) error {
	_, err := s.db.Exec(ctx, `UPDATE stripe_outbox SET payload = ?, result_id = ?, state = ?, state_reason = ?, attempts = ?, try_at = ?, created_at = ?, sent_at = ? WHERE id = ? AND {team}`,
		o.Payload, o.ResultID, o.State, o.Reason, o.Attempts, o.TryAt, o.CreatedAt, o.SentAt, o.ID)
	return err
}

// PendingOutgoing returns a team's rows of a kind that have not been sent, the oldest first.
func (s *Stripe) PendingOutgoing(ctx context.Context, teamID, kind string) ([]stripe.Outgoing, error) {
	rows, err := s.db.Query(ctx, `SELECT `+outgoingColumns+` FROM stripe_outbox WHERE state = 'pending' AND kind = ? AND team_id = {team?} ORDER BY created_at, id`, kind, teamID)
	return Collect(rows, err, scanOutgoing)
}

// LastOutgoing returns a team's latest row of a kind, in any state.
func (s *Stripe) LastOutgoing(ctx context.Context, teamID, kind string) (stripe.Outgoing, bool, error) {
	return Optional(scanOutgoing(s.db.QueryRow(ctx, `SELECT `+outgoingColumns+` FROM stripe_outbox WHERE kind = ? AND team_id = {team?} ORDER BY created_at DESC, id DESC LIMIT 1`, kind, teamID)))
}

// DropOutgoing forgets rows that were sent before a time.
func (s *Stripe) DropOutgoing(ctx context.Context, before int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM stripe_outbox WHERE state = 'sent' AND sent_at < ? AND {team}`, before)
	return err
}

const checkoutColumns = `id, team_id, plan_id, seats, external_id, state, created_by, created_at, ended_at`

func scanCheckout(r Scanner) (c stripe.Checkout, err error) {
	err = r.Scan(&c.ID, &c.TeamID, &c.PlanID, &c.Seats, &c.ExternalID, &c.State, &c.CreatedBy, &c.CreatedAt, &c.EndedAt)
	return c, err
}

// InsertCheckout stores a payment that begins.
func (s *Stripe) InsertCheckout(ctx context.Context, c stripe.Checkout) error {
	_, err := s.db.Exec(ctx, `INSERT INTO checkouts (id, team_id, plan_id, seats, external_id, state, created_by, created_at) VALUES (?, {team?}, ?, ?, ?, ?, ?, ?)`,
		c.ID, c.TeamID, c.PlanID, c.Seats, c.ExternalID, c.State, c.CreatedBy, c.CreatedAt)
	return err
}

// SaveCheckout writes what a payment is called at the payment service and what became of it. One that is done stays so.
func (s *Stripe) SaveCheckout(ctx context.Context, c stripe.Checkout) error {
	_, err := s.db.Exec(ctx, `UPDATE checkouts SET external_id = ?, state = ?, ended_at = ? WHERE id = ? AND state <> 'done' AND {team}`, c.ExternalID, c.State, c.EndedAt, c.ID)
	return err
}

// Checkout returns a payment.
func (s *Stripe) Checkout(ctx context.Context, id string) (stripe.Checkout, bool, error) {
	return Optional(scanCheckout(s.db.QueryRow(ctx, `SELECT `+checkoutColumns+` FROM checkouts WHERE id = ? AND {team}`, id)))
}

// CheckoutByExternal returns a payment by what it is called at the payment service.
func (s *Stripe) CheckoutByExternal(ctx context.Context, externalID string) (stripe.Checkout, bool, error) {
	return Optional(scanCheckout(s.db.QueryRow(ctx, `SELECT `+checkoutColumns+` FROM checkouts WHERE external_id = ? AND {team}`, externalID)))
}

// OpenCheckouts returns a team's payments that were begun and have no end, the newest first.
func (s *Stripe) OpenCheckouts(ctx context.Context, teamID string) ([]stripe.Checkout, error) {
	rows, err := s.db.Query(ctx, `SELECT `+checkoutColumns+` FROM checkouts WHERE team_id = {team?} AND state = 'open' ORDER BY created_at DESC, id DESC`, teamID)
	return Collect(rows, err, scanCheckout)
}

// LastPaid returns a team's latest payment that is done.
func (s *Stripe) LastPaid(ctx context.Context, teamID string) (stripe.Checkout, bool, error) {
	return Optional(scanCheckout(s.db.QueryRow(ctx, `SELECT `+checkoutColumns+` FROM checkouts WHERE team_id = {team?} AND state = 'done' ORDER BY ended_at DESC, id DESC LIMIT 1`, teamID)))
}

// EventsIn returns events in a state, the newest first.
func (s *Stripe) EventsIn(ctx context.Context, state string, limit int) ([]stripe.Event, error) {
	rows, err := s.db.Query(ctx, `SELECT `+eventColumns+` FROM stripe_events WHERE state = ? ORDER BY received_at DESC, id DESC LIMIT ?`, state, limit)
	return Collect(rows, err, scanEvent)
}
