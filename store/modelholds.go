package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/billing/quota"
)

// ModelHolds is what is held back for a team's questions to models that began since from and count at now: of those under way, and of those
// that were settled a moment ago.
func (s *Quota) ModelHolds(ctx context.Context, teamID string, from, now int64) (open, settled int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(CASE WHEN settled THEN 0 ELSE cost_nano END), 0) AS BIGINT), CAST(COALESCE(SUM(CASE WHEN settled THEN cost_nano ELSE 0 END), 0) AS BIGINT)
		FROM model_holds WHERE team_id = {team?} AND created_at >= ? AND expires_at > ?`, teamID, from, now).Scan(&open, &settled)
	return open, settled, err
}

// HoldModel stores what is held back for a question. Expired ones of the team go.
func (s *Quota) HoldModel(ctx context.Context, h quota.ModelHold) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM model_holds WHERE team_id = {team?} AND expires_at <= ?`, h.TeamID, h.CreatedAt); err != nil {
		return fmt.Errorf("dropping what is held back no more: %w", err)
	}
	_, err := s.db.Exec(ctx, `INSERT INTO model_holds (request_id, team_id, cost_nano, created_at, expires_at) VALUES (?, {team?}, ?, ?, ?)`,
		h.RequestID, h.TeamID, h.CostNano, h.CreatedAt, h.ExpiresAt)
	return err
}

// RenewModel has a hold expire later.
func (s *Quota) RenewModel(ctx context.Context, requestID string, expiresAt int64) error {
	_, err := s.db.Exec(ctx, `UPDATE model_holds SET expires_at = ? WHERE request_id = ? AND {team} AND NOT settled`, expiresAt, requestID)
	return err
}

// SettleModel stores what a question really cost, and until when its hold still counts. What cost nothing is dropped.
func (s *Quota) SettleModel(ctx context.Context, requestID string, costNano, expiresAt int64) error {
	if costNano <= 0 {
		_, err := s.db.Exec(ctx, `DELETE FROM model_holds WHERE request_id = ? AND {team}`, requestID)
		return err
	}
	_, err := s.db.Exec(ctx, `UPDATE model_holds SET cost_nano = ?, expires_at = ?, settled = TRUE WHERE request_id = ? AND {team}`, costNano, expiresAt, requestID)
	return err
}
