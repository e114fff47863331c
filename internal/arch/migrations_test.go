package arch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Migrations have the numbers from 1 on, each once, and the same names for both databases: with a gap or a number twice no database opens.
func TestMigrationsAreNumberedWithoutAGap(t *testing.T) {
	names := map[string][]string{}
	for _, kind := range []string{"sqlite", "postgres"} {
		entries, err := os.ReadDir(filepath.Join("..", "..", "migrations", kind))
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range entries { // sorted by name
			if want := "000" + strconv.Itoa(i+1); !strings.HasPrefix(e.Name(), want[len(want)-4:]+"_") {
				t.Errorf("%s/%s should have the number %d", kind, e.Name(), i+1)
			}
			names[kind] = append(names[kind], e.Name())
		}
	}
	if a, b := strings.Join(names["sqlite"], " "), strings.Join(names["postgres"], " "); a != b {
		t.Errorf("SQLite has %s, PostgreSQL %s", a, b)
	}
}
