package toolstore

import (
	"context"
	"database/sql"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
)

// Issues keeps which tasks are issues of a forge, and the changes that the forge does not have yet.
type Issues struct{ db *store.DB }

var _ issues.Store = (*Issues)(nil)

// NewIssues returns the storage of the sync with issues in db.
func NewIssues(db *store.DB) *Issues { return &Issues{db} }

// Tx runs fn in one transaction.
func (s *Issues) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const settingColumns = `s.project_id, s.team_id, s.direction, s.label, s.all_tasks, s.file, s.since, s.page, s.reading, s.begun_at, s.next_at, s.fails, s.synced_at, s.error`

func scanSettings(r store.Scanner) (t issues.Settings, err error) {
	err = r.Scan(&t.ProjectID, &t.TeamID, &t.Direction, &t.Label, &t.AllTasks, &t.File, &t.Since, &t.Page, &t.Reading, &t.BegunAt, &t.NextAt, &t.Fails, &t.SyncedAt, &t.Error)
	return t, err
}

// TaskSettings returns what a project has set; fault.NotFound when it has set nothing.
func (s *Issues) TaskSettings(ctx context.Context, projectID string) (issues.Settings, error) {
	t, err := scanSettings(s.db.QueryRow(ctx, `SELECT `+settingColumns+` FROM task_settings s WHERE s.project_id = ? AND {team:s}`, projectID))
	return t, store.Wrap(err, "reading the settings of tasks")
}

// PutTaskSettings replaces what a project has set.
func (s *Issues) PutTaskSettings(ctx context.Context, t issues.Settings) error {
	_, err := s.db.Exec(ctx, `INSERT INTO task_settings (project_id, team_id, direction, label, all_tasks, file, since, page, reading, begun_at, next_at, fails, synced_at, error)
		VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (project_id) DO UPDATE SET direction = excluded.direction, label = excluded.label, all_tasks = excluded.all_tasks, file = excluded.file,
		since = excluded.since, page = excluded.page, reading = excluded.reading, begun_at = excluded.begun_at, next_at = excluded.next_at, fails = excluded.fails, error = excluded.error`,
		t.ProjectID, t.TeamID, string(t.Direction), t.Label, t.AllTasks, t.File, t.Since, t.Page, t.Reading, t.BegunAt, t.NextAt, t.Fails, t.SyncedAt, t.Error)
	return store.Wrap(err, "storing the settings of tasks")
}

// SaveRound stores how far a sync is, unless its direction or label has changed meanwhile.
func (s *Issues) SaveRound(ctx context.Context, t issues.Settings) error {
	_, err := s.db.Exec(ctx, `UPDATE task_settings SET since = ?, page = ?, reading = ?, begun_at = ?, next_at = ?, fails = ?, synced_at = ?, error = ?
		WHERE project_id = ? AND direction = ? AND label = ? AND {team}`, t.Since, t.Page, t.Reading, t.BegunAt, t.NextAt, t.Fails, t.SyncedAt, t.Error, t.ProjectID, string(t.Direction), t.Label)
	return store.Wrap(err, "storing how far a sync is")
}

// DueSyncs returns projects whose forge is to be asked, or that have changes to send.
func (s *Issues) DueSyncs(ctx context.Context, now int64, n int) ([]issues.Settings, error) {
	rows, err := s.db.Query(ctx, `SELECT `+settingColumns+` FROM task_settings s JOIN projects p ON p.id = s.project_id WHERE {team:s} AND {team:p} AND s.direction <> 'off' AND p.deleted_at = 0
		AND (s.direction IN ('both', 'in') AND s.next_at <= ? OR s.direction IN ('both', 'out') AND EXISTS (SELECT 1 FROM issue_outbox o /* every team: of a project that is read under the team */
			WHERE o.project_id = s.project_id AND NOT o.failed AND o.next_at <= ? AND o.lease <= ?)) ORDER BY s.next_at, s.project_id LIMIT ?`, now, now, now, n)
	out, err := store.Collect(rows, err, scanSettings)
	return out, store.Wrap(err, "reading the syncs that are due")
}

// SyncCounts sums up the sync of a project.
func (s *Issues) SyncCounts(ctx context.Context, projectID string) (c issues.Counts, err error) {
	err = s.db.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM task_issues WHERE project_id = ? AND {team}), (SELECT COUNT(*) FROM issue_outbox WHERE project_id = ? AND NOT failed AND {team}),
		(SELECT COUNT(*) FROM issue_outbox WHERE project_id = ? AND failed AND {team})`, projectID, projectID, projectID).Scan(&c.Issues, &c.Pending, &c.Failed)
	return c, store.Wrap(err, "counting issues")
}

const linkColumns = `task_id, team_id, project_id, forge, host, repository, number, url, assignee, base, synced_at`

func scanLink(r store.Scanner) (l issues.Link, err error) {
	var base string
	if err = r.Scan(&l.TaskID, &l.TeamID, &l.ProjectID, &l.Forge, &l.Host, &l.Repository, &l.Number, &l.URL, &l.Assignee, &base, &l.SyncedAt); err == nil {
		err = store.FromJSON(base, &l.Base)
	}
	return l, err
}

// Link returns which issue a task is; fault.NotFound when it is none.
func (s *Issues) Link(ctx context.Context, taskID string) (issues.Link, error) {
	l, err := scanLink(s.db.QueryRow(ctx, `SELECT `+linkColumns+` FROM task_issues WHERE task_id = ? AND {team}`, taskID))
	return l, store.Wrap(err, "reading the issue of a task")
}

// LinkAt returns which task an issue is.
func (s *Issues) LinkAt(ctx context.Context, projectID, host, repository string, number int64) (issues.Link, error) {
	l, err := scanLink(s.db.QueryRow(ctx, `SELECT `+linkColumns+` FROM task_issues WHERE project_id = ? AND host = ? AND repository = ? AND number = ? AND {team}`, projectID, host, repository, number))
	return l, store.Wrap(err, "reading the task of an issue")
}

// PutLink stores which issue a task is.
func (s *Issues) PutLink(ctx context.Context, l issues.Link) error {
	base, err := store.ToJSON(l.Base)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO task_issues (`+linkColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?)
		ON CONFLICT (task_id) DO UPDATE SET url = excluded.url, assignee = excluded.assignee, base = excluded.base, synced_at = excluded.synced_at`,
		l.TaskID, l.TeamID, l.ProjectID, string(l.Forge), l.Host, l.Repository, l.Number, l.URL, l.Assignee, base, l.SyncedAt)
	return store.Wrap(err, "storing the issue of a task")
}

// AddEvent adds to a task's history, and removes the oldest entries beyond most.
func (s *Issues) AddEvent(ctx context.Context, e issues.Event, most int) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `INSERT INTO task_history (id, team_id, task_id, kind, text, at) VALUES (?,{team?},?,?,?,?)`, e.ID, e.TeamID, e.TaskID, e.Kind, e.Text, e.At); err != nil {
			return store.Wrap(err, "adding to a task's history")
		}
		_, err := s.db.Exec(ctx, `DELETE FROM task_history WHERE task_id = ? AND {team} AND id NOT IN
			(SELECT h.id FROM task_history h /* every team: of a task whose history is cut under the team */ WHERE h.task_id = ? ORDER BY h.at DESC, h.id DESC LIMIT ?)`, e.TaskID, e.TaskID, most)
		return store.Wrap(err, "cutting a task's history")
	})
}

// History returns what happened to a task, newest first.
func (s *Issues) History(ctx context.Context, taskID string) ([]issues.Event, error) {
	rows, err := s.db.Query(ctx, `SELECT id, team_id, task_id, kind, text, at FROM task_history WHERE task_id = ? AND {team} ORDER BY at DESC, id DESC`, taskID)
	out, err := store.Collect(rows, err, func(r store.Scanner) (e issues.Event, err error) {
		err = r.Scan(&e.ID, &e.TeamID, &e.TaskID, &e.Kind, &e.Text, &e.At)
		return e, err
	})
	return out, store.Wrap(err, "reading a task's history")
}

// TaskChanged notes a change of a task for the project's forge, where the project sends changes.
func (s *Issues) TaskChanged(ctx context.Context, t tasks.Task) error {
	_, err := s.db.Exec(ctx, `INSERT INTO issue_outbox (task_id, team_id, project_id, changed_at, next_at)
		SELECT CAST(? AS TEXT), s.team_id, s.project_id, CAST(? AS BIGINT), CAST(? AS BIGINT) FROM task_settings s WHERE s.project_id = ? AND s.direction IN ('both', 'out') AND {team:s}
		ON CONFLICT (task_id) DO UPDATE SET changed_at = excluded.changed_at, next_at = excluded.next_at, revision = issue_outbox.revision + 1, attempts = 0, failed = FALSE, error = ''`,
		t.UID, t.UpdatedAt, t.UpdatedAt, t.ProjectID)
	return store.Wrap(err, "noting a change for the forge")
}

const entryColumns = `o.task_id, o.team_id, o.project_id, o.changed_at, o.revision, o.attempts, o.next_at, o.lease, o.asked_at, o.posted, o.failed, o.error, t.num, t.title`

func scanEntry(r store.Scanner) (e issues.Entry, err error) {
	var posted string
	var num int64
	if err = r.Scan(&e.TaskID, &e.TeamID, &e.ProjectID, &e.ChangedAt, &e.Revision, &e.Attempts, &e.NextAt, &e.Lease, &e.AskedAt, &posted, &e.Failed, &e.Error, &num, &e.Title); err == nil {
		err = store.FromJSON(posted, &e.Posted)
	}
	e.Task = tasks.Key(num)
	return e, err
}

const readEntries = `SELECT ` + entryColumns + ` FROM issue_outbox o JOIN tasks t ON t.id = o.task_id WHERE {team:o} AND {team:t}`

// Entry returns the change of a task that waits to be sent; fault.NotFound when there is none.
func (s *Issues) Entry(ctx context.Context, taskID string) (issues.Entry, error) {
	e, err := scanEntry(s.db.QueryRow(ctx, readEntries+` AND o.task_id = ?`, taskID))
	return e, store.Wrap(err, "reading a change for the forge")
}

// Entries returns the outbox of a project, oldest first.
func (s *Issues) Entries(ctx context.Context, projectID string, n int) ([]issues.Entry, error) {
	rows, err := s.db.Query(ctx, readEntries+` AND o.project_id = ? ORDER BY o.failed DESC, o.changed_at, o.task_id LIMIT ?`, projectID, n)
	out, err := store.Collect(rows, err, scanEntry)
	return out, store.Wrap(err, "reading the changes for the forge")
}

// DueEntries returns changes of a project to send now.
func (s *Issues) DueEntries(ctx context.Context, projectID string, now int64, n int) ([]issues.Entry, error) {
	rows, err := s.db.Query(ctx, readEntries+` AND o.project_id = ? AND NOT o.failed AND o.next_at <= ? AND o.lease <= ? ORDER BY o.next_at, o.task_id LIMIT ?`, projectID, now, now, n)
	out, err := store.Collect(rows, err, scanEntry)
	return out, store.Wrap(err, "reading the changes to send")
}

// LeaseEntry takes an entry until a time, unless somebody else has it.
func (s *Issues) LeaseEntry(ctx context.Context, taskID string, now, until int64) (bool, error) {
	res, err := s.db.Exec(ctx, `UPDATE issue_outbox SET lease = ? WHERE task_id = ? AND lease <= ? AND NOT failed AND {team}`, until, taskID, now)
	return affected(res, err, "taking a change to send")
}

func affected(res sql.Result, err error, doing string) (bool, error) {
	if err != nil {
		return false, store.Wrap(err, doing)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// SaveEntry stores how sending went. Of a task that has changed since, only what it was asked for with counts.
func (s *Issues) SaveEntry(ctx context.Context, e issues.Entry) error {
	posted := ""
	if e.AskedAt > 0 {
		var err error
		if posted, err = store.ToJSON(e.Posted); err != nil {
			return err
		}
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE issue_outbox SET lease = ?, asked_at = ?, posted = ? WHERE task_id = ? AND {team}`, e.Lease, e.AskedAt, posted, e.TaskID); err != nil {
			return store.Wrap(err, "storing how sending went")
		}
		_, err := s.db.Exec(ctx, `UPDATE issue_outbox SET attempts = ?, next_at = ?, failed = ?, error = ? WHERE task_id = ? AND revision = ? AND {team}`,
			e.Attempts, e.NextAt, e.Failed, e.Error, e.TaskID, e.Revision)
		return store.Wrap(err, "storing how sending went")
	})
}

// DropEntry removes an entry unless its task has changed since; then it only ends the lease.
func (s *Issues) DropEntry(ctx context.Context, e issues.Entry) error {
	done, err := s.deleted(ctx, e)
	if err != nil || done {
		return err
	}
	_, err = s.db.Exec(ctx, `UPDATE issue_outbox SET lease = 0 WHERE task_id = ? AND {team}`, e.TaskID)
	return store.Wrap(err, "ending a lease")
}

// RetryEntries has a task's entry, or all of a project that failed, sent again now.
func (s *Issues) RetryEntries(ctx context.Context, projectID, taskID string, now int64) (int, error) {
	query, args := `UPDATE issue_outbox SET failed = FALSE, attempts = 0, next_at = ? WHERE project_id = ? AND {team}`, []any{now, projectID}
	if taskID != "" {
		query, args = query+` AND task_id = ?`, append(args, taskID)
	}
	res, err := s.db.Exec(ctx, query, args...)
	if err != nil {
		return 0, store.Wrap(err, "sending changes again")
	}
	n, err := res.RowsAffected()
	return int(n), err
}

func (s *Issues) deleted(ctx context.Context, e issues.Entry) (bool, error) {
	res, err := s.db.Exec(ctx, `DELETE FROM issue_outbox WHERE task_id = ? AND revision = ? AND {team}`, e.TaskID, e.Revision)
	return affected(res, err, "removing a change that was sent")
}

// TasksFile returns where a project keeps its tasks in its repository; "" when it has not said.
func (s *Issues) TasksFile(ctx context.Context, projectID string) (string, error) {
	t, err := s.TaskSettings(ctx, projectID)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return t.File, err
}
