package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib" // also registers "pgx"
	_ "github.com/mattn/go-sqlite3"  // registers "sqlite3"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store/silence"
)

// The dialects.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Config says which database to open.
type Config struct {
	// URL is "sqlite" (a file in DataDir), "sqlite:PATH", or a postgres:// URL.
	URL     string
	DataDir string
	// AllTeams lets queries without a tenant in their context touch every team's rows, for tests where teams do not matter.
	// The program does not set it: there such queries touch nothing.
	AllTeams bool
}

// DB is a migrated database. Safe for concurrent use.
type DB struct {
	sql     *sql.DB
	dialect string
	// writer lets one writer at a time into SQLite, first come, first served: its own lock is polled and unfair.
	writer chan struct{}
	now    func() time.Time
	bare   tenant.Scope                   // of work that names none
	asked  atomic.Int64                   // statements so far
	heard  func(query string, args []any) // of tests: each Query as the database gets it
}

// Open opens the database that cfg names, makes it when it is a SQLite file that does not exist, and brings its schema up to
// date. It fails with a sentence for the operator when the database cannot be reached or is newer than this program.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	db, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.AllTeams {
		db.bare, _ = tenant.Of(tenant.All(ctx, "a test"))
	}
	if err := db.migrate(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// connect opens the database without touching its schema.
func connect(ctx context.Context, cfg Config) (*DB, error) {
	dialect, path, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	if dialect == Postgres {
		return connectPostgres(ctx, cfg.URL)
	}
	if err := makeFile(path); err != nil {
		return nil, err
	}
	return connectSQLite(ctx, path)
}

// parse returns the dialect and, for SQLite, the file.
func (c Config) parse() (dialect, path string, err error) {
	switch {
	case strings.HasPrefix(c.URL, "postgres://"), strings.HasPrefix(c.URL, "postgresql://"):
		return Postgres, "", nil
	case c.URL == "", c.URL == SQLite:
		path = filepath.Join(c.DataDir, "parawork.db")
	case strings.HasPrefix(c.URL, "sqlite:"):
		path = strings.TrimPrefix(c.URL, "sqlite:")
		if path == "" || strings.HasPrefix(path, ":") {
			return "", "", fault.New(fault.Invalid, "invalid_database_url", `database.url: "sqlite:" needs the path of a file after it.`)
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.DataDir, path)
		}
	default:
		scheme, _, _ := strings.Cut(c.URL, ":")
		if len(scheme) > 20 || scheme == c.URL { // not a scheme: may hold a password
			scheme = "..."
		}
		return "", "", fault.New(fault.Invalid, "invalid_database_url",
			`database.url: %q is not a database Parawork knows. Use "sqlite", "sqlite:PATH" or "postgres://user:password@host/name".`, scheme)
	}
	path, err = filepath.Abs(path)
	return SQLite, path, err
}

// makeFile makes the file with narrow rights before SQLite would make it with wide ones; -wal and -shm take after it.
func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the folder of the database: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the database file: %w", err)
	}
	return f.Close()
}

func connectSQLite(ctx context.Context, path string) (*DB, error) {
	// synchronous=FULL: the driver's default in WAL mode may lose the last commits at a power failure.
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate&_foreign_keys=on&_busy_timeout=10000&_cache_size=-8192"
	pool, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	n := min(16, max(4, 2*runtime.GOMAXPROCS(0))) // each may hold 8 MiB of cache, as lists of thousands of workspaces want, and gives it back when it is idle
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	pool.SetConnMaxIdleTime(time.Minute)
	if err := pool.PingContext(ctx); err != nil {
		pool.Close()
		return nil, fault.Wrap(err, fault.Unavailable, "database_unreachable", "The database file %s cannot be opened: %v.", path, err)
	}
	return &DB{sql: pool, dialect: SQLite, writer: make(chan struct{}, 1), now: time.Now}, nil
}

func connectPostgres(ctx context.Context, dsn string) (*DB, error) {
	where := "the database server"
	if u, err := url.Parse(dsn); err != nil {
		// The parser's own words hold the URL, and that the password.
		return nil, fault.New(fault.Invalid, "invalid_database_url", "database.url: the postgres URL cannot be read. Percent-encode special characters of its password.")
	} else if u.Host != "" {
		where = u.Host
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid_database_url", "database.url: the postgres URL cannot be read.")
	}
	silence.Watch(cfg, silence.DefaultPatience, silence.DefaultAnswer)
	pool := stdlib.OpenDB(*cfg)
	pool.SetMaxOpenConns(20)
	pool.SetMaxIdleConns(5)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	ping, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := pool.PingContext(ping); err != nil {
		pool.Close()
		f := fault.Wrap(err, fault.Unavailable, "database_unreachable", "PostgreSQL at %s cannot be reached. Check that it runs and that database.url is right.", where)
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !unreachable(refused) { // it answers: waiting helps nobody
			f = fault.Wrap(err, fault.Unavailable, "database_refused", "PostgreSQL at %s refuses the connection (%s). Check that database.url is right.", where, refused.Code)
		}
		return nil, f
	}
	return &DB{sql: pool, dialect: Postgres, now: time.Now}, nil
}

// Close ends all connections.
func (db *DB) Close() error { return db.sql.Close() }

// Dialect returns SQLite or Postgres.
func (db *DB) Dialect() string { return db.dialect }

// Statements is how many statements were run so far: what a list or a loop costs does not depend on how busy the machine is.
func (db *DB) Statements() int64 { return db.asked.Load() }

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	var one int
	return translate(db.sql.QueryRowContext(ctx, "SELECT 1").Scan(&one))
}

// Exec runs a statement that returns no rows. `?` marks an argument, {team} whose rows it is about: see expand. It joins the
// transaction in ctx when there is one. A clash with a UNIQUE rule is ErrConflict.
func (db *DB) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	query, args, err := db.expand(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if tx := db.current(ctx); tx != nil {
		res, err := tx.ExecContext(ctx, query, args...)
		return res, translate(err)
	}
	if err := db.lockWriter(ctx); err != nil {
		return nil, err
	}
	defer db.unlockWriter()
	res, err := db.sql.ExecContext(ctx, query, args...)
	return res, translate(err)
}

// Query runs a statement that returns rows. The caller closes them, and does so before the transaction's next statement.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*Rows, error) {
	query, args, err := db.expand(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if db.heard != nil {
		db.heard(query, args)
	}
	var rows *sql.Rows
	if tx := db.current(ctx); tx != nil {
		rows, err = tx.QueryContext(ctx, query, args...)
	} else {
		rows, err = db.sql.QueryContext(ctx, query, args...)
	}
	if err != nil {
		return nil, translate(err)
	}
	return &Rows{rows}, nil
}

// Rows is the answer of Query.
type Rows struct{ *sql.Rows }

// Err is why Next ended before the last row, nil when it did not.
func (r *Rows) Err() error { return translate(r.Rows.Err()) }

// QueryRow runs a statement that returns at most one row that matters.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *Row {
	query, args, err := db.expand(ctx, query, args)
	if err != nil {
		return &Row{err: err}
	}
	if tx := db.current(ctx); tx != nil {
		return &Row{row: tx.QueryRowContext(ctx, query, args...)}
	}
	return &Row{row: db.sql.QueryRowContext(ctx, query, args...)}
}

// Row is the answer of QueryRow.
type Row struct {
	row *sql.Row
	err error // why there was no question
}

// Scan copies the row's columns; ErrNotFound when there is no row.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return translate(r.row.Scan(dest...))
}
