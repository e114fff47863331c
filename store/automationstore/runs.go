package automationstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
)

const runColumns = `id, automation_id, team_id, event_id, cause, event, fields, folded, depth, state, job_ids, code, error, cost_nano, version, due_at, created_at, started_at, ended_at`

func scanRun(s store.Scanner) (r triggers.Run, err error) {
	var fields, jobs string
	var cost sql.NullInt64
	if err = s.Scan(&r.ID, &r.AutomationID, &r.TeamID, &r.EventID, &r.Cause, &r.Event, &fields, &r.Folded, &r.Depth, &r.State, &jobs, &r.Code, &r.Error, &cost, &r.Version, &r.DueAt, &r.CreatedAt, &r.StartedAt,
		&r.EndedAt); err != nil {
		return r, err
	}
	if cost.Valid {
		r.CostNano = &cost.Int64
	}
	return r, errors.Join(store.FromJSON(fields, &r.Fields), store.FromJSON(jobs, &r.JobIDs))
}

// InsertRun stores a run and that its event was seen; see triggers.Store.
func (s *Automations) InsertRun(ctx context.Context, r triggers.Run, fold bool) (out triggers.Run, made bool, err error) {
	fields, err := store.ToJSON(r.Fields)
	if err != nil {
		return r, false, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		out, made = r, false
		if _, err := s.db.Exec(ctx, `UPDATE automations SET version = version + 1 WHERE id = ? AND {team}`, r.AutomationID); err != nil { // others wait for this transaction
			return err
		}
		var runID string
		err := s.db.QueryRow(ctx, `SELECT run_id FROM automation_events WHERE automation_id = ? AND event_id = ? AND {team}`, r.AutomationID, r.EventID).Scan(&runID)
		if err == nil {
			out, err = s.AutomationRun(ctx, runID)
			return err
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		made = true
		if fold {
			waiting, err := scanRun(s.db.QueryRow(ctx, `SELECT `+runColumns+` FROM automation_runs WHERE automation_id = ? AND state = 'waiting' AND {team} ORDER BY created_at, id LIMIT 1`, r.AutomationID))
			if err == nil {
				if _, err := s.db.Exec(ctx, `UPDATE automation_runs SET folded = folded + 1, fields = ?, event = ?, depth = CASE WHEN depth > ? THEN depth ELSE ? END, version = version + 1 WHERE id = ? AND {team}`,
					fields, r.Event, r.Depth, r.Depth, waiting.ID); err != nil {
					return err
				}
				if out, err = s.AutomationRun(ctx, waiting.ID); err != nil {
					return err
				}
				return s.see(ctx, r, waiting.ID)
			}
			if !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		if _, err := s.db.Exec(ctx, `INSERT INTO automation_runs (`+runColumns+`) VALUES (?,?,{team?},?,?,?,?,?,?,?,'[]',?,?,?,?,?,?,?,?)`, r.ID, r.AutomationID, r.TeamID, r.EventID, r.Cause, r.Event, fields, r.Folded,
			r.Depth, string(r.State), r.Code, r.Error, sql.NullInt64{}, r.Version, r.DueAt, r.CreatedAt, r.StartedAt, r.EndedAt); err != nil {
			return err
		}
		return s.see(ctx, r, r.ID)
	})
	return out, made && err == nil, store.Wrap(err, "storing a run of an automation")
}

func (s *Automations) see(ctx context.Context, r triggers.Run, runID string) error {
	_, err := s.db.Exec(ctx, `INSERT INTO automation_events (automation_id, event_id, team_id, run_id, at) VALUES (?,?,{team?},?,?)`, r.AutomationID, r.EventID, r.TeamID, runID, r.CreatedAt)
	return err
}

// AutomationRun returns a run.
func (s *Automations) AutomationRun(ctx context.Context, id string) (triggers.Run, error) {
	r, err := scanRun(s.db.QueryRow(ctx, `SELECT `+runColumns+` FROM automation_runs WHERE id = ? AND {team}`, id))
	return r, store.Wrap(err, "reading a run of an automation")
}

// Runs returns a page of an automation's runs, newest first.
func (s *Automations) Runs(ctx context.Context, automationID string, pg page.Page) ([]triggers.Run, string, error) {
	query, args, err := store.Keyset(`SELECT `+runColumns+` FROM automation_runs WHERE automation_id = ? AND {team}`, "created_at", []any{automationID}, pg)
	if err != nil {
		return nil, "", err
	}
	items, err := s.runs(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(r triggers.Run) page.Key { return page.Key{At: r.CreatedAt, ID: r.ID} })
	return items, next, nil
}

// LiveRuns returns the runs that wait or go on: those that go on first, then the oldest.
func (s *Automations) LiveRuns(ctx context.Context, limit int) ([]triggers.Run, error) {
	return s.runs(ctx, `SELECT `+runColumns+` FROM automation_runs WHERE state IN ('waiting', 'running') AND {team} ORDER BY state, created_at, id LIMIT ?`, limit)
}

func (s *Automations) runs(ctx context.Context, query string, args ...any) ([]triggers.Run, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := store.Collect(rows, err, scanRun)
	return out, store.Wrap(err, "reading runs of automations")
}

// EditRun lets fn change a run in one transaction, and returns it as stored.
func (s *Automations) EditRun(ctx context.Context, id string, fn func(*triggers.Run) error) (r triggers.Run, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE automation_runs SET version = version + 1 WHERE id = ? AND {team}`, id); err != nil { // others wait for this transaction
			return err
		}
		if r, err = s.AutomationRun(ctx, id); err != nil {
			return err
		}
		if err := fn(&r); err != nil {
			return err
		}
		jobs, err := store.ToJSON(append([]string{}, r.JobIDs...))
		if err != nil {
			return err
		}
		cost := sql.NullInt64{}
		if r.CostNano != nil {
			cost = sql.NullInt64{Int64: *r.CostNano, Valid: true}
		}
		_, err = s.db.Exec(ctx, `UPDATE automation_runs SET state = ?, job_ids = ?, code = ?, error = ?, cost_nano = ?, started_at = ?, ended_at = ? WHERE id = ? AND {team}`, string(r.State), jobs, r.Code, r.Error, cost,
			r.StartedAt, r.EndedAt, id)
		return err
	})
	return r, store.Wrap(err, "changing a run of an automation")
}

// Spent returns what the runs of an automation since a time have spent, in nano-USD.
func (s *Automations) Spent(ctx context.Context, automationID string, since int64) (nano int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT COALESCE(SUM(cost_nano), 0) FROM automation_runs WHERE automation_id = ? AND created_at >= ? AND {team}`, automationID, since).Scan(&nano)
	return nano, store.Wrap(err, "summing up what an automation has spent")
}

// RunOfBranch returns the run whose job made the workspace with a branch of a project.
func (s *Automations) RunOfBranch(ctx context.Context, projectID, branch string) (triggers.Run, error) {
	r, err := scanRun(s.db.QueryRow(ctx, `SELECT `+runColumns+` FROM automation_runs r WHERE {team:r} AND EXISTS (SELECT 1 FROM workspaces w JOIN jobs j ON j.workspace_id = w.id
		WHERE w.project_id = ? AND w.branch = ? AND {team:w} AND {team:j} AND j.key LIKE 'automation/' || r.id || '/%') ORDER BY created_at DESC LIMIT 1`, projectID, branch))
	return r, store.Wrap(err, "looking for the run that made a branch")
}

// ForgetRuns deletes what is older than a time; see triggers.Store.
func (s *Automations) ForgetRuns(ctx context.Context, before, skippedBefore int64) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM automation_runs WHERE ended_at > 0 AND (ended_at < ? OR state = 'skipped' AND ended_at < ?) AND {team}`, before, skippedBefore); err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, `DELETE FROM automation_events WHERE at < ? AND {team}`, before); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `DELETE FROM automations WHERE removed_at > 0 AND removed_at < ? AND {team} AND NOT EXISTS (SELECT 1 FROM automation_runs r WHERE r.automation_id = automations.id
			AND r.state IN ('waiting', 'running') AND {team:r})`, before)
		return err
	})
	return store.Wrap(err, "forgetting runs of automations")
}
