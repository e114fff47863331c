// Package jobstore holds the SQL of jobs.
package jobstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
)

// Jobs stores jobs.
type Jobs struct{ db *store.DB }

var _ jobs.Store = (*Jobs)(nil)

// New returns the storage of jobs in db.
func New(db *store.DB) *Jobs { return &Jobs{db} }

// Tx runs fn in one transaction; see store.DB.Tx.
func (s *Jobs) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const (
	columnsBefore = `id, team_id, created_by, key, hash, request, private, hook_url, secret_id, sandbox_id, workspace_id, session_id, status, step, outcome, retried, refusals, reason, code, error, `
	columnsAfter  = `, warnings, files, cost_nano, version, created_at, started_at, deadline, retry_at, ended_at, removed_at, updated_at`
	jobColumns    = columnsBefore + `output` + columnsAfter
	briefColumns  = columnsBefore + `''` + columnsAfter
)

func scanJob(s store.Scanner) (j jobs.Job, err error) {
	var request, warnings, files string
	var private bool
	var cost sql.NullInt64
	if err = s.Scan(&j.ID, &j.TeamID, &j.CreatedBy, &j.Key, &j.Hash, &request, &private, &j.HookURL, &j.HookSecretID, &j.SandboxID, &j.WorkspaceID, &j.SessionID, &j.Status, &j.Step, &j.Outcome,
		&j.Retried, &j.Refusals, &j.Reason, &j.Code, &j.Error, &j.Output, &warnings, &files, &cost, &j.Version, &j.CreatedAt, &j.StartedAt, &j.Deadline, &j.RetryAt, &j.EndedAt, &j.RemovedAt, &j.UpdatedAt); err != nil {
		return j, err
	}
	if cost.Valid {
		j.CostNano = &cost.Int64
	}
	return j, errors.Join(store.FromJSON(request, &j.Request), store.FromJSON(warnings, &j.Warnings), store.FromJSON(files, &j.Files))
}

func nullable(n *int64) sql.NullInt64 {
	if n == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *n, Valid: true}
}

// InsertJob stores a job, unless the team has most that have not ended.
func (s *Jobs) InsertJob(ctx context.Context, j jobs.Job, most int) error {
	request, err := store.ToJSON(j.Request)
	if err != nil {
		return err
	}
	warnings, err := store.ToJSON(j.Warnings)
	if err != nil {
		return err
	}
	files, err := store.ToJSON(j.Files)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		n := 0
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM jobs WHERE team_id = {team?} AND step <> 'done'`, j.TeamID).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.RateLimited, "jobs_queue_full", "The team has %d jobs that have not ended, which is the most. Try again when some have.", n).With("max", most)
		}
		_, err := s.db.Exec(ctx, `INSERT INTO jobs (`+jobColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, j.ID, j.TeamID, j.CreatedBy, j.Key, j.Hash, request, j.Private(),
			j.HookURL, j.HookSecretID, j.SandboxID, j.WorkspaceID, j.SessionID, string(j.Status), string(j.Step), string(j.Outcome), j.Retried, j.Refusals, j.Reason, j.Code, j.Error, j.Output, warnings, files,
			nullable(j.CostNano), j.Version, j.CreatedAt, j.StartedAt, j.Deadline, j.RetryAt, j.EndedAt, j.RemovedAt, j.UpdatedAt)
		return err
	})
	return store.Wrap(err, "storing a job")
}

// Job returns a job.
func (s *Jobs) Job(ctx context.Context, id string) (jobs.Job, error) {
	j, err := scanJob(s.db.QueryRow(ctx, `SELECT `+jobColumns+` FROM jobs WHERE id = ? AND {team}`, id))
	return j, store.Wrap(err, "reading a job")
}

// JobByKey returns the job of a user in a team with an Idempotency-Key.
func (s *Jobs) JobByKey(ctx context.Context, teamID, userID, key string) (jobs.Job, error) {
	j, err := scanJob(s.db.QueryRow(ctx, `SELECT `+jobColumns+` FROM jobs WHERE team_id = {team?} AND created_by = ? AND key = ? AND key <> ''`, teamID, userID, key))
	return j, store.Wrap(err, "looking for a job")
}

// Jobs returns a page of a team's jobs that nobody deleted, newest first, without their outputs.
func (s *Jobs) Jobs(ctx context.Context, teamID string, f jobs.Filter, pg page.Page) ([]jobs.Job, string, error) {
	query, args := `SELECT `+briefColumns+` FROM jobs WHERE team_id = {team?} AND removed_at = 0
		AND (created_by = ? OR NOT private AND NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = jobs.workspace_id AND w.private AND w.created_by <> ? AND {team:w}))`, []any{teamID, f.Viewer, f.Viewer}
	if f.Status != "" {
		query, args = query+` AND status = ?`, append(args, string(f.Status))
	}
	query, args, err := store.Keyset(query, "created_at", args, pg)
	if err != nil {
		return nil, "", err
	}
	items, err := s.list(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(j jobs.Job) page.Key { return page.Key{At: j.CreatedAt, ID: j.ID} })
	return items, next, nil
}

// LiveJobs returns those for which something is to be done.
func (s *Jobs) LiveJobs(ctx context.Context) ([]jobs.Job, error) {
	return s.list(ctx, `SELECT `+briefColumns+` FROM jobs WHERE step <> 'done' AND {team} ORDER BY created_at, id`)
}

func (s *Jobs) list(ctx context.Context, query string, args ...any) ([]jobs.Job, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := store.Collect(rows, err, scanJob)
	return out, store.Wrap(err, "reading jobs")
}

// EditJob lets fn change a job in one transaction, and returns it as stored.
func (s *Jobs) EditJob(ctx context.Context, id string, fn func(*jobs.Job) error) (j jobs.Job, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE jobs SET status = status WHERE id = ? AND {team}`, id); err != nil { // others wait for this transaction
			return err
		}
		if j, err = s.Job(ctx, id); err != nil {
			return err
		}
		if err := fn(&j); err != nil {
			return err
		}
		j.Version++
		warnings, err := store.ToJSON(j.Warnings)
		if err != nil {
			return err
		}
		files, err := store.ToJSON(j.Files)
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE jobs SET key = ?, sandbox_id = ?, workspace_id = ?, session_id = ?, status = ?, step = ?, outcome = ?, retried = ?, refusals = ?, reason = ?, code = ?, error = ?, output = ?,
			warnings = ?, files = ?, cost_nano = ?, version = ?, started_at = ?, deadline = ?, retry_at = ?, ended_at = ?, removed_at = ?, updated_at = ? WHERE id = ? AND {team}`, j.Key, j.SandboxID, j.WorkspaceID, j.SessionID,
			string(j.Status), string(j.Step), string(j.Outcome), j.Retried, j.Refusals, j.Reason, j.Code, j.Error, j.Output, warnings, files, nullable(j.CostNano), j.Version, j.StartedAt, j.Deadline, j.RetryAt,
			j.EndedAt, j.RemovedAt, j.UpdatedAt, id)
		return err
	})
	return j, store.Wrap(err, "changing a job")
}

// DeleteJob deletes one.
func (s *Jobs) DeleteJob(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM jobs WHERE id = ? AND {team}`, id)
	return store.Wrap(err, "deleting a job")
}

// ForgetJobs deletes those that were done before a time.
func (s *Jobs) ForgetJobs(ctx context.Context, before int64) error {
	_, err := s.db.Exec(ctx, `DELETE FROM jobs WHERE step = 'done' AND updated_at < ? AND {team}`, before)
	return store.Wrap(err, "forgetting jobs")
}
