package store

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/fault"
)

// Secrets keeps what is known of the secrets of sessions; their values are among the sealed ones.
type Secrets struct{ db *DB }

var _ secrets.Store = (*Secrets)(nil)

// NewSecrets returns the storage of the secrets of sessions in db.
func NewSecrets(db *DB) *Secrets { return &Secrets{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Secrets) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const sessionSecretColumns = `id, COALESCE(team_id, ''), COALESCE(project_id, ''), COALESCE(user_id, ''), kind, name, target, username, in_sandbox, agents,
	COALESCE((SELECT v.last_four FROM secrets v WHERE v.id = session_secrets.secret_id AND {team|none:v}), ''), secret_id, created_by, created_at, updated_at, rotated_at, last_used_at`

func scanSessionSecret(r Scanner) (k secrets.Secret, err error) {
	var agents string
	if err = r.Scan(&k.ID, &k.TeamID, &k.ProjectID, &k.UserID, &k.Kind, &k.Name, &k.Target, &k.Username, &k.InSandbox, &agents,
		&k.LastFour, &k.SecretID, &k.CreatedBy, &k.CreatedAt, &k.UpdatedAt, &k.RotatedAt, &k.UsedAt); err != nil {
		return k, err
	}
	return k, json.Unmarshal([]byte(agents), &k.Agents)
}

func agentsText(agents []string) (string, error) {
	if len(agents) == 0 {
		return "[]", nil
	}
	raw, err := json.Marshal(agents)
	return string(raw), err
}

// InsertSessionSecret stores a secret; false when its owner has one of this kind, name and target.
func (s *Secrets) InsertSessionSecret(ctx context.Context, k secrets.Secret) (bool, error) {
	agents, err := agentsText(k.Agents)
	if err != nil {
		return false, err
	}
	return inserted(s.db.Exec(ctx, `INSERT INTO session_secrets (id, team_id, project_id, user_id, kind, name, target, username, in_sandbox, agents, secret_id,
		created_by, created_at, updated_at) VALUES (?, {team?}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		k.ID, null(k.TeamID), null(k.ProjectID), null(k.UserID), string(k.Kind), k.Name, k.Target, k.Username, k.InSandbox, agents, k.SecretID,
		k.CreatedBy, k.CreatedAt, k.UpdatedAt))
}

// UpdateSessionSecret writes everything that may change of a secret; false when its new name and target are taken.
func (s *Secrets) UpdateSessionSecret(ctx context.Context, k secrets.Secret) (bool, error) {
	agents, err := agentsText(k.Agents)
	if err != nil {
		return false, err
	}
	var taken int
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM session_secrets WHERE {team|none} AND COALESCE(team_id, '') = ? AND COALESCE(project_id, '') = ? AND COALESCE(user_id, '') = ?
		AND kind = ? AND name = ? AND target = ? AND id <> ?`, k.TeamID, k.ProjectID, k.UserID, string(k.Kind), k.Name, k.Target, k.ID).Scan(&taken)
	if err != nil || taken > 0 {
		return false, err
	}
	return true, changed(s.db.Exec(ctx, `UPDATE session_secrets SET name = ?, target = ?, username = ?, in_sandbox = ?, agents = ?, secret_id = ?, updated_at = ?, rotated_at = ?
		WHERE id = ? AND {team|none} AND COALESCE(team_id, '') = ? AND COALESCE(user_id, '') = ?`,
		k.Name, k.Target, k.Username, k.InSandbox, agents, k.SecretID, k.UpdatedAt, k.RotatedAt, k.ID, k.TeamID, k.UserID))
}

// SessionSecret returns one secret.
func (s *Secrets) SessionSecret(ctx context.Context, id string) (secrets.Secret, error) {
	return scanSessionSecret(s.db.QueryRow(ctx, `SELECT `+sessionSecretColumns+` FROM session_secrets WHERE id = ? AND {team|none}`, id))
}

// SessionSecrets returns an owner's secrets by name; without a project those of the whole team alone.
func (s *Secrets) SessionSecrets(ctx context.Context, o secrets.Owner) ([]secrets.Secret, error) {
	const order = ` ORDER BY kind, name, target, id`
	if o.UserID != "" {
		rows, err := s.db.Query(ctx, `SELECT `+sessionSecretColumns+` FROM session_secrets WHERE user_id = ? AND {team|none}`+order, o.UserID)
		return Collect(rows, err, scanSessionSecret)
	}
	rows, err := s.db.Query(ctx, `SELECT `+sessionSecretColumns+` FROM session_secrets WHERE team_id = {team?} AND COALESCE(project_id, '') = ?`+order, o.TeamID, o.ProjectID)
	return Collect(rows, err, scanSessionSecret)
}

// TeamSessionSecrets returns the secrets of a team and of all its projects, by name.
func (s *Secrets) TeamSessionSecrets(ctx context.Context, teamID string) ([]secrets.Secret, error) {
	rows, err := s.db.Query(ctx, `SELECT `+sessionSecretColumns+` FROM session_secrets WHERE team_id = {team?} ORDER BY COALESCE(project_id, ''), kind, name, target, id`, teamID)
	return Collect(rows, err, scanSessionSecret)
}

// DeleteSessionSecret forgets what is known of a secret.
func (s *Secrets) DeleteSessionSecret(ctx context.Context, k secrets.Secret) error {
	return changed(s.db.Exec(ctx, `DELETE FROM session_secrets WHERE id = ? AND {team|none} AND COALESCE(team_id, '') = ? AND COALESCE(user_id, '') = ?`, k.ID, k.TeamID, k.UserID))
}

// secretUseStep is how exactly it is known when a secret was last given, in ms.
const secretUseStep = 60_000

// TouchSessionSecrets notes when secrets were last given, unless that is known to the minute.
func (s *Secrets) TouchSessionSecrets(ctx context.Context, ids []string, at int64) error {
	args := []any{at, at - secretUseStep}
	for _, id := range ids {
		args = append(args, id)
	}
	_, err := s.db.Exec(ctx, `UPDATE session_secrets SET last_used_at = ? WHERE {team|none} AND last_used_at <= ? AND id IN (?`+strings.Repeat(`, ?`, len(ids)-1)+`)`, args...)
	return err
}

// DropLoose forgets the secrets of projects that are deleted, and the sealed values whose purpose begins with prefix and to which nothing
// refers any more.
func (s *Secrets) DropLoose(ctx context.Context, prefix string) (n int64, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM session_secrets WHERE {team} AND project_id IN (SELECT p.id FROM projects p WHERE {team:p} AND p.purged_at <> 0)`); err != nil {
			return err
		}
		res, err := s.db.Exec(ctx, `DELETE FROM secrets WHERE {team|none} AND name LIKE ? AND NOT EXISTS (SELECT 1 FROM session_secrets k WHERE k.secret_id = secrets.id AND {team|none:k})
			AND NOT EXISTS (SELECT 1 FROM workspace_secret_values v WHERE v.secret_id = secrets.id AND {team:v})`, prefix+"%")
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return n, err
}

// RememberSecrets notes, for as long as there is the workspace, what it is about to be given. A value that is replaced meanwhile is a
// fault.Conflict: it may be gone.
func (s *Secrets) RememberSecrets(ctx context.Context, teamID, workspaceID string, files []secrets.KnownFile, uses []secrets.Use, at int64) (fresh bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		fresh = false
		for _, f := range files {
			is, err := inserted(s.db.Exec(ctx, `INSERT INTO workspace_secret_files (workspace_id, team_id, path, sum, blob, blob256, created_at) VALUES (?, {team?}, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`, workspaceID, teamID, f.Path, f.Sum, f.Blob, f.Blob256, at))
			if err != nil {
				return err
			}
			fresh = fresh || is
		}
		for _, u := range uses {
			var there int
			if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM secrets WHERE id = ? AND {team|none}`, u.Sealed).Scan(&there); err != nil {
				return err
			}
			if there == 0 {
				return fault.New(fault.Conflict, "secret_changed", "Somebody replaced or deleted a secret at the same time. Try again.")
			}
			is, err := inserted(s.db.Exec(ctx, `INSERT INTO workspace_secret_values (workspace_id, team_id, secret_id, use_id, user_id, kind, created_at) VALUES (?, {team?}, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`, workspaceID, teamID, u.Sealed, u.ID, u.UserID, string(u.Kind), at))
			if err != nil {
				return err
			}
			fresh = fresh || is
		}
		return nil
	})
	return fresh, err
}

// TeamKnownSecrets returns every value a team's workspaces were given.
func (s *Secrets) TeamKnownSecrets(ctx context.Context, teamID string) ([]secrets.Use, error) {
	rows, err := s.db.Query(ctx, `SELECT DISTINCT secret_id, use_id, user_id, kind, team_id FROM workspace_secret_values WHERE team_id = {team?} ORDER BY secret_id`, teamID)
	return Collect(rows, err, scanUse)
}

func scanUse(r Scanner) (u secrets.Use, err error) {
	return u, r.Scan(&u.Sealed, &u.ID, &u.UserID, &u.Kind, &u.TeamID)
}

// KnownSecrets returns what RememberSecrets noted of a workspace.
func (s *Secrets) KnownSecrets(ctx context.Context, workspaceID string) ([]secrets.KnownFile, []secrets.Use, error) {
	rows, err := s.db.Query(ctx, `SELECT path, sum, blob, blob256 FROM workspace_secret_files WHERE workspace_id = ? AND {team} ORDER BY path, sum`, workspaceID)
	files, err := Collect(rows, err, func(r Scanner) (f secrets.KnownFile, err error) {
		return f, r.Scan(&f.Path, &f.Sum, &f.Blob, &f.Blob256)
	})
	if err != nil {
		return nil, nil, err
	}
	rows, err = s.db.Query(ctx, `SELECT secret_id, use_id, user_id, kind, team_id FROM workspace_secret_values WHERE workspace_id = ? AND {team} ORDER BY secret_id`, workspaceID)
	uses, err := Collect(rows, err, scanUse)
	return files, uses, err
}

// SecretRemembered reports whether a workspace was given a sealed value.
func (s *Secrets) SecretRemembered(ctx context.Context, sealedID string) (bool, error) {
	var n int
	err := s.db.QueryRow(ctx, `/* every team: somebody's own secret was given in any of theirs */ SELECT COUNT(*) FROM workspace_secret_values WHERE secret_id = ?`, sealedID).Scan(&n)
	return n > 0, err
}

// Agreed reports whether a user has agreed that others who work in a workspace could read their own secrets there.
func (s *Secrets) Agreed(ctx context.Context, workspaceID, userID string) (bool, error) {
	var n int
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM secret_consents WHERE workspace_id = ? AND user_id = ? AND {team}`, workspaceID, userID).Scan(&n)
	return n > 0, err
}

// SetAgreed notes since when they have; 0 takes it back.
func (s *Secrets) SetAgreed(ctx context.Context, teamID, workspaceID, userID string, at int64) error {
	if at == 0 {
		_, err := s.db.Exec(ctx, `DELETE FROM secret_consents WHERE workspace_id = ? AND user_id = ? AND team_id = {team?}`, workspaceID, userID, teamID)
		return err
	}
	_, err := s.db.Exec(ctx, `INSERT INTO secret_consents (workspace_id, user_id, team_id, agreed_at) VALUES (?,?,{team?},?) ON CONFLICT DO NOTHING`,
		workspaceID, userID, teamID, at)
	return err
}
