package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/projects"
)

// Workspaces keeps projects, workspaces and their timelines.
type Workspaces struct{ db *DB }

var _ workspaces.Store = (*Workspaces)(nil)

// NewWorkspaces returns the storage of projects and workspaces in db.
func NewWorkspaces(db *DB) *Workspaces { return &Workspaces{db: db} }

// Tx is DB.Tx.
func (s *Workspaces) Tx(ctx context.Context, fn func(context.Context) error) error { return s.db.Tx(ctx, fn) }

const projectColumns = `id, team_id, name, source_kind, source, git_dir, default_branch, state, state_reason, setup_script,
	copy_ignored, fetched_at, created_by, created_at, executor, no_caches, limits, network, runner_id, checks, merging, keep_ignored, allowed_commands`

func scanProject(r Scanner) (workspaces.Project, error) {
	var p workspaces.Project
	var patterns, limits, network, checks, merging, keep, allowed string
	err := r.Scan(&p.ID, &p.TeamID, &p.Name, &p.SourceKind, &p.Source, &p.GitDir, &p.DefaultBranch, &p.State, &p.StateReason,
		&p.SetupScript, &patterns, &p.FetchedAt, &p.CreatedBy, &p.CreatedAt, &p.Executor, &p.NoCaches, &limits, &network, &p.RunnerID, &checks, &merging, &keep, &allowed)
	if err == nil {
		err = errors.Join(FromJSON(patterns, &p.CopyIgnored), FromJSON(limits, &p.Limits), FromJSON(network, &p.Network),
			FromJSON(checks, &p.Checks), FromJSON(merging, &p.Merging), FromJSON(keep, &p.KeepIgnored), FromJSON(allowed, &p.AllowedCommands))
	}
	return p, err
}

// InsertProject stores a new project.
func (s *Workspaces) InsertProject(ctx context.Context, p workspaces.Project) error {
	j, err := projectJSON(p)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO projects (`+projectColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		p.ID, p.TeamID, p.Name, p.SourceKind, p.Source, p.GitDir, p.DefaultBranch, string(p.State), p.StateReason, p.SetupScript,
		j.patterns, p.FetchedAt, p.CreatedBy, p.CreatedAt, p.Executor, p.NoCaches, j.limits, j.network, p.RunnerID, j.checks, j.merging, j.keep, j.allowed)
	return Wrap(err, "inserting project")
}

// FolderProjects returns every team's projects in folders of the server's, those in the trash included.
func (s *Workspaces) FolderProjects(ctx context.Context) ([]workspaces.Project, error) {
	return s.projects(ctx, `/* every team: a folder belongs to one of them */ SELECT `+projectColumns+` FROM projects WHERE source_kind = 'path' AND purged_at = 0 ORDER BY id`)
}

// InsertFolderProject stores a project in a folder, if known are the ids of all there are, else workspaces.ErrFoldersChanged.
func (s *Workspaces) InsertFolderProject(ctx context.Context, p workspaces.Project, known []string) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		// One row that all of them write: they take turns, on both databases.
		if _, err := s.db.Exec(ctx, `/* every team: a folder belongs to one of them */ UPDATE folder_claims SET turn = turn + 1 WHERE id = 1`); err != nil {
			return err
		}
		all, err := s.FolderProjects(ctx)
		if err != nil {
			return err
		}
		for _, other := range all {
			if other.TeamID == p.TeamID && other.GitDir == p.GitDir && !slices.Contains(known, other.ID) {
				return fault.New(fault.Conflict, "project_exists", "This repository is already the project %q.", other.Name).With("project_id", other.ID)
			}
			if !slices.Contains(known, other.ID) {
				return projects.ErrFoldersChanged
			}
		}
		return s.InsertProject(ctx, p)
	})
}

// Project returns a project that is not deleted.
func (s *Workspaces) Project(ctx context.Context, id string) (workspaces.Project, error) {
	return scanProject(s.db.QueryRow(ctx, `SELECT `+projectColumns+` FROM projects WHERE id = ? AND {team} AND deleted_at = 0`, id))
}

// Projects returns a page of the team's projects, the newest first.
func (s *Workspaces) Projects(ctx context.Context, teamID string, pg page.Page) ([]workspaces.Project, string, error) {
	query, args, err := Keyset(`SELECT `+projectColumns+` FROM projects WHERE team_id = {team?} AND deleted_at = 0 AND source_kind <> 'sandboxes'`, "created_at", []any{teamID}, pg)
	if err != nil {
		return nil, "", err
	}
	items, err := s.projects(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(p workspaces.Project) page.Key { return page.Key{At: p.CreatedAt, ID: p.ID} })
	return items, next, nil
}

// ProjectsIn returns every project in this state.
func (s *Workspaces) ProjectsIn(ctx context.Context, state workspaces.ProjectState) ([]workspaces.Project, error) {
	return s.projects(ctx, `SELECT `+projectColumns+` FROM projects WHERE state = ? AND {team} AND deleted_at = 0 ORDER BY id`, string(state))
}

// ProjectsAt returns every project with this git dir.
func (s *Workspaces) ProjectsAt(ctx context.Context, gitDir string) ([]workspaces.Project, error) {
	return s.projects(ctx, `/* every team: teams may share a folder of the server */ SELECT `+projectColumns+` FROM projects WHERE git_dir = ? AND deleted_at = 0 ORDER BY id`, gitDir)
}

func (s *Workspaces) projects(ctx context.Context, query string, args ...any) ([]workspaces.Project, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanProject)
	return out, Wrap(err, "reading projects")
}

// EditProject changes a project in one transaction.
func (s *Workspaces) EditProject(ctx context.Context, id string, fn func(*workspaces.Project) error) (workspaces.Project, error) {
	var p workspaces.Project
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		// The write takes the row's lock before the read, on both databases.
		if err := s.touch(ctx, `UPDATE projects SET state = state WHERE id = ? AND {team} AND deleted_at = 0`, id); err != nil {
			return err
		}
		var err error
		if p, err = s.Project(ctx, id); err != nil {
			return err
		}
		if err := fn(&p); err != nil {
			return err
		}
		j, err := projectJSON(p)
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE projects SET name = ?, source = ?, git_dir = ?, default_branch = ?, state = ?, state_reason = ?,
			setup_script = ?, copy_ignored = ?, fetched_at = ?, executor = ?, no_caches = ?, limits = ?, network = ?, checks = ?, merging = ?, keep_ignored = ?, allowed_commands = ? WHERE id = ? AND {team}`,
			p.Name, p.Source, p.GitDir, p.DefaultBranch, string(p.State), p.StateReason, p.SetupScript, j.patterns, p.FetchedAt,
			p.Executor, p.NoCaches, j.limits, j.network, j.checks, j.merging, j.keep, j.allowed, id)
		return err
	})
	return p, err
}

// projectTexts are the columns of a project that hold JSON.
type projectTexts struct{ patterns, limits, network, checks, merging, keep, allowed string }

func projectJSON(p workspaces.Project) (t projectTexts, err error) {
	var errs [7]error
	t.patterns, errs[0] = ToJSON(p.CopyIgnored)
	t.limits, errs[1] = ToJSON(p.Limits)
	t.network, errs[2] = ToJSON(p.Network)
	t.checks, errs[3] = ToJSON(p.Checks)
	t.merging, errs[4] = ToJSON(p.Merging)
	t.keep, errs[5] = ToJSON(p.KeepIgnored)
	t.allowed, errs[6] = ToJSON(p.AllowedCommands)
	return t, errors.Join(errs[:]...)
}

// DeleteProject marks a project deleted that has no workspaces left.
func (s *Workspaces) DeleteProject(ctx context.Context, id, by string, at int64) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.touch(ctx, `UPDATE projects SET deleted_at = ?, deleted_by = ? WHERE id = ? AND {team} AND deleted_at = 0`, at, by, id); err != nil {
			return err
		}
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM workspaces WHERE project_id = ? AND {team} AND deleted_at = 0`, id).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fault.New(fault.Conflict, "project_has_workspaces", "The project still has %d workspaces. Delete them first.", n)
		}
		return nil
	})
}

// UndeleteProject brings a deleted project back.
func (s *Workspaces) UndeleteProject(ctx context.Context, id string) error {
	return s.touch(ctx, `UPDATE projects SET deleted_at = 0, deleted_by = '' WHERE id = ? AND {team} AND purged_at = 0`, id)
}

// touch runs a statement that must change a row.
func (s *Workspaces) touch(ctx context.Context, query string, args ...any) error {
	res, err := s.db.Exec(ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

const workspaceColumns = `id, team_id, project_id, num, name, branch, base, base_commit, executor, state, state_reason, path, steps,
	merged_at, merged_commit, snapshot, created_by, created_at, updated_at, archived_at, deleted_at, limits, allowed_hosts, fallback_ok, runner_folder, private, deleted_by`

// briefColumns are what workspaces.Filter.Brief promises, as scanBrief reads them.
const briefColumns = `id, team_id, project_id, num, name, executor, state, state_reason, merged_at, created_by, created_at, updated_at, private`

func scanBrief(r Scanner) (w workspaces.Workspace, err error) {
	return w, r.Scan(&w.ID, &w.TeamID, &w.ProjectID, &w.Num, &w.Name, &w.Executor, &w.State, &w.StateReason, &w.MergedAt, &w.CreatedBy, &w.CreatedAt, &w.UpdatedAt, &w.Private)
}

func scanWorkspace(r Scanner) (workspaces.Workspace, error) {
	var w workspaces.Workspace
	var steps, snapshot, limits, hosts string
	err := r.Scan(&w.ID, &w.TeamID, &w.ProjectID, &w.Num, &w.Name, &w.Branch, &w.Base, &w.BaseCommit, &w.Executor, &w.State,
		&w.StateReason, &w.Path, &steps, &w.MergedAt, &w.MergedCommit, &snapshot, &w.CreatedBy, &w.CreatedAt, &w.UpdatedAt,
		&w.ArchivedAt, &w.DeletedAt, &limits, &hosts, &w.FallbackOK, &w.Folder, &w.Private, &w.DeletedBy)
	if err == nil {
		err = errors.Join(FromJSON(steps, &w.Steps), FromJSON(limits, &w.Limits), FromJSON(hosts, &w.AllowedHosts))
	}
	if err == nil && snapshot != "" {
		err = FromJSON(snapshot, &w.Snapshot)
	}
	return w, err
}

// InsertWorkspace takes the team's next number and stores the workspace with it, in one transaction.
func (s *Workspaces) InsertWorkspace(ctx context.Context, w workspaces.Workspace) (workspaces.Workspace, error) {
	j, err := workspaceJSON(w)
	if err != nil {
		return w, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.db.QueryRow(ctx, `UPDATE teams SET next_workspace_num = next_workspace_num + 1 WHERE id = {team?} RETURNING next_workspace_num - 1`, w.TeamID).Scan(&w.Num); err != nil {
			return err
		}
		// A project that is being deleted takes no workspace: the row's lock is taken first.
		if err := s.touch(ctx, `UPDATE projects SET state = state WHERE id = ? AND team_id = {team?} AND deleted_at = 0`, w.ProjectID, w.TeamID); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `INSERT INTO workspaces (`+workspaceColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			w.ID, w.TeamID, w.ProjectID, w.Num, w.Name, w.Branch, w.Base, w.BaseCommit, w.Executor, string(w.State), w.StateReason,
			w.Path, j.steps, w.MergedAt, w.MergedCommit, j.snapshot, w.CreatedBy, w.CreatedAt, w.UpdatedAt, w.ArchivedAt, w.DeletedAt,
			j.limits, j.hosts, w.FallbackOK, w.Folder, w.Private, w.DeletedBy)
		return err
	})
	return w, Wrap(err, "inserting workspace")
}

// NumbersGiven is the highest number each team's workspaces have had.
func (s *Workspaces) NumbersGiven(ctx context.Context) (map[string]int64, error) {
	rows, err := s.db.Query(ctx, `/* every team: the numbers of all are kept beside the database */ SELECT id, next_workspace_num - 1 FROM teams`)
	out, err := Pairs[string, int64](rows, err)
	return out, Wrap(err, "reading the highest numbers of workspaces")
}

// SkipNumbers has a team's next workspace get a number above num.
func (s *Workspaces) SkipNumbers(ctx context.Context, teamID string, num int64) error {
	_, err := s.db.Exec(ctx, `UPDATE teams SET next_workspace_num = ? WHERE id = {team?} AND next_workspace_num <= ?`, num+1, teamID, num)
	return err
}

// WorkspaceKnown reports whether there ever was a workspace with this id, purged ones included.
func (s *Workspaces) WorkspaceKnown(ctx context.Context, id string) (known bool, err error) {
	err = s.db.QueryRow(ctx, `/* every team: the folder of a workspace does not say whose it is */ SELECT EXISTS (SELECT 1 FROM workspaces WHERE id = ?)`, id).Scan(&known)
	return known, err
}

// Workspace returns a workspace, deleted ones too.
func (s *Workspaces) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	return scanWorkspace(s.db.QueryRow(ctx, `SELECT `+workspaceColumns+` FROM workspaces WHERE id = ? AND {team} AND purged_at = 0`, id))
}

// isWork leaves out the workspaces of teams' hidden projects, which are sandboxes without a repository. workOf is the same of the alias w.
const (
	isWork = `project_id <> '` + workspaces.SandboxesProject + `' || team_id`
	workOf = `w.project_id <> '` + workspaces.SandboxesProject + `' || w.team_id`
)

// Workspaces returns a page of the team's workspaces, the newest first.
func (s *Workspaces) Workspaces(ctx context.Context, teamID string, f workspaces.Filter, pg page.Page) ([]workspaces.Workspace, string, error) {
	query, scan := `SELECT `+workspaceColumns+` FROM workspaces WHERE {team} AND `+among("team_id", f.IDs), scanWorkspace
	if f.Brief {
		query, scan = `SELECT `+briefColumns+` FROM workspaces WHERE {team} AND `+among("team_id", f.IDs), scanBrief
	}
	args := []any{teamID}
	if f.ProjectID != "" {
		query, args = query+` AND project_id = ?`, append(args, f.ProjectID)
	}
	if f.State != "" {
		query, args = query+` AND state = ?`, append(args, string(f.State))
	}
	if f.Num != 0 {
		query, args = query+` AND num = ?`, append(args, f.Num)
	}
	if f.Work || len(f.IDs) == 0 { // sandboxes have a list of their own
		query += ` AND ` + isWork
	}
	these, ids := only("id", f.IDs)
	query, args = query+these, append(args, ids...)
	if f.For != "" {
		mine := `NOT private OR created_by = ?`
		if f.Orphans {
			mine += ` OR NOT EXISTS (SELECT 1 FROM members m WHERE {team:m} AND m.team_id = workspaces.team_id AND m.user_id = workspaces.created_by)`
		}
		query, args = query+` AND (`+mine+`)`, append(args, f.For)
	}
	switch f.Show {
	case workspaces.ShowTrash:
		query += ` AND deleted_at <> 0 AND snapshot <> '' AND purged_at = 0`
	case workspaces.ShowArchived:
		query += ` AND deleted_at = 0 AND archived_at <> 0`
	case workspaces.ShowAll:
		query += ` AND deleted_at = 0`
	default:
		query += ` AND deleted_at = 0 AND archived_at = 0`
	}
	query, args, err := Keyset(query, "created_at", args, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	items, err := Collect(rows, err, scan)
	if err != nil {
		return nil, "", Wrap(err, "reading workspaces")
	}
	items, next := page.Cut(pg, items, func(w workspaces.Workspace) page.Key { return page.Key{At: w.CreatedAt, ID: w.ID} })
	return items, next, nil
}

// PrivateWorkspaces returns a team's private workspaces, deleted ones too; those of all teams with "".
func (s *Workspaces) PrivateWorkspaces(ctx context.Context, teamID string) ([]workspaces.Workspace, error) {
	query, args := `SELECT `+workspaceColumns+` FROM workspaces WHERE {team} AND private`, []any(nil)
	if teamID != "" {
		query, args = query+` AND team_id = ?`, []any{teamID}
	}
	return s.workspaces(ctx, query, args...)
}

// HiddenBranches returns the branches of workspaces at a git dir that are private or another team's, deleted ones' too, and that no
// workspace of the team's is open about.
func (s *Workspaces) HiddenBranches(ctx context.Context, gitDir, teamID string) ([]string, error) {
	rows, err := s.db.Query(ctx, `/* every team: what other teams have in a repository is hidden, too */ SELECT DISTINCT w.branch FROM workspaces w JOIN projects p ON p.id = w.project_id
		WHERE p.git_dir = ? AND w.branch <> '' AND (w.private OR w.team_id <> ?) AND NOT EXISTS (SELECT 1 FROM workspaces o JOIN projects q ON q.id = o.project_id
		WHERE q.git_dir = p.git_dir AND o.branch = w.branch AND o.team_id = ? AND NOT o.private AND o.deleted_at = 0)`, gitDir, teamID, teamID)
	out, err := Column[string](rows, err)
	return out, Wrap(err, "reading private branches")
}

// WorkspacesOf returns every workspace of a project that is not deleted.
func (s *Workspaces) WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error) {
	return s.workspaces(ctx, `SELECT `+workspaceColumns+` FROM workspaces WHERE project_id = ? AND {team} AND deleted_at = 0 ORDER BY num`, projectID)
}

// WorkspacesIn returns every workspace in one of these states that is not deleted.
func (s *Workspaces) WorkspacesIn(ctx context.Context, states ...workspaces.State) ([]workspaces.Workspace, error) {
	if len(states) == 0 {
		return nil, nil
	}
	args := make([]any, len(states))
	for i, st := range states {
		args[i] = string(st)
	}
	return s.workspaces(ctx, `SELECT `+workspaceColumns+` FROM workspaces WHERE {team} AND deleted_at = 0 AND state IN (?`+
		strings.Repeat(",?", len(states)-1)+`) ORDER BY id`, args...)
}

func (s *Workspaces) workspaces(ctx context.Context, query string, args ...any) ([]workspaces.Workspace, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanWorkspace)
	return out, Wrap(err, "reading workspaces")
}

// EditWorkspace changes a workspace in one transaction.
func (s *Workspaces) EditWorkspace(ctx context.Context, id string, fn func(*workspaces.Workspace) error) (workspaces.Workspace, error) {
	var w workspaces.Workspace
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.touch(ctx, `UPDATE workspaces SET state = state WHERE id = ? AND {team}`, id); err != nil {
			return err
		}
		var err error
		if w, err = s.Workspace(ctx, id); err != nil {
			return err
		}
		if err := fn(&w); err != nil {
			return err
		}
		j, err := workspaceJSON(w)
		if err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE workspaces SET name = ?, branch = ?, base = ?, base_commit = ?, executor = ?, state = ?,
			state_reason = ?, path = ?, steps = ?, merged_at = ?, merged_commit = ?, snapshot = ?, updated_at = ?, archived_at = ?,
			deleted_at = ?, limits = ?, allowed_hosts = ?, fallback_ok = ?, runner_folder = ?, private = ?, deleted_by = ? WHERE id = ? AND {team}`, w.Name, w.Branch, w.Base, w.BaseCommit, w.Executor,
			string(w.State), w.StateReason, w.Path, j.steps, w.MergedAt, w.MergedCommit, j.snapshot, w.UpdatedAt, w.ArchivedAt,
			w.DeletedAt, j.limits, j.hosts, w.FallbackOK, w.Folder, w.Private, w.DeletedBy, id)
		return err
	})
	return w, err
}

// workspaceTexts are the columns of a workspace that hold JSON.
type workspaceTexts struct{ steps, snapshot, limits, hosts string }

func workspaceJSON(w workspaces.Workspace) (t workspaceTexts, err error) {
	if w.AllowedHosts == nil {
		w.AllowedHosts = []string{}
	}
	var errs [4]error
	t.steps, errs[0] = ToJSON(w.Steps)
	t.limits, errs[1] = ToJSON(w.Limits)
	t.hosts, errs[2] = ToJSON(w.AllowedHosts)
	if w.Snapshot != nil {
		t.snapshot, errs[3] = ToJSON(w.Snapshot)
	}
	return t, errors.Join(errs[:]...)
}

// InsertActivity stores one line of a timeline.
func (s *Workspaces) InsertActivity(ctx context.Context, a workspaces.Activity) error {
	data := "{}"
	if len(a.Data) > 0 {
		var err error
		if data, err = ToJSON(a.Data); err != nil {
			return err
		}
	}
	_, err := s.db.Exec(ctx, `INSERT INTO activity (id, team_id, workspace_id, at, actor_id, kind, text, data) VALUES (?,{team?},?,?,?,?,?,?)`,
		a.ID, a.TeamID, a.WorkspaceID, a.At, a.ActorID, a.Kind, a.Text, data)
	return Wrap(err, "inserting activity")
}

// Activity returns a page of a workspace's timeline, the newest first.
func (s *Workspaces) Activity(ctx context.Context, workspaceID string, pg page.Page) ([]workspaces.Activity, string, error) {
	query, args, err := Keyset(`SELECT id, team_id, workspace_id, at, actor_id, kind, text, data FROM activity WHERE workspace_id = ? AND {team}`,
		"at", []any{workspaceID}, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	items, err := Collect(rows, err, func(r Scanner) (a workspaces.Activity, err error) {
		var data string
		err = r.Scan(&a.ID, &a.TeamID, &a.WorkspaceID, &a.At, &a.ActorID, &a.Kind, &a.Text, &data)
		if err == nil {
			err = FromJSON(data, &a.Data)
		}
		return a, err
	})
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(a workspaces.Activity) page.Key { return page.Key{At: a.At, ID: a.ID} })
	return items, next, nil
}

// Keyset adds order, cursor and limit to a query whose rows are listed by (column, id), the newest first.
func Keyset(query, column string, args []any, pg page.Page) (string, []any, error) {
	k, ok, err := pg.Key()
	if err != nil {
		return "", nil, err
	}
	if ok {
		query += ` AND (` + column + ` < ? OR (` + column + ` = ? AND id < ?))`
		args = append(args, k.At, k.At, k.ID)
	}
	return query + ` ORDER BY ` + column + ` DESC, id DESC LIMIT ?`, append(args, pg.Size()+1), nil
}

// ToJSON encodes a value for a column; a nil list is [].
func ToJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	if string(b) == "null" {
		return "[]", nil
	}
	return string(b), nil
}

// FromJSON reads a column that ToJSON wrote; an empty one leaves v as it is.
func FromJSON(s string, v any) error {
	if s == "" {
		return nil
	}
	return Wrap(json.Unmarshal([]byte(s), v), "decoding")
}
