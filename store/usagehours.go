package store

import (
	"context"
	"strings"

	"github.com/parawork/parawork/billing"
)

// FirstUnrolled is when the earliest segment began that is not wholly in the hours; false when all are.
func (s *Billing) FirstUnrolled(ctx context.Context) (int64, bool, error) {
	var at int64
	err := s.db.QueryRow(ctx, `/* every team: hours are added up for all */ SELECT started_at FROM segments WHERE ended_at = 0 OR rolled_ms < ended_at - started_at
		ORDER BY started_at LIMIT 1`).Scan(&at)
	return Optional(at, err)
}

// UnrolledSegments returns some that began before a time, the earliest first, behind one that began at afterAt.
func (s *Billing) UnrolledSegments(ctx context.Context, before, afterAt int64, afterID string, most int) ([]billing.Unrolled, error) {
	rows, err := s.db.Query(ctx, `/* every team: hours are added up for all */ SELECT rolled_ms, rolled_nano, `+segmentColumns+` FROM segments
		WHERE (ended_at = 0 OR rolled_ms < ended_at - started_at) AND started_at < ? AND (started_at > ? OR started_at = ? AND id > ?)
		ORDER BY started_at, id LIMIT ?`, before, afterAt, afterAt, afterID, most)
	return Collect(rows, err, func(r Scanner) (u billing.Unrolled, err error) {
		g := &u.Segment
		return u, r.Scan(&u.RolledMs, &u.RolledNano, &g.ID, &g.TeamID, &g.WorkspaceID, &g.SandboxID, &g.UserID, &g.Executor, &g.Purpose, &g.CPUs, &g.MemoryMB, &g.PriceNano,
			&g.StartedAt, &g.SeenAt, &g.EndedAt, &g.EndSource, &g.CostNano, &g.ProjectID, &g.Metered, &g.PriceID, &g.AdjustsID)
	})
}

// hoursAtOnce is how many rows one statement inserts.
const hoursAtOnce = 200

// AddHours adds to hours, and notes how much of their segments is there.
func (s *Billing) AddHours(ctx context.Context, hours []billing.Hour) error {
	for len(hours) > 0 {
		some := hours[:min(len(hours), hoursAtOnce)]
		hours = hours[len(some):]
		var args, ids []any
		for _, h := range some {
			args = append(args, h.TeamID, h.Hour, h.ID, h.UserID, h.WorkspaceID, h.ProjectID, h.Executor, h.Purpose, h.Metered, h.RunMs,
				h.RunMs*int64(h.CPUs), h.RunMs*h.MemoryMB, h.CostNano)
			ids = append(ids, h.ID)
		}
		_, err := s.db.Exec(ctx, `INSERT INTO usage_hours (team_id, hour, segment_id, user_id, workspace_id, project_id, executor, purpose, metered, run_ms, vcpu_ms, mib_ms, cost_nano)
			VALUES `+strings.TrimSuffix(strings.Repeat(`({team?},?,?,?,?,?,?,?,?,?,?,?,?),`, len(some)), ",")+`
			ON CONFLICT (segment_id, hour) DO UPDATE SET run_ms = usage_hours.run_ms + excluded.run_ms, vcpu_ms = usage_hours.vcpu_ms + excluded.vcpu_ms,
				mib_ms = usage_hours.mib_ms + excluded.mib_ms, cost_nano = usage_hours.cost_nano + excluded.cost_nano`, args...)
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE segments SET rolled_ms = (SELECT CAST(SUM(h.run_ms) AS BIGINT) FROM usage_hours h WHERE {team:h} AND h.segment_id = segments.id),
			rolled_nano = (SELECT CAST(SUM(h.cost_nano) AS BIGINT) FROM usage_hours h WHERE {team:h} AND h.segment_id = segments.id) WHERE {team} AND id IN (`+Marks(len(ids))+`)`, ids...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Mark returns what was noted under a name, "" = nothing.
func (s *Billing) Mark(ctx context.Context, name string) (value string, err error) {
	err = s.db.QueryRow(ctx, `SELECT value FROM billing_marks WHERE name = ?`, name).Scan(&value)
	return OrZero(value, err)
}

// SetMark notes something under a name.
func (s *Billing) SetMark(ctx context.Context, name, value string) error {
	_, err := s.db.Exec(ctx, `INSERT INTO billing_marks (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}
