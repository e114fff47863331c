package toolstore

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/edits"
	"github.com/parawork/parawork/tools/tasks"
)

// Edits stores edits.
type Edits struct{ db *store.DB }

var (
	_ edits.Store = (*Edits)(nil)
	_ tasks.Edits = (*Edits)(nil)
)

// NewEdits returns the storage of edits in db.
func NewEdits(db *store.DB) *Edits { return &Edits{db} }

const editColumns = `id, team_id, workspace_id, session_id, agent, call_id, tool, calls, turn, user_id, operation, undo_of, evidence, path, old_path, kind, before_blob, after_blob, before_mode, after_mode,
	additions, deletions, is_binary, at, snapshot_id, undone_at, undone_by, verified, verified_at, verified_tree`

func scanEdit(r store.Scanner) (e edits.Edit, err error) {
	var calls string
	if err := r.Scan(&e.ID, &e.TeamID, &e.WorkspaceID, &e.SessionID, &e.Agent, &e.CallID, &e.Tool, &calls, &e.Turn, &e.UserID, &e.Operation, &e.UndoOf, &e.Evidence, &e.Path, &e.OldPath, &e.Kind,
		&e.Before, &e.After, &e.BeforeMode, &e.AfterMode, &e.Additions, &e.Deletions, &e.Binary, &e.At, &e.SnapshotID, &e.UndoneAt, &e.UndoneBy, &e.Verified, &e.VerifiedAt, &e.Tree); err != nil {
		return e, err
	}
	return e, store.FromJSON(calls, &e.Calls)
}

// EditCursor returns how far a workspace's timeline was read.
func (s *Edits) EditCursor(ctx context.Context, workspaceID string) (edits.Cursor, error) {
	c := edits.Cursor{WorkspaceID: workspaceID}
	err := store.Wrap(s.db.QueryRow(ctx, `SELECT team_id, snapshot_id, tree, at, left_out, pruned FROM edit_cursors WHERE workspace_id = ? AND {team}`, workspaceID).
		Scan(&c.TeamID, &c.SnapshotID, &c.Tree, &c.At, &c.LeftOut, &c.Pruned), "reading how far a timeline was read")
	if fault.Is(err, fault.NotFound) {
		return edits.Cursor{}, nil
	}
	return c, err
}

// AddEdits stores edits with the new cursor; see edits.Store.
func (s *Edits) AddEdits(ctx context.Context, c edits.Cursor, add []edits.Edit, most int) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		for _, e := range add {
			calls, err := store.ToJSON(append([]string{}, e.Calls...))
			if err != nil {
				return err
			}
			if _, err := s.db.Exec(ctx, `INSERT INTO edits (`+editColumns+`) VALUES (?,{team?},`+store.Marks(28)+`)`, e.ID, e.TeamID, e.WorkspaceID, e.SessionID, e.Agent, e.CallID, e.Tool, calls, e.Turn,
				e.UserID, e.Operation, e.UndoOf, string(e.Evidence), e.Path, e.OldPath, string(e.Kind), e.Before, e.After, e.BeforeMode, e.AfterMode, e.Additions, e.Deletions, e.Binary, e.At, e.SnapshotID,
				e.UndoneAt, e.UndoneBy, e.Verified, e.VerifiedAt, e.Tree); err != nil {
				return err
			}
		}
		var pruned int64
		if len(add) > 0 {
			done, err := s.db.Exec(ctx, `DELETE FROM edits WHERE {team} AND id IN (SELECT o.id FROM edits o WHERE o.workspace_id = ? AND {team:o} ORDER BY o.at DESC, o.id DESC LIMIT 1000000 OFFSET ?)`, c.WorkspaceID, most)
			if err == nil {
				pruned, err = done.RowsAffected()
			}
			if err != nil {
				return err
			}
		}
		_, err := s.db.Exec(ctx, `INSERT INTO edit_cursors (workspace_id, team_id, snapshot_id, tree, at, left_out, pruned) VALUES (?,{team?},?,?,?,?,?)
			ON CONFLICT (workspace_id) DO UPDATE SET snapshot_id = excluded.snapshot_id, tree = excluded.tree, at = excluded.at,
			left_out = edit_cursors.left_out + excluded.left_out, pruned = edit_cursors.pruned + excluded.pruned`, c.WorkspaceID, c.TeamID, c.SnapshotID, c.Tree, c.At, c.LeftOut, int64(c.Pruned)+pruned)
		return err
	})
	return store.Wrap(err, "storing edits")
}

// Edits returns a page of a workspace's edits, newest first.
func (s *Edits) Edits(ctx context.Context, q edits.Query) ([]edits.Edit, string, error) {
	where, args := `SELECT `+editColumns+` FROM edits WHERE workspace_id = ? AND {team}`, []any{q.WorkspaceID}
	if q.Path != "" {
		where, args = where+` AND (path = ? OR old_path = ?)`, append(args, q.Path, q.Path)
	}
	if q.SessionID != "" {
		where, args = where+` AND session_id = ?`, append(args, q.SessionID)
	}
	query, args, err := store.Keyset(where, "at", args, q.Page)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	items, err := store.Collect(rows, err, scanEdit)
	if err != nil {
		return nil, "", store.Wrap(err, "reading edits")
	}
	items, next := page.Cut(q.Page, items, func(e edits.Edit) page.Key { return page.Key{At: e.At, ID: e.ID} })
	return items, next, nil
}

// Edit returns one edit.
func (s *Edits) Edit(ctx context.Context, id string) (edits.Edit, error) {
	e, err := scanEdit(s.db.QueryRow(ctx, `SELECT `+editColumns+` FROM edits WHERE id = ? AND {team}`, id))
	return e, store.Wrap(err, "reading an edit")
}

// SetUndone notes who undid an edit.
func (s *Edits) SetUndone(ctx context.Context, id, userID string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE edits SET undone_at = ?, undone_by = ? WHERE id = ? AND undone_at = 0 AND {team}`, at, userID, id)
	return store.Wrap(err, "storing that an edit is undone")
}

// SetVerified notes how the checks ended for edits.
func (s *Edits) SetVerified(ctx context.Context, ids []string, tree, verified string, at int64) error {
	args := []any{verified, at, tree}
	for _, id := range ids {
		args = append(args, id)
	}
	_, err := s.db.Exec(ctx, `UPDATE edits SET verified = ?, verified_at = ?, verified_tree = ? WHERE {team} AND id IN (`+store.Marks(len(ids))+`)`, args...)
	return store.Wrap(err, "storing that edits are verified")
}

// Unread returns workspaces whose timeline has more than was read.
func (s *Edits) Unread(ctx context.Context, n int) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT w.id FROM workspaces w LEFT JOIN edit_cursors c ON c.workspace_id = w.id WHERE {team:w} AND w.deleted_at = 0
		AND EXISTS (SELECT 1 FROM snapshots s WHERE s.workspace_id = w.id AND {team:s} AND s.at > COALESCE(c.at, 0)) ORDER BY w.id LIMIT ?`, n)
	out, err := store.Column[string](rows, err)
	return out, store.Wrap(err, "reading which timelines have more")
}

// EditedPaths returns which files a session changed.
func (s *Edits) EditedPaths(ctx context.Context, workspaceID, sessionID string, since int64, n int) ([]string, bool, error) {
	var known bool
	err := s.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ? AND workspace_id = ? AND {team})`, sessionID, workspaceID).Scan(&known)
	if err != nil || !known {
		return nil, false, store.Wrap(err, "reading whether a session is in a workspace")
	}
	type file struct {
		path string
		own  bool
	}
	rows, err := s.db.Query(ctx, `SELECT path, MAX(CASE WHEN session_id = ? THEN 1 ELSE 0 END) AS own FROM edits WHERE workspace_id = ? AND {team} AND at >= ?
		AND undone_at = 0 AND undo_of = '' AND (session_id = ? OR session_id = '' AND user_id = '') GROUP BY path ORDER BY own DESC, path LIMIT ?`, sessionID, workspaceID, since, sessionID, n)
	files, err := store.Collect(rows, err, func(r store.Scanner) (f file, err error) {
		var own int
		err = r.Scan(&f.path, &own)
		f.own = own == 1
		return f, err
	})
	var paths []string
	for _, f := range files {
		if f.own == files[0].own {
			paths = append(paths, f.path)
		}
	}
	return paths, true, store.Wrap(err, "reading which files a session changed")
}
