package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	filesync "github.com/parawork/parawork/sync"
)

// Changes keeps, for each workspace, the files that differ from its base.
type Changes struct{ db *DB }

var _ filesync.Store = (*Changes)(nil)

// NewChanges returns the storage of changes in db.
func NewChanges(db *DB) *Changes { return &Changes{db: db} }

const changeColumns = `path, old_path, status, mode, old_mode, size, is_binary, additions, deletions, hash, staged, committed`

func scanChange(s Scanner) (guest.Change, error) {
	var c guest.Change
	var path, old []byte
	err := s.Scan(&path, &old, &c.Status, &c.Mode, &c.OldMode, &c.Size, &c.Binary, &c.Additions, &c.Deletions, &c.Hash,
		&c.Staged, &c.Committed)
	c.Path, c.OldPath = guest.EncodePath(string(path)), guest.EncodePath(string(old))
	return c, err
}

// Changes returns the set of a workspace, ordered by the bytes of the path; the zero Set when it was never looked at.
func (s *Changes) Changes(ctx context.Context, workspaceID string) (filesync.Set, error) {
	// Items and version must belong together. Reading is tried without a transaction first, because on SQLite that would
	// hold up every writer while a long list is read.
	for range 3 {
		set, err := s.read(ctx, workspaceID)
		if err != nil {
			return filesync.Set{}, fmt.Errorf("reading changes: %w", err)
		}
		if now, _, err := s.header(ctx, workspaceID); err == nil && now.Version == set.Version {
			return set, nil
		}
	}
	var set filesync.Set
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		set, err = s.read(ctx, workspaceID)
		return err
	})
	if err != nil {
		return filesync.Set{}, fmt.Errorf("reading changes: %w", err)
	}
	return set, nil
}

func (s *Changes) read(ctx context.Context, workspaceID string) (filesync.Set, error) {
	set, exists, err := s.header(ctx, workspaceID)
	if err != nil || !exists {
		return set, err
	}
	set.Items, err = s.items(ctx, workspaceID)
	return set, err
}

// Change returns the change of one path, in wire form; fault.NotFound when it does not differ.
func (s *Changes) Change(ctx context.Context, workspaceID, path string) (guest.Change, error) {
	c, err := scanChange(s.db.QueryRow(ctx, `SELECT `+changeColumns+` FROM changes WHERE workspace_id = (SELECT w.id FROM workspaces w WHERE w.id = ? AND {team:w}) AND path = ?`,
		workspaceID, []byte(guest.DecodePath(path))))
	if errors.Is(err, ErrNotFound) {
		return c, fault.New(fault.NotFound, "not_changed", "The file does not differ from the base.")
	}
	return c, Wrap(err, "reading a change")
}

// header reads what stands in the set's own row; Version 0 and false when there is none.
func (s *Changes) header(ctx context.Context, workspaceID string) (set filesync.Set, exists bool, err error) {
	err = s.db.QueryRow(ctx, `SELECT version, base_commit, head_commit, branch, error, synced_at FROM change_sets
		WHERE workspace_id = ? AND {team}`, workspaceID).
		Scan(&set.Version, &set.BaseCommit, &set.HeadCommit, &set.Branch, &set.Error, &set.SyncedAt)
	return Optional(set, err)
}

func (s *Changes) items(ctx context.Context, workspaceID string) ([]guest.Change, error) {
	rows, err := s.db.Query(ctx, `SELECT `+changeColumns+` FROM changes WHERE workspace_id = (SELECT w.id FROM workspaces w WHERE w.id = ? AND {team:w}) ORDER BY path`, workspaceID)
	return Collect(rows, err, scanChange)
}

// ApplyChanges writes a delta in one transaction. The version grows by one when anything but SyncedAt differs. It fails with
// fault.TooLarge, and writes nothing, when the set would hold more than filesync.MaxFiles.
func (s *Changes) ApplyChanges(ctx context.Context, d filesync.Delta) (version int64, changed bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		old, exists, err := s.header(ctx, d.WorkspaceID)
		if err != nil {
			return err
		}
		upserts, removes := d.Upserts, d.Removes
		if d.Reset {
			if upserts, removes, err = s.difference(ctx, d); err != nil {
				return err
			}
		}
		changed = !exists || len(upserts) > 0 || len(removes) > 0 || old.BaseCommit != d.BaseCommit ||
			old.HeadCommit != d.HeadCommit || old.Branch != d.Branch || old.Error != d.Error
		version = old.Version
		if changed {
			version++
		}
		if err := s.remove(ctx, d.WorkspaceID, removes); err != nil {
			return err
		}
		if err := s.upsert(ctx, d.WorkspaceID, upserts); err != nil {
			return err
		}
		return s.putHeader(ctx, d, version, len(upserts)+len(removes) > 0)
	})
	if err != nil {
		return 0, false, fmt.Errorf("writing changes: %w", err)
	}
	return version, changed, nil
}

// difference says what a whole set changes in what is stored.
func (s *Changes) difference(ctx context.Context, d filesync.Delta) (upserts []guest.Change, removes []string, err error) {
	stored, err := s.items(ctx, d.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	gone := make(map[string]guest.Change, len(stored))
	for _, c := range stored {
		gone[c.Path] = c
	}
	for _, c := range d.Upserts {
		if old, ok := gone[c.Path]; !ok || old != c {
			upserts = append(upserts, c)
		}
		delete(gone, c.Path)
	}
	for path := range gone {
		removes = append(removes, path)
	}
	return upserts, removes, nil
}

// changeBatch rows go into one statement: well under SQLite's 32,766 arguments.
const changeBatch = 500

func (s *Changes) remove(ctx context.Context, workspaceID string, paths []string) error {
	for len(paths) > 0 {
		n := min(len(paths), changeBatch)
		args := []any{workspaceID}
		for _, p := range paths[:n] {
			args = append(args, []byte(guest.DecodePath(p)))
		}
		_, err := s.db.Exec(ctx, `DELETE FROM changes WHERE workspace_id = (SELECT w.id FROM workspaces w WHERE w.id = ? AND {team:w}) AND path IN (?`+strings.Repeat(`,?`, n-1)+`)`, args...)
		if err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

func (s *Changes) upsert(ctx context.Context, workspaceID string, changes []guest.Change) error {
	const row = `(?,?,?,?,?,?,?,?,?,?,?,?,?)`
	for len(changes) > 0 {
		n := min(len(changes), changeBatch)
		args := make([]any, 0, n*13)
		for _, c := range changes[:n] {
			var old []byte
			if c.OldPath != "" {
				old = []byte(guest.DecodePath(c.OldPath))
			}
			args = append(args, workspaceID, []byte(guest.DecodePath(c.Path)), old, c.Status, c.Mode, c.OldMode, c.Size,
				c.Binary, c.Additions, c.Deletions, c.Hash, c.Staged, c.Committed)
		}
		_, err := s.db.Exec(ctx, `/* every team: rows of a set whose own row, in the same transaction, says whose it is */ INSERT INTO changes (workspace_id, `+changeColumns+`) VALUES `+row+strings.Repeat(`,`+row, n-1)+`
			ON CONFLICT (workspace_id, path) DO UPDATE SET old_path = excluded.old_path, status = excluded.status,
			mode = excluded.mode, old_mode = excluded.old_mode, size = excluded.size, is_binary = excluded.is_binary,
			additions = excluded.additions, deletions = excluded.deletions, hash = excluded.hash,
			staged = excluded.staged, committed = excluded.committed`, args...)
		if err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// putHeader writes the set's own row, with its figures recomputed when items differ.
func (s *Changes) putHeader(ctx context.Context, d filesync.Delta, version int64, recount bool) error {
	_, err := s.db.Exec(ctx, `INSERT INTO change_sets (workspace_id, team_id, version, base_commit, head_commit, branch, error, synced_at)
		VALUES (?,{team?},?,?,?,?,?,?)
		ON CONFLICT (workspace_id) DO UPDATE SET version = excluded.version, base_commit = excluded.base_commit,
		head_commit = excluded.head_commit, branch = excluded.branch, error = excluded.error, synced_at = excluded.synced_at`,
		d.WorkspaceID, d.TeamID, version, d.BaseCommit, d.HeadCommit, d.Branch, d.Error, d.SyncedAt)
	if err != nil || !recount {
		return err
	}
	var files, additions, deletions int64
	if err := s.db.QueryRow(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(additions), 0) AS BIGINT),
		CAST(COALESCE(SUM(deletions), 0) AS BIGINT) FROM changes WHERE workspace_id = (SELECT w.id FROM workspaces w WHERE w.id = ? AND {team:w})`,
		d.WorkspaceID).Scan(&files, &additions, &deletions); err != nil {
		return err
	}
	if files > filesync.MaxFiles {
		return fault.New(fault.TooLarge, "too_many_changes", "More than %d files differ from the base.", filesync.MaxFiles)
	}
	_, err = s.db.Exec(ctx, `UPDATE change_sets SET files = ?, additions = ?, deletions = ? WHERE workspace_id = ? AND {team}`,
		files, additions, deletions, d.WorkspaceID)
	return err
}

// ChangeSummaries returns the figures of every workspace of a team that was looked at, or of those that are named.
func (s *Changes) ChangeSummaries(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]filesync.Summary, error) {
	these, args := only("workspace_id", workspaceIDs)
	rows, err := s.db.Query(ctx, `SELECT workspace_id, files, additions, deletions, version FROM change_sets WHERE team_id = {team?}`+these, append([]any{teamID}, args...)...)
	out, err := Keyed(rows, err, func(r Scanner) (id string, sum filesync.Summary, err error) {
		err = r.Scan(&id, &sum.Files, &sum.Additions, &sum.Deletions, &sum.Version)
		return id, sum, err
	})
	return out, Wrap(err, "reading summaries of changes")
}
