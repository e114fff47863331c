// Package migrations holds the schema of both databases: the same numbers and names, forward only. It knows nothing else.
package migrations

import "embed"

// SQLite and Postgres hold NNNN_name.sql files, applied in order by store.Migrate.
var (
	//go:embed sqlite/*.sql
	SQLite embed.FS
	//go:embed postgres/*.sql
	Postgres embed.FS
)
