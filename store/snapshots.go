package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces/snapshot"
)

const snapshotColumns = `id, team_id, workspace_id, at, kind, reason, title, actor_id, session_id, commit_id, tree_id, head, base_commit, files, additions, deletions, missing, pinned, expires_at, ignored, ignored_files`

func scanSnapshot(r Scanner) (snapshot.Snap, error) {
	var s snapshot.Snap
	var missing string
	err := r.Scan(&s.ID, &s.TeamID, &s.WorkspaceID, &s.At, &s.Kind, &s.Reason, &s.Title, &s.ActorID, &s.SessionID, &s.Commit, &s.Tree, &s.Head, &s.BaseCommit,
		&s.Files, &s.Additions, &s.Deletions, &missing, &s.Pinned, &s.ExpiresAt, &s.Ignored, &s.IgnoredN)
	if err == nil {
		err = FromJSON(missing, &s.Missing)
	}
	return s, err
}

// InsertSnapshot stores a snapshot. One whose id is stored already is left as it is.
func (s *Workspaces) InsertSnapshot(ctx context.Context, sn snapshot.Snap) error {
	missing, err := ToJSON(sn.Missing)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO snapshots (`+snapshotColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`,
		sn.ID, sn.TeamID, sn.WorkspaceID, sn.At, sn.Kind, sn.Reason, sn.Title, sn.ActorID, sn.SessionID, sn.Commit, sn.Tree, sn.Head, sn.BaseCommit,
		sn.Files, sn.Additions, sn.Deletions, missing, sn.Pinned, sn.ExpiresAt, sn.Ignored, sn.IgnoredN)
	return Wrap(err, "inserting a snapshot")
}

// Snapshot returns one snapshot.
func (s *Workspaces) Snapshot(ctx context.Context, id string) (snapshot.Snap, error) {
	sn, err := scanSnapshot(s.db.QueryRow(ctx, `SELECT `+snapshotColumns+` FROM snapshots WHERE id = ? AND {team}`, id))
	return sn, Wrap(err, "reading a snapshot")
}

// SnapshotsNamed returns those of some snapshots that are there.
func (s *Workspaces) SnapshotsNamed(ctx context.Context, ids []string) ([]snapshot.Snap, error) {
	var out []snapshot.Snap
	for some := range slices.Chunk(ids, changeBatch) {
		these, args := only("id", some)
		rows, err := s.db.Query(ctx, `SELECT `+snapshotColumns+` FROM snapshots WHERE {team}`+these, args...)
		items, err := Collect(rows, err, scanSnapshot)
		if err != nil {
			return nil, fmt.Errorf("reading snapshots: %w", err)
		}
		out = append(out, items...)
	}
	return out, nil
}

// GitDirs returns the repositories of workspaces' projects.
func (s *Workspaces) GitDirs(ctx context.Context, workspaceIDs []string) (map[string]string, error) {
	out := make(map[string]string, len(workspaceIDs))
	for some := range slices.Chunk(workspaceIDs, changeBatch) {
		these, args := only("w.id", some)
		rows, err := s.db.Query(ctx, `SELECT w.id, p.git_dir FROM workspaces w JOIN projects p ON p.id = w.project_id WHERE {team:w} AND p.deleted_at = 0`+these, args...)
		dirs, err := Pairs[string, string](rows, err)
		if err != nil {
			return nil, fmt.Errorf("reading the repositories of workspaces: %w", err)
		}
		maps.Copy(out, dirs)
	}
	return out, nil
}

// Snapshots returns a page of a workspace's snapshots of these kinds, the newest first.
func (s *Workspaces) Snapshots(ctx context.Context, workspaceID string, kinds []string, pg page.Page) ([]snapshot.Snap, string, error) {
	query, args := `SELECT `+snapshotColumns+` FROM snapshots WHERE workspace_id = ? AND {team}`, []any{workspaceID}
	if len(kinds) > 0 {
		query += ` AND kind IN (?` + strings.Repeat(`,?`, len(kinds)-1) + `)`
		for _, k := range kinds {
			args = append(args, k)
		}
	}
	query, args, err := Keyset(query, "at", args, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	items, err := Collect(rows, err, scanSnapshot)
	if err != nil {
		return nil, "", Wrap(err, "reading snapshots")
	}
	items, next := page.Cut(pg, items, func(sn snapshot.Snap) page.Key { return page.Key{At: sn.At, ID: sn.ID} })
	return items, next, nil
}

// SnapshotBefore returns the newest snapshot of a workspace that was taken before at; of all when at is 0.
func (s *Workspaces) SnapshotBefore(ctx context.Context, workspaceID string, at int64) (snapshot.Snap, error) {
	at = cmp.Or(at, 1<<63-1)
	sn, err := scanSnapshot(s.db.QueryRow(ctx, `SELECT `+snapshotColumns+` FROM snapshots WHERE workspace_id = ? AND at < ? AND {team} ORDER BY at DESC, id DESC LIMIT 1`, workspaceID, at))
	return sn, Wrap(err, "reading a snapshot")
}

// SnapshotAt returns the newest snapshot of a workspace whose hidden commit, or head, this is; by the commit first.
func (s *Workspaces) SnapshotAt(ctx context.Context, workspaceID, commit string) (snapshot.Snap, error) {
	sn, err := scanSnapshot(s.db.QueryRow(ctx, `SELECT `+snapshotColumns+` FROM snapshots WHERE workspace_id = ? AND (commit_id = ? OR head = ?) AND {team}
		ORDER BY CASE WHEN commit_id = ? THEN 0 ELSE 1 END, at DESC LIMIT 1`, workspaceID, commit, commit, commit))
	return sn, Wrap(err, "reading a snapshot")
}

// EditSnapshot changes title, pin, commit and end of a snapshot in one transaction; an error of fn changes nothing.
func (s *Workspaces) EditSnapshot(ctx context.Context, id string, fn func(*snapshot.Snap) error) (snapshot.Snap, error) {
	var sn snapshot.Snap
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if sn, err = s.Snapshot(ctx, id); err != nil {
			return err
		}
		if err := fn(&sn); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE snapshots SET title = ?, pinned = ?, commit_id = ?, expires_at = ? WHERE id = ? AND {team}`,
			sn.Title, sn.Pinned, sn.Commit, sn.ExpiresAt, id)
		return err
	})
	if err != nil {
		return snapshot.Snap{}, fmt.Errorf("changing a snapshot: %w", err)
	}
	return sn, nil
}

// InCheckpoints returns those of the snapshots to which a checkpoint refers.
func (s *Workspaces) InCheckpoints(ctx context.Context, ids []string) (map[string]bool, error) {
	used, err := s.referred(ctx, "checkpoints", ids)
	return used, Wrap(err, "reading which snapshots checkpoints refer to")
}

// InReviews returns those of the snapshots to which a review refers.
func (s *Workspaces) InReviews(ctx context.Context, ids []string) (map[string]bool, error) {
	used, err := s.referred(ctx, "reviews", ids)
	return used, Wrap(err, "reading which snapshots reviews refer to")
}

// referred returns those of the snapshots to which a row of a table refers.
func (s *Workspaces) referred(ctx context.Context, table string, ids []string) (map[string]bool, error) {
	out := map[string]bool{}
	if len(ids) == 0 {
		return out, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	rows, err := s.db.Query(ctx, `SELECT DISTINCT snapshot_id FROM `+table+` WHERE {team} AND snapshot_id IN (`+Marks(len(ids))+`)`, args...)
	used, err := Column[string](rows, err)
	for _, id := range used {
		out[id] = true
	}
	return out, err
}

// DeleteSnapshots removes rows.
func (s *Workspaces) DeleteSnapshots(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		n := min(len(ids), changeBatch)
		args := make([]any, n)
		for i, id := range ids[:n] {
			args[i] = id
		}
		if _, err := s.db.Exec(ctx, `DELETE FROM snapshots WHERE id IN (?`+strings.Repeat(`,?`, n-1)+`) AND {team}`, args...); err != nil {
			return fmt.Errorf("removing snapshots: %w", err)
		}
		ids = ids[n:]
	}
	return nil
}

// SetSnapshotEnds sets the end of all snapshots that are not pinned to this long, in ms, after the end of their day; 0 = they end with the
// workspace.
func (s *Workspaces) SetSnapshotEnds(ctx context.Context, polls, others int64) error {
	for _, k := range [...]struct {
		is   string
		keep int64
	}{{`kind = ?`, polls}, {`kind <> ?`, others}} {
		end, args := `0`, []any{}
		if k.keep > 0 { // days of 86,400,000 ms
			end, args = `(at / 86400000 + 1) * 86400000 + ?`, []any{k.keep}
		}
		args = append(append(args, snapshot.SnapPoll), args...)
		if _, err := s.db.Exec(ctx, `UPDATE snapshots SET expires_at = `+end+` WHERE `+k.is+` AND NOT pinned AND expires_at <> `+end+` AND {team}`, args...); err != nil {
			return fmt.Errorf("setting the ends of snapshots: %w", err)
		}
	}
	return nil
}

// OldSnapshots returns snapshots of any workspace that end at this time or before, at most n; none that is pinned, and none that a
// review or a checkpoint refers to.
func (s *Workspaces) OldSnapshots(ctx context.Context, before int64, n int) ([]snapshot.Snap, error) {
	rows, err := s.db.Query(ctx, `SELECT `+snapshotColumns+` FROM snapshots WHERE expires_at > 0 AND expires_at <= ? AND NOT pinned AND {team}
		AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.workspace_id = snapshots.workspace_id AND {team:r} AND r.snapshot_id = snapshots.id)
		AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.snapshot_id = snapshots.id AND {team:c}) ORDER BY expires_at, id LIMIT ?`, before, n)
	out, err := Collect(rows, err, scanSnapshot)
	return out, Wrap(err, "reading old snapshots")
}
