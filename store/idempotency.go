package store

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Idempotency keeps the answers to requests with an Idempotency-Key, so that a repeated one happens once.
type Idempotency struct{ db *DB }

// NewIdempotency returns the storage of answers in db.
func NewIdempotency(db *DB) *Idempotency { return &Idempotency{db} }

// claimFor is how long a request may be under way before a repeated one takes its place: its server has died.
const claimFor = 10 * time.Minute

// Begin claims a key for a request. fresh: the caller carries it out, then calls Finish, or Forget when it failed. Not fresh: the
// request was carried out before, and status and body are its answer. fault.Conflict while the first is under way,
// and when the key was used for another request (route and hash name it).
func (s *Idempotency) Begin(ctx context.Context, userID, key, route, hash string) (status int, body []byte, fresh bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		status, body, fresh = 0, nil, false
		now := s.db.now()
		var err error
		fresh, err = inserted(s.db.Exec(ctx, `INSERT INTO idempotency_keys (user_id, key, route, request_hash, created_at)
			VALUES (?, ?, ?, ?, ?) ON CONFLICT (user_id, key) DO NOTHING`, userID, key, route, hash, now.UnixMilli()))
		if err != nil || fresh {
			return err
		}
		fresh, err = inserted(s.db.Exec(ctx, `UPDATE idempotency_keys SET created_at = ? WHERE user_id = ? AND key = ?
			AND route = ? AND request_hash = ? AND status = 0 AND created_at < ?`,
			now.UnixMilli(), userID, key, route, hash, now.Add(-claimFor).UnixMilli()))
		if err != nil || fresh {
			return err
		}
		var wasRoute, wasHash string
		err = s.db.QueryRow(ctx, `SELECT route, request_hash, status, body FROM idempotency_keys WHERE user_id = ? AND key = ?`, userID, key).
			Scan(&wasRoute, &wasHash, &status, &body)
		switch {
		case err != nil:
			return err
		case wasRoute != route || wasHash != hash:
			return fault.New(fault.Conflict, "idempotency_key_reused", "This Idempotency-Key was used for another request. Use a new key for a new request.")
		case status == 0:
			return fault.New(fault.Conflict, "request_in_progress", "The first request with this Idempotency-Key is still under way. Ask again in a moment.")
		}
		return nil
	})
	if err != nil {
		return 0, nil, false, fmt.Errorf("claiming an idempotency key: %w", err)
	}
	return status, body, fresh, nil
}

// Keep says that a claimed request is still under way.
func (s *Idempotency) Keep(ctx context.Context, userID, key string) error {
	_, err := s.db.Exec(ctx, `UPDATE idempotency_keys SET created_at = ? WHERE user_id = ? AND key = ? AND status = 0`, s.db.now().UnixMilli(), userID, key)
	return err
}

// Finish keeps the answer of a request that was claimed.
func (s *Idempotency) Finish(ctx context.Context, userID, key string, status int, body []byte) error {
	_, err := s.db.Exec(ctx, `UPDATE idempotency_keys SET status = ?, body = ? WHERE user_id = ? AND key = ?`, status, body, userID, key)
	return err
}

// Forget gives a claimed key free: the request failed in a way that may be tried again.
func (s *Idempotency) Forget(ctx context.Context, userID, key string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM idempotency_keys WHERE user_id = ? AND key = ? AND status = 0`, userID, key)
	return err
}

// Drop removes what was asked before a time and says how many.
func (s *Idempotency) Drop(ctx context.Context, before int64) (int64, error) {
	res, err := s.db.Exec(ctx, `DELETE FROM idempotency_keys WHERE created_at < ?`, before)
	if err != nil {
		return 0, fmt.Errorf("dropping old idempotency keys: %w", err)
	}
	return res.RowsAffected()
}
