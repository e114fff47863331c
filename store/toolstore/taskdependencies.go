package toolstore

import (
	"context"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces"
)

// PutDependency stores that a task depends on another, in place of what they were to each other.
func (s *Tasks) PutDependency(ctx context.Context, teamID, userID string, at int64, d tasks.Dependency) error {
	_, err := s.db.Exec(ctx, `INSERT INTO task_dependencies (team_id, task_id, depends_on, type, created_by, created_at) VALUES ({team?},?,?,?,?,?)
		ON CONFLICT (task_id, depends_on) DO UPDATE SET type = excluded.type`, teamID, d.TaskID, d.DependsOn, string(d.Type), userID, at)
	return store.Wrap(err, "storing a dependency")
}

// DropDependency removes a dependency, and reports whether there was one.
func (s *Tasks) DropDependency(ctx context.Context, d tasks.Dependency) (bool, error) {
	res, err := s.db.Exec(ctx, `DELETE FROM task_dependencies WHERE task_id = ? AND depends_on = ? AND {team}`, d.TaskID, d.DependsOn)
	if err != nil {
		return false, store.Wrap(err, "removing a dependency")
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// Dependencies returns what tasks depend on.
func (s *Tasks) Dependencies(ctx context.Context, uids []string) ([]tasks.Dependency, error) {
	return s.dependencies(ctx, `SELECT d.task_id, d.depends_on, d.type, t.num, t.title, t.status, t.priority FROM task_dependencies d JOIN tasks t ON t.id = d.depends_on
		WHERE {team:d} AND d.task_id IN (`+store.Marks(len(uids))+`) ORDER BY t.num`, uids)
}

// Dependents returns what depends on tasks.
func (s *Tasks) Dependents(ctx context.Context, uids []string) ([]tasks.Dependency, error) {
	return s.dependencies(ctx, `SELECT d.task_id, d.depends_on, d.type, t.num, t.title, t.status, t.priority FROM task_dependencies d JOIN tasks t ON t.id = d.task_id
		WHERE {team:d} AND d.depends_on IN (`+store.Marks(len(uids))+`) ORDER BY t.num`, uids)
}

// Children returns the parts of tasks.
func (s *Tasks) Children(ctx context.Context, uids []string) ([]tasks.Dependency, error) {
	return s.dependencies(ctx, `SELECT t.id, t.parent_id, 'parent-child', t.num, t.title, t.status, t.priority FROM tasks t
		WHERE {team:t} AND t.parent_id <> '' AND t.parent_id IN (`+store.Marks(len(uids))+`) ORDER BY t.num`, uids)
}

// Parents returns what tasks are parts of.
func (s *Tasks) Parents(ctx context.Context, uids []string) ([]tasks.Dependency, error) {
	return s.dependencies(ctx, `SELECT t.id, p.id, 'parent-child', p.num, p.title, p.status, p.priority FROM tasks t JOIN tasks p ON p.id = t.parent_id
		WHERE {team:t} AND {team:p} AND t.id IN (`+store.Marks(len(uids))+`) ORDER BY p.num`, uids)
}

// Reaches reports whether a task depends on another, directly or through others.
func (s *Tasks) Reaches(ctx context.Context, from, to string, as tasks.Relation) (found bool, err error) {
	if as == tasks.ParentChild {
		err = s.db.QueryRow(ctx, `WITH RECURSIVE up(id) AS (SELECT CAST(? AS TEXT) UNION SELECT t.parent_id FROM tasks t JOIN up ON t.id = up.id WHERE t.parent_id <> '' AND {team:t})
			SELECT COUNT(*) > 0 FROM up WHERE id = ?`, from, to).Scan(&found)
	} else {
		err = s.db.QueryRow(ctx, `WITH RECURSIVE up(id) AS (SELECT CAST(? AS TEXT) UNION SELECT d.depends_on FROM task_dependencies d JOIN up ON d.task_id = up.id WHERE d.type = ? AND {team:d})
			SELECT COUNT(*) > 0 FROM up WHERE id = ?`, from, string(as), to).Scan(&found)
	}
	return found, store.Wrap(err, "looking for a cycle")
}

// ProjectDependencies returns what all tasks of a project depend on, their parents included.
func (s *Tasks) ProjectDependencies(ctx context.Context, projectID string) ([]tasks.Dependency, error) {
	return s.dependencies(ctx, `SELECT t.id, d.depends_on, d.type, t.num, t.title, t.status, t.priority FROM tasks t JOIN task_dependencies d ON d.task_id = t.id WHERE t.project_id = ? AND {team:t} AND {team:d}
		UNION ALL SELECT t.id, t.parent_id, 'parent-child', t.num, t.title, t.status, t.priority FROM tasks t WHERE t.project_id = ? AND {team:t} AND t.parent_id <> ''`, []string{projectID, projectID})
}

func (s *Tasks) dependencies(ctx context.Context, query string, uids []string) ([]tasks.Dependency, error) {
	if len(uids) == 0 {
		return nil, nil
	}
	rows, err := s.db.Query(ctx, query, anys(uids)...)
	out, err := store.Collect(rows, err, func(r store.Scanner) (d tasks.Dependency, err error) {
		var num int64
		err = r.Scan(&d.TaskID, &d.DependsOn, &d.Type, &num, &d.Other.Title, &d.Other.Status, &d.Other.Priority)
		d.Other.ID = tasks.Key(num)
		return d, err
	})
	return out, store.Wrap(err, "reading dependencies")
}

// recountAtOnce is how many tasks one statement counts: databases bound its arguments.
const recountAtOnce = 500

// Recount counts again how many tasks that are not closed block each of some tasks.
func (s *Tasks) Recount(ctx context.Context, uids []string) error {
	for len(uids) > 0 {
		n := min(len(uids), recountAtOnce)
		_, err := s.db.Exec(ctx, `UPDATE tasks SET blockers = (SELECT COUNT(*) FROM task_dependencies d /* every team: of a task that is updated under the team */
			JOIN tasks b ON b.id = d.depends_on WHERE d.task_id = tasks.id AND d.type = 'blocks' AND b.status <> 'closed')
			WHERE {team} AND id IN (`+store.Marks(n)+`)`, anys(uids[:n])...)
		if err != nil {
			return store.Wrap(err, "counting what blocks tasks")
		}
		uids = uids[n:]
	}
	return nil
}

// Names returns how the users and sessions of a team are called.
func (s *Tasks) Names(ctx context.Context, teamID string, ids []string) (map[string]string, error) {
	rows, err := s.db.Query(ctx, `SELECT u.id, u.name FROM users u JOIN members m ON m.user_id = u.id WHERE m.team_id = {team?} AND u.id IN (`+store.Marks(len(ids))+`)`,
		append([]any{teamID}, anys(ids)...)...)
	out, err := store.Pairs[string, string](rows, err)
	if err != nil {
		return nil, store.Wrap(err, "reading the names of members")
	}
	rows, err = s.db.Query(ctx, `SELECT s.id, s.agent || ' in PW-' || w.num FROM sessions s JOIN workspaces w ON w.id = s.workspace_id WHERE {team:s} AND w.team_id = {team?}
		AND s.id IN (`+store.Marks(len(ids))+`)`, append([]any{teamID}, anys(ids)...)...)
	sessions, err := store.Pairs[string, string](rows, err)
	for id, name := range sessions {
		out[id] = name
	}
	return out, store.Wrap(err, "reading the names of sessions")
}

// maxLinks is how many tasks are looked at in one go: the most recent ones.
const maxLinks = 10_000

// Links returns tasks that are not closed, with the workspaces in which they are worked on.
func (s *Tasks) Links(ctx context.Context, ids []string) ([]tasks.Link, error) {
	query, args := readTask+`, w.num, w.merged_at, w.deleted_at, w.private FROM tasks t JOIN workspaces w ON w.id = t.workspace_id
		WHERE {team:t} AND {team:w} AND t.workspace_id <> '' AND t.status <> 'closed'`, []any{}
	if ids != nil {
		query += ` AND t.workspace_id IN (` + store.Marks(len(ids)) + `)`
		args = anys(ids)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY t.updated_at DESC, t.id LIMIT ?`, append(args, maxLinks)...)
	out, err := store.Collect(rows, err, func(r store.Scanner) (l tasks.Link, err error) {
		var num int64
		l.Task, err = scanTaskAnd(r, &num, &l.MergedAt, &l.DeletedAt, &l.Private)
		l.WorkspaceKey = workspaces.Workspace{Num: num}.Key()
		return l, err
	})
	return out, store.Wrap(err, "reading the workspaces of tasks")
}

// ChangedPaths returns the paths of files that differ in a workspace.
func (s *Tasks) ChangedPaths(ctx context.Context, workspaceID string, n int) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT path FROM changes WHERE workspace_id = (SELECT w.id FROM workspaces w WHERE w.id = ? AND {team:w}) ORDER BY path LIMIT ?`, workspaceID, n)
	raw, err := store.Column[[]byte](rows, err)
	out := make([]string, len(raw))
	for i, p := range raw {
		out[i] = string(p)
	}
	return out, store.Wrap(err, "reading changed paths")
}
