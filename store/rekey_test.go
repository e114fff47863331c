package store_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// Every column named sealed is one that a change of the key goes through.
func TestRekeyMeetsEverySealedColumn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		query := `SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c ON c.name = 'sealed' WHERE m.type = 'table' ORDER BY m.name`
		if db.Dialect() == store.Postgres {
			query = `SELECT table_name FROM information_schema.columns WHERE column_name = 'sealed' AND table_schema = current_schema() ORDER BY table_name`
		}
		rows, err := db.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		known := store.SealedTables()
		n := 0
		for ; rows.Next(); n++ {
			var table string
			if err := rows.Scan(&table); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(known, table) {
				t.Errorf("table %s has a column of sealed values that a change of the key leaves out: add it to sealedColumns", table)
			}
		}
		if n < 5 {
			t.Errorf("only %d tables were found", n)
		}
	})
}

// Each value is changed where it lies, and only those fn changes.
func TestRekeyChangesEachWhereItLies(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := tenant.All(t.Context(), "a test")
		for _, q := range []string{
			`INSERT INTO instance (key, value) VALUES ('push keys', 'b25l'), ('plain', 'stays')`,
			`INSERT INTO instance_keys (name, public_key, sealed, key_version, created_at) VALUES ('runner', 'p', 'dHdv', 1, 1)`,
			`INSERT INTO ceremonies (id_hash, kind, sealed, created_at, expires_at) VALUES ('h', 'login', 'dGhyZWU=', 1, 1)`,
			`INSERT INTO mails (id, kind, recipient, sealed, state, created_at) VALUES ('m', 'k', 'a', 'Zm91cg==', 'pending', 1), ('n', 'k', 'a', '', 'sent', 1)`,
		} {
			if _, err := db.Exec(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
		kept := store.NewInstance(db)
		seen := map[string]string{}
		rekey := func(fn func(v store.SealedValue) ([]byte, error)) {
			t.Helper()
			if err := kept.Tx(ctx, func(ctx context.Context) error { return kept.Rekey(ctx, fn) }); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []string{
			`INSERT INTO users (id, email, name, password_hash, operator, created_at) VALUES ('u', 'ada@example.com', 'Ada', '', FALSE, 1)`,
			`INSERT INTO secrets (id, user_id, name, sealed, key_version, created_by, created_at, updated_at) VALUES ('s', 'u', 'thing', X'', 2, 'u', 1, 1)`,
			`INSERT INTO totp (user_id, sealed, created_at) VALUES ('u', 'x', 1)`,
		} {
			if db.Dialect() == store.Postgres {
				q = strings.ReplaceAll(q, "X''", "''")
			}
			if _, err := db.Exec(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
		if names, err := kept.SealedNames(ctx); err != nil || names["secrets s"] != "ada@example.com: thing" || !strings.HasPrefix(names["totp u"], "ada@example.com: authenticator") {
			t.Errorf("%q %v", names, err)
		}
		rekey(func(v store.SealedValue) ([]byte, error) {
			if v.Key == "plain" {
				return nil, nil
			}
			return append([]byte("new "), v.Value...), nil
		})
		rekey(func(v store.SealedValue) ([]byte, error) {
			seen[v.Table+" "+v.Key] = string(v.Value)
			return nil, nil
		})
		for at, want := range map[string]string{"instance push keys": "new b25l", "instance plain": "stays", "instance_keys runner": "new dHdv",
			"ceremonies h": "new dGhyZWU=", "mails m": "new Zm91cg=="} {
			if seen[at] != want {
				t.Errorf("%s holds %q, want %q", at, seen[at], want)
			}
		}
	})
}
