package store_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// sqliteTypes says which type PostgreSQL has for each that SQLite's schema declares.
var sqliteTypes = map[string]string{"TEXT": "text", "BIGINT": "bigint", "BOOLEAN": "boolean", "BLOB": "bytea", "INTEGER": "integer"}

// The queries describe a schema, a line each: columns (a table's, in their order), unique constraints, indexes, foreign keys, checks.
var (
	describeSQLite = []string{
		`SELECT 'column', m.name, printf('%02d', c.cid + 1), c.name, c.type, CASE WHEN c."notnull" OR c.pk THEN 'not null' ELSE 'null' END,
			CASE WHEN c.pk THEN 'key ' || c.pk ELSE '' END, COALESCE('default ' || c.dflt_value, '')
			FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`,
		`SELECT 'unique', m.name, (SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno)), '', '', '', '', ''
			FROM sqlite_schema m JOIN pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin = 'u'`,
		`SELECT 'index', tbl_name, name, CASE WHEN sql LIKE 'CREATE UNIQUE%' THEN 'unique' ELSE '' END, substr(sql, instr(sql, '(')), '', '', ''
			FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`,
		`SELECT 'reference', m.name, f."from", f."table", f."to", f.on_update, f.on_delete, f.seq
			FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`,
	}
	describePostgres = []string{
		`SELECT 'column', c.table_name, LPAD(c.ordinal_position::text, 2, '0'), c.column_name, c.data_type, CASE c.is_nullable WHEN 'NO' THEN 'not null' ELSE 'null' END,
			COALESCE((SELECT 'key ' || array_position(k.conkey, c.ordinal_position::smallint) FROM pg_constraint k
				WHERE k.contype = 'p' AND k.conrelid = quote_ident(c.table_name)::regclass), ''), COALESCE('default ' || c.column_default, '')
			FROM information_schema.columns c WHERE c.table_schema = current_schema()`,
		`SELECT 'unique', conrelid::regclass::text, substring(pg_get_constraintdef(oid) FROM '\((.*)\)'), '', '', '', '', '' FROM pg_constraint
			WHERE contype = 'u' AND connamespace = current_schema()::regnamespace`,
		`SELECT 'index', i.indrelid::regclass::text, i.indexrelid::regclass::text, CASE WHEN i.indisunique THEN 'unique' ELSE '' END,
			substring(pg_get_indexdef(i.indexrelid) FROM 'USING btree (.*)'), '', '', '' FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			WHERE c.relnamespace = current_schema()::regnamespace AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u'))`,
		`SELECT 'reference', k.conrelid::regclass::text, a.attname, k.confrelid::regclass::text, b.attname,
			CASE k.confupdtype WHEN 'a' THEN 'no action' ELSE k.confupdtype::text END,
			CASE k.confdeltype WHEN 'a' THEN 'no action' WHEN 'c' THEN 'cascade' ELSE k.confdeltype::text END, cardinality(k.conkey) - 1
			FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
			JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1] WHERE k.contype = 'f' AND k.connamespace = current_schema()::regnamespace`,
		`SELECT 'check', conrelid::regclass::text, substring(pg_get_constraintdef(oid) FROM 'CHECK (.*)'), '', '', '', '', '' FROM pg_constraint
			WHERE contype = 'c' AND connamespace = current_schema()::regnamespace`,
	}
	sqliteCheck = regexp.MustCompile(`(?m)\bCHECK (\(.*\))`)
	anyOf       = regexp.MustCompile(`= any array\[(.*?)\]`)
	castOrMark  = regexp.MustCompile(`::\w+|[()"']`)
	blanks      = regexp.MustCompile(`\s+`)
)

// schemaOf describes db's tables, sorted, in words that are the same for the same schema of either dialect.
func schemaOf(t *testing.T, db *store.DB) []string {
	t.Helper()
	var out []string
	add := func(words ...string) {
		line := blanks.ReplaceAllString(castOrMark.ReplaceAllString(strings.ToLower(strings.Join(words, " ")), ""), " ")
		out = append(out, strings.TrimSpace(anyOf.ReplaceAllString(line, "in $1")))
	}
	queries := describeSQLite
	if db.Dialect() == store.Postgres {
		queries = describePostgres
	}
	for _, q := range queries {
		for _, row := range texts(t, db, q, 8) {
			if row[0] == "column" && db.Dialect() == store.SQLite {
				row[4] = sqliteTypes[row[4]]
			}
			add(row...)
		}
	}
	if db.Dialect() == store.SQLite {
		for _, row := range texts(t, db, `SELECT name, sql FROM sqlite_schema WHERE type = 'table'`, 2) {
			for _, check := range sqliteCheck.FindAllStringSubmatch(row[1], -1) {
				add("check", row[0], check[1])
			}
		}
	}
	slices.Sort(out)
	return out
}

// texts returns what query finds, n texts a row.
func texts(t *testing.T, db *store.DB, query string, n int) (out [][]string) {
	t.Helper()
	rows, err := db.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, into := make([]string, n), make([]any, n)
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBothDialectsHaveTheSameSchema(t *testing.T) {
	t.Parallel()
	lite := schemaOf(t, storetest.SQLite(t))
	for _, kind := range []string{"column", "unique", "index", "reference", "check"} {
		if !slices.ContainsFunc(lite, func(line string) bool { return strings.HasPrefix(line, kind+" ") }) {
			t.Errorf("no %s was read: the schema was not understood", kind)
		}
	}
	pg := schemaOf(t, storetest.Postgres(t))
	for _, line := range lite {
		if !slices.Contains(pg, line) {
			t.Errorf("only SQLite has: %s", line)
		}
	}
	for _, line := range pg {
		if !slices.Contains(lite, line) {
			t.Errorf("only PostgreSQL has: %s", line)
		}
	}
	if len(lite) != len(pg) {
		t.Errorf("SQLite's schema has %d lines, PostgreSQL's %d", len(lite), len(pg))
	}
}
