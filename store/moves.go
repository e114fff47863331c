package store

import (
	"context"

	"github.com/parawork/parawork/workspaces"
)

const moveColumns = `id, team_id, workspace_id, from_executor, to_executor, folder, from_folder, state, reason, steps, sessions, actor_id, created_at, ended_at`

func scanMove(r Scanner) (workspaces.Moving, error) {
	var m workspaces.Moving
	var steps, sessions string
	err := r.Scan(&m.ID, &m.TeamID, &m.WorkspaceID, &m.From, &m.To, &m.Folder, &m.FromFolder, &m.State, &m.Reason, &steps, &sessions, &m.ActorID, &m.CreatedAt, &m.EndedAt)
	if err == nil {
		err = FromJSON(steps, &m.Steps)
	}
	if err == nil {
		err = FromJSON(sessions, &m.Sessions)
	}
	return m, err
}

func moveJSON(m workspaces.Moving) (steps, sessions string, err error) {
	if steps, err = ToJSON(m.Steps); err == nil {
		sessions, err = ToJSON(m.Sessions)
	}
	return steps, sessions, err
}

// InsertMove stores a move; fault.Conflict when the workspace has one that has not ended.
func (s *Workspaces) InsertMove(ctx context.Context, m workspaces.Moving) error {
	steps, sessions, err := moveJSON(m)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO moves (`+moveColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?)`,
		m.ID, m.TeamID, m.WorkspaceID, m.From, m.To, m.Folder, m.FromFolder, m.State, m.Reason, steps, sessions, m.ActorID, m.CreatedAt, m.EndedAt)
	return Wrap(err, "inserting a move")
}

// UpdateMove stores state, reason, steps, sessions and end of a move.
func (s *Workspaces) UpdateMove(ctx context.Context, m workspaces.Moving) error {
	steps, sessions, err := moveJSON(m)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `UPDATE moves SET state = ?, reason = ?, steps = ?, sessions = ?, ended_at = ? WHERE id = ? AND {team}`,
		m.State, m.Reason, steps, sessions, m.EndedAt, m.ID)
	return Wrap(err, "changing a move")
}

// Moves returns the newest moves of a workspace, the newest first, at most n.
func (s *Workspaces) Moves(ctx context.Context, workspaceID string, n int) ([]workspaces.Moving, error) {
	rows, err := s.db.Query(ctx, `SELECT `+moveColumns+` FROM moves WHERE workspace_id = ? AND {team} ORDER BY created_at DESC, id DESC LIMIT ?`, workspaceID, n)
	out, err := Collect(rows, err, scanMove)
	return out, Wrap(err, "reading moves")
}

// OpenMoves returns the moves of any workspace that have not ended.
func (s *Workspaces) OpenMoves(ctx context.Context) ([]workspaces.Moving, error) {
	rows, err := s.db.Query(ctx, `SELECT `+moveColumns+` FROM moves WHERE ended_at = 0 AND {team}`)
	out, err := Collect(rows, err, scanMove)
	return out, Wrap(err, "reading open moves")
}
