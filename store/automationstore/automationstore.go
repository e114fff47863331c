// Package automationstore holds the SQL of automations and their runs.
package automationstore

import (
	"context"

	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// Automations stores automations and their runs.
type Automations struct{ db *store.DB }

var _ triggers.Store = (*Automations)(nil)

// New returns the storage of automations in db.
func New(db *store.DB) *Automations { return &Automations{db} }

// Tx runs fn in one transaction; see store.DB.Tx.
func (s *Automations) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const automationColumns = `id, team_id, created_by, name, trigger, work, attempts, limits, secret_id, paused, because, failures, next_at, version, created_at, updated_at, removed_at`

func scanAutomation(s store.Scanner) (a triggers.Automation, err error) {
	var when, work, limits string
	if err = s.Scan(&a.ID, &a.TeamID, &a.CreatedBy, &a.Name, &when, &work, &a.Attempts, &limits, &a.SecretID, &a.Paused, &a.Because, &a.Failures, &a.NextAt, &a.Version, &a.CreatedAt, &a.UpdatedAt,
		&a.RemovedAt); err != nil {
		return a, err
	}
	for _, part := range []struct {
		raw string
		to  any
	}{{when, &a.Trigger}, {work, &a.Work}, {limits, &a.Limits}} {
		if err = store.FromJSON(part.raw, part.to); err != nil {
			return a, err
		}
	}
	return a, nil
}

// texts are the parts of an automation that are stored as JSON.
func texts(a triggers.Automation) (when, work, limits string, err error) {
	if when, err = store.ToJSON(a.Trigger); err != nil {
		return "", "", "", err
	}
	if work, err = store.ToJSON(a.Work); err != nil {
		return "", "", "", err
	}
	limits, err = store.ToJSON(a.Limits)
	return when, work, limits, err
}

// InsertAutomation stores one, unless the team has most.
func (s *Automations) InsertAutomation(ctx context.Context, a triggers.Automation, most int) error {
	when, work, limits, err := texts(a)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		n := 0
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM automations WHERE team_id = {team?} AND removed_at = 0`, a.TeamID).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.RateLimited, "automations_full", "The team has %d automations, which is the most. Remove one that is not used any more.", n).With("max", most)
		}
		_, err := s.db.Exec(ctx, `INSERT INTO automations (`+automationColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, a.ID, a.TeamID, a.CreatedBy, a.Name, when, work, a.Attempts, limits, a.SecretID,
			a.Paused, a.Because, a.Failures, a.NextAt, a.Version, a.CreatedAt, a.UpdatedAt, a.RemovedAt)
		return err
	})
	return store.Wrap(err, "storing an automation")
}

// Automation returns one.
func (s *Automations) Automation(ctx context.Context, id string) (triggers.Automation, error) {
	a, err := scanAutomation(s.db.QueryRow(ctx, `SELECT `+automationColumns+` FROM automations WHERE id = ? AND {team}`, id))
	return a, store.Wrap(err, "reading an automation")
}

// Automations returns those of a team by name.
func (s *Automations) Automations(ctx context.Context, teamID string) ([]triggers.Automation, error) {
	return s.list(ctx, `SELECT `+automationColumns+` FROM automations WHERE team_id = {team?} AND removed_at = 0 ORDER BY name, id`, teamID)
}

// Due returns those whose time has come, oldest first.
func (s *Automations) Due(ctx context.Context, now int64, limit int) ([]triggers.Automation, error) {
	return s.list(ctx, `SELECT `+automationColumns+` FROM automations WHERE next_at > 0 AND next_at <= ? AND {team} ORDER BY next_at, id LIMIT ?`, now, limit)
}

func (s *Automations) list(ctx context.Context, query string, args ...any) ([]triggers.Automation, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := store.Collect(rows, err, scanAutomation)
	return out, store.Wrap(err, "reading automations")
}

// EditAutomation lets fn change one in one transaction, and returns it as stored.
func (s *Automations) EditAutomation(ctx context.Context, id string, fn func(*triggers.Automation) error) (a triggers.Automation, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE automations SET version = version + 1 WHERE id = ? AND {team}`, id); err != nil { // others wait for this transaction
			return err
		}
		if a, err = s.Automation(ctx, id); err != nil {
			return err
		}
		if err := fn(&a); err != nil {
			return err
		}
		when, work, limits, err := texts(a)
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE automations SET name = ?, trigger = ?, work = ?, attempts = ?, limits = ?, secret_id = ?, paused = ?, because = ?, failures = ?, next_at = ?, updated_at = ?, removed_at = ?
			WHERE id = ? AND {team}`, a.Name, when, work, a.Attempts, limits, a.SecretID, a.Paused, a.Because, a.Failures, a.NextAt, a.UpdatedAt, a.RemovedAt, id)
		return err
	})
	return a, store.Wrap(err, "changing an automation")
}

// Healths returns the last run of each automation of a team, what its runs since month have spent, and how many since a time failed.
func (s *Automations) Healths(ctx context.Context, teamID string, month, since int64) (map[string]triggers.Health, error) {
	out := map[string]triggers.Health{}
	last, err := s.runs(ctx, `SELECT `+runColumns+` FROM automation_runs r WHERE r.team_id = {team?} AND r.code <> ? AND NOT EXISTS (SELECT 1 FROM automation_runs n WHERE n.automation_id = r.automation_id AND n.code <> ?
		AND (n.created_at > r.created_at OR n.created_at = r.created_at AND n.id > r.id) AND {team:n})`, teamID, triggers.Ignored, triggers.Ignored)
	if err != nil {
		return nil, err
	}
	for _, r := range last {
		out[r.AutomationID] = triggers.Health{Last: &r}
	}
	rows, err := s.db.Query(ctx, `SELECT automation_id, COALESCE(SUM(CASE WHEN created_at >= ? THEN cost_nano END), 0), SUM(CASE WHEN state = 'skipped' THEN 0 ELSE 1 END), SUM(CASE WHEN state = 'failed' THEN 1 ELSE 0 END)
		FROM automation_runs WHERE team_id = {team?} AND created_at >= ? GROUP BY automation_id`, month, teamID, min(since, month))
	type sum struct {
		id string
		h  triggers.Health
	}
	sums, err := store.Collect(rows, err, func(s store.Scanner) (x sum, err error) {
		return x, s.Scan(&x.id, &x.h.MonthNano, &x.h.Runs, &x.h.Failed)
	})
	for _, x := range sums {
		x.h.Last = out[x.id].Last
		out[x.id] = x.h
	}
	return out, store.Wrap(err, "summing up runs of automations")
}
