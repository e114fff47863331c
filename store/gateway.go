package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/billing/gateway"
)

// Gateway keeps who may reach models through the gateway, and by which rules.
type Gateway struct{ db *DB }

var _ gateway.Store = (*Gateway)(nil)

// NewGateway returns the storage of the gateway in db.
func NewGateway(db *DB) *Gateway { return &Gateway{db} }

// KeepToken stores the hash of a session's token in the place of an older one, and that it has not ended.
func (s *Gateway) KeepToken(ctx context.Context, hash, sessionID, teamID string, at int64) error {
	_, err := s.db.Exec(ctx, `INSERT INTO gateway_tokens (token_hash, session_id, team_id, created_at, ended_at) VALUES (?, ?, {team?}, ?, 0)
		ON CONFLICT (session_id) DO UPDATE SET token_hash = excluded.token_hash, ended_at = 0`, hash, sessionID, teamID, at)
	return err
}

// EndToken revokes a session's token.
func (s *Gateway) EndToken(ctx context.Context, sessionID string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE gateway_tokens SET ended_at = ? WHERE session_id = ? AND {team} AND ended_at = 0`, at, sessionID)
	return err
}

// Grant returns what a token stands for whose session goes on, and whose team and person are not suspended; fault.NotFound for any other.
func (s *Gateway) Grant(ctx context.Context, hash string) (g gateway.Grant, err error) {
	err = s.db.QueryRow(ctx, `SELECT s.id, s.team_id, s.workspace_id, w.project_id, s.created_by, s.agent, s.account_id
		FROM gateway_tokens g JOIN sessions s ON s.id = g.session_id AND s.team_id = g.team_id JOIN workspaces w ON w.id = s.workspace_id
		WHERE g.token_hash = ? AND g.ended_at = 0 AND s.ended_at = 0 AND {team:g} AND {team:s} AND {team:w}
		AND NOT EXISTS (SELECT 1 FROM teams t WHERE t.id = g.team_id AND {team:t} AND t.suspended_at <> 0) AND NOT EXISTS (SELECT 1 FROM users u WHERE u.id = s.created_by AND u.suspended_at <> 0)`, hash).
		Scan(&g.SessionID, &g.TeamID, &g.WorkspaceID, &g.ProjectID, &g.UserID, &g.Agent, &g.AccountID)
	return g, err
}

const limitColumns = `team_id, model, allowed, requests_minute, tokens_minute, updated_by, updated_at`

// Limits returns the rules of a team, and of every team, by model.
func (s *Gateway) Limits(ctx context.Context, teamID string) ([]gateway.Limit, error) {
	rows, err := s.db.Query(ctx, `/* every team: some rules are for all */ SELECT `+limitColumns+` FROM model_limits WHERE team_id = '' OR team_id = ? ORDER BY team_id, model`, teamID)
	return Collect(rows, err, func(r Scanner) (l gateway.Limit, err error) {
		err = r.Scan(&l.TeamID, &l.Model, &l.Allowed, &l.RequestsMinute, &l.TokensMinute, &l.UpdatedBy, &l.UpdatedAt)
		return l, err
	})
}

// SetLimits replaces the rules of a team, or those of every team.
func (s *Gateway) SetLimits(ctx context.Context, teamID string, limits []gateway.Limit) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM model_limits WHERE team_id = {team?}`, teamID); err != nil {
			return fmt.Errorf("dropping rules about models: %w", err)
		}
		for _, l := range limits {
			if _, err := s.db.Exec(ctx, `INSERT INTO model_limits (`+limitColumns+`) VALUES ({team?},?,?,?,?,?,?)`,
				teamID, l.Model, l.Allowed, l.RequestsMinute, l.TokensMinute, l.UpdatedBy, l.UpdatedAt); err != nil {
				return fmt.Errorf("storing a rule about models: %w", err)
			}
		}
		return nil
	})
}

// Passed goes through the requests that passed the gateway and began in [from, to), the newest most of them.
func (s *Gateway) Passed(ctx context.Context, from, to int64, most int, fn func(gateway.Passed)) error {
	rows, err := s.db.Query(ctx, `SELECT upstream, model, api, error, status, attempts, first_byte_ms, at FROM model_requests
		WHERE {team} AND source = 'gateway' AND at >= ? AND at < ? ORDER BY at DESC LIMIT ?`, from, to, most)
	return Each(rows, err, func(r Scanner) error {
		var p gateway.Passed
		if err := r.Scan(&p.Upstream, &p.Model, &p.API, &p.Error, &p.Status, &p.Attempts, &p.FirstByteMs, &p.At); err != nil {
			return err
		}
		fn(p)
		return nil
	})
}
