package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
)

// Images keeps what projects say about their images, and the builds of those.
type Images struct{ db *DB }

var _ images.Store = (*Images)(nil)

// NewImages returns the storage of projects' images in db.
func NewImages(db *DB) *Images { return &Images{db} }

// ImageChoice returns what a project says about its image.
func (s *Images) ImageChoice(ctx context.Context, projectID string) (images.Choice, error) {
	var c images.Choice
	var raw string
	err := s.db.QueryRow(ctx, `SELECT image FROM projects WHERE id = ? AND {team} AND deleted_at = 0`, projectID).Scan(&raw)
	if err == nil {
		err = FromJSON(raw, &c)
	}
	return c, Wrap(err, "reading a project's image")
}

// SetImageChoice changes it.
func (s *Images) SetImageChoice(ctx context.Context, projectID string, c images.Choice) error {
	raw, err := ToJSON(c)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `UPDATE projects SET image = ? WHERE id = ? AND {team} AND deleted_at = 0`, raw, projectID)
	return Wrap(err, "storing a project's image")
}

// ChoiceOfWorkspace returns what the project of a workspace says; of a sandbox without a repository, what was asked for.
func (s *Images) ChoiceOfWorkspace(ctx context.Context, workspaceID string) (projectID string, c images.Choice, err error) {
	var raw string
	err = s.db.QueryRow(ctx, `SELECT p.id, COALESCE(b.image, p.image) FROM projects p JOIN workspaces w ON w.project_id = p.id LEFT JOIN api_sandboxes b ON b.workspace_id = w.id AND {team:b}
		WHERE w.id = ? AND {team:p}`, workspaceID).Scan(&projectID, &raw)
	if err == nil {
		err = FromJSON(raw, &c)
	}
	if err != nil {
		return "", c, fmt.Errorf("reading the image of a workspace's project: %w", err)
	}
	return projectID, c, nil
}

const buildColumns = `id, team_id, project_id, source, commit_id, tag, state, state_reason, created_by, created_at, ended_at`

func scanBuild(r Scanner) (b images.Build, err error) {
	err = r.Scan(&b.ID, &b.TeamID, &b.ProjectID, &b.Source, &b.Commit, &b.Tag, &b.State, &b.Reason, &b.CreatedBy, &b.CreatedAt, &b.EndedAt)
	return b, err
}

// InsertImageBuild stores a new build, unless the project has one under way.
func (s *Images) InsertImageBuild(ctx context.Context, b images.Build) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		// The write takes the project's lock before the read, on both databases.
		if _, err := s.db.Exec(ctx, `UPDATE projects SET state = state WHERE id = ? AND {team}`, b.ProjectID); err != nil {
			return err
		}
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM image_builds WHERE project_id = ? AND {team} AND state = 'building'`, b.ProjectID).Scan(&n); err != nil {
			return fmt.Errorf("counting builds: %w", err)
		}
		if n > 0 {
			return fault.New(fault.Conflict, "image_build_running", "An image of the project is being built already. Wait for its end, or cancel it.")
		}
		_, err := s.db.Exec(ctx, `INSERT INTO image_builds (`+buildColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?)`, b.ID, b.TeamID, b.ProjectID, b.Source,
			b.Commit, b.Tag, string(b.State), b.Reason, b.CreatedBy, b.CreatedAt, b.EndedAt)
		return Wrap(err, "inserting a build")
	})
}

// keepLogs is how many builds of a project keep what they printed.
const keepLogs = 20

// EndImageBuild stores the end of a build, and drops what old ones printed.
func (s *Images) EndImageBuild(ctx context.Context, b images.Build, log string) error {
	_, err := s.db.Exec(ctx, `UPDATE image_builds SET tag = ?, state = ?, state_reason = ?, ended_at = ?, log = ? WHERE id = ? AND {team} AND state = 'building'`,
		b.Tag, string(b.State), b.Reason, b.EndedAt, log, b.ID)
	if err == nil {
		_, err = s.db.Exec(ctx, `UPDATE image_builds SET log = '' WHERE project_id = ? AND {team} AND log <> '' AND id NOT IN
			(SELECT id FROM image_builds WHERE project_id = ? AND {team} ORDER BY created_at DESC, id DESC LIMIT ?)`, b.ProjectID, b.ProjectID, keepLogs)
	}
	return Wrap(err, "storing the end of a build")
}

// ImageBuild returns a build; fault.NotFound when there is none.
func (s *Images) ImageBuild(ctx context.Context, id string) (images.Build, error) {
	b, err := scanBuild(s.db.QueryRow(ctx, `SELECT `+buildColumns+` FROM image_builds WHERE id = ? AND {team}`, id))
	return b, noBuild(err)
}

// ImageBuildLog returns the end of what a build printed.
func (s *Images) ImageBuildLog(ctx context.Context, id string) (log string, err error) {
	err = s.db.QueryRow(ctx, `SELECT log FROM image_builds WHERE id = ? AND {team}`, id).Scan(&log)
	return log, noBuild(err)
}

func noBuild(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "image_build_not_found", "There is no such build.")
	}
	return Wrap(err, "reading a build")
}

// ImageBuilds returns a page of a project's builds, newest first.
func (s *Images) ImageBuilds(ctx context.Context, projectID string, pg page.Page) ([]images.Build, string, error) {
	query, args, err := Keyset(`SELECT `+buildColumns+` FROM image_builds WHERE project_id = ? AND {team}`, "created_at", []any{projectID}, pg)
	if err != nil {
		return nil, "", err
	}
	items, err := s.list(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(b images.Build) page.Key { return page.Key{At: b.CreatedAt, ID: b.ID} })
	return items, next, nil
}

// ReadyImageBuilds returns a project's builds that are ready, newest first.
func (s *Images) ReadyImageBuilds(ctx context.Context, projectID string) ([]images.Build, error) {
	return s.list(ctx, `SELECT `+buildColumns+` FROM image_builds WHERE project_id = ? AND {team} AND state = 'ready' ORDER BY created_at DESC, id DESC`, projectID)
}

// OpenImageBuilds returns every build that has not ended.
func (s *Images) OpenImageBuilds(ctx context.Context) ([]images.Build, error) {
	return s.list(ctx, `SELECT `+buildColumns+` FROM image_builds WHERE {team} AND state = 'building' ORDER BY created_at, id`)
}

func (s *Images) list(ctx context.Context, query string, args ...any) ([]images.Build, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanBuild)
	return out, Wrap(err, "reading builds")
}
