package toolstore

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/tasks"
)

// seenArtifact selects the ready artifacts of a task's project that somebody may see. Its arguments are the project, a workspace and a user.
const seenArtifact = ` FROM artifacts a JOIN workspaces w ON w.id = a.workspace_id WHERE {team:a} AND {team:w} AND a.state = 'ready' AND a.project_id = ?
	AND (w.private = FALSE OR w.id = ? OR w.created_by = ?)`

// Attach has an artifact belong to a task.
func (s *Tasks) Attach(ctx context.Context, t tasks.Task, who tasks.Who, artifactID string, at int64) error {
	return s.attach(ctx, t, who, artifactID, at, false)
}

// Detach ends that; the row that stays keeps what the task's session saved from coming back.
func (s *Tasks) Detach(ctx context.Context, t tasks.Task, who tasks.Who, artifactID string, at int64) error {
	return s.attach(ctx, t, who, artifactID, at, true)
}

func (s *Tasks) attach(ctx context.Context, t tasks.Task, who tasks.Who, artifactID string, at int64, detached bool) error {
	res, err := s.db.Exec(ctx, `INSERT INTO task_artifacts (task_id, artifact_id, team_id, at, detached) SELECT CAST(? AS TEXT), a.id, a.team_id, CAST(? AS BIGINT), CAST(? AS BOOLEAN)`+seenArtifact+` AND a.id = ?
		ON CONFLICT (task_id, artifact_id) DO UPDATE SET at = excluded.at, detached = excluded.detached`, t.UID, at, detached, t.ProjectID, who.WorkspaceID, who.UserID, artifactID)
	done, err := affected(res, err, "attaching an artifact")
	if err == nil && !done {
		err = fault.New(fault.NotFound, "artifact_not_found", "There is no such artifact.")
	}
	return err
}

// saved selects what the session that has a task saved since it took it. Its arguments are the session and the times of claim and end.
const saved = `a.session_id <> '' AND a.session_id = ? AND a.created_at >= ? AND a.created_at <= ?`

func savedArgs(t tasks.Task) []any {
	from, to := t.ClaimedAt, int64(1)<<62
	if from == 0 {
		from = to // nobody claimed it
	}
	if t.ClosedAt > 0 {
		to = t.ClosedAt
	}
	return []any{t.Assignee, from, to}
}

// Attachments returns the artifacts of a task that somebody may see, newest first.
func (s *Tasks) Attachments(ctx context.Context, t tasks.Task, who tasks.Who, n int) ([]tasks.Attachment, error) {
	args := append([]any{t.ProjectID, who.WorkspaceID, who.UserID, t.UID}, savedArgs(t)...)
	rows, err := s.db.Query(ctx, `SELECT a.id, a.name, a.version, a.mime, a.size, a.workspace_id, a.created_at`+seenArtifact+`
		AND (EXISTS (SELECT 1 FROM task_artifacts x WHERE x.task_id = ? AND x.artifact_id = a.id AND NOT x.detached AND {team:x})
			OR `+saved+` AND NOT EXISTS (SELECT 1 FROM task_artifacts x WHERE x.task_id = ? AND x.artifact_id = a.id AND x.detached AND {team:x}))
		ORDER BY a.created_at DESC, a.id DESC LIMIT ?`, append(args, t.UID, n)...)
	out, err := store.Collect(rows, err, func(r store.Scanner) (a tasks.Attachment, err error) {
		err = r.Scan(&a.ID, &a.Name, &a.Version, &a.MIME, &a.Size, &a.WorkspaceID, &a.CreatedAt)
		return a, err
	})
	return out, store.Wrap(err, "reading the artifacts of a task")
}

// KeepAttachments attaches what the task's session saved, up to the most a task has.
func (s *Tasks) KeepAttachments(ctx context.Context, t tasks.Task, at int64) error {
	_, err := s.db.Exec(ctx, `INSERT INTO task_artifacts (task_id, artifact_id, team_id, at, detached) SELECT CAST(? AS TEXT), a.id, a.team_id, CAST(? AS BIGINT), FALSE FROM artifacts a
		WHERE {team:a} AND a.state = 'ready' AND a.project_id = ? AND `+saved+` ORDER BY a.created_at DESC LIMIT ? ON CONFLICT (task_id, artifact_id) DO NOTHING`,
		append(append([]any{t.UID, at, t.ProjectID}, savedArgs(t)...), tasks.MaxArtifacts)...)
	return store.Wrap(err, "keeping the artifacts of a task")
}
