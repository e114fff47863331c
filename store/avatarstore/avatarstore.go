// Package avatarstore keeps people's pictures in the tables of store.
package avatarstore

import (
	"context"

	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/store"
)

// Avatars stores pictures of people.
type Avatars struct{ db *store.DB }

var _ avatars.Store = (*Avatars)(nil)

// New returns the storage of pictures in db.
func New(db *store.DB) *Avatars { return &Avatars{db} }

// SetAvatar stores a user's picture in the place of an earlier one.
func (s *Avatars) SetAvatar(ctx context.Context, userID string, p avatars.Picture) error {
	return store.Wrap(s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `INSERT INTO avatars (user_id, small, large) VALUES (?, ?, ?)
			ON CONFLICT (user_id) DO UPDATE SET small = excluded.small, large = excluded.large`, userID, p.Small, p.Large); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `UPDATE users SET avatar = ? WHERE id = ?`, p.Version, userID)
		return err
	}), "storing a user's picture")
}

// DeleteAvatar removes a user's picture.
func (s *Avatars) DeleteAvatar(ctx context.Context, userID string) error {
	return store.Wrap(s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM avatars WHERE user_id = ?`, userID); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `UPDATE users SET avatar = '' WHERE id = ?`, userID)
		return err
	}), "removing a user's picture")
}

// Avatar returns one size of the picture of a member of a team, if this is its version.
func (s *Avatars) Avatar(ctx context.Context, teamID, userID, version string, large bool) (raw []byte, err error) {
	err = s.db.QueryRow(ctx, `SELECT CASE WHEN ? THEN a.large ELSE a.small END FROM avatars a JOIN users u ON u.id = a.user_id
		JOIN members m ON m.user_id = a.user_id WHERE m.team_id = {team?} AND a.user_id = ? AND u.avatar = ?`, large, teamID, userID, version).Scan(&raw)
	return raw, store.Wrap(err, "reading a user's picture")
}
