package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions/runs"
)

// Runs keeps runs and their attempts.
type Runs struct{ db *DB }

var _ runs.Store = (*Runs)(nil)

// NewRuns returns the storage of runs in db.
func NewRuns(db *DB) *Runs { return &Runs{db} }

const (
	runColumns     = `id, team_id, project_id, name, prompt, kept, created_by, created_at`
	attemptColumns = `id, run_id, num, name, agent, account_id, args, base, executor, workspace_id, made, session_id, state, code, reason, state_at`
)

func scanRun(s Scanner) (r runs.Run, err error) {
	err = s.Scan(&r.ID, &r.TeamID, &r.ProjectID, &r.Name, &r.Prompt, &r.Kept, &r.CreatedBy, &r.CreatedAt)
	return r, err
}

// InsertRun stores a run with its attempts.
func (s *Runs) InsertRun(ctx context.Context, r runs.Run) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		_, err := s.db.Exec(ctx, `INSERT INTO runs (`+runColumns+`) VALUES (?,{team?},?,?,?,?,?,?)`, r.ID, r.TeamID, r.ProjectID, r.Name, r.Prompt, r.Kept,
			r.CreatedBy, r.CreatedAt)
		for _, a := range r.Attempts {
			args, jerr := ToJSON(a.Args)
			if err = cmp.Or(err, jerr); err != nil {
				return err
			}
			_, err = s.db.Exec(ctx, `/* every team: of the run above */ INSERT INTO run_attempts (`+attemptColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, a.ID, r.ID, a.Num, a.Name,
				a.Agent, a.AccountID, args, a.Base, a.Executor, a.WorkspaceID, a.Made, a.SessionID, string(a.State), a.Code, a.Reason, a.StateAt)
		}
		return err
	})
	return Wrap(err, "inserting run")
}

// Run returns a run with its attempts; fault.NotFound when there is none.
func (s *Runs) Run(ctx context.Context, id string) (runs.Run, error) {
	r, err := scanRun(s.db.QueryRow(ctx, `SELECT `+runColumns+` FROM runs WHERE id = ? AND {team}`, id))
	if fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.NotFound, "run_not_found", "There is no such run.")
	}
	if err != nil {
		return r, fmt.Errorf("reading run: %w", err)
	}
	all := []runs.Run{r}
	err = s.attempts(ctx, all)
	return all[0], err
}

// Runs returns a page of a team's runs, newest first.
func (s *Runs) Runs(ctx context.Context, teamID string, pg page.Page) ([]runs.Run, string, error) {
	query, args, err := Keyset(`SELECT `+runColumns+` FROM runs WHERE team_id = {team?}`, "created_at", []any{teamID}, pg)
	if err != nil {
		return nil, "", err
	}
	items, err := s.list(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(r runs.Run) page.Key { return page.Key{At: r.CreatedAt, ID: r.ID} })
	return items, next, s.attempts(ctx, items)
}

// OpenRuns returns every run that has an attempt being made or started.
func (s *Runs) OpenRuns(ctx context.Context) ([]runs.Run, error) {
	items, err := s.list(ctx, `SELECT `+runColumns+` FROM runs WHERE {team} AND id IN (SELECT run_id FROM run_attempts /* every team: narrowed by the runs */ WHERE state IN ('making', 'starting'))
		ORDER BY created_at, id`)
	if err != nil {
		return nil, err
	}
	return items, s.attempts(ctx, items)
}

func (s *Runs) list(ctx context.Context, query string, args ...any) ([]runs.Run, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanRun)
	return out, Wrap(err, "reading runs")
}

// attempts fills in the attempts of runs, with one query.
func (s *Runs) attempts(ctx context.Context, all []runs.Run) error {
	if len(all) == 0 {
		return nil
	}
	at := map[string]int{}
	args := make([]any, len(all))
	for i, r := range all {
		at[r.ID], args[i] = i, r.ID
	}
	rows, err := s.db.Query(ctx, `SELECT `+attemptColumns+` FROM run_attempts /* every team: of runs that were read under the team */ WHERE run_id IN (?`+strings.Repeat(",?", len(all)-1)+`) ORDER BY run_id, num`, args...)
	err = Each(rows, err, func(row Scanner) error {
		var a runs.Attempt
		var given string
		if err := row.Scan(&a.ID, &a.RunID, &a.Num, &a.Name, &a.Agent, &a.AccountID, &given, &a.Base, &a.Executor, &a.WorkspaceID, &a.Made, &a.SessionID,
			&a.State, &a.Code, &a.Reason, &a.StateAt); err != nil {
			return err
		}
		r := &all[at[a.RunID]]
		r.Attempts = append(r.Attempts, a)
		return FromJSON(given, &r.Attempts[len(r.Attempts)-1].Args)
	})
	return Wrap(err, "reading attempts")
}

// RunsByWorkspace returns, for every workspace that is part of a run of the team, or for those that are named, the newest such run.
func (s *Runs) RunsByWorkspace(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]string, error) {
	these, args := only("a.workspace_id", workspaceIDs)
	rows, err := s.db.Query(ctx, `SELECT a.workspace_id, r.id FROM runs r JOIN run_attempts a ON a.run_id = r.id
		WHERE {team:r} AND `+among("r.team_id", workspaceIDs)+` AND a.workspace_id <> ''`+these+` ORDER BY r.created_at, r.id`, append([]any{teamID}, args...)...)
	out, err := Pairs[string, string](rows, err)
	return out, Wrap(err, "reading runs of workspaces")
}

// UpdateAttempt writes how far an attempt is.
func (s *Runs) UpdateAttempt(ctx context.Context, a runs.Attempt) error {
	_, err := s.db.Exec(ctx, `UPDATE run_attempts SET workspace_id = ?, session_id = ?, state = ?, code = ?, reason = ?, state_at = ? WHERE id = ? AND run_id = (SELECT r.id FROM runs r WHERE r.id = ? AND {team:r})`,
		a.WorkspaceID, a.SessionID, string(a.State), a.Code, a.Reason, a.StateAt, a.ID, a.RunID)
	return Wrap(err, "updating attempt")
}

// KeepAttempt notes which attempt somebody decided for.
func (s *Runs) KeepAttempt(ctx context.Context, runID, attemptID string) error {
	_, err := s.db.Exec(ctx, `UPDATE runs SET kept = ? WHERE id = ? AND {team}`, attemptID, runID)
	return Wrap(err, "updating run")
}
