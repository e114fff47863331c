// Package startstore holds the SQL of workspaces' first sessions.
package startstore

import (
	"context"

	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/store"
)

// Starts stores first sessions.
type Starts struct{ db *store.DB }

var _ firststart.Store = (*Starts)(nil)

// New returns the storage of first sessions in db.
func New(db *store.DB) *Starts { return &Starts{db} }

const columns = `workspace_id, team_id, session_id, request, state, code, reason, retried, created_by, created_at, state_at`

func scan(r store.Scanner) (s firststart.Start, err error) {
	var request string
	if err = r.Scan(&s.WorkspaceID, &s.TeamID, &s.SessionID, &request, &s.State, &s.Code, &s.Reason, &s.Retried, &s.CreatedBy, &s.CreatedAt, &s.StateAt); err != nil {
		return s, err
	}
	return s, store.FromJSON(request, &s.Request)
}

// InsertStart stores a first session with its files.
func (s *Starts) InsertStart(ctx context.Context, st firststart.Start) error {
	request, err := store.ToJSON(st.Request)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `INSERT INTO first_starts (`+columns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?)`, st.WorkspaceID, st.TeamID, st.SessionID, request, string(st.State),
			st.Code, st.Reason, st.Retried, st.CreatedBy, st.CreatedAt, st.StateAt); err != nil {
			return err
		}
		for i, f := range st.Request.Files {
			if _, err := s.db.Exec(ctx, `INSERT INTO first_start_files (workspace_id, team_id, num, name, content) VALUES (?,{team?},?,?,?)`, st.WorkspaceID, st.TeamID, i, f.Name, f.Data); err != nil {
				return err
			}
		}
		return nil
	})
	return store.Wrap(err, "storing a first session")
}

// FirstStart returns that of a workspace, without its files.
func (s *Starts) FirstStart(ctx context.Context, workspaceID string) (firststart.Start, error) {
	st, err := scan(s.db.QueryRow(ctx, `SELECT `+columns+` FROM first_starts WHERE workspace_id = ? AND {team}`, workspaceID))
	return st, store.Wrap(err, "reading a first session")
}

// FirstStarts returns those of a team, or of the named workspaces, that are not handed.
func (s *Starts) FirstStarts(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]firststart.Start, error) {
	query, args := `SELECT `+columns+` FROM first_starts WHERE team_id = {team?} AND state <> 'handed'`, []any{teamID}
	if len(workspaceIDs) > 0 {
		query += ` AND workspace_id IN (` + store.Marks(len(workspaceIDs)) + `)`
		for _, id := range workspaceIDs {
			args = append(args, id)
		}
	}
	rows, err := s.db.Query(ctx, query, args...)
	all, err := store.Collect(rows, err, scan)
	out := make(map[string]firststart.Start, len(all))
	for _, st := range all {
		out[st.WorkspaceID] = st
	}
	return out, store.Wrap(err, "reading first sessions")
}

// OpenStarts returns those that wait or are starting.
func (s *Starts) OpenStarts(ctx context.Context) ([]firststart.Start, error) {
	rows, err := s.db.Query(ctx, `SELECT `+columns+` FROM first_starts WHERE state IN ('waiting', 'starting') AND {team} ORDER BY created_at, workspace_id`)
	out, err := store.Collect(rows, err, scan)
	return out, store.Wrap(err, "reading first sessions")
}

// MoveStart writes how far a first session is, if it is in one of the states from.
func (s *Starts) MoveStart(ctx context.Context, st firststart.Start, from ...firststart.State) (bool, error) {
	args := []any{st.SessionID, string(st.State), st.Code, st.Reason, st.Retried, st.CreatedBy, st.StateAt, st.WorkspaceID}
	for _, f := range from {
		args = append(args, string(f))
	}
	r, err := s.db.Exec(ctx, `UPDATE first_starts SET session_id = ?, state = ?, code = ?, reason = ?, retried = ?, created_by = ?, state_at = ? WHERE workspace_id = ? AND state IN (`+
		store.Marks(len(from))+`) AND {team}`, args...)
	if err != nil {
		return false, store.Wrap(err, "moving a first session")
	}
	n, err := r.RowsAffected()
	return n > 0, store.Wrap(err, "moving a first session")
}

// DeleteStart forgets a first session with its files.
func (s *Starts) DeleteStart(ctx context.Context, workspaceID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM first_starts WHERE workspace_id = ? AND {team}`, workspaceID)
	return store.Wrap(err, "deleting a first session")
}

// StartFiles returns the files of a workspace's first session.
func (s *Starts) StartFiles(ctx context.Context, workspaceID string) ([]firststart.File, error) {
	return s.files(ctx, `SELECT name, content FROM first_start_files WHERE workspace_id = ? AND {team} ORDER BY num`, workspaceID)
}

// FilesOf returns the files that the first prompt of a session comes with.
func (s *Starts) FilesOf(ctx context.Context, sessionID string) ([]firststart.File, error) {
	return s.files(ctx, `SELECT f.name, f.content FROM first_start_files f JOIN first_starts s ON s.workspace_id = f.workspace_id WHERE s.session_id = ? AND {team:f} AND {team:s} ORDER BY f.num`, sessionID)
}

func (s *Starts) files(ctx context.Context, query, id string) ([]firststart.File, error) {
	rows, err := s.db.Query(ctx, query, id)
	out, err := store.Collect(rows, err, func(r store.Scanner) (f firststart.File, err error) { return f, r.Scan(&f.Name, &f.Data) })
	return out, store.Wrap(err, "reading files of a prompt")
}

// TakenFrom forgets the first session that has this ID.
func (s *Starts) TakenFrom(ctx context.Context, sessionID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM first_starts WHERE session_id = ? AND {team}`, sessionID)
	return store.Wrap(err, "deleting a first session")
}
