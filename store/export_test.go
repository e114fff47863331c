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
