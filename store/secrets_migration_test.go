package store_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"io/fs"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/migrations"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

// sealedBefore seals as the version before the table of secrets did.
func sealedBefore(t *testing.T, key []byte, userID, agent, value string) []byte {
	t.Helper()
	k, err := hkdf.Key(sha256.New, key, nil, "parawork agent accounts 1", 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, c.NonceSize())
	return c.Seal(append([]byte{1}, nonce...), nonce, []byte(value), []byte(userID+"\x00"+agent))
}

// Accounts kept by the first version are there after the upgrade: the same keys, as their owners' defaults, sealed anew.
func TestAgentAccountsSurviveTheUpgrade(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, cfg store.Config) {
		ctx := tenant.All(t.Context(), "a test")
		db, err := store.Connect(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		files, dir := migrations.SQLite, "sqlite"
		if db.Dialect() == store.Postgres {
			files, dir = migrations.Postgres, "postgres"
		}
		first, err := fs.ReadFile(files, dir+"/0001_init.sql")
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Apply(ctx, both(map[string]string{"0001_init.sql": string(first)}), "m"); err != nil {
			t.Fatal(err)
		}
		key := bytes.Repeat([]byte{9}, vault.KeyBytes)
		exec := func(query string, args ...any) {
			t.Helper()
			if _, err := db.Exec(ctx, query, args...); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range []string{"usr_a", "usr_b"} {
			exec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES (?, ?, 'U', '!', 1)`, u, u+"@example.com")
		}
		add := `INSERT INTO agent_accounts (user_id, agent, kind, secret, last_four, base_url, updated_at) VALUES (?, ?, ?, ?, ?, ?, 5)`
		exec(add, "usr_a", "claude-code", "terminal", nil, "", "")
		exec(add, "usr_a", "codex", "api_key", sealedBefore(t, key, "usr_a", "codex", "sk-proj-of-a"), "of-a", "http://127.0.0.1:9/v1")
		exec(add, "usr_a", "opencode", "api_key", sealedBefore(t, key, "usr_a", "opencode", "sk-ant-of-a"), "", "")
		exec(add, "usr_b", "codex", "api_key", sealedBefore(t, bytes.Repeat([]byte{1}, 32), "usr_b", "codex", "lost"), "lost", "")
		exec(`INSERT INTO teams (id, slug, name, created_at) VALUES ('t', 't', 'T', 1)`)

		if err := db.Apply(ctx, files, dir); err != nil {
			t.Fatal(err)
		}
		svc := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db), Key: key})
		a, b := accounts.Actor{User: accounts.User{ID: "usr_a"}}, accounts.Actor{User: accounts.User{ID: "usr_b"}}
		check := func(when string) {
			t.Helper()
			all, err := svc.AgentAccounts(ctx, a, accounts.OfUser("usr_a"))
			if err != nil || len(all) != 3 {
				t.Fatalf("%s: %+v, %v", when, all, err)
			}
			for agent, want := range map[string]string{"claude-code": "", "codex": "sk-proj-of-a", "opencode": "sk-ant-of-a"} {
				got, secret, err := svc.AgentAccountFor(ctx, a, "", agent, "")
				if err != nil || secret != want || !got.Default || !got.InHome || got.UserID != "usr_a" || got.Name == "" || got.UpdatedAt != 5 {
					t.Errorf("%s: %s: %+v, %q, %v", when, agent, got, secret, err)
				}
				if agent == "codex" && (got.LastFour != "of-a" || got.BaseURL != "http://127.0.0.1:9/v1") {
					t.Errorf("%s: codex: %+v", when, got)
				}
			}
			if _, _, err := svc.AgentAccountFor(ctx, b, "", "codex", ""); fault.CodeOf(err) != "secret_unreadable" {
				t.Errorf("%s: a key sealed with another instance's key: %v", when, err)
			}
		}
		check("before sealing anew")
		for range 2 {
			if n, err := svc.UpgradeSecrets(ctx); n != 1 || err != nil {
				t.Errorf("UpgradeSecrets = %d, %v", n, err)
			}
		}
		check("after sealing anew")
		var old int
		if err := db.QueryRow(ctx, `SELECT COUNT(*) FROM secrets WHERE key_version = 0`).Scan(&old); err != nil || old != 1 {
			t.Errorf("%d secrets are sealed the old way, %v", old, err)
		}
		// Who is deleted leaves no secret behind.
		exec(`DELETE FROM users WHERE id = 'usr_a'`)
		var left int
		if err := db.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM secrets) + (SELECT COUNT(*) FROM agent_accounts)`).Scan(&left); err != nil || left != 2 {
			t.Errorf("%d rows are left, %v", left, err)
		}
		var tables string
		rows, err := db.Query(ctx, `SELECT agent FROM agent_accounts`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				t.Fatal(err)
			}
			tables += s
		}
		if !strings.Contains(tables, "codex") {
			t.Errorf("the other user's account is gone: %q", tables)
		}
	}
	t.Run("sqlite", func(t *testing.T) { test(t, store.Config{URL: "sqlite", DataDir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { test(t, store.Config{URL: storetest.PostgresURL(t)}) })
}
