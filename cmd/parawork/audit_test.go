package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// fullAudit is a store of the audit without room for another entry.
type fullAudit struct{ *store.Audit }

func (fullAudit) InsertAudit(context.Context, audit.Row) error {
	return fault.New(fault.DiskFull, "disk_full", "The disk of the database is full.")
}

func TestTheDoctorSaysThatEntriesWaitForRoom(t *testing.T) {
	each(t, func(t *testing.T, env map[string]string, dbc store.Config) {
		env[guestEnv] = "/bin/true"
		path := instance.ReserveFile(dbc.DataDir)
		silent := func(when string) {
			t.Helper()
			if r := run(env, "", "doctor"); strings.Contains(r.out, "audit") {
				t.Errorf("%s the doctor speaks of the audit:\n%s", when, r.out)
			}
		}
		silent("before the first start")
		want(t, run(env, "nine lives and a hat", "admin", "create-user", "--email", "ada@example.com", "--name", "ada", "--password-stdin"), 0)
		if _, err := os.Stat(path); err == nil {
			t.Error("the command line makes the file of the server")
		}
		cfg, err := fromconfig.Load("", func(name string) string { return env[name] }, nil)
		if err != nil {
			t.Fatal(err)
		}
		in, done, err := instance.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		full := audit.New(audit.Config{Store: fullAudit{store.NewAudit(in.Db)}, Sealer: in.Vault, Reserve: path})
		for range 2 {
			if err := full.Append(t.Context(), audit.Entry{Chain: audit.Instance, Action: "a.b"}); err != nil {
				t.Fatal(err)
			}
		}
		r := run(env, "", "doctor")
		want(t, r, r.code, "note  audit", "2 entries wait in "+path)
		running, stop := context.WithCancel(t.Context())
		stop()
		log := audit.New(audit.Config{Store: store.NewAudit(in.Db), Sealer: in.Vault, Reserve: path})
		if err := errors.Join(log.Run(running), done()); err != nil {
			t.Fatal(err)
		}
		silent("once they are stored")
		if err := os.WriteFile(path+".bad", []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		r = run(env, "", "doctor")
		want(t, r, r.code, "audit.reserve cannot be used", "audit.reserve.bad holds records")
	})
}

func TestTheDoctorChecksTheAudit(t *testing.T) {
	each(t, func(t *testing.T, env map[string]string, dbc store.Config) {
		env[guestEnv] = "/bin/true"
		want(t, run(env, "", "doctor", "--audit"), 1, "FAIL  audit", "Start the server once")
		const pw = "nine lives and a hat"
		for _, name := range []string{"ada", "bob", "cy"} {
			want(t, run(env, pw, "admin", "create-user", "--email", name+"@example.com", "--name", name, "--team", "engines", "--password-stdin"), 0)
		}
		want(t, run(env, "", "admin", "create-token", "--email", "ada@example.com"), 0)
		want(t, run(env, "another good one", "admin", "reset-password", "--email", "bob@example.com", "--password-stdin"), 0)
		r := run(env, "", "doctor", "--audit")
		want(t, r, r.code, "the instance: 6 entries, numbers 1 to 6, nothing changed", "team engines: 2 entries")

		db, err := store.Open(t.Context(), dbc)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		rows, err := db.Query(t.Context(), `SELECT actor_kind, actor_name, action, data FROM audit`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var kind, name, action, data string
			if err := rows.Scan(&kind, &name, &action, &data); err != nil {
				t.Fatal(err)
			}
			if kind != "command_line" || name == "" || strings.Contains(data, pw) || strings.Contains(data, "pw_user_") {
				t.Errorf("%s %s %s %s", kind, name, action, data)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), `UPDATE audit SET target_name = 'eve@example.com' WHERE action = 'password.reset'`); err != nil {
			t.Fatal(err)
		}
		want(t, run(env, "", "doctor", "--audit"), 1, "FAIL  audit", "entry 6: the entry was changed", "docs/audit.md")
		if _, err := db.Exec(t.Context(), `DELETE FROM audit WHERE action = 'password.reset'`); err != nil {
			t.Fatal(err)
		}
		want(t, run(env, "", "doctor", "--audit"), 1, "the end was cut off: entry 6 was there")
		if err := os.Remove(filepath.Join(dbc.DataDir, "audit.heads")); err != nil {
			t.Fatal(err)
		}
		r = run(env, "", "doctor", "--audit")
		want(t, r, r.code, "note  audit", "it cannot be verified whether the newest entries were cut off")
		file := filepath.Join(t.TempDir(), "export.json")
		if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		want(t, run(env, "", "doctor", "--audit-file", file), 1, "FAIL  audit file", "not an export")
	})
}
