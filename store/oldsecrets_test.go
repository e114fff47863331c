package store_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

// sealedBefore seals in the form of key version 0.
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

// Keys of agents' accounts that are sealed in the first form open, and the server seals them in today's form.
func TestSecretsOfTheFirstFormAreSealedAnew(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := tenant.All(t.Context(), "a test")
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
		add := func(userID, n, agent, kind string, sealed []byte, lastFour, baseURL string) {
			t.Helper()
			account, secret := "acc_"+userID+"_"+n, any(nil)
			if sealed != nil {
				secret = "sec_" + userID + "_" + n
				exec(`INSERT INTO secrets (id, user_id, name, sealed, key_version, last_four, created_by, created_at, updated_at) VALUES (?, ?, ?, ?, 0, ?, ?, 5, 5)`,
					secret, userID, "agent account "+account+" "+agent, sealed, lastFour, userID)
			}
			exec(`INSERT INTO agent_accounts (id, user_id, agent, name, kind, secret_id, base_url, is_default, in_home, created_by, created_at, updated_at)
				VALUES (?, ?, ?, 'My account', ?, ?, ?, TRUE, TRUE, ?, 5, 5)`, account, userID, agent, kind, secret, baseURL, userID)
		}
		add("usr_a", "1", "claude-code", "terminal", nil, "", "")
		add("usr_a", "2", "codex", "api_key", sealedBefore(t, key, "usr_a", "codex", "sk-proj-of-a"), "of-a", "http://127.0.0.1:9/v1")
		add("usr_a", "3", "opencode", "api_key", sealedBefore(t, key, "usr_a", "opencode", "sk-ant-of-a"), "", "")
		add("usr_b", "1", "codex", "api_key", sealedBefore(t, bytes.Repeat([]byte{1}, 32), "usr_b", "codex", "lost"), "lost", "")

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
		if agents := texts(t, db, `SELECT agent FROM agent_accounts`, 1); len(agents) != 1 || agents[0][0] != "codex" {
			t.Errorf("the other user's account is gone: %q", agents)
		}
	})
}
