package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheNewestIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for _, line := range []string{"one", "two", "three", "four"} {
		l, err := Open(path, 8) // as by programs one after the other
		if err != nil {
			t.Fatal(err)
		}
		if n, err := l.Write([]byte(line)); err != nil || n != len(line) {
			t.Fatalf("%d, %v", n, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(old) + "|" + string(now); got != "three|four" {
		t.Errorf("kept %q", got)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "else"), filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "log"), 8); err == nil || strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}
