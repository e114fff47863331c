package store

import (
	"context"
	"errors"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	filesync "github.com/parawork/parawork/sync"
)

// MirrorState returns how far a workspace's files are synced; the zero value when they never had to be.
func (s *Changes) MirrorState(ctx context.Context, workspaceID string) (filesync.MirrorState, error) {
	var m filesync.MirrorState
	err := s.db.QueryRow(ctx, `SELECT sandbox_id, base_commit, state, pending, reason, synced_at FROM sync_states WHERE workspace_id = ? AND {team}`, workspaceID).
		Scan(&m.SandboxID, &m.BaseCommit, &m.State, &m.Pending, &m.Reason, &m.SyncedAt)
	if errors.Is(err, ErrNotFound) {
		return filesync.MirrorState{}, nil
	}
	return m, Wrap(err, "reading how far files are synced")
}

// MirrorFiles returns every file known of a workspace, in order of paths.
func (s *Changes) MirrorFiles(ctx context.Context, workspaceID string) ([]filesync.File, error) {
	return s.mirrored(ctx, `workspace_id = ? ORDER BY path`, workspaceID)
}

// NotSynced returns at most limit files that are not synced, in order of paths.
func (s *Changes) NotSynced(ctx context.Context, workspaceID string, limit int) ([]filesync.File, error) {
	return s.mirrored(ctx, `workspace_id = ? AND state <> 'synced' ORDER BY path LIMIT ?`, workspaceID, limit)
}

func (s *Changes) mirrored(ctx context.Context, where string, args ...any) ([]filesync.File, error) {
	rows, err := s.db.Query(ctx, `SELECT path, hash, mode, size, state, reason, synced_at FROM synced_files WHERE {team} AND `+where, args...)
	files, err := Collect(rows, err, func(r Scanner) (f filesync.File, err error) {
		var path []byte
		err = r.Scan(&path, &f.Hash, &f.Mode, &f.Size, &f.State, &f.Reason, &f.At)
		f.Path = string(path)
		return f, err
	})
	return files, Wrap(err, "reading mirrored files")
}

// ApplyMirror writes a delta in one transaction.
func (s *Changes) ApplyMirror(ctx context.Context, d filesync.MirrorDelta) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.unmirror(ctx, d.WorkspaceID, d.Removes); err != nil {
			return err
		}
		if err := s.mirror(ctx, d); err != nil {
			return err
		}
		for _, c := range d.Conflicts {
			if _, err := s.db.Exec(ctx, `INSERT INTO sync_conflicts (id, team_id, workspace_id, path, kept_path, found_at, settled_at) VALUES (?,{team?},?,?,?,?,?)`,
				c.ID, c.TeamID, c.WorkspaceID, []byte(c.Path), []byte(c.Kept), c.FoundAt, c.SettledAt); err != nil {
				return err
			}
		}
		st := d.State
		_, err := s.db.Exec(ctx, `INSERT INTO sync_states (workspace_id, team_id, sandbox_id, base_commit, state, pending, reason, synced_at)
			VALUES (?,{team?},?,?,?,?,?,?) ON CONFLICT (workspace_id) DO UPDATE SET sandbox_id = excluded.sandbox_id, base_commit = excluded.base_commit,
			state = excluded.state, pending = excluded.pending, reason = excluded.reason, synced_at = excluded.synced_at`,
			d.WorkspaceID, d.TeamID, st.SandboxID, st.BaseCommit, st.State, st.Pending, st.Reason, st.SyncedAt)
		return err
	})
	return Wrap(err, "writing which files are synced")
}

func (s *Changes) unmirror(ctx context.Context, workspaceID string, paths []string) error {
	for len(paths) > 0 {
		n := min(len(paths), changeBatch)
		args := []any{workspaceID}
		for _, p := range paths[:n] {
			args = append(args, []byte(p))
		}
		if _, err := s.db.Exec(ctx, `DELETE FROM synced_files WHERE workspace_id = ? AND {team} AND path IN (?`+strings.Repeat(`,?`, n-1)+`)`, args...); err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

func (s *Changes) mirror(ctx context.Context, d filesync.MirrorDelta) error {
	const row = `({team?},?,?,?,?,?,?,?,?)`
	for files := d.Upserts; len(files) > 0; {
		n := min(len(files), changeBatch)
		args := make([]any, 0, n*9)
		for _, f := range files[:n] {
			args = append(args, d.TeamID, d.WorkspaceID, []byte(f.Path), f.Hash, f.Mode, f.Size, f.State, f.Reason, f.At)
		}
		if _, err := s.db.Exec(ctx, `INSERT INTO synced_files (team_id, workspace_id, path, hash, mode, size, state, reason, synced_at) VALUES `+
			row+strings.Repeat(`,`+row, n-1)+` ON CONFLICT (workspace_id, path) DO UPDATE SET hash = excluded.hash, mode = excluded.mode,
			size = excluded.size, state = excluded.state, reason = excluded.reason, synced_at = excluded.synced_at`, args...); err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

const conflictColumns = `id, team_id, workspace_id, path, kept_path, found_at, settled_at`

func scanConflict(s Scanner) (filesync.Conflict, error) {
	var c filesync.Conflict
	var path, kept []byte
	err := s.Scan(&c.ID, &c.TeamID, &c.WorkspaceID, &path, &kept, &c.FoundAt, &c.SettledAt)
	c.Path, c.Kept = string(path), string(kept)
	return c, err
}

// OpenConflicts returns at most limit conflicts nobody has settled, the oldest first.
func (s *Changes) OpenConflicts(ctx context.Context, workspaceID string, limit int) ([]filesync.Conflict, error) {
	rows, err := s.db.Query(ctx, `SELECT `+conflictColumns+` FROM sync_conflicts WHERE workspace_id = ? AND {team} AND settled_at = 0 ORDER BY found_at, id LIMIT ?`,
		workspaceID, limit)
	out, err := Collect(rows, err, scanConflict)
	return out, Wrap(err, "reading conflicts")
}

// Conflict returns one conflict, settled or not; fault.NotFound.
func (s *Changes) Conflict(ctx context.Context, id string) (filesync.Conflict, error) {
	c, err := scanConflict(s.db.QueryRow(ctx, `SELECT `+conflictColumns+` FROM sync_conflicts WHERE id = ? AND {team}`, id))
	if errors.Is(err, ErrNotFound) {
		return c, fault.New(fault.NotFound, "not_found", "There is no such conflict.")
	}
	return c, Wrap(err, "reading a conflict")
}

// SettleConflict notes when a conflict was dealt with; the first time stays.
func (s *Changes) SettleConflict(ctx context.Context, id string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE sync_conflicts SET settled_at = ? WHERE id = ? AND {team} AND settled_at = 0`, at, id)
	return Wrap(err, "settling a conflict")
}
