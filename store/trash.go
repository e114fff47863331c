package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// Trash stores what was deleted until it is purged.
type Trash struct{ db *DB }

var _ reclaim.TrashStore = (*Trash)(nil)

// NewTrash returns the storage of the trash in db.
func NewTrash(db *DB) *Trash { return &Trash{db} }

const (
	trashedWorkspaces = `SELECT 'workspace', id, team_id, project_id, num, name, private, created_by, deleted_at, deleted_by, size_bytes, CASE WHEN snapshot <> '' THEN 1 ELSE 0 END FROM workspaces`
	trashedProjects   = `SELECT 'project', id, team_id, id, 0, name, FALSE, created_by, deleted_at, deleted_by, size_bytes, CASE WHEN state = 'ready' THEN 1 ELSE 0 END FROM projects`
)

// Trash returns what was deleted and not purged, the newest first.
func (s *Trash) Trash(ctx context.Context, teamID string) ([]reclaim.Trashed, error) {
	of, args := ``, []any(nil)
	if teamID != "" {
		of, args = ` AND team_id = ?`, []any{teamID}
	}
	rows, err := s.db.Query(ctx, trashedWorkspaces+` WHERE {team} AND deleted_at <> 0 AND purged_at = 0 AND `+isWork+of, args...)
	all, err := trashed(rows, err)
	if err != nil {
		return nil, err
	}
	rows, err = s.db.Query(ctx, trashedProjects+` WHERE {team} AND deleted_at <> 0 AND purged_at = 0`+of, args...)
	projects, err := trashed(rows, err)
	all = append(all, projects...)
	slices.SortFunc(all, func(a, b reclaim.Trashed) int {
		return cmp.Or(cmp.Compare(b.DeletedAt, a.DeletedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// CutPurges returns what began to be removed and did not end.
func (s *Trash) CutPurges(ctx context.Context) ([]reclaim.Trashed, error) {
	rows, err := s.db.Query(ctx, trashedWorkspaces+` WHERE {team} AND purged_at < 0`)
	all, err := trashed(rows, err)
	if err != nil {
		return nil, err
	}
	rows, err = s.db.Query(ctx, trashedProjects+` WHERE {team} AND purged_at < 0`)
	projects, err := trashed(rows, err)
	return append(all, projects...), err
}

func trashed(rows *Rows, err error) ([]reclaim.Trashed, error) {
	return Collect(rows, err, func(r Scanner) (t reclaim.Trashed, err error) {
		var kind string
		var kept int
		err = r.Scan(&kind, &t.ID, &t.TeamID, &t.ProjectID, &t.Num, &t.Name, &t.Private, &t.CreatedBy, &t.DeletedAt, &t.DeletedBy, &t.Bytes, &kept)
		t.Kind, t.Restorable = reclaim.TrashKind(kind), kept != 0
		return t, err
	})
}

// BeginPurge records that a purge has begun.
func (s *Trash) BeginPurge(ctx context.Context, kind reclaim.TrashKind, id string, at int64) error {
	if kind == reclaim.TrashWorkspace {
		return changed(s.db.Exec(ctx, `UPDATE workspaces SET purged_at = ? WHERE id = ? AND {team} AND deleted_at <> 0 AND purged_at = 0`, -at, id))
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := changed(s.db.Exec(ctx, `UPDATE projects SET purged_at = ? WHERE id = ? AND {team} AND deleted_at <> 0 AND purged_at = 0`, -at, id)); err != nil {
			return err
		}
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM workspaces WHERE project_id = ? AND {team} AND purged_at <= 0`, id).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fault.New(fault.Conflict, "project_in_use", "The project's repository still holds the saved files of %s. Delete them permanently first.", counted(n, "workspace", "workspaces"))
		}
		return nil
	})
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// EndPurge deletes the rows of a purged workspace or project. What the ledger needs stays: its own row, its sessions and its sandboxes. A
// project's artifacts are marked, for their files to be removed.
func (s *Trash) EndPurge(ctx context.Context, kind reclaim.TrashKind, id string) error {
	if kind == reclaim.TrashProject {
		return s.db.Tx(ctx, func(ctx context.Context) error {
			for _, q := range [...]string{
				`DELETE FROM memories WHERE project_id = ? AND {team}`, `DELETE FROM skills WHERE project_id = ? AND {team}`, `DELETE FROM agent_instructions WHERE project_id = ? AND {team}`, `DELETE FROM agent_limits WHERE project_id = ? AND {team}`, `DELETE FROM tasks WHERE project_id = ? AND {team}`, `DELETE FROM project_tools WHERE project_id = ? AND {team}`, `DELETE FROM project_languages WHERE project_id = ? AND {team}`,
				`DELETE FROM task_settings WHERE project_id = ? AND {team}`,
				`UPDATE artifacts SET state = 'deleting' WHERE project_id = ? AND {team}`,
			} {
				if _, err := s.db.Exec(ctx, q, id); err != nil {
					return fmt.Errorf("forgetting a project: %w", err)
				}
			}
			return changed(s.db.Exec(ctx, `UPDATE projects SET purged_at = -purged_at, size_bytes = 0 WHERE id = ? AND {team} AND purged_at < 0`, id))
		})
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		for _, q := range [...]string{
			`DELETE FROM activity WHERE workspace_id = ? AND {team}`, `DELETE FROM prompts WHERE workspace_id = ? AND {team}`, `DELETE FROM questions WHERE workspace_id = ? AND {team}`,
			`DELETE FROM commands WHERE workspace_id = ? AND {team}`, `DELETE FROM refused_hosts WHERE workspace_id = ? AND {team}`, `DELETE FROM reached_hosts WHERE workspace_id = ? AND {team}`,
			`DELETE FROM edits WHERE workspace_id = ? AND {team}`, `DELETE FROM edit_cursors WHERE workspace_id = ? AND {team}`,
			`DELETE FROM checkpoints WHERE workspace_id = ? AND {team}`, `DELETE FROM snapshots WHERE workspace_id = ? AND {team}`, `DELETE FROM review_comments WHERE workspace_id = ? AND {team}`, `DELETE FROM reviews WHERE workspace_id = ? AND {team}`,
			`DELETE FROM viewed_files WHERE workspace_id = ? AND {team}`, `DELETE FROM pull_requests WHERE workspace_id = ? AND {team}`, `DELETE FROM tendings WHERE workspace_id = ? AND {team}`, `DELETE FROM tending_rounds WHERE workspace_id = ? AND {team}`, `DELETE FROM check_runs WHERE workspace_id = ? AND {team}`,
			`DELETE FROM first_starts WHERE workspace_id = ? AND {team}`, `DELETE FROM notices WHERE workspace_id = ? AND {team}`, `DELETE FROM mutes WHERE workspace_id = ? AND {team}`, `DELETE FROM merge_queue WHERE workspace_id = ? AND {team}`, `DELETE FROM "overlaps" WHERE first_id = ? AND {team}`, `DELETE FROM "overlaps" WHERE second_id = ? AND {team}`,
			`DELETE FROM threads WHERE workspace_id = ? AND {team}`, `DELETE FROM tool_calls WHERE workspace_id = ? AND {team}`, `DELETE FROM language_servers WHERE workspace_id = ? AND {team}`,
			// A subagent that is still live in a sibling workspace is that one's from now on: its row bounds what it may do.
			`DELETE FROM subagents WHERE from_workspace_id = ? AND {team} AND (NOT live OR workspace_id = from_workspace_id
				OR NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = subagents.workspace_id AND {team:w}))`,
			`UPDATE subagents SET from_workspace_id = workspace_id WHERE from_workspace_id = ? AND {team}`,
			`DELETE FROM moves WHERE workspace_id = ? AND {team}`, `DELETE FROM workspace_places WHERE workspace_id = ? AND {team}`, `DELETE FROM watch_links WHERE workspace_id = ? AND {team}`, `DELETE FROM port_links WHERE workspace_id = ? AND {team}`,
			`DELETE FROM workspace_secret_files WHERE workspace_id = ? AND {team}`, `DELETE FROM workspace_secret_values WHERE workspace_id = ? AND {team}`,
			`DELETE FROM changes WHERE workspace_id = (SELECT w.id FROM workspaces w WHERE w.id = ? AND {team:w})`, `DELETE FROM change_sets WHERE workspace_id = ? AND {team}`,
			`DELETE FROM artifact_sources WHERE workspace_id = ? AND {team}`, // artifacts stay
		} {
			if _, err := s.db.Exec(ctx, q, id); err != nil {
				return fmt.Errorf("forgetting a workspace: %w", err)
			}
		}
		return changed(s.db.Exec(ctx, `UPDATE workspaces SET purged_at = -purged_at, snapshot = '', steps = '[]', size_bytes = 0 WHERE id = ? AND {team} AND purged_at < 0`, id))
	})
}

// TrashedProject returns a deleted project.
func (s *Trash) TrashedProject(ctx context.Context, id string) (workspaces.Project, error) {
	return scanProject(s.db.QueryRow(ctx, `SELECT `+projectColumns+` FROM projects WHERE id = ? AND {team} AND deleted_at <> 0 AND purged_at = 0`, id))
}

// GitDirOf returns where a workspace's repository is.
func (s *Trash) GitDirOf(ctx context.Context, workspaceID string) (string, error) {
	var dir string
	err := s.db.QueryRow(ctx, `SELECT p.git_dir FROM workspaces w JOIN projects p ON p.id = w.project_id WHERE w.id = ? AND {team:w}`, workspaceID).Scan(&dir)
	return dir, err
}

// NoteSize stores how many bytes something takes on disk.
func (s *Trash) NoteSize(ctx context.Context, kind reclaim.TrashKind, id string, bytes int64) error {
	if kind == reclaim.TrashProject {
		return changed(s.db.Exec(ctx, `UPDATE projects SET size_bytes = ? WHERE id = ? AND {team}`, bytes, id))
	}
	return changed(s.db.Exec(ctx, `UPDATE workspaces SET size_bytes = ? WHERE id = ? AND {team}`, bytes, id))
}
