package store

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/parawork/parawork/internal/fault"
)

// State is what Inspect finds.
type State struct {
	Dialect string
	File    string // of SQLite
	Server  string // version, of PostgreSQL
	Missing bool   // the SQLite file does not exist yet
	Empty   bool   // no Parawork has used it yet
	Applied int64  // migrations it has
	Known   int64  // migrations this program has
	Problem error  // why this program would refuse it, nil when it would not

	// Counted when the schema is this program's.
	Users, Operators, Teams, Sandboxes, Sessions int
	// Settings are what operators said in the browser, as JSON; "" = nothing.
	Settings string
	// Unbound are the plans that bound neither hours nor sandboxes, BoundTeams how many teams were given one that does.
	Unbound    []string
	BoundTeams int
}

// Inspect looks at a database and changes nothing: no file is made, no migration applied.
func Inspect(ctx context.Context, cfg Config) (State, error) {
	dialect, file, err := cfg.parse()
	if err != nil {
		return State{}, err
	}
	st := State{Dialect: dialect, File: file}
	if dialect == SQLite {
		if info, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			st.Missing = true
			return st, nil
		} else if err != nil {
			return st, fault.Wrap(err, fault.Unavailable, "database_unreachable", "The database file %s cannot be read", file)
		} else if info.IsDir() {
			return st, fault.New(fault.Unavailable, "database_unreachable", "%s is a folder, not a database file.", file)
		}
	}
	db, err := connect(ctx, cfg)
	if err != nil {
		return st, err
	}
	defer db.Close()
	return st, db.inspect(ctx, &st)
}

// Peek has fn read a database whose schema is this program's, as Inspect found: no file is made, no migration applied.
func Peek(ctx context.Context, cfg Config, fn func(*DB) error) error {
	db, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	return fn(db)
}

func (db *DB) inspect(ctx context.Context, st *State) error {
	list, err := db.known()
	if err != nil {
		return err
	}
	st.Known = int64(len(list))
	there := `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'`
	if db.dialect == Postgres {
		if err := db.QueryRow(ctx, `SHOW server_version`).Scan(&st.Server); err != nil {
			return err
		}
		there = `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'schema_migrations'`
	}
	var n int
	if err := db.QueryRow(ctx, there).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		st.Empty = true
		return nil
	}
	have, err := db.applied(ctx)
	if err != nil {
		return err
	}
	st.Applied = int64(len(have))
	st.Problem = compare(have, list)
	if st.Problem != nil || st.Applied != st.Known {
		return nil
	}
	rows, err := db.Query(ctx, `SELECT id FROM plans WHERE hours_month IS NULL AND concurrent_user IS NULL AND concurrent_team IS NULL AND creations_hour IS NULL ORDER BY id`)
	if st.Unbound, err = Column[string](rows, err); err != nil {
		return err
	}
	err = db.QueryRow(ctx, `/* every team: the doctor counts */ SELECT COUNT(*) FROM team_billing t JOIN plans p ON p.id = t.plan_id
		WHERE p.hours_month IS NOT NULL OR p.concurrent_user IS NOT NULL OR p.concurrent_team IS NOT NULL OR p.creations_hour IS NOT NULL`).Scan(&st.BoundTeams)
	if err != nil {
		return err
	}
	err = db.QueryRow(ctx, `SELECT settings FROM place_settings WHERE executor = 'instance'`).Scan(&st.Settings)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return db.QueryRow(ctx, `/* every team: the doctor counts */ SELECT (SELECT COUNT(*) FROM users), (SELECT COUNT(*) FROM users WHERE operator), (SELECT COUNT(*) FROM teams),
		(SELECT COUNT(*) FROM sandboxes WHERE ended_at = 0), (SELECT COUNT(*) FROM sessions WHERE ended_at = 0)`).
		Scan(&st.Users, &st.Operators, &st.Teams, &st.Sandboxes, &st.Sessions)
}
