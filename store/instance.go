package store

import "context"

// Instance keeps a few facts about the whole instance, by key.
type Instance struct{ db *DB }

// NewInstance returns the storage of the instance's facts in db.
func NewInstance(db *DB) *Instance { return &Instance{db} }

// Setting returns the value of a key; ErrNotFound when it was never set.
func (s *Instance) Setting(ctx context.Context, key string) (value string, err error) {
	err = s.db.QueryRow(ctx, `SELECT value FROM instance WHERE key = ?`, key).Scan(&value)
	return value, err
}

// SetSetting sets the value of a key.
func (s *Instance) SetSetting(ctx context.Context, key, value string) error {
	_, err := s.db.Exec(ctx, `INSERT INTO instance (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}

// DeleteSetting forgets a key. One that was never set is no error.
func (s *Instance) DeleteSetting(ctx context.Context, key string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM instance WHERE key = ?`, key)
	return err
}
