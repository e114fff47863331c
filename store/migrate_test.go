package store_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/migrations"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestBothDialectsHaveTheSameMigrations(t *testing.T) {
	t.Parallel()
	names := func(files fs.FS, dir string) []string {
		entries, err := fs.ReadDir(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	lite, pg := names(migrations.SQLite, "sqlite"), names(migrations.Postgres, "postgres")
	if strings.Join(lite, " ") != strings.Join(pg, " ") {
		t.Fatalf("sqlite has %v, postgres has %v", lite, pg)
	}
	// The texts differ only where they must.
	comments, blanks := regexp.MustCompile(`--[^\n]*`), regexp.MustCompile(`\s+`)
	for _, name := range lite {
		a, _ := fs.ReadFile(migrations.SQLite, "sqlite/"+name)
		b, _ := fs.ReadFile(migrations.Postgres, "postgres/"+name)
		clean := func(s []byte) string { return blanks.ReplaceAllString(comments.ReplaceAllString(string(s), ""), " ") }
		if got, want := clean(b), strings.ReplaceAll(clean(a), "BLOB", "BYTEA"); got != want {
			t.Errorf("%s differs between the dialects by more than BLOB and BYTEA", name)
		}
	}
}

// both gives the same files to each dialect.
func both(files map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, text := range files {
		m["m/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func own(t *testing.T) map[string]string {
	t.Helper()
	entries, err := fs.ReadDir(migrations.SQLite, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, _ := fs.ReadFile(migrations.SQLite, "sqlite/"+e.Name())
		out[e.Name()] = string(b)
	}
	return out
}

func TestMigrationsApplyOnceAndInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Config{URL: "sqlite", DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	files := own(t)
	next := fmt.Sprintf("%04d", len(files)+1)
	files[next+"_more.sql"] = "CREATE TABLE more (a TEXT); INSERT INTO more VALUES ('x');"
	for range 2 { // the second time nothing is left to do
		if err := db.Apply(t.Context(), both(files), "m"); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := db.QueryRow(t.Context(), `SELECT COUNT(*) FROM more`).Scan(&n); err != nil || n != 1 {
		t.Errorf("more has %d rows, %v", n, err)
	}
	db.Close()

	// The program without that migration refuses its database, in words.
	_, err = store.Open(t.Context(), store.Config{URL: "sqlite", DataDir: dir})
	if fault.CodeOf(err) != "database_newer" || !strings.Contains(err.Error(), "_more") {
		t.Errorf("opening a newer database: %v", err)
	}
}

func TestMigrationThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		if _, err := db.Exec(t.Context(), `DELETE FROM schema_migrations`); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"0001_good.sql": "CREATE TABLE good (a TEXT);", "0002_bad.sql": "CREATE TABLE half (a TEXT); CREATE TABLE users (a TEXT);"}
		if err := db.Apply(t.Context(), both(files), "m"); err == nil || !strings.Contains(err.Error(), "0002_bad") {
			t.Fatalf("Apply = %v", err)
		}
		var n int
		if err := db.QueryRow(t.Context(), `SELECT COUNT(*) FROM good`).Scan(&n); err != nil {
			t.Errorf("the migration before was undone: %v", err)
		}
		if err := db.QueryRow(t.Context(), `SELECT COUNT(*) FROM half`).Scan(&n); err == nil {
			t.Error("half of the failed migration stayed")
		}
	})
}

func TestChangedMigrationIsRefusedButItsCommentsMayChange(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	files := own(t)
	for name, text := range files {
		files[name] = "-- another word\n" + text
	}
	if err := db.Apply(t.Context(), both(files), "m"); err != nil {
		t.Errorf("a comment changed: %v", err)
	}
	files["0001_schema.sql"] += "CREATE TABLE other (a TEXT);"
	if err := db.Apply(t.Context(), both(files), "m"); fault.CodeOf(err) != "database_differs" {
		t.Errorf("a statement changed: %v", err)
	}
}

func TestMigrationNumbersHaveNoGaps(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	for _, files := range []map[string]string{
		{"0001_a.sql": "", "0003_c.sql": ""}, {"0001_a.sql": "", "0001_b.sql": ""}, {"1_a.sql": ""}, {"0001_a.txt": ""},
	} {
		if err := db.Apply(t.Context(), both(files), "m"); err == nil {
			t.Errorf("%v was accepted", files)
		}
	}
}

func TestTwoServersMayStartAtOnce(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, cfg store.Config) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				db, err := store.Open(t.Context(), cfg)
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				defer db.Close()
				if applied, known, err := db.SchemaVersion(t.Context()); err != nil || applied != known || known == 0 {
					t.Errorf("SchemaVersion = %d, %d, %v", applied, known, err)
				}
			})
		}
		wg.Wait()
	}
	t.Run("sqlite", func(t *testing.T) { start(t, store.Config{URL: "sqlite", DataDir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { start(t, store.Config{URL: storetest.PostgresURL(t)}) })
}
