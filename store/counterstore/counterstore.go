// Package counterstore keeps operators' counters in the tables of store.
package counterstore

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
)

// Counters stores what was counted of the instance's sandboxes.
type Counters struct{ db *store.DB }

var _ executors.CounterStore = (*Counters)(nil)

// New returns the storage of counters in db.
func New(db *store.DB) *Counters { return &Counters{db} }

// Counts returns the stored counts.
func (s *Counters) Counts(ctx context.Context) ([]executors.CounterRow, error) {
	rows, err := s.db.Query(ctx, `SELECT executor, purpose, name, value, since FROM sandbox_counters ORDER BY executor, purpose, name`)
	out, err := store.Collect(rows, err, func(r store.Scanner) (c executors.CounterRow, err error) {
		err = r.Scan(&c.Kind, &c.Purpose, &c.Name, &c.Value, &c.Since)
		return c, err
	})
	return out, store.Wrap(err, "reading the counts of sandboxes")
}

// SaveCounts stores all of these counts, or none. It never lowers a stored count.
func (s *Counters) SaveCounts(ctx context.Context, rows []executors.CounterRow) error {
	return store.Wrap(s.db.Tx(ctx, func(ctx context.Context) error {
		for _, c := range rows {
			if _, err := s.db.Exec(ctx, `INSERT INTO sandbox_counters (executor, purpose, name, value, since) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (executor, purpose, name) DO UPDATE SET value = excluded.value WHERE sandbox_counters.value < excluded.value`,
				string(c.Kind), string(c.Purpose), c.Name, c.Value, c.Since); err != nil {
				return err
			}
		}
		return nil
	}), "storing the counts of sandboxes")
}
