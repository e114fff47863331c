package toolstore

import (
	"context"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/tasks"
)

// Tasks keeps tasks and what they depend on.
type Tasks struct{ db *store.DB }

var _ tasks.Store = (*Tasks)(nil)

// NewTasks returns the storage of tasks in db.
func NewTasks(db *store.DB) *Tasks { return &Tasks{db} }

// Tx runs fn in one transaction.
func (s *Tasks) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const (
	taskColumns = `id, team_id, project_id, num, title, description, type, priority, status, reason, labels, parent_id, blockers, assignee, claimed_at, workspace_id, linked_at,
		files, external_id, external_ref, created_by, created_at, updated_at, closed_at, version`
	readTask = `SELECT t.id, t.team_id, t.project_id, t.num, t.title, t.description, t.type, t.priority, t.status, t.reason, t.labels, t.parent_id, t.blockers, t.assignee, t.claimed_at,
		t.workspace_id, t.linked_at, t.files, t.external_id, t.external_ref, t.created_by, t.created_at, t.updated_at, t.closed_at, t.version,
		COALESCE((SELECT p.num FROM tasks p /* every team: the parent of a task that is read under the team */ WHERE p.id = t.parent_id), 0)`
)

func scanTask(r store.Scanner) (tasks.Task, error) { return scanTaskAnd(r) }

func scanTaskAnd(r store.Scanner, more ...any) (t tasks.Task, err error) {
	var labels, files string
	var parent int64
	if err := r.Scan(append([]any{&t.UID, &t.TeamID, &t.ProjectID, &t.Num, &t.Title, &t.Description, &t.Type, &t.Priority, &t.Status, &t.Reason, &labels, &t.ParentUID, &t.Blockers,
		&t.Assignee, &t.ClaimedAt, &t.WorkspaceID, &t.LinkedAt, &files, &t.ExternalID, &t.ExternalRef, &t.CreatedBy, &t.CreatedAt, &t.UpdatedAt, &t.ClosedAt, &t.Version,
		&parent}, more...)...); err != nil {
		return t, err
	}
	t.ID = tasks.Key(t.Num)
	if parent > 0 {
		t.Parent = tasks.Key(parent)
	}
	if err := store.FromJSON(labels, &t.Labels); err != nil {
		return t, err
	}
	return t, store.FromJSON(files, &t.Files)
}

// InsertTask takes the team's next number and stores the task with it.
func (s *Tasks) InsertTask(ctx context.Context, t tasks.Task) (tasks.Task, error) {
	labels, err := store.ToJSON(t.Labels)
	if err != nil {
		return t, err
	}
	files, err := store.ToJSON(t.Files)
	if err != nil {
		return t, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.db.QueryRow(ctx, `UPDATE teams SET next_task_num = next_task_num + 1 WHERE id = {team?} RETURNING next_task_num - 1`, t.TeamID).Scan(&t.Num); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `INSERT INTO tasks (`+taskColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			t.UID, t.TeamID, t.ProjectID, t.Num, t.Title, t.Description, t.Type, t.Priority, string(t.Status), t.Reason, labels, t.ParentUID, t.Blockers, t.Assignee, t.ClaimedAt,
			t.WorkspaceID, t.LinkedAt, files, t.ExternalID, t.ExternalRef, t.CreatedBy, t.CreatedAt, t.UpdatedAt, t.ClosedAt, t.Version)
		return err
	})
	t.ID = tasks.Key(t.Num)
	return t, store.Wrap(err, "inserting task")
}

// Task returns a task; fault.NotFound when there is none.
func (s *Tasks) Task(ctx context.Context, uid string) (tasks.Task, error) {
	t, err := scanTask(s.db.QueryRow(ctx, readTask+` FROM tasks t WHERE t.id = ? AND {team:t}`, uid))
	return t, missing(err)
}

// TaskByExternal returns the task of a project that was imported under an id.
func (s *Tasks) TaskByExternal(ctx context.Context, projectID, externalID string) (tasks.Task, error) {
	t, err := scanTask(s.db.QueryRow(ctx, readTask+` FROM tasks t WHERE t.project_id = ? AND t.external_id = ? AND t.external_id <> '' AND {team:t}`, projectID, externalID))
	return t, missing(err)
}

func missing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "task_not_found", "There is no such task.")
	}
	return store.Wrap(err, "reading task")
}

// TasksByNum returns the tasks with a number, of all teams that the work of ctx is for.
func (s *Tasks) TasksByNum(ctx context.Context, num int64) ([]tasks.Task, error) {
	return s.list(ctx, readTask+` FROM tasks t WHERE t.num = ? AND {team:t} LIMIT 2`, num)
}

func (s *Tasks) list(ctx context.Context, query string, args ...any) ([]tasks.Task, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := store.Collect(rows, err, scanTask)
	return out, store.Wrap(err, "reading tasks")
}

// FindTasks returns a page of tasks and one more, by priority and age.
func (s *Tasks) FindTasks(ctx context.Context, q tasks.Query) ([]tasks.Task, error) {
	query, args := readTask+` FROM tasks t WHERE t.team_id = {team?}`, []any{q.TeamID}
	if q.ProjectID != "" {
		query, args = readTask+` FROM tasks t WHERE t.project_id = ? AND {team:t}`, []any{q.ProjectID}
	}
	and := func(condition string, values ...any) {
		query += ` AND ` + condition
		args = append(args, values...)
	}
	switch {
	case q.Ready:
		and(`t.status = 'open' AND t.blockers = 0`)
		if len(q.For) > 0 {
			and(`t.assignee IN ('',`+store.Marks(len(q.For))+`)`, anys(q.For)...)
		}
	case len(q.Statuses) == 0:
		and(`t.status <> 'closed'`)
	default:
		and(`t.status IN (`+store.Marks(len(q.Statuses))+`)`, anys(q.Statuses)...)
	}
	if q.Type != "" {
		and(`t.type = ?`, q.Type)
	}
	if q.Priority != nil {
		and(`t.priority = ?`, *q.Priority)
	}
	if q.Assignee != "" {
		and(`t.assignee = ?`, q.Assignee)
	}
	if q.ParentUID != "" {
		and(`t.parent_id = ?`, q.ParentUID)
	}
	if q.Label != "" {
		and(`LOWER(t.labels) LIKE ? ESCAPE '\'`, `%"`+like(q.Label)+`"%`)
	}
	if q.Text != "" {
		// SQLite's LOWER knows ASCII only: other letters are found as they were written.
		low, raw := `%`+like(q.Text)+`%`, `%`+literal(q.Text)+`%`
		and(`(LOWER(t.title) LIKE ? ESCAPE '\' OR LOWER(t.description) LIKE ? ESCAPE '\' OR t.title LIKE ? ESCAPE '\' OR t.description LIKE ? ESCAPE '\')`, low, low, raw, raw)
	}
	k, ok, err := q.Page.Key()
	if err != nil {
		return nil, err
	}
	if ok {
		priority, num := tasks.Ordered(k.At)
		and(`(t.priority, t.num) > (?, ?)`, priority, num)
	}
	return s.list(ctx, query+` ORDER BY t.priority, t.num LIMIT ?`, append(args, q.Page.Size()+1)...)
}

func anys[T ~string](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// like writes text in lower case so that LIKE finds it as it stands.
func like(text string) string { return literal(strings.ToLower(text)) }

// literal writes text so that LIKE takes no letter of it for a pattern.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
}

// UpdateTask writes what can change of a task. What blocks it is counted by Recount.
func (s *Tasks) UpdateTask(ctx context.Context, t tasks.Task) error {
	labels, err := store.ToJSON(t.Labels)
	if err != nil {
		return err
	}
	files, err := store.ToJSON(t.Files)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `UPDATE tasks SET title = ?, description = ?, type = ?, priority = ?, status = ?, reason = ?, labels = ?, parent_id = ?, assignee = ?, claimed_at = ?, workspace_id = ?,
		linked_at = ?, files = ?, external_id = ?, external_ref = ?, updated_at = ?, closed_at = ?, version = ? WHERE id = ? AND {team}`, t.Title, t.Description, t.Type, t.Priority, string(t.Status),
		t.Reason, labels, t.ParentUID, t.Assignee, t.ClaimedAt, t.WorkspaceID, t.LinkedAt, files, t.ExternalID, t.ExternalRef, t.UpdatedAt, t.ClosedAt, t.Version, t.UID)
	return store.Wrap(err, "updating task")
}

// ClaimTask assigns a task in one statement, so that of many who try one succeeds.
func (s *Tasks) ClaimTask(ctx context.Context, t tasks.Task, from []string) (bool, error) {
	args := []any{t.Assignee, string(t.Status), t.ClaimedAt, t.WorkspaceID, t.LinkedAt, t.UpdatedAt, t.UID}
	res, err := s.db.Exec(ctx, `UPDATE tasks SET assignee = ?, status = ?, claimed_at = ?, workspace_id = ?, linked_at = ?, updated_at = ?, version = version + 1
		WHERE id = ? AND {team} AND status <> 'closed' AND blockers = 0 AND assignee IN ('',`+store.Marks(len(from))+`)`, append(args, anys(from)...)...)
	if err != nil {
		return false, store.Wrap(err, "claiming task")
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// CountTasks returns how many tasks a project has.
func (s *Tasks) CountTasks(ctx context.Context, projectID string) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM tasks WHERE project_id = ? AND {team}`, projectID).Scan(&n)
	return n, store.Wrap(err, "counting tasks")
}
