package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestInspectChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := store.Config{URL: "sqlite", DataDir: filepath.Join(dir, "data")}
	st, err := store.Inspect(t.Context(), cfg)
	if err != nil || !st.Missing {
		t.Errorf("a missing file: %+v, %v", st, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("made %v", left)
	}
	db, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Seed(t, db)
	st, err = store.Inspect(t.Context(), cfg)
	if err != nil || st.Missing || st.Empty || st.Applied != st.Known || st.Applied == 0 || st.Problem != nil || st.Users != 1 || st.Teams != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := db.Exec(t.Context(), `INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (9999, 'later', 'x', 0)`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if st, err = store.Inspect(t.Context(), cfg); err != nil || fault.CodeOf(st.Problem) != "database_newer" {
		t.Errorf("a newer one: %+v, %v", st, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("this is no database, whatever it is called"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Inspect(t.Context(), store.Config{URL: "sqlite:" + filepath.Join(dir, "text")}); err == nil {
		t.Error("a text file passed")
	}
	if _, err := store.Inspect(t.Context(), store.Config{URL: "sqlite:" + dir}); err == nil {
		t.Error("a folder passed")
	}
}

func TestInspectPostgres(t *testing.T) {
	t.Parallel()
	cfg := store.Config{URL: storetest.PostgresURL(t)}
	st, err := store.Inspect(t.Context(), cfg)
	if err != nil || !st.Empty || st.Server == "" {
		t.Errorf("an empty one: %+v, %v", st, err)
	}
	db, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if st, err = store.Inspect(t.Context(), cfg); err != nil || st.Empty || st.Applied != st.Known {
		t.Errorf("a migrated one: %+v, %v", st, err)
	}
}
