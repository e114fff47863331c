package store

import (
	"context"
	"fmt"
)

// SealedValue is one sealed value of the database.
type SealedValue struct {
	Table string
	Key   string // of its row
	Raw   bool   // Value is the sealed bytes; else it is their base64
	Value []byte
}

// sealedColumns lists all columns with sealed values: a test compares it with the schema.
var sealedColumns = []struct {
	table        string
	raw, text    bool
	list, update string
}{
	{"secrets", true, false, `SELECT id, sealed FROM secrets WHERE {team|none} ORDER BY id`, `UPDATE secrets SET sealed = ? WHERE id = ? AND {team|none}`},
	{"instance_keys", false, false, `SELECT name, sealed FROM instance_keys ORDER BY name`, `UPDATE instance_keys SET sealed = ? WHERE name = ?`},
	{"place_settings", false, false, `SELECT executor, sealed FROM place_settings WHERE sealed IS NOT NULL ORDER BY executor`, `UPDATE place_settings SET sealed = ? WHERE executor = ?`},
	{"totp", false, true, `SELECT user_id, sealed FROM totp ORDER BY user_id`, `UPDATE totp SET sealed = ? WHERE user_id = ?`},
	{"ceremonies", false, true, `SELECT id_hash, sealed FROM ceremonies ORDER BY id_hash`, `UPDATE ceremonies SET sealed = ? WHERE id_hash = ?`},
	{"mails", false, true, `SELECT id, sealed FROM mails WHERE {team|none} AND sealed <> '' ORDER BY id`, `UPDATE mails SET sealed = ? WHERE id = ? AND {team|none}`},
	{"instance", false, true, `SELECT key, value FROM instance ORDER BY key`, `UPDATE instance SET value = ? WHERE key = ?`}, // some of its values are sealed
}

// Rekey calls fn with every sealed value of the database, and stores what fn returns instead; nil leaves the value unchanged. Call it in a
// transaction.
func (s *Instance) Rekey(ctx context.Context, fn func(v SealedValue) ([]byte, error)) error {
	for _, c := range sealedColumns {
		rows, err := s.db.Query(ctx, c.list)
		all, err := Collect(rows, err, func(r Scanner) (v SealedValue, err error) {
			v.Table, v.Raw = c.table, c.raw
			err = r.Scan(&v.Key, &v.Value)
			return v, err
		})
		if err != nil {
			return fmt.Errorf("reading the sealed values of %s: %w", c.table, err)
		}
		for _, v := range all {
			if len(v.Value) == 0 {
				continue
			}
			after, err := fn(v)
			if err != nil {
				return err
			}
			if after == nil {
				continue
			}
			var arg any = after
			if c.text {
				arg = string(after)
			}
			if err := changed(s.db.Exec(ctx, c.update, arg, v.Key)); err != nil {
				return fmt.Errorf("sealing a value of %s anew: %w", c.table, err)
			}
		}
	}
	return nil
}

// Tx runs fn in one transaction.
func (s *Instance) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

// SealedNames returns whose and what each sealed value is that people entered, as text for an operator, by table, a space and the key of
// its row.
func (s *Instance) SealedNames(ctx context.Context) (map[string]string, error) {
	rows, err := s.db.Query(ctx, `/* every team: a key was lost, and all must hear what is to be entered again */
		SELECT 'secrets ' || s.id, CASE WHEN u.id IS NULL THEN 'team ' || COALESCE(t.slug, s.team_id) ELSE u.email END || ': ' ||
			CASE WHEN a.id IS NOT NULL THEN 'account ' || a.name || ' of ' || a.agent
				WHEN k.id IS NOT NULL THEN 'secret ' || k.name || ' (' || k.kind || ')' || CASE WHEN p.id IS NULL THEN '' ELSE ' of project ' || p.name END
				WHEN w.id IS NOT NULL THEN 'address and key of webhook ' || w.name
				ELSE s.name END
		FROM secrets s LEFT JOIN users u ON u.id = s.user_id LEFT JOIN teams t ON t.id = s.team_id LEFT JOIN agent_accounts a ON a.secret_id = s.id
		LEFT JOIN session_secrets k ON k.secret_id = s.id LEFT JOIN projects p ON p.id = k.project_id LEFT JOIN webhooks w ON w.secret_id = s.id
		UNION ALL
		SELECT 'totp ' || o.user_id, u.email || ': authenticator app; sign in with a recovery code or a passkey and set it up again, or parawork admin reset-factors'
		FROM totp o JOIN users u ON u.id = o.user_id`)
	out, err := Pairs[string, string](rows, err)
	return out, Wrap(err, "reading what sealed values are")
}
