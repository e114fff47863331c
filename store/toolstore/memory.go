package toolstore

import (
	"context"
	"encoding/json"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/memory"
)

// Memory stores remembered facts.
type Memory struct{ db *store.DB }

var _ memory.Store = (*Memory)(nil)

// NewMemory returns the storage of facts in db.
func NewMemory(db *store.DB) *Memory { return &Memory{db} }

const factColumns = `id, team_id, project_id, session_id, key, text, tags, user_id, agent, created_at, expires_at`

func scanFact(s store.Scanner) (f memory.Fact, err error) {
	var tags string
	if err = s.Scan(&f.ID, &f.TeamID, &f.ProjectID, &f.SessionID, &f.Key, &f.Text, &tags, &f.UserID, &f.Agent, &f.CreatedAt, &f.ExpiresAt); err == nil {
		err = json.Unmarshal([]byte(tags), &f.Tags)
	}
	return f, err
}

// Remember stores a fact in place of the one with its key.
func (s *Memory) Remember(ctx context.Context, f memory.Fact, most int) error {
	tags, err := json.Marshal(append([]string{}, f.Tags...))
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM memories WHERE project_id = ? AND session_id = ? AND {team} AND (key <> '' AND key = ? OR expires_at <> 0 AND expires_at <= ?)`,
			f.ProjectID, f.SessionID, f.Key, f.CreatedAt); err != nil {
			return err
		}
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM memories WHERE project_id = ? AND session_id = ? AND {team}`, f.ProjectID, f.SessionID).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, "memory_full", "%d facts are remembered here already. Forget some that are no longer needed, or replace one by its key.", most)
		}
		_, err := s.db.Exec(ctx, `INSERT INTO memories (`+factColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?)`, f.ID, f.TeamID, f.ProjectID, f.SessionID, f.Key, f.Text, string(tags), f.UserID, f.Agent,
			f.CreatedAt, f.ExpiresAt)
		return err
	})
	return store.Wrap(err, "remembering")
}

// Facts returns the facts of a project and of one session.
func (s *Memory) Facts(ctx context.Context, projectID, sessionID string, now int64) ([]memory.Fact, error) {
	rows, err := s.db.Query(ctx, `SELECT `+factColumns+` FROM memories WHERE project_id = ? AND {team} AND (session_id = '' OR session_id = ?) AND (expires_at = 0 OR expires_at > ?)
		ORDER BY created_at DESC, id DESC`, projectID, sessionID, now)
	out, err := store.Collect(rows, err, scanFact)
	return out, store.Wrap(err, "recalling")
}

// Fact returns a fact.
func (s *Memory) Fact(ctx context.Context, id string) (memory.Fact, error) {
	f, err := scanFact(s.db.QueryRow(ctx, `SELECT `+factColumns+` FROM memories WHERE id = ? AND {team}`, id))
	return f, store.Wrap(err, "reading a fact")
}

// Forget deletes facts by id or key.
func (s *Memory) Forget(ctx context.Context, projectID, sessionID, id, key string) (int64, error) {
	r, err := s.db.Exec(ctx, `DELETE FROM memories WHERE project_id = ? AND {team} AND (session_id = '' OR session_id = ?) AND (id = ? OR key <> '' AND key = ?)`, projectID, sessionID, id, key)
	if err != nil {
		return 0, store.Wrap(err, "forgetting")
	}
	return r.RowsAffected()
}

// WithoutVector returns facts that a model has made no vector of.
func (s *Memory) WithoutVector(ctx context.Context, projectID, model string, most int) ([]memory.Fact, error) {
	rows, err := s.db.Query(ctx, `SELECT `+factColumns+` FROM memories WHERE project_id = ? AND {team} AND (vector IS NULL OR vector_model <> ?) ORDER BY created_at DESC, id DESC LIMIT ?`, projectID, model, most)
	out, err := store.Collect(rows, err, scanFact)
	return out, store.Wrap(err, "reading facts without a vector")
}

// SetVectors stores what a model made of facts.
func (s *Memory) SetVectors(ctx context.Context, model string, vectors []memory.Vector) error {
	return store.Wrap(s.db.Tx(ctx, func(ctx context.Context) error {
		for _, v := range vectors {
			if _, err := s.db.Exec(ctx, `UPDATE memories SET vector = ?, vector_model = ? WHERE id = ? AND {team}`, v.Bytes, model, v.FactID); err != nil {
				return err
			}
		}
		return nil
	}), "storing vectors of facts")
}

// Vectors returns those of the facts of a project and of one session.
func (s *Memory) Vectors(ctx context.Context, projectID, sessionID, model string) ([]memory.Vector, error) {
	rows, err := s.db.Query(ctx, `SELECT id, vector FROM memories WHERE project_id = ? AND {team} AND (session_id = '' OR session_id = ?) AND vector IS NOT NULL AND vector_model = ?`, projectID, sessionID, model)
	out, err := store.Collect(rows, err, func(s store.Scanner) (v memory.Vector, err error) { return v, s.Scan(&v.FactID, &v.Bytes) })
	return out, store.Wrap(err, "reading vectors of facts")
}

// DropExpired deletes what expired before a time.
func (s *Memory) DropExpired(ctx context.Context, before int64) error {
	_, err := s.db.Exec(ctx, `/* every team: what expired did so for all */ DELETE FROM memories WHERE expires_at <> 0 AND expires_at <= ?`, before)
	return store.Wrap(err, "deleting expired memory")
}
