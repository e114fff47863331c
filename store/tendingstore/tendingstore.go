// Package tendingstore holds the SQL of pull requests that are brought to their merge, and of their rounds.
package tendingstore

import (
	"context"

	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// Tendings stores them.
type Tendings struct{ db *store.DB }

var _ tending.Store = (*Tendings)(nil)

// New returns the storage in db.
func New(db *store.DB) *Tendings { return &Tendings{db} }

const columns = `workspace_id, team_id, created_by, max_rounds, max_nano, merge, agent, state, code, because, since, rounds, spent_nano, others, pushed_at, next_at, tries, version, created_at, updated_at`

func scan(s store.Scanner) (t tending.Tending, err error) {
	var others string
	if err = s.Scan(&t.WorkspaceID, &t.TeamID, &t.CreatedBy, &t.Limits.Rounds, &t.Limits.Nano, &t.Merge, &t.Agent, &t.State, &t.Code, &t.Because, &t.Since, &t.Rounds, &t.SpentNano, &others, &t.PushedAt, &t.NextAt,
		&t.Tries, &t.Version, &t.CreatedAt, &t.UpdatedAt); err != nil {
		return t, err
	}
	return t, store.FromJSON(others, &t.Others)
}

// Tending returns that of a workspace.
func (s *Tendings) Tending(ctx context.Context, workspaceID string) (tending.Tending, error) {
	t, err := scan(s.db.QueryRow(ctx, `SELECT `+columns+` FROM tendings WHERE workspace_id = ? AND {team}`, workspaceID))
	return t, store.Wrap(err, "reading what is done for a pull request")
}

// PutTending stores one, in place of an earlier one of the workspace, whose round that goes on ends.
func (s *Tendings) PutTending(ctx context.Context, t tending.Tending) error {
	others, err := store.ToJSON(append([]tending.Said{}, t.Others...))
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.drop(ctx, t.WorkspaceID); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `INSERT INTO tendings (`+columns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, t.WorkspaceID, t.TeamID, t.CreatedBy, t.Limits.Rounds, t.Limits.Nano, t.Merge, t.Agent,
			string(t.State), t.Code, t.Because, t.Since, t.Rounds, t.SpentNano, others, t.PushedAt, t.NextAt, t.Tries, t.Version, t.CreatedAt, t.UpdatedAt)
		return err
	})
	return store.Wrap(err, "storing what is done for a pull request")
}

// drop deletes one. Nobody takes a round of it further that goes on.
func (s *Tendings) drop(ctx context.Context, workspaceID string) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM tendings WHERE workspace_id = ? AND {team}`, workspaceID); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `UPDATE tending_rounds SET step = 'dropped', ended_at = started_at WHERE workspace_id = ? AND step NOT IN ('over', 'dropped') AND {team}`, workspaceID)
	return err
}

// DropTending deletes that of a workspace. Its rounds stay.
func (s *Tendings) DropTending(ctx context.Context, workspaceID string) error {
	return store.Wrap(s.db.Tx(ctx, func(ctx context.Context) error { return s.drop(ctx, workspaceID) }), "deleting what is done for a pull request")
}

// EditTending lets fn change one in one transaction, and returns it as stored.
func (s *Tendings) EditTending(ctx context.Context, workspaceID string, fn func(*tending.Tending)) (t tending.Tending, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE tendings SET version = version + 1 WHERE workspace_id = ? AND {team}`, workspaceID); err != nil { // others wait for this transaction
			return err
		}
		if t, err = s.Tending(ctx, workspaceID); err != nil {
			return err
		}
		fn(&t)
		others, err := store.ToJSON(append([]tending.Said{}, t.Others...))
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE tendings SET state = ?, code = ?, because = ?, since = ?, rounds = ?, spent_nano = ?, others = ?, pushed_at = ?, next_at = ?, tries = ?, updated_at = ? WHERE workspace_id = ? AND {team}`,
			string(t.State), t.Code, t.Because, t.Since, t.Rounds, t.SpentNano, others, t.PushedAt, t.NextAt, t.Tries, t.UpdatedAt, workspaceID)
		return err
	})
	return t, store.Wrap(err, "changing what is done for a pull request")
}

// Needing returns those of a team that need a person.
func (s *Tendings) Needing(ctx context.Context, teamID string) ([]tending.Tending, error) {
	rows, err := s.db.Query(ctx, `SELECT `+columns+` FROM tendings WHERE team_id = ? AND state = 'needs_you' AND {team}`, teamID)
	all, err := store.Collect(rows, err, scan)
	return all, store.Wrap(err, "reading pull requests that need a person")
}

// Due returns workspaces whose time has come, the oldest first.
func (s *Tendings) Due(ctx context.Context, now int64, limit int) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT workspace_id FROM tendings WHERE next_at > 0 AND next_at <= ? AND {team} ORDER BY next_at, workspace_id LIMIT ?`, now, limit)
	ids, err := store.Collect(rows, err, func(r store.Scanner) (id string, err error) { return id, r.Scan(&id) })
	return ids, store.Wrap(err, "reading pull requests to look at")
}

// Hurry makes them due at a time where they would be later and no look failed.
func (s *Tendings) Hurry(ctx context.Context, workspaceID, projectID string, at int64) error {
	query, about := `UPDATE tendings SET next_at = ? WHERE next_at > ? AND tries = 0 AND workspace_id = ? AND {team}`, workspaceID
	if workspaceID != "" { // most workspaces of which there are news have none, and a write waits for others
		if t, err := s.Tending(ctx, workspaceID); fault.Is(err, fault.NotFound) || err == nil && t.NextAt <= at {
			return nil
		}
	}
	if workspaceID == "" {
		query, about = `UPDATE tendings SET next_at = ? WHERE next_at > ? AND tries = 0 AND EXISTS (SELECT 1 FROM workspaces w WHERE w.id = tendings.workspace_id AND w.project_id = ? AND {team:w}) AND {team}`, projectID
	}
	_, err := s.db.Exec(ctx, query, at, at, about)
	return store.Wrap(err, "noting news of a pull request")
}

const roundColumns = `id, workspace_id, team_id, n, step, detail, cost_nano, started_at, ended_at`

// Rounds returns those of a workspace, the newest first.
func (s *Tendings) Rounds(ctx context.Context, workspaceID string, limit int) ([]tending.Round, error) {
	rows, err := s.db.Query(ctx, `SELECT `+roundColumns+` FROM tending_rounds WHERE workspace_id = ? AND {team} ORDER BY started_at DESC, id DESC LIMIT ?`, workspaceID, limit)
	out, err := store.Collect(rows, err, func(s store.Scanner) (r tending.Round, err error) {
		var detail string
		if err = s.Scan(&r.ID, &r.WorkspaceID, &r.TeamID, &r.N, &r.Step, &detail, &r.CostNano, &r.StartedAt, &r.EndedAt); err != nil {
			return r, err
		}
		return r, store.FromJSON(detail, &r.Detail)
	})
	return out, store.Wrap(err, "reading the rounds of a pull request")
}

// BeginRound stores a round and what it makes of its tending.
func (s *Tendings) BeginRound(ctx context.Context, r tending.Round, fn func(*tending.Tending)) error {
	err := s.with(ctx, r, fn, func(ctx context.Context, detail string) error {
		_, err := s.db.Exec(ctx, `INSERT INTO tending_rounds (`+roundColumns+`) VALUES (?,?,{team?},?,?,?,?,?,?)`, r.ID, r.WorkspaceID, r.TeamID, r.N, string(r.Step), detail, r.CostNano, r.StartedAt, r.EndedAt)
		return err
	})
	return store.Wrap(err, "storing a round of a pull request")
}

// EditRound stores a round that is not over, and what fn makes of its tending.
func (s *Tendings) EditRound(ctx context.Context, r tending.Round, fn func(*tending.Tending)) error {
	err := s.with(ctx, r, fn, func(ctx context.Context, detail string) error {
		_, err := s.db.Exec(ctx, `UPDATE tending_rounds SET step = ?, detail = ?, cost_nano = ?, ended_at = ? WHERE id = ? AND step NOT IN ('over', 'dropped') AND {team}`, string(r.Step), detail, r.CostNano, r.EndedAt, r.ID)
		return err
	})
	return store.Wrap(err, "changing a round of a pull request")
}

// with writes a round and changes its tending in one transaction. One that was switched off meanwhile is a fault.NotFound.
func (s *Tendings) with(ctx context.Context, r tending.Round, fn func(*tending.Tending), write func(ctx context.Context, detail string) error) error {
	detail, err := store.ToJSON(r.Detail)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		_, err := s.EditTending(ctx, r.WorkspaceID, func(t *tending.Tending) {
			if fn != nil && t.CreatedAt <= r.StartedAt {
				fn(t)
			}
		})
		if err != nil {
			return err
		}
		return write(ctx, detail)
	})
}
