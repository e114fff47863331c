package store

import (
	"context"

	"github.com/parawork/parawork/billing/stripe"
)

// UsageReports stores the usage that is reported to the payment service.
type UsageReports struct{ db *DB }

var (
	_ stripe.ReportStore = (*UsageReports)(nil)
	_ stripe.SetupStore  = (*UsageReports)(nil)
)

// NewUsageReports returns the storage of reports of usage in db.
func NewUsageReports(db *DB) *UsageReports { return &UsageReports{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *UsageReports) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

// UsedHours are a team's hours that began in [from, to) in which it used something that is metered, in their order.
func (s *UsageReports) UsedHours(ctx context.Context, teamID string, from, to int64) ([]stripe.HourUse, error) {
	rows, err := s.db.Query(ctx, `SELECT hour, CAST(SUM(vcpu_ms) AS BIGINT), CAST(SUM(mib_ms) AS BIGINT) FROM usage_hours
		WHERE team_id = {team?} AND hour >= ? AND hour < ? AND metered GROUP BY hour ORDER BY hour`, teamID, from, to)
	return Collect(rows, err, func(r Scanner) (h stripe.HourUse, err error) { return h, r.Scan(&h.Hour, &h.VCPUMs, &h.MiBMs) })
}

// UsedBetween is what a team's metered segments have of [from, to). A segment lies within a day.
func (s *UsageReports) UsedBetween(ctx context.Context, teamID string, from, to int64) (u stripe.Used, err error) {
	err = s.db.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(ran * cpus), 0) AS BIGINT), CAST(COALESCE(SUM(ran * memory_mb), 0) AS BIGINT) FROM (
		SELECT cpus, memory_mb, (CASE WHEN ended < ? THEN ended ELSE ? END) - (CASE WHEN started_at > ? THEN started_at ELSE ? END) AS ran FROM (
			SELECT cpus, memory_mb, started_at, CASE WHEN ended_at = 0 THEN seen_at ELSE ended_at END AS ended FROM segments
			WHERE team_id = {team?} AND metered AND started_at < ? AND started_at > ?) g
		WHERE ended > ?) h`, to, to, from, from, teamID, to, from-dayMs, from).Scan(&u.VCPUMs, &u.MiBMs)
	return u, err
}

const reportColumns = `identifier, team_id, meter, hour, revision, quantity, customer_id, state, state_reason, attempts, try_at, first_sent_at, sent_at, created_at`

func scanReport(r Scanner) (u stripe.Report, err error) {
	err = r.Scan(&u.Identifier, &u.TeamID, &u.Meter, &u.Hour, &u.Revision, &u.Quantity, &u.CustomerID, &u.State, &u.Reason, &u.Attempts, &u.TryAt, &u.FirstSentAt, &u.SentAt, &u.CreatedAt)
	return u, err
}

// AddReport stores a report, unless there is one of the same interval and revision.
func (s *UsageReports) AddReport(ctx context.Context, r stripe.Report) error {
	_, err := s.db.Exec(ctx, `INSERT INTO usage_reports (`+reportColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`, r.Identifier, r.TeamID, r.Meter, r.Hour,
		r.Revision, r.Quantity, r.CustomerID, r.State, r.Reason, r.Attempts, r.TryAt, r.FirstSentAt, r.SentAt, r.CreatedAt)
	return err
}

// Reports returns a team's reports whose intervals began in [from, to), in their order.
func (s *UsageReports) Reports(ctx context.Context, teamID string, from, to int64) ([]stripe.Report, error) {
	rows, err := s.db.Query(ctx, `SELECT `+reportColumns+` FROM usage_reports WHERE team_id = {team?} AND hour >= ? AND hour < ? ORDER BY hour, meter, revision`, teamID, from, to)
	return Collect(rows, err, scanReport)
}

// Report returns one; false when there is none.
func (s *UsageReports) Report(ctx context.Context, identifier string) (stripe.Report, bool, error) {
	return Optional(scanReport(s.db.QueryRow(ctx, `SELECT `+reportColumns+` FROM usage_reports WHERE {team} AND identifier = ?`, identifier)))
}

// DueReports are those to be sent now, the oldest hours first.
func (s *UsageReports) DueReports(ctx context.Context, now int64, limit int) ([]stripe.Report, error) {
	rows, err := s.db.Query(ctx, `SELECT `+reportColumns+` FROM usage_reports WHERE {team} AND state = 'pending' AND try_at <= ? ORDER BY hour, identifier LIMIT ?`, now, limit)
	return Collect(rows, err, scanReport)
}

// ReportsIn are the latest reports of a state, of every team.
func (s *UsageReports) ReportsIn(ctx context.Context, state string, limit int) ([]stripe.Report, error) {
	rows, err := s.db.Query(ctx, `SELECT `+reportColumns+` FROM usage_reports WHERE {team} AND state = ? ORDER BY hour DESC, identifier LIMIT ?`, state, limit)
	return Collect(rows, err, scanReport)
}

// ClaimReport notes, before an attempt, that it is made; false when another server did.
func (s *UsageReports) ClaimReport(ctx context.Context, r stripe.Report, firstSentAt, until int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE usage_reports SET attempts = attempts + 1, first_sent_at = ?, try_at = ? WHERE identifier = ? AND {team} AND state = 'pending' AND try_at = ? AND attempts = ?`,
		firstSentAt, until, r.Identifier, r.TryAt, r.Attempts))
}

// SaveReport writes state, reason, attempts and times.
func (s *UsageReports) SaveReport(ctx context.Context, r stripe.Report) error {
	return changed(s.db.Exec(ctx, `UPDATE usage_reports SET state = ?, state_reason = ?, attempts = ?, try_at = ?, first_sent_at = ?, sent_at = ? WHERE identifier = ? AND {team}`,
		r.State, r.Reason, r.Attempts, r.TryAt, r.FirstSentAt, r.SentAt, r.Identifier))
}

// ReportCounts are how many reports there are, by state.
func (s *UsageReports) ReportCounts(ctx context.Context) (map[string]int64, error) {
	rows, err := s.db.Query(ctx, `SELECT state, COUNT(*) FROM usage_reports WHERE {team} GROUP BY state`)
	return Pairs[string, int64](rows, err)
}

const discrepancyColumns = `team_id, meter, hour, ours, theirs, state, found_at, updated_at`

func scanDiscrepancy(r Scanner) (d stripe.Discrepancy, err error) {
	err = r.Scan(&d.TeamID, &d.Meter, &d.Hour, &d.Ours, &d.Theirs, &d.State, &d.FoundAt, &d.UpdatedAt)
	return d, err
}

// PutDiscrepancy stores one, or what has become of it.
func (s *UsageReports) PutDiscrepancy(ctx context.Context, d stripe.Discrepancy) error {
	_, err := s.db.Exec(ctx, `INSERT INTO discrepancies (`+discrepancyColumns+`) VALUES ({team?},?,?,?,?,?,?,?)
		ON CONFLICT (team_id, meter, hour) DO UPDATE SET ours = excluded.ours, theirs = excluded.theirs, state = excluded.state, found_at = excluded.found_at, updated_at = excluded.updated_at`,
		d.TeamID, d.Meter, d.Hour, d.Ours, d.Theirs, d.State, d.FoundAt, d.UpdatedAt)
	return err
}

// Discrepancy returns that of an hour; false when there is none.
func (s *UsageReports) Discrepancy(ctx context.Context, teamID, meter string, hour int64) (stripe.Discrepancy, bool, error) {
	return Optional(scanDiscrepancy(s.db.QueryRow(ctx, `SELECT `+discrepancyColumns+` FROM discrepancies WHERE team_id = {team?} AND meter = ? AND hour = ?`, teamID, meter, hour)))
}

// Discrepancies are those of a state, the latest hours first.
func (s *UsageReports) Discrepancies(ctx context.Context, state string, limit int) ([]stripe.Discrepancy, error) {
	rows, err := s.db.Query(ctx, `SELECT `+discrepancyColumns+` FROM discrepancies WHERE {team} AND state = ? ORDER BY hour DESC, team_id, meter LIMIT ?`, state, limit)
	return Collect(rows, err, scanDiscrepancy)
}

// ObjectsMade are our objects at the payment service, by name.
func (s *UsageReports) ObjectsMade(ctx context.Context, livemode bool) (map[string]stripe.Object, error) {
	rows, err := s.db.Query(ctx, `SELECT name, object_id, fingerprint FROM stripe_objects WHERE livemode = ?`, livemode)
	return Keyed(rows, err, func(r Scanner) (name string, o stripe.Object, err error) {
		err = r.Scan(&o.Name, &o.ID, &o.Fingerprint)
		return o.Name, o, err
	})
}

// PutObject stores one.
func (s *UsageReports) PutObject(ctx context.Context, livemode bool, o stripe.Object, at int64) error {
	_, err := s.db.Exec(ctx, `INSERT INTO stripe_objects (name, livemode, object_id, fingerprint, updated_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (name, livemode) DO UPDATE SET object_id = excluded.object_id, fingerprint = excluded.fingerprint, updated_at = excluded.updated_at`, o.Name, livemode, o.ID, o.Fingerprint, at)
	return err
}

// Traffic is what operators are shown of events and of the outbox.
func (s *UsageReports) Traffic(ctx context.Context) (t stripe.Traffic, err error) {
	err = s.db.QueryRow(ctx, `SELECT COALESCE(MAX(CASE WHEN source = 'webhook' THEN received_at END), 0), COUNT(CASE WHEN state = 'new' THEN 1 END), COUNT(CASE WHEN state = 'failed' THEN 1 END) FROM stripe_events`).
		Scan(&t.LastWebhook, &t.NewEvents, &t.FailedEvents)
	if err == nil {
		err = s.db.QueryRow(ctx, `SELECT COUNT(CASE WHEN state = 'pending' THEN 1 END), COUNT(CASE WHEN state = 'failed' THEN 1 END) FROM stripe_outbox WHERE {team}`).Scan(&t.PendingOut, &t.FailedOut)
	}
	return t, err
}

// FailedEvents are those that were given up, the newest first.
func (s *UsageReports) FailedEvents(ctx context.Context, limit int) ([]stripe.Event, error) {
	return NewStripe(s.db).EventsIn(ctx, stripe.EventFailed, limit)
}

// FailedOutgoing are the rows of the outbox that were given up, the newest first.
func (s *UsageReports) FailedOutgoing(ctx context.Context, limit int) ([]stripe.Outgoing, error) {
	rows, err := s.db.Query(ctx, `SELECT `+outgoingColumns+` FROM stripe_outbox WHERE {team} AND state = 'failed' ORDER BY created_at DESC, id LIMIT ?`, limit)
	return Collect(rows, err, scanOutgoing)
}

// RetryEvent makes an event new again that was given up.
func (s *UsageReports) RetryEvent(ctx context.Context, id string, now int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE stripe_events SET state = 'new', attempts = 0, try_at = ? WHERE id = ? AND state = 'failed'`, now, id))
}

// RetryOutgoing makes a row of the outbox due again that was given up.
func (s *UsageReports) RetryOutgoing(ctx context.Context, id string, now int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE stripe_outbox SET state = 'pending', attempts = 0, try_at = ? WHERE id = ? AND state = 'failed' AND {team}`, now, id))
}
