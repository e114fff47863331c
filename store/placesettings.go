package store

import (
	"context"

	"github.com/parawork/parawork/executors/settings"
)

// PlaceSettings keeps what operators say about places.
type PlaceSettings struct{ db *DB }

var _ settings.Store = (*PlaceSettings)(nil)

// NewPlaceSettings returns the storage of what operators say about places in db.
func NewPlaceSettings(db *DB) *PlaceSettings { return &PlaceSettings{db} }

// PlaceSettings returns the settings of an executor; ErrNotFound when there are none.
func (s *PlaceSettings) PlaceSettings(ctx context.Context, name string) (settings.Row, error) {
	var r settings.Row
	var sealed []byte
	err := s.db.QueryRow(ctx, `SELECT settings, sealed, key_version, last_four, updated_by, updated_at FROM place_settings WHERE executor = ?`, name).
		Scan(&r.Settings, &sealed, &r.KeyVersion, &r.LastFour, &r.UpdatedBy, &r.UpdatedAt)
	r.Sealed = string(sealed)
	return r, err
}

// SetPlaceSettings keeps it.
func (s *PlaceSettings) SetPlaceSettings(ctx context.Context, name string, r settings.Row) error {
	_, err := s.db.Exec(ctx, `INSERT INTO place_settings (executor, settings, sealed, key_version, last_four, updated_by, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (executor) DO UPDATE SET settings = excluded.settings, sealed = excluded.sealed, key_version = excluded.key_version,
		last_four = excluded.last_four, updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
		name, r.Settings, []byte(r.Sealed), r.KeyVersion, r.LastFour, r.UpdatedBy, r.UpdatedAt)
	return err
}

// Tx runs fn in one transaction.
func (s *PlaceSettings) Tx(ctx context.Context, fn func(context.Context) error) error {
	return s.db.Tx(ctx, fn)
}
