package store

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/pool"
)

var _ pool.Store = (*Executors)(nil)

const warmColumns = `id, executor, class, handle_version, handle_state, state, state_reason, taken_by, created_at, ready_at, lease_until, ended_at`

func scanWarm(r Scanner) (w pool.Record, err error) {
	err = r.Scan(&w.Handle.ID, &w.Handle.Kind, &w.Class, &w.Handle.Version, &w.Handle.State, &w.State, &w.Reason, &w.TakenBy, &w.CreatedAt, &w.ReadyAt,
		&w.LeaseUntil, &w.EndedAt)
	return w, err
}

// InsertWarm stores a new warm sandbox.
func (s *Executors) InsertWarm(ctx context.Context, w pool.Record) error {
	_, err := s.db.Exec(ctx, `INSERT INTO warm_sandboxes (`+warmColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`, w.Handle.ID, string(w.Handle.Kind), w.Class,
		w.Handle.Version, w.Handle.State, w.State, w.Reason, w.TakenBy, w.CreatedAt, w.ReadyAt, w.LeaseUntil, w.EndedAt)
	return Wrap(err, "inserting warm sandbox")
}

// UpdateWarm writes what changes in the life of a warm sandbox whose state is from; false when it is not, or it has ended.
func (s *Executors) UpdateWarm(ctx context.Context, w pool.Record, from string) (bool, error) {
	done, err := inserted(s.db.Exec(ctx, `UPDATE warm_sandboxes SET handle_version = ?, handle_state = ?, state = ?, state_reason = ?, ready_at = ?,
		lease_until = ?, ended_at = ? WHERE id = ? AND state = ? AND ended_at = 0`, w.Handle.Version, w.Handle.State, w.State, w.Reason, w.ReadyAt,
		w.LeaseUntil, w.EndedAt, w.Handle.ID, from))
	return done, Wrap(err, "updating warm sandbox")
}

// TakeWarm makes the oldest ready warm sandbox of a class taken by a sandbox; false when there is none. Nobody else is ever given it.
func (s *Executors) TakeWarm(ctx context.Context, kind executors.Kind, class, by string) (w pool.Record, ok bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		var err error
		w, err = scanWarm(s.db.QueryRow(ctx, `SELECT `+warmColumns+` FROM warm_sandboxes WHERE executor = ? AND class = ? AND state = ? AND ended_at = 0
			ORDER BY created_at, id LIMIT 1`, string(kind), class, pool.Ready))
		if errors.Is(err, ErrNotFound) {
			ok = false
			return nil
		}
		if err != nil {
			return err
		}
		w.State, w.TakenBy = pool.Taken, by
		ok, err = inserted(s.db.Exec(ctx, `UPDATE warm_sandboxes SET state = ?, taken_by = ? WHERE id = ? AND state = ? AND ended_at = 0`,
			pool.Taken, by, w.Handle.ID, pool.Ready))
		return err
	})
	return w, ok, err
}

// OpenWarm returns the warm sandboxes that have not ended, the oldest first.
func (s *Executors) OpenWarm(ctx context.Context) ([]pool.Record, error) {
	rows, err := s.db.Query(ctx, `SELECT `+warmColumns+` FROM warm_sandboxes WHERE ended_at = 0 ORDER BY created_at, id`)
	out, err := Collect(rows, err, scanWarm)
	return out, Wrap(err, "reading warm sandboxes")
}
