package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/checks"
)

// Checks keeps runs of checks and the merge queues.
type Checks struct{ db *DB }

var _ checks.Store = (*Checks)(nil)

// NewChecks returns the storage of checks and merge queues in db.
func NewChecks(db *DB) *Checks { return &Checks{db} }

const checkColumns = `id, team_id, workspace_id, project_id, batch_id, queue_id, check_id, name, command, required, tree_id, commit_id, state, reason, exit_code,
	truncated, command_id, started_by, created_at, started_at, ended_at`

func scanCheck(s Scanner, more ...any) (r checks.Run, err error) {
	var required, truncated bool
	err = s.Scan(append([]any{&r.ID, &r.TeamID, &r.WorkspaceID, &r.ProjectID, &r.BatchID, &r.QueueID, &r.CheckID, &r.Name, &r.Command, &required, &r.Tree, &r.Commit,
		&r.State, &r.Reason, &r.ExitCode, &truncated, &r.CommandID, &r.StartedBy, &r.CreatedAt, &r.StartedAt, &r.EndedAt}, more...)...)
	r.Required, r.Truncated = required, truncated
	return r, err
}

// InsertCheckRuns stores new runs.
func (s *Checks) InsertCheckRuns(ctx context.Context, runs []checks.Run) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		for _, r := range runs {
			_, err := s.db.Exec(ctx, `INSERT INTO check_runs (`+checkColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, r.ID, r.TeamID, r.WorkspaceID,
				r.ProjectID, r.BatchID, r.QueueID, r.CheckID, r.Name, r.Command, r.Required, r.Tree, r.Commit, string(r.State), r.Reason, r.ExitCode, r.Truncated,
				r.CommandID, r.StartedBy, r.CreatedAt, r.StartedAt, r.EndedAt)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return Wrap(err, "inserting runs of checks")
}

// CheckRun returns a run with its output.
func (s *Checks) CheckRun(ctx context.Context, id string) (checks.Run, error) {
	var output string
	r, err := scanCheck(s.db.QueryRow(ctx, `SELECT `+checkColumns+`, output FROM check_runs WHERE id = ? AND {team}`, id), &output)
	if fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.NotFound, "check_run_not_found", "This run of a check no longer exists.")
	}
	if err != nil {
		return r, fmt.Errorf("reading a run of a check: %w", err)
	}
	r.Output = output
	return r, nil
}

// EditCheckRun changes a run in one transaction.
func (s *Checks) EditCheckRun(ctx context.Context, id string, fn func(*checks.Run) error) (checks.Run, error) {
	var r checks.Run
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		// The write takes the row's lock before the read, on both databases.
		if _, err := s.db.Exec(ctx, `UPDATE check_runs SET state = state WHERE id = ? AND {team}`, id); err != nil {
			return err
		}
		var err error
		if r, err = s.CheckRun(ctx, id); err != nil {
			return err
		}
		if err := fn(&r); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE check_runs SET tree_id = ?, commit_id = ?, state = ?, reason = ?, exit_code = ?, output = ?, truncated = ?, command_id = ?,
			started_at = ?, ended_at = ? WHERE id = ? AND {team}`, r.Tree, r.Commit, string(r.State), r.Reason, r.ExitCode, r.Output, r.Truncated, r.CommandID,
			r.StartedAt, r.EndedAt, id)
		return err
	})
	return r, err
}

func (s *Checks) runs(ctx context.Context, query string, args ...any) ([]checks.Run, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, func(r Scanner) (checks.Run, error) { return scanCheck(r) })
	return out, Wrap(err, "reading runs of checks")
}

// CheckRuns returns a workspace's newest runs.
func (s *Checks) CheckRuns(ctx context.Context, workspaceID string, limit int) ([]checks.Run, error) {
	return s.runs(ctx, `SELECT `+checkColumns+` FROM check_runs WHERE workspace_id = ? AND {team} ORDER BY created_at DESC, id DESC LIMIT ?`, workspaceID, limit)
}

// QueueRuns returns the runs for entries of the merge queue.
func (s *Checks) QueueRuns(ctx context.Context, queueIDs []string) ([]checks.Run, error) {
	if len(queueIDs) == 0 {
		return nil, nil
	}
	args := make([]any, len(queueIDs))
	for i, id := range queueIDs {
		args[i] = id
	}
	return s.runs(ctx, `SELECT `+checkColumns+` FROM check_runs WHERE {team} AND queue_id IN (?`+strings.Repeat(",?", len(args)-1)+`) ORDER BY created_at, id`, args...)
}

// LatestRuns returns the newest run of each check of a team's workspaces, or of those that are named.
func (s *Checks) LatestRuns(ctx context.Context, teamID string, workspaceIDs ...string) ([]checks.Run, error) {
	these, args := only("r.workspace_id", workspaceIDs)
	return s.runs(ctx, `SELECT `+checkColumns+` FROM check_runs r WHERE {team:r} AND `+among("r.team_id", workspaceIDs)+` AND queue_id = ''`+these+` AND NOT EXISTS
		(SELECT 1 FROM check_runs n /* every team: of the same workspace */ WHERE n.workspace_id = r.workspace_id AND n.check_id = r.check_id AND n.queue_id = ''
			AND (n.created_at > r.created_at OR n.created_at = r.created_at AND n.id > r.id))`, append([]any{teamID}, args...)...)
}

// OpenCheckRuns returns every run that has not ended.
func (s *Checks) OpenCheckRuns(ctx context.Context) ([]checks.Run, error) {
	return s.runs(ctx, `SELECT `+checkColumns+` FROM check_runs WHERE {team} AND state IN ('waiting', 'running') ORDER BY created_at, id`)
}

// DropCheckRuns forgets all ended runs of a workspace but the newest.
func (s *Checks) DropCheckRuns(ctx context.Context, workspaceID string, keep int) error {
	_, err := s.db.Exec(ctx, `DELETE FROM check_runs WHERE workspace_id = ? AND {team} AND ended_at <> 0 AND id NOT IN
		(SELECT n.id FROM check_runs n /* every team: of the same workspace */ WHERE n.workspace_id = ? ORDER BY n.created_at DESC, n.id DESC LIMIT ?)`, workspaceID, workspaceID, keep)
	return Wrap(err, "forgetting runs of checks")
}

// FilesNow returns the newest snapshot of workspaces of a team that have runs of checks, or of those that are named.
func (s *Checks) FilesNow(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]checks.Now, error) {
	these, ids := only("s.workspace_id", workspaceIDs)
	query, args := `SELECT s.workspace_id, s.tree_id, s.head FROM snapshots s WHERE s.team_id = {team?}`+these, append([]any{teamID}, ids...)
	if workspaceIDs == nil {
		query += ` AND s.workspace_id IN (SELECT c.workspace_id FROM check_runs c /* every team: narrowed by the snapshots */)`
	}
	rows, err := s.db.Query(ctx, query+` AND NOT EXISTS (SELECT 1 FROM snapshots n /* every team: of the same workspace */
		WHERE n.workspace_id = s.workspace_id AND (n.at > s.at OR n.at = s.at AND n.id > s.id))`, args...)
	out, err := Keyed(rows, err, func(r Scanner) (id string, n checks.Now, err error) {
		err = r.Scan(&id, &n.Tree, &n.Head)
		return id, n, err
	})
	return out, Wrap(err, "reading the newest snapshots")
}

const entryColumns = `id, team_id, project_id, workspace_id, base, strategy, message, state, reason, head, base_commit, commit_id, position, added_by, created_at, updated_at, ended_at`

func scanEntry(s Scanner) (e checks.Entry, err error) {
	err = s.Scan(&e.ID, &e.TeamID, &e.ProjectID, &e.WorkspaceID, &e.Base, &e.Strategy, &e.Message, &e.State, &e.Reason, &e.Head, &e.BaseCommit, &e.Commit, &e.Position,
		&e.AddedBy, &e.CreatedAt, &e.UpdatedAt, &e.EndedAt)
	return e, err
}

// InsertEntry puts an entry at the end of its project's queue.
func (s *Checks) InsertEntry(ctx context.Context, e checks.Entry) (checks.Entry, error) {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		// The write takes the project's lock before the reads, on both databases.
		if _, err := s.db.Exec(ctx, `UPDATE projects SET state = state WHERE id = ? AND {team}`, e.ProjectID); err != nil {
			return err
		}
		var open int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM merge_queue WHERE workspace_id = ? AND {team} AND ended_at = 0`, e.WorkspaceID).Scan(&open); err != nil {
			return err
		}
		if open > 0 {
			return fault.New(fault.Conflict, "merge_queued", "The workspace is in the merge queue already.")
		}
		if err := s.db.QueryRow(ctx, `SELECT COALESCE(MAX(position), 0) + 1 FROM merge_queue WHERE project_id = ? AND {team}`, e.ProjectID).Scan(&e.Position); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `INSERT INTO merge_queue (`+entryColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, e.ID, e.TeamID, e.ProjectID, e.WorkspaceID, e.Base,
			e.Strategy, e.Message, string(e.State), e.Reason, e.Head, e.BaseCommit, e.Commit, e.Position, e.AddedBy, e.CreatedAt, e.UpdatedAt, e.EndedAt)
		return err
	})
	return e, err
}

// EditEntry changes an entry in one transaction.
func (s *Checks) EditEntry(ctx context.Context, id string, fn func(*checks.Entry) error) (checks.Entry, error) {
	var e checks.Entry
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE merge_queue SET state = state WHERE id = ? AND {team}`, id); err != nil {
			return err
		}
		var err error
		if e, err = scanEntry(s.db.QueryRow(ctx, `SELECT `+entryColumns+` FROM merge_queue WHERE id = ? AND {team}`, id)); err != nil {
			return err
		}
		if err := fn(&e); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE merge_queue SET state = ?, reason = ?, base_commit = ?, commit_id = ?, updated_at = ?, ended_at = ? WHERE id = ? AND {team}`,
			string(e.State), e.Reason, e.BaseCommit, e.Commit, e.UpdatedAt, e.EndedAt, id)
		return err
	})
	return e, err
}

func (s *Checks) entries(ctx context.Context, query string, args ...any) ([]checks.Entry, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanEntry)
	return out, Wrap(err, "reading the merge queue")
}

// OpenEntries returns entries that have not ended, in order.
func (s *Checks) OpenEntries(ctx context.Context, projectID string) ([]checks.Entry, error) {
	query, args := `SELECT `+entryColumns+` FROM merge_queue WHERE {team} AND ended_at = 0`, []any(nil)
	if projectID != "" {
		query, args = query+` AND project_id = ?`, []any{projectID}
	}
	return s.entries(ctx, query+` ORDER BY project_id, position`, args...)
}

// TeamEntries returns a team's entries that have not ended, in order.
func (s *Checks) TeamEntries(ctx context.Context, teamID string) ([]checks.Entry, error) {
	return s.entries(ctx, `SELECT `+entryColumns+` FROM merge_queue WHERE team_id = {team?} AND ended_at = 0 ORDER BY project_id, position`, teamID)
}

// EndedEntries returns the last entries of a project that have ended.
func (s *Checks) EndedEntries(ctx context.Context, projectID string, limit int) ([]checks.Entry, error) {
	return s.entries(ctx, `SELECT `+entryColumns+` FROM merge_queue WHERE project_id = ? AND {team} AND ended_at <> 0 ORDER BY ended_at DESC, id DESC LIMIT ?`, projectID, limit)
}

// NewestEntry returns a workspace's newest entry.
func (s *Checks) NewestEntry(ctx context.Context, workspaceID string) (*checks.Entry, error) {
	list, err := s.entries(ctx, `SELECT `+entryColumns+` FROM merge_queue WHERE workspace_id = ? AND {team} ORDER BY position DESC, id DESC LIMIT 1`, workspaceID)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}
