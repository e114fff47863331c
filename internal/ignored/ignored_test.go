package ignored_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/ignored"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, p := range []string{".env", "*.local", "config/secrets.json", "/certs/", "a/**/b"} {
		if !ignored.Valid(p) {
			t.Errorf("%q is refused", p)
		}
	}
	for _, p := range []string{"", "/", "*", "**", ".", "..", "../x", "a/../../x", ".git/config", "a\\b", "[", "a\x00", "//x"} {
		if ignored.Valid(p) {
			t.Errorf("%q is taken", p)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyPlainFilesAreCopiedAndNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	from, to, out := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, from+"/.env", "SECRET=1")
	write(t, from+"/app/.env", "APP=1")
	write(t, from+"/there.local", "new")
	write(t, to+"/there.local", "old")
	write(t, from+"/sub/x.local", "sub")
	write(t, from+"/node_modules/a/index.js", "x")
	write(t, out+"/secret", "outside")
	for _, l := range [][2]string{{out + "/secret", from + "/link.local"}, {out, from + "/outside"}, {out, to + "/sub"}} {
		if err := os.Symlink(l[0], l[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(from+"/pipe.local", 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	c := ignored.Copier{From: src, To: dst, Patterns: []string{".env", "*.local", "secret"}}
	for _, name := range []string{".env", "app/.env", "there.local", "sub/x.local", "link.local", "outside/", "outside/secret", "pipe.local", "node_modules/", "", "../x.local"} {
		if err := c.Take(t.Context(), name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := c.Copied(); !slices.Equal(got, []string{".env", "app/.env"}) {
		t.Errorf("copied %q", got)
	}
	if b, _ := os.ReadFile(to + "/there.local"); string(b) != "old" {
		t.Errorf("overwritten with %q", b)
	}
	if left, _ := os.ReadDir(out); len(left) != 1 {
		t.Errorf("written outside: %v", left)
	}
	if fi, err := os.Stat(to + "/app/.env"); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
}

func TestTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from+"/big.local", "")
	if err := os.Truncate(from+"/big.local", ignored.MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	src, _ := os.OpenRoot(from)
	defer src.Close()
	dst, _ := os.OpenRoot(to)
	defer dst.Close()
	c := ignored.Copier{From: src, To: dst, Patterns: []string{"*.local"}}
	if err := c.Take(t.Context(), "big.local"); !errors.Is(err, ignored.ErrTooLarge) {
		t.Errorf("%v", err)
	}
}
