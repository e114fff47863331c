package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRunsTheCommandBesideAServerAndPassesItsExitCode(t *testing.T) {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	dir := t.TempDir()
	t.Setenv(env, "")
	out := filepath.Join(dir, "url")
	if code := run([]string{"--", "sh", "-c", `printf %s "$PARAWORK_TEST_PG" > "$0"; exit 7`, out}); code != 7 {
		t.Errorf("exit code %d", code)
	}
	url, err := os.ReadFile(out)
	if err != nil || len(url) < len("postgres://") || string(url[:11]) != "postgres://" {
		t.Errorf("the command saw %q, %v", url, err)
	}
	// One that runs already is used.
	t.Setenv(env, "postgres://already")
	if code := run([]string{"sh", "-c", `test "$PARAWORK_TEST_PG" = postgres://already`}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if code := run([]string{"/no/such/program"}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if code := run(nil); code != 2 {
		t.Errorf("exit code %d", code)
	}
}
