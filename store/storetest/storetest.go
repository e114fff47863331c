// Package storetest gives tests a migrated database of their own: a SQLite file, and PostgreSQL when there is one.
package storetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
)

// EnvPostgres names the variable with the URL of a PostgreSQL whose user may create databases. `go run ./testing/testpg --
// go test ./...` starts one and sets it.
const EnvPostgres = "PARAWORK_TEST_PG"

// Each runs fn on SQLite and, when EnvPostgres is set, on PostgreSQL; each time with an empty migrated database of its own.
func Each(t *testing.T, fn func(t *testing.T, db *store.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { fn(t, SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { fn(t, Postgres(t)) })
}

// SQLite returns an empty migrated SQLite database, closed when the test ends.
func SQLite(t testing.TB) *store.DB {
	t.Helper()
	empty, err := migratedFile()
	if err != nil {
		t.Fatalf("making an empty database: %v", err)
	}
	file := filepath.Join(t.TempDir(), "parawork.db")
	if err := os.WriteFile(file, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, store.Config{URL: "sqlite:" + file})
}

// Postgres returns an empty migrated PostgreSQL database, dropped when the test ends. Without EnvPostgres it skips the test.
func Postgres(t testing.TB) *store.DB {
	t.Helper()
	needPostgres(t)
	from, err := migratedTemplate()
	if err != nil {
		t.Fatalf("making a database to copy: %v", err)
	}
	return open(t, store.Config{URL: postgresFrom(t, from)})
}

// PostgresURL returns the URL of a PostgreSQL database without a schema, dropped when the test ends. Without EnvPostgres it skips the test.
func PostgresURL(t testing.TB) string {
	t.Helper()
	needPostgres(t)
	return postgresFrom(t, "template0")
}

func needPostgres(t testing.TB) {
	t.Helper()
	if os.Getenv(EnvPostgres) == "" {
		t.Skip(EnvPostgres + " is not set: run the tests with `go run ./testing/testpg -- go test ...`")
	}
}

// postgresFrom makes a database as a copy of another.
func postgresFrom(t testing.TB, template string) string {
	t.Helper()
	base := os.Getenv(EnvPostgres)
	admin, err := sql.Open("pgx", base)
	if err != nil {
		t.Fatalf("opening %s: %v", EnvPostgres, err)
	}
	defer admin.Close()
	var b [8]byte
	rand.Read(b[:])
	name := "pw_test_" + hex.EncodeToString(b[:])
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatalf("making a test database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		admin, err := sql.Open("pgx", base)
		if err != nil {
			t.Errorf("opening %s: %v", EnvPostgres, err)
			return
		}
		defer admin.Close()
		if _, err := admin.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("dropping a test database: %v", err)
		}
	})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatalf("%s is not a URL: %v", EnvPostgres, err)
	}
	u.Path = "/" + name
	return u.String()
}

func open(t testing.TB, cfg store.Config) *store.DB {
	t.Helper()
	cfg.AllTeams = true // who tests tenancy puts a scope into the context
	db, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("opening the test database: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Seed stores a user who owns a team. The user's password is no password at all: sign in through accounts where that matters.
func Seed(t testing.TB, db *store.DB) (accounts.User, accounts.Team) {
	t.Helper()
	now := time.Now().UnixMilli()
	u := accounts.User{ID: id.New("usr"), Name: "Ada", PasswordHash: "!", CreatedAt: now}
	u.Email = u.ID + "@example.com"
	team := accounts.Team{ID: id.New("team"), Name: "Engines", CreatedAt: now}
	team.Slug = "engines-" + team.ID[len(team.ID)-6:]
	for _, s := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO users (id, email, name, password_hash, operator, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
			[]any{u.ID, u.Email, u.Name, u.PasswordHash, u.Operator, u.CreatedAt}},
		{`INSERT INTO teams (id, slug, name, created_at) VALUES (?, ?, ?, ?)`, []any{team.ID, team.Slug, team.Name, team.CreatedAt}},
		{`INSERT INTO members (team_id, user_id, role, created_at) VALUES (?, ?, ?, ?)`,
			[]any{team.ID, u.ID, string(accounts.Owner), now}},
	} {
		if _, err := db.Exec(t.Context(), s.sql, s.args...); err != nil {
			t.Fatalf("seeding: %v", err)
		}
	}
	return u, team
}
