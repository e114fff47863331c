package toolstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/artifacts"
)

// Artifacts keeps artifacts, what the collector knows, and links.
type Artifacts struct{ db *store.DB }

var _ artifacts.Store = (*Artifacts)(nil)

// NewArtifacts returns the storage of artifacts in db.
func NewArtifacts(db *store.DB) *Artifacts { return &Artifacts{db} }

const artifactColumns = `a.id, a.team_id, a.project_id, a.workspace_id, a.session_id, a.created_by, a.name, a.version, a.mime, a.size, a.sha256, a.metadata, a.state, a.source, a.source_at, a.created_at,
	w.created_by, w.private, (SELECT COUNT(*) FROM artifacts v WHERE v.workspace_id = a.workspace_id AND v.name = a.name AND v.state = 'ready' AND {team:v})`

const fromArtifacts = ` FROM artifacts a JOIN workspaces w ON w.id = a.workspace_id WHERE {team:a} AND {team:w}`

func scanArtifact(r store.Scanner) (artifacts.Artifact, error) {
	var a artifacts.Artifact
	var metadata string
	err := r.Scan(&a.ID, &a.TeamID, &a.ProjectID, &a.WorkspaceID, &a.SessionID, &a.CreatedBy, &a.Name, &a.Version, &a.MIME, &a.Size, &a.SHA256, &metadata, &a.State, &a.Source, &a.SourceAt, &a.CreatedAt,
		&a.OwnerID, &a.Private, &a.Versions)
	if err == nil {
		err = json.Unmarshal([]byte(metadata), &a.Metadata)
	}
	return a, err
}

// BeginArtifact stores a pending artifact within the limits.
func (s *Artifacts) BeginArtifact(ctx context.Context, a artifacts.Artifact, limit func(artifacts.Use) error) error {
	metadata, err := json.Marshal(a.Metadata)
	if err != nil {
		return fmt.Errorf("encoding metadata: %w", err)
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		// One after the other, so that two do not both fit into what is left.
		if _, err := s.db.Exec(ctx, `UPDATE teams SET name = name WHERE id = {team?}`, a.TeamID); err != nil {
			return err
		}
		u, err := s.ArtifactUse(ctx, a.TeamID)
		if err != nil {
			return err
		}
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM artifacts WHERE workspace_id = ? AND {team}`, a.WorkspaceID).Scan(&u.InWorkspace); err != nil {
			return err
		}
		if err := limit(u); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `INSERT INTO artifacts (id, team_id, project_id, workspace_id, session_id, created_by, name, version, mime, size, sha256, metadata, state, source, source_at, created_at)
			VALUES (?, {team?}, ?, ?, ?, ?, ?, 0, ?, ?, '', ?, 'pending', ?, ?, ?)`,
			a.ID, a.TeamID, a.ProjectID, a.WorkspaceID, a.SessionID, a.CreatedBy, a.Name, a.MIME, a.Size, string(metadata), a.Source, a.SourceAt, a.CreatedAt)
		return err
	})
}

// FinishArtifact makes a pending artifact the next version of its name.
func (s *Artifacts) FinishArtifact(ctx context.Context, a artifacts.Artifact) (done artifacts.Artifact, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		// One after the other, so that two do not become the same version.
		if _, err := s.db.Exec(ctx, `UPDATE workspaces SET state = state WHERE id = ? AND {team}`, a.WorkspaceID); err != nil {
			return err
		}
		if err := s.db.QueryRow(ctx, `SELECT COALESCE(MAX(version), 0) + 1 FROM artifacts WHERE workspace_id = ? AND name = ? AND {team}`, a.WorkspaceID, a.Name).Scan(&a.Version); err != nil {
			return err
		}
		if err := changed(s.db.Exec(ctx, `UPDATE artifacts SET state = 'ready', version = ?, mime = ?, size = ?, sha256 = ?, source = '', source_at = 0 WHERE id = ? AND {team} AND state = 'pending'`,
			a.Version, a.MIME, a.Size, a.SHA256, a.ID)); err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, `UPDATE artifacts SET state = 'deleting' WHERE workspace_id = ? AND name = ? AND version <= ? AND state = 'ready' AND {team}`,
			a.WorkspaceID, a.Name, a.Version-artifacts.MaxVersions); err != nil {
			return err
		}
		done, err = s.Artifact(ctx, a.ID)
		return err
	})
	return done, err
}

// changed makes a statement that changed nothing a missing row.
func changed(r sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return err
}

// Artifact returns a ready artifact.
func (s *Artifacts) Artifact(ctx context.Context, id string) (artifacts.Artifact, error) {
	return scanArtifact(s.db.QueryRow(ctx, `SELECT `+artifactColumns+fromArtifacts+` AND a.id = ? AND a.state = 'ready'`, id))
}

// Artifacts returns a page of ready artifacts, newest first.
func (s *Artifacts) Artifacts(ctx context.Context, f artifacts.Filter, pg page.Page) ([]artifacts.Artifact, string, error) {
	after, paged, err := pg.Key()
	if err != nil {
		return nil, "", err
	}
	query, args := `SELECT `+artifactColumns+fromArtifacts+` AND a.state = 'ready'`, []any{}
	if f.WorkspaceID != "" {
		query, args = query+` AND a.workspace_id = ?`, append(args, f.WorkspaceID)
	} else {
		query, args = query+` AND a.project_id = ? AND (w.private = FALSE OR w.id = ? OR w.created_by = ?)`, append(args, f.ProjectID, f.SeenFrom, f.SeenBy)
	}
	if f.Name != "" {
		query, args = query+` AND a.name = ?`, append(args, f.Name)
	} else {
		query += ` AND NOT EXISTS (SELECT 1 FROM artifacts n WHERE n.workspace_id = a.workspace_id AND n.name = a.name AND n.state = 'ready' AND n.version > a.version AND {team:n})`
	}
	if paged {
		query, args = query+` AND (a.created_at < ? OR a.created_at = ? AND a.id < ?)`, append(args, after.At, after.At, after.ID)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY a.created_at DESC, a.id DESC LIMIT ?`, append(args, pg.Size()+1)...)
	all, err := store.Collect(rows, err, scanArtifact)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, all, func(a artifacts.Artifact) page.Key { return page.Key{At: a.CreatedAt, ID: a.ID} })
	return items, next, nil
}

// UnfinishedArtifacts returns pending and deleting artifacts created before a time.
func (s *Artifacts) UnfinishedArtifacts(ctx context.Context, before int64, limit int) ([]artifacts.Artifact, error) {
	rows, err := s.db.Query(ctx, `SELECT `+artifactColumns+fromArtifacts+` AND a.state <> 'ready' AND a.created_at < ? ORDER BY a.created_at, a.id LIMIT ?`, before, limit)
	return store.Collect(rows, err, scanArtifact)
}

// ExpireArtifacts marks ready artifacts created before a time as deleting.
func (s *Artifacts) ExpireArtifacts(ctx context.Context, before int64) (int64, error) {
	r, err := s.db.Exec(ctx, `UPDATE artifacts SET state = 'deleting' WHERE state = 'ready' AND created_at < ? AND {team}`, before)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// DeleteArtifact marks a ready artifact as deleting, and ends its links.
func (s *Artifacts) DeleteArtifact(ctx context.Context, id string) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM artifact_links WHERE artifact_id = ? AND {team}`, id); err != nil {
			return err
		}
		return changed(s.db.Exec(ctx, `UPDATE artifacts SET state = 'deleting' WHERE id = ? AND state = 'ready' AND {team}`, id))
	})
}

// ForgetArtifact removes a row that is not ready.
func (s *Artifacts) ForgetArtifact(ctx context.Context, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM artifacts WHERE id = ? AND state <> 'ready' AND {team}`, id))
}

// ArtifactUse returns what a team's artifacts take.
func (s *Artifacts) ArtifactUse(ctx context.Context, teamID string) (u artifacts.Use, err error) {
	err = s.db.QueryRow(ctx, `SELECT COALESCE(SUM(size), 0), COUNT(*) FROM artifacts WHERE team_id = {team?}`, teamID).Scan(&u.Bytes, &u.Count)
	return u, err
}

// PendingArtifact returns the pending artifact that is copied from this state of a source.
func (s *Artifacts) PendingArtifact(ctx context.Context, workspaceID, source string, size, at int64) (artifacts.Artifact, error) {
	return scanArtifact(s.db.QueryRow(ctx, `SELECT `+artifactColumns+fromArtifacts+` AND a.workspace_id = ? AND a.state = 'pending' AND a.source = ? AND a.size = ? AND a.source_at = ?
		ORDER BY a.created_at DESC LIMIT 1`, workspaceID, source, size, at))
}

// ArtifactSources returns what was collected of a workspace, by path.
func (s *Artifacts) ArtifactSources(ctx context.Context, workspaceID string) (map[string]artifacts.Source, error) {
	rows, err := s.db.Query(ctx, `SELECT path, size, mtime FROM artifact_sources WHERE workspace_id = ? AND {team}`, workspaceID)
	return store.Keyed(rows, err, func(r store.Scanner) (string, artifacts.Source, error) {
		var v artifacts.Source
		err := r.Scan(&v.Path, &v.Size, &v.Mtime)
		return v.Path, v, err
	})
}

// NoteArtifactSource remembers what was collected.
func (s *Artifacts) NoteArtifactSource(ctx context.Context, teamID, workspaceID string, v artifacts.Source) error {
	_, err := s.db.Exec(ctx, `INSERT INTO artifact_sources (workspace_id, path, team_id, size, mtime) VALUES (?, ?, {team?}, ?, ?)
		ON CONFLICT (workspace_id, path) DO UPDATE SET size = excluded.size, mtime = excluded.mtime`, workspaceID, v.Path, teamID, v.Size, v.Mtime)
	return err
}

const artifactLinkColumns = `id, team_id, artifact_id, name, created_by, created_at, expires_at, revoked_at, last_used_at, uses`

func scanArtifactLink(r store.Scanner) (artifacts.Link, error) {
	var l artifacts.Link
	err := r.Scan(&l.ID, &l.TeamID, &l.ArtifactID, &l.Name, &l.CreatedBy, &l.CreatedAt, &l.ExpiresAt, &l.RevokedAt, &l.LastUsedAt, &l.Uses)
	return l, err
}

// InsertArtifactLink stores a link unless the artifact has too many.
func (s *Artifacts) InsertArtifactLink(ctx context.Context, l artifacts.Link, hash string, most int) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := changed(s.db.Exec(ctx, `UPDATE artifacts SET state = state WHERE id = ? AND state = 'ready' AND {team}`, l.ArtifactID)); err != nil {
			return err
		}
		var open int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM artifact_links WHERE artifact_id = ? AND expires_at > ? AND revoked_at = 0 AND {team}`, l.ArtifactID, l.CreatedAt).Scan(&open); err != nil {
			return err
		}
		if open >= most {
			return fault.New(fault.Conflict, "too_many_links", "This artifact has %d links. Revoke some that are no longer needed.", open)
		}
		_, err := s.db.Exec(ctx, `INSERT INTO artifact_links (`+artifactLinkColumns+`, token_hash) VALUES (?, {team?}, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			l.ID, l.TeamID, l.ArtifactID, l.Name, l.CreatedBy, l.CreatedAt, l.ExpiresAt, l.RevokedAt, l.LastUsedAt, l.Uses, hash)
		return err
	})
}

// ArtifactLink returns a link.
func (s *Artifacts) ArtifactLink(ctx context.Context, id string) (artifacts.Link, error) {
	return scanArtifactLink(s.db.QueryRow(ctx, `SELECT `+artifactLinkColumns+` FROM artifact_links WHERE id = ? AND {team}`, id))
}

// ArtifactLinkByHash returns the link whose token has this hash.
func (s *Artifacts) ArtifactLinkByHash(ctx context.Context, hash string) (artifacts.Link, error) {
	return scanArtifactLink(s.db.QueryRow(ctx, `SELECT `+artifactLinkColumns+` FROM artifact_links WHERE token_hash = ? AND {team}`, hash))
}

// ArtifactLinks returns an artifact's links that had not ended at a time, newest first.
func (s *Artifacts) ArtifactLinks(ctx context.Context, artifactID string, notEndedAt int64) ([]artifacts.Link, error) {
	rows, err := s.db.Query(ctx, `SELECT `+artifactLinkColumns+` FROM artifact_links WHERE artifact_id = ? AND expires_at > ? AND (revoked_at = 0 OR revoked_at > ?) AND {team}
		ORDER BY created_at DESC, id DESC`, artifactID, notEndedAt, notEndedAt)
	return store.Collect(rows, err, scanArtifactLink)
}

// UseArtifactLink counts an opening.
func (s *Artifacts) UseArtifactLink(ctx context.Context, id string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE artifact_links SET uses = uses + 1, last_used_at = ? WHERE id = ? AND {team}`, at, id))
}

// RevokeArtifactLink ends a link that was not revoked before.
func (s *Artifacts) RevokeArtifactLink(ctx context.Context, id string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE artifact_links SET revoked_at = ? WHERE id = ? AND revoked_at = 0 AND {team}`, at, id))
}
