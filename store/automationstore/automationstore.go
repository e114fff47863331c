// Package automationstore holds the SQL of automations and their runs.
package automationstore

import (
	"context"

	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
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

// Automations returns a page of those of a team that nobody removed, newest first.
func (s *Automations) Automations(ctx context.Context, teamID string, pg page.Page) ([]triggers.Automation, string, error) {
	query, args, err := store.Keyset(`SELECT `+automationColumns+` FROM automations WHERE team_id = {team?} AND removed_at = 0`, "created_at", []any{teamID}, pg)
	if err != nil {
		return nil, "", err
	}
	items, err := s.list(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(a triggers.Automation) page.Key { return page.Key{At: a.CreatedAt, ID: a.ID} })
	return items, next, nil
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

// Health returns the last run of an automation and what its runs since some times came to; see triggers.Store.
func (s *Automations) Health(ctx context.Context, automationID string, month, since int64) (h triggers.Health, err error) {
	last, err := scanRun(s.db.QueryRow(ctx, `SELECT `+runColumns+` FROM automation_runs WHERE automation_id = ? AND code <> ? AND {team} ORDER BY created_at DESC, id DESC LIMIT 1`, automationID, triggers.Ignored))
	if err == nil {
		h.Last = &last
	} else if !fault.Is(err, fault.NotFound) {
		return h, store.Wrap(err, "reading the last run of an automation")
	}
	err = s.db.QueryRow(ctx, `SELECT COALESCE(SUM(CASE WHEN created_at >= ? THEN cost_nano END), 0), COALESCE(SUM(CASE WHEN created_at >= ? AND state <> 'skipped' THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN created_at >= ? AND state = 'failed' THEN 1 ELSE 0 END), 0) FROM automation_runs WHERE automation_id = ? AND created_at >= ? AND {team}`,
		month, since, since, automationID, min(since, month)).Scan(&h.MonthNano, &h.Runs, &h.Failed)
	return h, store.Wrap(err, "summing up runs of an automation")
}
