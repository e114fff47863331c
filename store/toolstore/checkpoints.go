package toolstore

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/checkpoints"
)

// Checkpoints stores checkpoints.
type Checkpoints struct{ db *store.DB }

var _ checkpoints.Store = (*Checkpoints)(nil)

// NewCheckpoints returns the storage of checkpoints in db.
func NewCheckpoints(db *store.DB) *Checkpoints { return &Checkpoints{db} }

const checkpointColumns = `id, team_id, workspace_id, session_id, agent, snapshot_id, reason, note, next_step, files, messages, tasks, artifacts, created_by, at`

// checkpointHeads leaves out what a list does not show, which may be long.
const checkpointHeads = `id, team_id, workspace_id, session_id, agent, snapshot_id, reason, note, next_step, files, '{}', '[]', '[]', created_by, at`

func scanCheckpoint(r store.Scanner) (c checkpoints.Checkpoint, err error) {
	var messages, tasks, artifacts string
	if err := r.Scan(&c.ID, &c.TeamID, &c.WorkspaceID, &c.SessionID, &c.Agent, &c.SnapshotID, &c.Reason, &c.Note, &c.NextStep, &c.Files, &messages, &tasks, &artifacts, &c.CreatedBy, &c.At); err != nil {
		return c, err
	}
	if err = store.FromJSON(messages, &c.Messages); err == nil {
		err = store.FromJSON(tasks, &c.Tasks)
	}
	if err == nil {
		err = store.FromJSON(artifacts, &c.Artifacts)
	}
	return c, err
}

// InsertCheckpoint stores a checkpoint; see checkpoints.Store.
func (s *Checkpoints) InsertCheckpoint(ctx context.Context, c checkpoints.Checkpoint, most int) error {
	messages, err := store.ToJSON(c.Messages)
	if err != nil {
		return err
	}
	tasks, err := store.ToJSON(c.Tasks)
	if err != nil {
		return err
	}
	artifacts, err := store.ToJSON(c.Artifacts)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM checkpoints WHERE workspace_id = ? AND {team}`, c.WorkspaceID).Scan(&n); err != nil {
			return err
		}
		if over := n + 1 - most; over > 0 {
			done, err := s.db.Exec(ctx, `DELETE FROM checkpoints WHERE {team} AND id IN (SELECT o.id FROM checkpoints o WHERE o.workspace_id = ? AND o.reason <> ? AND {team:o}
				ORDER BY o.at, o.id LIMIT ?)`, c.WorkspaceID, string(checkpoints.Manual), over)
			if err != nil {
				return err
			}
			if gone, err := done.RowsAffected(); err != nil || gone < int64(over) {
				if err != nil {
					return err
				}
				return fault.New(fault.Conflict, "checkpoints_full", "The workspace has %d checkpoints that somebody asked for, which is the most it can have. Remove one first.", most)
			}
		}
		_, err := s.db.Exec(ctx, `INSERT INTO checkpoints (`+checkpointColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?)`, c.ID, c.TeamID, c.WorkspaceID, c.SessionID, c.Agent,
			c.SnapshotID, string(c.Reason), c.Note, c.NextStep, c.Files, messages, tasks, artifacts, c.CreatedBy, c.At)
		return err
	})
	return store.Wrap(err, "inserting a checkpoint")
}

// Checkpoint returns one checkpoint.
func (s *Checkpoints) Checkpoint(ctx context.Context, id string) (checkpoints.Checkpoint, error) {
	c, err := scanCheckpoint(s.db.QueryRow(ctx, `SELECT `+checkpointColumns+` FROM checkpoints WHERE id = ? AND {team}`, id))
	return c, store.Wrap(err, "reading a checkpoint")
}

// Checkpoints returns a page of a workspace's checkpoints, newest first, without their messages, tasks and artifacts.
func (s *Checkpoints) Checkpoints(ctx context.Context, workspaceID string, pg page.Page) ([]checkpoints.Checkpoint, string, error) {
	query, args, err := store.Keyset(`SELECT `+checkpointHeads+` FROM checkpoints WHERE workspace_id = ? AND {team}`, "at", []any{workspaceID}, pg)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, query, args...)
	items, err := store.Collect(rows, err, scanCheckpoint)
	if err != nil {
		return nil, "", fmt.Errorf("reading checkpoints: %w", err)
	}
	items, next := page.Cut(pg, items, func(c checkpoints.Checkpoint) page.Key { return page.Key{At: c.At, ID: c.ID} })
	return items, next, nil
}

// SessionCheckpoint returns a session's newest checkpoint.
func (s *Checkpoints) SessionCheckpoint(ctx context.Context, sessionID string) (checkpoints.Checkpoint, error) {
	c, err := scanCheckpoint(s.db.QueryRow(ctx, `SELECT `+checkpointColumns+` FROM checkpoints WHERE session_id = ? AND {team} ORDER BY at DESC, id DESC LIMIT 1`, sessionID))
	return c, store.Wrap(err, "reading a session's checkpoint")
}

// DeleteCheckpoint removes a checkpoint.
func (s *Checkpoints) DeleteCheckpoint(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM checkpoints WHERE id = ? AND {team}`, id)
	return store.Wrap(err, "removing a checkpoint")
}
