package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
)

// null stores "" as NULL, for columns that refer to another table.
func null(id string) any {
	if id == "" {
		return nil
	}
	return id
}

// InsertSecret stores a sealed value.
func (s *Accounts) InsertSecret(ctx context.Context, k accounts.Secret, sealed []byte) error {
	_, err := s.db.Exec(ctx, `INSERT INTO secrets (id, user_id, team_id, name, sealed, key_version, last_four, created_by, created_at, updated_at)
		VALUES (?, ?, {team?}, ?, ?, ?, ?, ?, ?, ?)`,
		k.ID, null(k.UserID), null(k.TeamID), k.Name, sealed, k.KeyVersion, k.LastFour, k.CreatedBy, k.CreatedAt, k.UpdatedAt)
	return err
}

// Secret returns a sealed value and what is known of it.
func (s *Accounts) Secret(ctx context.Context, id string) (k accounts.Secret, sealed []byte, err error) {
	err = s.db.QueryRow(ctx, `SELECT id, COALESCE(user_id, ''), COALESCE(team_id, ''), name, sealed, key_version, last_four, created_by, created_at, updated_at
		FROM secrets WHERE id = ? AND {team|none}`, id).
		Scan(&k.ID, &k.UserID, &k.TeamID, &k.Name, &sealed, &k.KeyVersion, &k.LastFour, &k.CreatedBy, &k.CreatedAt, &k.UpdatedAt)
	if err != nil {
		return k, nil, fmt.Errorf("reading a secret: %w", err)
	}
	return k, sealed, nil
}

// DeleteSecret deletes a value.
func (s *Accounts) DeleteSecret(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM secrets WHERE id = ? AND {team|none}`, id)
	return err
}

const agentAccountColumns = `a.id, COALESCE(a.user_id, ''), COALESCE(a.team_id, ''), a.agent, a.name, a.kind, COALESCE(a.secret_id, ''), COALESCE(k.last_four, ''),
	a.base_url, a.api, a.is_default, a.in_home, a.created_by, a.created_at, a.updated_at,
	(SELECT COUNT(*) FROM sessions WHERE account_id = a.id AND ended_at = 0 /* every team: a user's account works in all their teams */)
	FROM agent_accounts a LEFT JOIN secrets k ON k.id = a.secret_id`

func scanAgentAccount(r Scanner) (a accounts.AgentAccount, err error) {
	err = r.Scan(&a.ID, &a.UserID, &a.TeamID, &a.Agent, &a.Name, &a.Kind, &a.SecretID, &a.LastFour, &a.BaseURL, &a.API, &a.Default, &a.InHome,
		&a.CreatedBy, &a.CreatedAt, &a.UpdatedAt, &a.Running)
	return a, err
}

// InsertAgentAccount stores an account; false when its name is taken.
func (s *Accounts) InsertAgentAccount(ctx context.Context, a accounts.AgentAccount) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO agent_accounts (id, user_id, team_id, agent, name, kind, secret_id, base_url, api, is_default, in_home, created_by,
		created_at, updated_at) VALUES (?, ?, {team?}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		a.ID, null(a.UserID), null(a.TeamID), a.Agent, a.Name, string(a.Kind), null(a.SecretID), a.BaseURL, a.API, a.Default, a.InHome, a.CreatedBy,
		a.CreatedAt, a.UpdatedAt))
}

// UpdateAgentAccount writes what may change of an account; false when the name is taken.
func (s *Accounts) UpdateAgentAccount(ctx context.Context, a accounts.AgentAccount) (bool, error) {
	var taken int
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM agent_accounts WHERE {team|none} AND COALESCE(user_id, '') = ? AND COALESCE(team_id, '') = ? AND agent = ? AND name = ? AND id <> ?`,
		a.UserID, a.TeamID, a.Agent, a.Name, a.ID).Scan(&taken)
	if err != nil || taken > 0 {
		return false, err
	}
	return true, changed(s.db.Exec(ctx, `UPDATE agent_accounts SET name = ?, kind = ?, secret_id = ?, base_url = ?, api = ?, is_default = ?, updated_at = ? WHERE id = ? AND {team|none}`,
		a.Name, string(a.Kind), null(a.SecretID), a.BaseURL, a.API, a.Default, a.UpdatedAt, a.ID))
}

// AgentAccount returns one account.
func (s *Accounts) AgentAccount(ctx context.Context, id string) (accounts.AgentAccount, error) {
	return scanAgentAccount(s.db.QueryRow(ctx, `SELECT `+agentAccountColumns+` WHERE a.id = ? AND {team|none:a}`, id))
}

// AgentAccounts returns the accounts of an owner, by agent and then by age.
func (s *Accounts) AgentAccounts(ctx context.Context, o accounts.Holder) ([]accounts.AgentAccount, error) {
	where, arg := `a.user_id = ? AND a.team_id IS NULL`, o.UserID
	if o.TeamID != "" {
		where, arg = `a.team_id = {team?}`, o.TeamID
	}
	rows, err := s.db.Query(ctx, `SELECT `+agentAccountColumns+` WHERE {team|none:a} AND `+where+` ORDER BY a.agent, a.created_at, a.id`, arg)
	return Collect(rows, err, scanAgentAccount)
}

// ClearDefault leaves an owner's accounts of an agent without a default.
func (s *Accounts) ClearDefault(ctx context.Context, o accounts.Holder, agent string) error {
	_, err := s.db.Exec(ctx, `UPDATE agent_accounts SET is_default = FALSE
		WHERE {team|none} AND COALESCE(user_id, '') = ? AND COALESCE(team_id, '') = ? AND agent = ? AND is_default`, o.UserID, o.TeamID, agent)
	return err
}

// DeleteAgentAccount deletes an account.
func (s *Accounts) DeleteAgentAccount(ctx context.Context, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM agent_accounts WHERE id = ? AND {team|none}`, id))
}
