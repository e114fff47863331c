package store

import (
	"context"
	"io/fs"
)

// Rebind numbers `?` marks, for tests.
func Rebind(query string) string { return rebind(query) }

// Apply brings db to the end of the migrations in dir of files, for tests.
func (db *DB) Apply(ctx context.Context, files fs.FS, dir string) error {
	list, err := readMigrations(files, dir)
	if err != nil {
		return err
	}
	return db.apply(ctx, list)
}

// Connect opens a database without touching its schema, for tests of migrations.
func Connect(ctx context.Context, cfg Config) (*DB, error) { return connect(ctx, cfg) }

// SealedTables are the tables a change of the key goes through.
func SealedTables() []string {
	var out []string
	for _, c := range sealedColumns {
		out = append(out, c.table)
	}
	return out
}

// Translate is what callers are given for an error of the database.
var Translate = translate

// Plans returns how SQLite goes through the rows for each statement that do asks with Query, a text a step.
func (db *DB) Plans(ctx context.Context, do func() error) (plans [][]string, err error) {
	type asked struct {
		query string
		args  []any
	}
	var all []asked
	db.heard = func(query string, args []any) { all = append(all, asked{query, args}) }
	err = do()
	db.heard = nil
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		rows, err := db.sql.QueryContext(ctx, "EXPLAIN QUERY PLAN "+a.query, a.args...)
		if err != nil {
			return nil, err
		}
		steps, err := Collect(&Rows{rows}, nil, func(r Scanner) (step string, err error) {
			var id, parent, unused int
			return step, r.Scan(&id, &parent, &unused, &step)
		})
		if err != nil {
			return nil, err
		}
		plans = append(plans, steps)
	}
	return plans, nil
}
