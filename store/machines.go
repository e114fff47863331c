package store

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

// Machines keeps members' own machines, the tokens that enrol them and the history of their connections.
type Machines struct{ db *DB }

var _ machines.Store = (*Machines)(nil)

// NewMachines returns the storage of machines in db.
func NewMachines(db *DB) *Machines { return &Machines{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Machines) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const runnerColumns = `id, team_id, user_id, name, public_key, hello, version, protocol, connected_at, seen_at, offline_at, offline_reason, created_at, updated_at, revoked_at`

func scanRunner(r Scanner) (m machines.Machine, err error) {
	var key []byte
	var hello string
	if err := r.Scan(&m.ID, &m.TeamID, &m.UserID, &m.Name, &key, &hello, &m.Version, &m.Protocol, &m.ConnectedAt, &m.SeenAt, &m.OfflineAt, &m.OfflineReason,
		&m.CreatedAt, &m.UpdatedAt, &m.RevokedAt); err != nil {
		return m, err
	}
	if len(key) > 0 {
		m.Key = ed25519.PublicKey(key)
	}
	if err := json.Unmarshal([]byte(hello), &m.Hello); err != nil {
		return m, fmt.Errorf("what machine %s says of itself: %w", m.ID, err)
	}
	return m, nil
}

// Runners returns all machines, oldest first.
func (s *Machines) Runners(ctx context.Context) ([]machines.Machine, error) {
	rows, err := s.db.Query(ctx, `SELECT `+runnerColumns+` FROM runners WHERE {team} ORDER BY created_at, id`)
	return Collect(rows, err, scanRunner)
}

// Runner returns one machine; ErrNotFound when there is none.
func (s *Machines) Runner(ctx context.Context, id string) (machines.Machine, error) {
	return scanRunner(s.db.QueryRow(ctx, `SELECT `+runnerColumns+` FROM runners WHERE id = ? AND {team}`, id))
}

// RunnerNames returns the names of a user's machines in a team that are not revoked.
func (s *Machines) RunnerNames(ctx context.Context, teamID, userID string) ([]string, error) {
	return Column[string](s.db.Query(ctx, `SELECT name FROM runners WHERE team_id = {team?} AND user_id = ? AND revoked_at = 0`, teamID, userID))
}

// keyBytes returns a machine's key as it is stored: empty for none.
func keyBytes(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

// InsertRunner stores a new machine.
func (s *Machines) InsertRunner(ctx context.Context, m machines.Machine) error {
	hello, err := json.Marshal(m.Hello)
	if err != nil {
		return fmt.Errorf("encoding what a machine says of itself: %w", err)
	}
	_, err = s.db.Exec(ctx, `INSERT INTO runners (`+runnerColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?)`, m.ID, m.TeamID, m.UserID, m.Name, keyBytes(m.Key), string(hello),
		m.Version, m.Protocol, m.ConnectedAt, m.SeenAt, m.OfflineAt, m.OfflineReason, m.CreatedAt, m.UpdatedAt, m.RevokedAt)
	return err
}

// RenameRunner gives a machine another name; ErrConflict when its owner has one of that name.
func (s *Machines) RenameRunner(ctx context.Context, id, name string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE runners SET name = ?, updated_at = ? WHERE id = ? AND {team}`, name, at, id))
}

// SetRunnerKey gives a machine that is not revoked another key, nil = none.
func (s *Machines) SetRunnerKey(ctx context.Context, id string, key []byte, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE runners SET public_key = ?, updated_at = ? WHERE id = ? AND {team} AND revoked_at = 0`, keyBytes(key), at, id))
}

// RevokeRunner makes a machine count no more.
func (s *Machines) RevokeRunner(ctx context.Context, id string, at int64) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := changed(s.db.Exec(ctx, `UPDATE runners SET revoked_at = CASE WHEN revoked_at = 0 THEN ? ELSE revoked_at END, updated_at = ? WHERE id = ? AND {team}`, at, at, id)); err != nil {
			return err
		}
		return s.RevokeRenewals(ctx, id, at)
	})
}

// RunnerWork returns a team's workspaces that live on machines, newest first.
func (s *Machines) RunnerWork(ctx context.Context, teamID string) ([]machines.Work, error) {
	rows, err := s.db.Query(ctx, `SELECT executor, id, num, name, state FROM workspaces
		WHERE team_id = {team?} AND executor LIKE 'runner:%' AND deleted_at = 0 AND archived_at = 0 ORDER BY created_at DESC, id DESC`, teamID)
	return Collect(rows, err, func(r Scanner) (w machines.Work, err error) {
		var kind string
		var ws workspaces.Workspace
		if err := r.Scan(&kind, &w.ID, &ws.Num, &w.Name, &w.State); err != nil {
			return w, err
		}
		w.RunnerID, w.Key = kind[len("runner:"):], ws.Key()
		return w, nil
	})
}

const connectionColumns = `id, runner_id, team_id, address, version, began_at, ended_at, reason`

func scanConnection(r Scanner) (c machines.Connection, err error) {
	return c, r.Scan(&c.ID, &c.RunnerID, &c.TeamID, &c.Address, &c.Version, &c.BeganAt, &c.EndedAt, &c.Reason)
}

// BeginConnection stores a connection, and that its machine is online through it.
func (s *Machines) BeginConnection(ctx context.Context, c machines.Connection, m machines.Machine) error {
	hello, err := json.Marshal(m.Hello)
	if err != nil {
		return fmt.Errorf("encoding what a machine says of itself: %w", err)
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `INSERT INTO runner_connections (`+connectionColumns+`) VALUES (?,?,{team?},?,?,?,?,?)`, c.ID, c.RunnerID, c.TeamID, c.Address, c.Version,
			c.BeganAt, c.EndedAt, c.Reason); err != nil {
			return err
		}
		return changed(s.db.Exec(ctx, `UPDATE runners SET hello = ?, version = ?, protocol = ?, connected_at = ?, connected_to = ?, seen_at = ?, offline_at = 0, offline_reason = ''
			WHERE id = ? AND {team}`, string(hello), m.Version, m.Protocol, c.BeganAt, c.ID, m.SeenAt, m.ID))
	})
}

// SawRunner stores a sign of life and what a machine says of itself.
func (s *Machines) SawRunner(ctx context.Context, m machines.Machine) error {
	hello, err := json.Marshal(m.Hello)
	if err != nil {
		return fmt.Errorf("encoding what a machine says of itself: %w", err)
	}
	return changed(s.db.Exec(ctx, `UPDATE runners SET hello = ?, version = ?, protocol = ?, seen_at = ? WHERE id = ? AND {team}`, string(hello), m.Version, m.Protocol, m.SeenAt, m.ID))
}

// EndConnection stores why a connection ended; its machine is offline then, unless a newer one has it.
func (s *Machines) EndConnection(ctx context.Context, c machines.Connection) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE runner_connections SET ended_at = ?, reason = ? WHERE id = ? AND {team} AND ended_at = 0`, c.EndedAt, c.Reason, c.ID); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `UPDATE runners SET connected_at = 0, connected_to = '', offline_at = ?, offline_reason = ? WHERE id = ? AND {team} AND connected_to = ?`,
			c.EndedAt, c.Reason, c.RunnerID, c.ID)
		return err
	})
}

// EndStaleConnections ends all that are open, when their machines were last seen.
func (s *Machines) EndStaleConnections(ctx context.Context, reason string, now int64) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE runner_connections SET reason = ?, ended_at = COALESCE((SELECT CASE WHEN r.seen_at > runner_connections.began_at THEN r.seen_at ELSE runner_connections.began_at END
			FROM runners r WHERE {team:r} AND r.id = runner_connections.runner_id AND r.connected_to = runner_connections.id), began_at) WHERE {team} AND ended_at = 0`, reason); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `UPDATE runners SET offline_at = CASE WHEN seen_at > connected_at THEN seen_at ELSE connected_at END, offline_reason = ?, connected_at = 0, connected_to = '', updated_at = ?
			WHERE {team} AND connected_to <> ''`, reason, now)
		return err
	})
}

// RunnerConnections returns a page of a machine's connections, newest first.
func (s *Machines) RunnerConnections(ctx context.Context, runnerID string, pg page.Page) ([]machines.Connection, string, error) {
	query, args := `SELECT `+connectionColumns+` FROM runner_connections WHERE runner_id = ? AND {team}`, []any{runnerID}
	key, ok, err := pg.Key()
	if err != nil {
		return nil, "", err
	}
	if ok {
		query, args = query+` AND (began_at < ? OR began_at = ? AND id < ?)`, append(args, key.At, key.At, key.ID)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY began_at DESC, id DESC LIMIT ?`, append(args, pg.Size()+1)...)
	all, err := Collect(rows, err, scanConnection)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, all, func(c machines.Connection) page.Key { return page.Key{At: c.BeganAt, ID: c.ID} })
	return items, next, nil
}

const runnerTokenColumns = `id, team_id, user_id, name, hash, reusable, runner_id, renews, uses, created_at, expires_at, used_at, revoked_at`

func scanRunnerToken(r Scanner) (t machines.Token, err error) {
	return t, r.Scan(&t.ID, &t.TeamID, &t.UserID, &t.Name, &t.Hash, &t.Reusable, &t.RunnerID, &t.Renews, &t.Uses, &t.CreatedAt, &t.ExpiresAt, &t.UsedAt, &t.RevokedAt)
}

// InsertRunnerToken stores a new token.
func (s *Machines) InsertRunnerToken(ctx context.Context, t machines.Token) error {
	_, err := s.db.Exec(ctx, `INSERT INTO runner_tokens (`+runnerTokenColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?)`, t.ID, t.TeamID, t.UserID, t.Name, t.Hash, t.Reusable,
		t.RunnerID, t.Renews, t.Uses, t.CreatedAt, t.ExpiresAt, t.UsedAt, t.RevokedAt)
	return err
}

// RunnerToken returns one token; ErrNotFound when there is none.
func (s *Machines) RunnerToken(ctx context.Context, id string) (machines.Token, error) {
	return scanRunnerToken(s.db.QueryRow(ctx, `SELECT `+runnerTokenColumns+` FROM runner_tokens WHERE id = ? AND {team}`, id))
}

// RunnerTokens returns a team's tokens that can be used at a time, newest first.
func (s *Machines) RunnerTokens(ctx context.Context, teamID string, at int64) ([]machines.Token, error) {
	rows, err := s.db.Query(ctx, `SELECT `+runnerTokenColumns+` FROM runner_tokens WHERE team_id = {team?} AND revoked_at = 0 AND (expires_at = 0 OR expires_at > ?) AND (reusable OR uses = 0)
		ORDER BY created_at DESC, id DESC`, teamID, at)
	return Collect(rows, err, scanRunnerToken)
}

// UseRunnerToken counts a use; false when the token was revoked or used up meanwhile.
func (s *Machines) UseRunnerToken(ctx context.Context, id, runnerID string, at int64) (bool, error) {
	return inserted(s.db.Exec(ctx, `UPDATE runner_tokens SET uses = uses + 1, used_at = ?, runner_id = ? WHERE id = ? AND {team} AND revoked_at = 0 AND (reusable OR uses = 0)`, at, runnerID, id))
}

// RevokeRunnerToken ends a token; ErrNotFound when there is none.
func (s *Machines) RevokeRunnerToken(ctx context.Context, id string, at int64) error {
	return changed(s.db.Exec(ctx, `UPDATE runner_tokens SET revoked_at = CASE WHEN revoked_at = 0 THEN ? ELSE revoked_at END WHERE id = ? AND {team}`, at, id))
}

// RevokeRenewals ends the tokens that would give a machine a new key.
func (s *Machines) RevokeRenewals(ctx context.Context, runnerID string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE runner_tokens SET revoked_at = ? WHERE runner_id = ? AND {team} AND renews AND revoked_at = 0`, at, runnerID)
	return err
}

// InstanceKey returns a key of the instance; ErrNotFound when there is none.
func (s *Machines) InstanceKey(ctx context.Context, name string) (k machines.InstanceKey, err error) {
	err = s.db.QueryRow(ctx, `SELECT name, public_key, sealed, key_version, created_at FROM instance_keys WHERE name = ?`, name).
		Scan(&k.Name, &k.Public, &k.Sealed, &k.Version, &k.CreatedAt)
	return k, err
}

// PutInstanceKey stores a key, unless there is one of that name.
func (s *Machines) PutInstanceKey(ctx context.Context, k machines.InstanceKey) error {
	_, err := s.db.Exec(ctx, `INSERT INTO instance_keys (name, public_key, sealed, key_version, created_at) VALUES (?,?,?,?,?) ON CONFLICT (name) DO NOTHING`,
		k.Name, k.Public, k.Sealed, k.Version, k.CreatedAt)
	return err
}

// DeleteInstanceKey forgets a key.
func (s *Machines) DeleteInstanceKey(ctx context.Context, name string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM instance_keys WHERE name = ?`, name)
	return err
}

// PruneRunners drops connections and tokens that ended before a time, and of a machine's connections all but the newest most.
func (s *Machines) PruneRunners(ctx context.Context, before int64, most int) error {
	if _, err := s.db.Exec(ctx, `DELETE FROM runner_connections WHERE {team} AND ended_at > 0 AND (ended_at < ? OR id IN (SELECT old.id FROM
		(SELECT id, ROW_NUMBER() OVER (PARTITION BY runner_id ORDER BY began_at DESC, id DESC) AS n FROM runner_connections WHERE {team}) old WHERE old.n > ?))`, before, most); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `DELETE FROM runner_tokens WHERE {team} AND (revoked_at > 0 AND revoked_at < ? OR expires_at > 0 AND expires_at < ?)`, before, before)
	return err
}
