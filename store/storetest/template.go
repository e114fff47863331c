package storetest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/migrations"
	"github.com/parawork/parawork/store"
)

// Migrating costs more than most tests do. So it is done once, and what came of it is copied: by a process for SQLite, and for
// PostgreSQL by whoever needs it first, for all that use the same server.

// migratedFile is the bytes of an empty migrated SQLite database.
var migratedFile = sync.OnceValues(func() ([]byte, error) { //nolint:gochecknoglobals // a cache, shared by the tests of one process
	dir, err := os.MkdirTemp("", "parawork-template-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// Whose turn it is must not end with the test that asked first.
	file := filepath.Join(dir, "template.db")
	db, err := store.Open(context.Background(), store.Config{URL: "sqlite:" + file, AllTeams: true})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil { // copies the write-ahead log into the file
		return nil, err
	}
	if left, err := os.ReadFile(file + "-wal"); err == nil && len(left) > 0 {
		return nil, fmt.Errorf("closing left %d bytes beside the database", len(left))
	}
	return os.ReadFile(file)
})

// templateLock is the key of PostgreSQL's advisory lock under which a template is made.
const templateLock = 0x74706c

// template returns the name of the database base's server has for copying, which it makes when it is missing. Its name tells
// the schema. It stays: a server that lives longer than a run of tests has one for each schema it was tested with.
func template(ctx context.Context, base string) (name string, err error) {
	sum := sha256.New()
	err = fs.WalkDir(migrations.Postgres, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations.Postgres, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		return "", err
	}
	name = "pw_template_" + hex.EncodeToString(sum.Sum(nil)[:8])
	admin, err := sql.Open("pgx", base)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	conn, err := admin.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return "", err
	}
	defer func() {
		_, unlocked := conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, templateLock)
		err = errors.Join(err, unlocked)
	}()
	var there bool
	if err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil || there {
		return name, err
	}
	// It gets its name when it is whole: a test killed in between leaves nothing others would copy.
	half := fmt.Sprintf("pw_half_%d_%d", os.Getpid(), time.Now().UnixNano())
	if _, err := conn.ExecContext(ctx, "CREATE DATABASE "+half+" TEMPLATE template0"); err != nil {
		return "", err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u.Path = "/" + half
	db, err := store.Open(ctx, store.Config{URL: u.String(), AllTeams: true})
	if err != nil {
		return "", err
	}
	if err := db.Close(); err != nil {
		return "", err
	}
	// PostgreSQL does not copy a database while somebody is connected to it.
	for _, s := range []string{"ALTER DATABASE " + half + " RENAME TO " + name, "ALTER DATABASE " + name + " ALLOW_CONNECTIONS false"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return "", err
		}
	}
	return name, nil
}

// migratedTemplate is the template on the server that EnvPostgres names.
var migratedTemplate = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // as migratedFile
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return template(ctx, os.Getenv(EnvPostgres))
})
