package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/migrations"
)

// migrationLock is the key of PostgreSQL's advisory lock: two servers that start at once migrate one after the other.
const migrationLock = 0x70617261

// migration is one file: NNNN_name.sql.
type migration struct {
	version  int64
	name     string
	sql      string
	checksum string
}

var (
	migrationFile = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)
	sqlComment    = regexp.MustCompile(`--[^\n]*`)
)

// readMigrations returns the migrations in dir of files, in order.
func readMigrations(files fs.FS, dir string) ([]migration, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("reading migrations: %w", err)
	}
	var out []migration
	for _, e := range entries {
		m := migrationFile.FindStringSubmatch(e.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %s/%s is not named NNNN_name.sql", dir, e.Name())
		}
		text, err := fs.ReadFile(files, dir+"/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", e.Name(), err)
		}
		v, _ := strconv.ParseInt(m[1], 10, 64)
		out = append(out, migration{v, m[2], string(text), checksum(string(text))})
	}
	slices.SortFunc(out, func(a, b migration) int { return int(a.version - b.version) })
	for i, m := range out {
		if m.version != int64(i+1) {
			return nil, fmt.Errorf("migrations in %s: number %04d is missing or given twice", dir, i+1)
		}
	}
	return out, nil
}

// checksum names what a migration does: comments and white space do not count.
func checksum(text string) string {
	words := strings.Fields(sqlComment.ReplaceAllString(text, ""))
	sum := sha256.Sum256([]byte(strings.Join(words, " ")))
	return hex.EncodeToString(sum[:])
}

// known returns this program's migrations for db.
func (db *DB) known() ([]migration, error) {
	if db.dialect == Postgres {
		return readMigrations(migrations.Postgres, "postgres")
	}
	return readMigrations(migrations.SQLite, "sqlite")
}

func (db *DB) migrate(ctx context.Context) error {
	list, err := db.known()
	if err != nil {
		return err
	}
	return db.apply(ctx, list)
}

// apply brings the schema to the end of list, each migration in a transaction of its own.
func (db *DB) apply(ctx context.Context, list []migration) error {
	unlock, err := db.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = db.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (
		version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)`)
	if err != nil {
		return fmt.Errorf("preparing the schema: %w", err)
	}
	for done := false; !done; {
		err := db.Tx(ctx, func(ctx context.Context) error {
			done, err = db.step(ctx, list)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lockMigrations keeps other servers from migrating a PostgreSQL at the same time. It holds a connection of its own: taken
// inside a transaction, the lock would come after the snapshot. SQLite's immediate transactions need no more.
func (db *DB) lockMigrations(ctx context.Context) (unlock func(), err error) {
	if db.dialect != Postgres {
		return func() {}, nil
	}
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("waiting for another server's migration: %w", err)
	}
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("waiting for another server's migration: %w", err)
	}
	return func() {
		// Even when ctx has ended: a connection that went back to the pool with the lock would keep it.
		conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
		conn.Close()
	}, nil
}

// step checks what was applied and applies the next migration. done: there was none left.
func (db *DB) step(ctx context.Context, list []migration) (done bool, err error) {
	applied, err := db.applied(ctx)
	if err != nil {
		return false, err
	}
	if err := compare(applied, list); err != nil {
		return false, err
	}
	if len(applied) == len(list) {
		return true, nil
	}
	m := list[len(applied)]
	if _, err := db.Exec(ctx, m.sql); err != nil {
		return false, fmt.Errorf("migration %04d_%s: %w", m.version, m.name, err)
	}
	_, err = db.Exec(ctx, `INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)`,
		m.version, m.name, m.checksum, db.now().UnixMilli())
	if err != nil {
		return false, fmt.Errorf("recording migration %04d: %w", m.version, err)
	}
	return false, nil
}

// compare says why a database with these migrations is not one for a program that knows list; nil when it is.
func compare(applied, list []migration) error {
	for i, a := range applied {
		switch {
		case i >= len(list):
			return fault.New(fault.Unsupported, "database_newer",
				"The database was made by a newer Parawork: it has migration %04d_%s, this program knows up to %04d. "+
					"Start the newer version, or restore a backup made before the upgrade.", a.version, a.name, len(list))
		case a.version != list[i].version || a.checksum != list[i].checksum:
			return fault.New(fault.Conflict, "database_differs",
				"The database's migration %04d_%s is not the one this program knows as %04d_%s. "+
					"It was made by another build of Parawork: start that one, or use another database.",
				a.version, a.name, list[i].version, list[i].name)
		}
	}
	return nil
}

// applied returns the migrations the database has, in order.
func (db *DB) applied(ctx context.Context) ([]migration, error) {
	rows, err := db.Query(ctx, `SELECT version, name, checksum FROM schema_migrations ORDER BY version`)
	out, err := Collect(rows, err, func(r Scanner) (m migration, err error) {
		err = r.Scan(&m.version, &m.name, &m.checksum)
		return m, err
	})
	return out, Wrap(err, "reading applied migrations")
}

// SchemaVersion returns the number of the last migration applied and of the last this program knows.
func (db *DB) SchemaVersion(ctx context.Context) (applied, known int64, err error) {
	list, err := db.known()
	if err != nil {
		return 0, 0, err
	}
	have, err := db.applied(ctx)
	return int64(len(have)), int64(len(list)), err
}
