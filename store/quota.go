package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/parawork/parawork/billing/quota"
)

// Quota keeps plans, quotas and budgets, and reads of the ledger what they are compared with.
type Quota struct{ db *DB }

var _ quota.Store = (*Quota)(nil)

// NewQuota returns the storage of quotas in db.
func NewQuota(db *DB) *Quota { return &Quota{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Quota) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const planColumns = `id, name, description, position, offered, hours_month, concurrent_user, concurrent_team, cpus, memory_mb, session_minutes, creations_hour, seats,
	seat_month_nano, trial_days, metered_usage, updated_by, updated_at`

// maybe reads a number that may be NULL.
type maybe struct{ to **int64 }

// Scan implements sql.Scanner.
func (m maybe) Scan(v any) error {
	var n sql.NullInt64
	if err := n.Scan(v); err != nil {
		return err
	}
	*m.to = nil
	if n.Valid {
		*m.to = &n.Int64
	}
	return nil
}

func scanPlan(r Scanner) (p quota.Plan, err error) {
	q := &p.Quota
	err = r.Scan(&p.ID, &p.Name, &p.Description, &p.Position, &p.Offered, maybe{&q.HoursMonth}, maybe{&q.Concurrent}, maybe{&q.ConcurrentTeam}, maybe{&q.CPUs}, maybe{&q.MemoryMB},
		maybe{&q.SessionMinutes}, maybe{&q.CreationsHour}, maybe{&q.Seats}, &p.SeatMonthNano, &p.TrialDays, &p.MeteredUsage, &p.UpdatedBy, &p.UpdatedAt)
	return p, err
}

// Plans are all there are, in order.
func (s *Quota) Plans(ctx context.Context) ([]quota.Plan, error) {
	rows, err := s.db.Query(ctx, `SELECT `+planColumns+` FROM plans ORDER BY position, id`)
	return Collect(rows, err, scanPlan)
}

// Plan returns one; ErrNotFound when there is none.
func (s *Quota) Plan(ctx context.Context, id string) (quota.Plan, error) {
	return scanPlan(s.db.QueryRow(ctx, `SELECT `+planColumns+` FROM plans WHERE id = ?`, id))
}

// PutPlan stores a plan, new or not.
func (s *Quota) PutPlan(ctx context.Context, p quota.Plan) error {
	q := p.Quota
	_, err := s.db.Exec(ctx, `INSERT INTO plans (`+planColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description, position = excluded.position, offered = excluded.offered,
		hours_month = excluded.hours_month, concurrent_user = excluded.concurrent_user, concurrent_team = excluded.concurrent_team, cpus = excluded.cpus,
		memory_mb = excluded.memory_mb, session_minutes = excluded.session_minutes, creations_hour = excluded.creations_hour, seats = excluded.seats,
		seat_month_nano = excluded.seat_month_nano, trial_days = excluded.trial_days, metered_usage = excluded.metered_usage, updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
		p.ID, p.Name, p.Description, p.Position, p.Offered, q.HoursMonth, q.Concurrent, q.ConcurrentTeam, q.CPUs, q.MemoryMB, q.SessionMinutes, q.CreationsHour, q.Seats,
		p.SeatMonthNano, p.TrialDays, p.MeteredUsage, p.UpdatedBy, p.UpdatedAt)
	return err
}

// DeletePlan deletes a plan.
func (s *Quota) DeletePlan(ctx context.Context, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM plans WHERE id = ?`, id))
}

// TeamsOf are the teams that were given the plan, or pay for it.
func (s *Quota) TeamsOf(ctx context.Context, planID string) ([]string, error) {
	return Column[string](s.db.Query(ctx, `/* every team: whether a plan may be deleted */ SELECT team_id FROM team_billing WHERE plan_id = ? OR paid_plan_id = ? ORDER BY team_id`, planID, planID))
}

// TeamPlan returns how a team stands: the zero TeamPlan when nobody said anything.
func (s *Quota) TeamPlan(ctx context.Context, teamID string) (quota.TeamPlan, error) {
	t := quota.TeamPlan{TeamID: teamID}
	err := s.db.QueryRow(ctx, `SELECT COALESCE(plan_id, ''), plan_source, paid_plan_id, status, seats, past_due_since, suspended_for, updated_at FROM team_billing WHERE team_id = {team?}`, teamID).
		Scan(&t.PlanID, &t.Source, &t.PaidPlanID, &t.Status, &t.Seats, &t.PastDueSince, &t.SuspendedFor, &t.UpdatedAt)
	if errors.Is(err, ErrNotFound) {
		return quota.TeamPlan{TeamID: teamID}, nil
	}
	return t, err
}

// PutTeamPlan stores a team's plan, who gave it, and what is paid for: the rest is the payment service's.
func (s *Quota) PutTeamPlan(ctx context.Context, t quota.TeamPlan) error {
	_, err := s.db.Exec(ctx, `INSERT INTO team_billing (team_id, plan_id, plan_source, paid_plan_id, seats, updated_at) VALUES ({team?}, ?, ?, ?, ?, ?)
		ON CONFLICT (team_id) DO UPDATE SET plan_id = excluded.plan_id, plan_source = excluded.plan_source, paid_plan_id = excluded.paid_plan_id, seats = excluded.seats, updated_at = excluded.updated_at`,
		t.TeamID, sql.NullString{String: t.PlanID, Valid: t.PlanID != ""}, t.Source, t.PaidPlanID, t.Seats, t.UpdatedAt)
	return err
}

// Members are a team's, by name.
func (s *Quota) Members(ctx context.Context, teamID string) ([]quota.Member, error) {
	rows, err := s.db.Query(ctx, `SELECT u.id, u.name FROM members m JOIN users u ON u.id = m.user_id WHERE m.team_id = {team?} ORDER BY u.name, u.id`, teamID)
	return Collect(rows, err, func(r Scanner) (m quota.Member, err error) { return m, r.Scan(&m.UserID, &m.Name) })
}

// handKey names those of a user's values that an operator gave; it is no value's name.
const handKey = "by_operator"

// readHand reads what was said of a user.
func readHand(text string) (quota.ByHand, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("reading a user's quota: %w", err)
	}
	var by []string
	if raw, ok := all[handKey]; ok {
		if err := json.Unmarshal(raw, &by); err != nil {
			return nil, fmt.Errorf("reading a user's quota: %w", err)
		}
		delete(all, handKey)
	}
	out := make(quota.ByHand, len(all))
	for name, raw := range all {
		l := quota.Limit{ByOperator: slices.Contains(by, name)}
		if err := json.Unmarshal(raw, &l.Value); err != nil {
			return nil, fmt.Errorf("reading a user's quota: %w", err)
		}
		out[name] = l
	}
	return out, nil
}

// ByHand is what was said of the users of a team, by user.
func (s *Quota) ByHand(ctx context.Context, teamID string) (map[string]quota.ByHand, error) {
	rows, err := s.db.Query(ctx, `SELECT user_id, limits FROM quotas WHERE team_id = {team?}`, teamID)
	all, err := Pairs[string, string](rows, err)
	if err != nil {
		return nil, err
	}
	out := make(map[string]quota.ByHand, len(all))
	for user, limits := range all {
		if out[user], err = readHand(limits); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// UserByHand is what was said of one; nil when nothing was.
func (s *Quota) UserByHand(ctx context.Context, teamID, userID string) (quota.ByHand, error) {
	var text string
	err := s.db.QueryRow(ctx, `SELECT limits FROM quotas WHERE team_id = {team?} AND user_id = ?`, teamID, userID).Scan(&text)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readHand(text)
}

// PutByHand stores the limits of a user; an empty value deletes them.
func (s *Quota) PutByHand(ctx context.Context, teamID, userID string, h quota.ByHand, by string, at int64) error {
	if len(h) == 0 {
		_, err := s.db.Exec(ctx, `DELETE FROM quotas WHERE team_id = {team?} AND user_id = ?`, teamID, userID)
		return err
	}
	all, operators := make(map[string]any, len(h)+1), []string{}
	for name, l := range h {
		all[name] = l.Value
		if l.ByOperator {
			operators = append(operators, name)
		}
	}
	if slices.Sort(operators); len(operators) > 0 {
		all[handKey] = operators
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO quotas (team_id, user_id, limits, by_operator, updated_by, updated_at) VALUES ({team?}, ?, ?, ?, ?, ?)
		ON CONFLICT (team_id, user_id) DO UPDATE SET limits = excluded.limits, by_operator = excluded.by_operator, updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
		teamID, userID, string(text), len(operators) > 0, by, at)
	return err
}

// Budget returns a team's; false when it has none of its own.
func (s *Quota) Budget(ctx context.Context, teamID string) (b quota.Budget, ok bool, err error) {
	var thresholds string
	err = s.db.QueryRow(ctx, `SELECT limit_nano, count_tokens, thresholds, overage, overage_cap_nano, grace_seconds, notify_app, notify_mail, notify_webhooks, updated_by, updated_at
		FROM budgets WHERE team_id = {team?}`, teamID).Scan(maybe{&b.LimitNano}, &b.CountTokens, &thresholds, &b.Overage, maybe{&b.OverageCapNano}, &b.GraceSeconds,
		&b.NotifyApp, &b.NotifyMail, &b.NotifyWebhooks, &b.UpdatedBy, &b.UpdatedAt)
	if errors.Is(err, ErrNotFound) {
		return quota.Budget{}, false, nil
	}
	if err != nil {
		return b, false, err
	}
	return b, true, json.Unmarshal([]byte(thresholds), &b.Thresholds)
}

// PutBudget stores a team's.
func (s *Quota) PutBudget(ctx context.Context, teamID string, b quota.Budget) error {
	thresholds, err := json.Marshal(append([]int64{}, b.Thresholds...))
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO budgets (team_id, limit_nano, count_tokens, thresholds, overage, overage_cap_nano, grace_seconds, notify_app, notify_mail, notify_webhooks, updated_by, updated_at)
		VALUES ({team?}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (team_id) DO UPDATE SET limit_nano = excluded.limit_nano, count_tokens = excluded.count_tokens, thresholds = excluded.thresholds, overage = excluded.overage,
		overage_cap_nano = excluded.overage_cap_nano, grace_seconds = excluded.grace_seconds, notify_app = excluded.notify_app, notify_mail = excluded.notify_mail,
		notify_webhooks = excluded.notify_webhooks, updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
		teamID, b.LimitNano, b.CountTokens, string(thresholds), b.Overage, b.OverageCapNano, b.GraceSeconds, b.NotifyApp, b.NotifyMail, b.NotifyWebhooks, b.UpdatedBy, b.UpdatedAt)
	return err
}

// Alerts are a team's in a month, the newest first.
func (s *Quota) Alerts(ctx context.Context, teamID, period string) ([]quota.Alert, error) {
	rows, err := s.db.Query(ctx, `SELECT scope, scope_id, period, percent, used, limit_at, noted_at FROM limit_alerts WHERE team_id = {team?} AND period = ?
		ORDER BY noted_at DESC, percent DESC, scope, scope_id`, teamID, period)
	return Collect(rows, err, func(r Scanner) (a quota.Alert, err error) {
		return a, r.Scan(&a.Scope, &a.ScopeID, &a.Period, &a.Percent, &a.Used, &a.LimitAt, &a.NotedAt)
	})
}

// Counting reports whether work of the team goes on by a grace of its budget.
func (s *Quota) Counting(ctx context.Context, teamID string) (bool, error) {
	var n int64
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM graces WHERE team_id = {team?} AND state = 'counting' AND scope IN ('team_budget', 'team_overage')`, teamID).Scan(&n)
	return n > 0, err
}

// Closed is what a team's segments cost that began in [from, to) and have ended.
func (s *Quota) Closed(ctx context.Context, teamID string, from, to int64) (nano int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT) FROM segments WHERE team_id = {team?} AND started_at >= ? AND started_at < ? AND ended_at <> 0`, teamID, from, to).Scan(&nano)
	return nano, err
}

// ClosedOfAll is the same of everybody.
func (s *Quota) ClosedOfAll(ctx context.Context, from, to int64) (nano int64, err error) {
	err = s.db.QueryRow(ctx, `/* every team: the instance has one budget */ SELECT CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT) FROM segments WHERE started_at >= ? AND started_at < ? AND ended_at <> 0`, from, to).Scan(&nano)
	return nano, err
}

// ClosedHours is for how long metered segments of the team's users ran that began in [from, to) and have ended, ms by user.
func (s *Quota) ClosedHours(ctx context.Context, teamID string, from, to int64) (map[string]int64, error) {
	rows, err := s.db.Query(ctx, `SELECT user_id, CAST(SUM(ended_at - started_at) AS BIGINT) FROM segments
		WHERE team_id = {team?} AND started_at >= ? AND started_at < ? AND ended_at <> 0 AND metered GROUP BY user_id`, teamID, from, to)
	return Pairs[string, int64](rows, err)
}

// ClosedHoursOf is the same of one user.
func (s *Quota) ClosedHoursOf(ctx context.Context, teamID, userID string, from, to int64) (ms int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(ended_at - started_at), 0) AS BIGINT) FROM segments
		WHERE team_id = {team?} AND user_id = ? AND started_at >= ? AND started_at < ? AND ended_at <> 0 AND metered`, teamID, userID, from, to).Scan(&ms)
	return ms, err
}

const runningColumns = `sandbox_id, team_id, user_id, workspace_id, executor, metered, price_nano, started_at, seen_at`

func scanRunning(r Scanner) (g quota.Running, err error) {
	err = r.Scan(&g.SandboxID, &g.TeamID, &g.UserID, &g.WorkspaceID, &g.Executor, &g.Metered, &g.PriceNano, &g.StartedAt, &g.SeenAt)
	return g, err
}

// Running are a team's open segments.
func (s *Quota) Running(ctx context.Context, teamID string) ([]quota.Running, error) {
	rows, err := s.db.Query(ctx, `SELECT `+runningColumns+` FROM segments WHERE ended_at = 0 AND team_id = {team?} ORDER BY started_at, sandbox_id`, teamID)
	return Collect(rows, err, scanRunning)
}

// RunningOfAll are everybody's.
func (s *Quota) RunningOfAll(ctx context.Context) ([]quota.Running, error) {
	rows, err := s.db.Query(ctx, `/* every team: the instance has one budget */ SELECT `+runningColumns+` FROM segments WHERE ended_at = 0`)
	return Collect(rows, err, scanRunning)
}

// Ran reports whether a sandbox has ever run.
func (s *Quota) Ran(ctx context.Context, sandboxID string) (bool, error) {
	var n int64
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM segments WHERE sandbox_id = ? AND {team}`, sandboxID).Scan(&n)
	return n > 0, err
}

// Reservations are those that have not expired.
func (s *Quota) Reservations(ctx context.Context, now int64) ([]quota.Reservation, error) {
	rows, err := s.db.Query(ctx, `SELECT sandbox_id, team_id, user_id, executor, price_nano, cost_nano, hours_ms, created_at, expires_at FROM reservations WHERE {team} AND expires_at > ?`, now)
	return Collect(rows, err, func(r Scanner) (v quota.Reservation, err error) {
		return v, r.Scan(&v.SandboxID, &v.TeamID, &v.UserID, &v.Executor, &v.PriceNano, &v.CostNano, &v.HoursMs, &v.CreatedAt, &v.ExpiresAt)
	})
}

// Reserve stores one; one of the same sandbox is replaced. Expired ones go.
func (s *Quota) Reserve(ctx context.Context, r quota.Reservation) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM reservations WHERE {team} AND (expires_at <= ? OR sandbox_id = ?)`, r.CreatedAt, r.SandboxID); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `INSERT INTO reservations (sandbox_id, team_id, user_id, executor, price_nano, cost_nano, hours_ms, created_at, expires_at) VALUES (?, {team?}, ?, ?, ?, ?, ?, ?, ?)`,
		r.SandboxID, r.TeamID, r.UserID, r.Executor, r.PriceNano, r.CostNano, r.HoursMs, r.CreatedAt, r.ExpiresAt)
	return err
}

// Renew has those of sandboxes expire later.
func (s *Quota) Renew(ctx context.Context, sandboxIDs []string, expiresAt int64) error {
	args := []any{expiresAt}
	for _, id := range sandboxIDs {
		args = append(args, id)
	}
	_, err := s.db.Exec(ctx, `UPDATE reservations SET expires_at = ? WHERE {team} AND sandbox_id IN (`+Marks(len(sandboxIDs))+`)`, args...)
	return err
}

// Unreserve drops a sandbox's; false when there was none.
func (s *Quota) Unreserve(ctx context.Context, sandboxID string) (bool, error) {
	return inserted(s.db.Exec(ctx, `DELETE FROM reservations WHERE sandbox_id = ? AND {team}`, sandboxID))
}

// Creations counts a team's since a time, those of one user among them, and says when the first of them was.
func (s *Quota) Creations(ctx context.Context, teamID, userID string, since int64) (team, user, oldest int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(CASE WHEN user_id = ? THEN 1 ELSE 0 END), 0) AS BIGINT), COALESCE(MIN(created_at), 0) FROM creations
		WHERE team_id = {team?} AND created_at > ?`, userID, teamID, since).Scan(&team, &user, &oldest)
	return team, user, oldest, err
}

// NoteCreation notes one, once for each sandbox, and forgets those before a time.
func (s *Quota) NoteCreation(ctx context.Context, sandboxID, teamID, userID string, at, forget int64) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM creations WHERE team_id = {team?} AND created_at <= ?`, teamID, forget); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `INSERT INTO creations (sandbox_id, team_id, user_id, created_at) VALUES (?, {team?}, ?, ?) ON CONFLICT DO NOTHING`, sandboxID, teamID, userID, at)
	return err
}

// DropCreation takes it back.
func (s *Quota) DropCreation(ctx context.Context, sandboxID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM creations WHERE sandbox_id = ? AND {team}`, sandboxID)
	return err
}

// Mark returns the value stored under a name, "" for none.
func (s *Quota) Mark(ctx context.Context, name string) (value string, err error) {
	err = s.db.QueryRow(ctx, `SELECT value FROM billing_marks WHERE name = ?`, name).Scan(&value)
	return OrZero(value, err)
}

// SetMark keeps it.
func (s *Quota) SetMark(ctx context.Context, name, value string) error {
	_, err := s.db.Exec(ctx, `INSERT INTO billing_marks (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}
