package instance_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/cmd/parawork/instance"
)

// A server has one name for good, and another server another one. What is no name is replaced.
func TestServerID(t *testing.T) {
	t.Parallel()
	name := func(dir string) string {
		t.Helper()
		s, err := instance.ServerID(dir)
		if err != nil || s == "" {
			t.Fatalf("%q, %v", s, err)
		}
		return s
	}
	dir, other := t.TempDir(), t.TempDir()
	first := name(dir)
	if again := name(dir); again != first {
		t.Errorf("%q, then %q", first, again)
	}
	if name(other) == first {
		t.Error("two servers have one name")
	}
	for _, bad := range []string{"", "srv_", "a b", first + "\n" + first} {
		if err := os.WriteFile(filepath.Join(dir, "server.id"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := name(dir); got == first || got != name(dir) {
			t.Errorf("after %q: %q", bad, got)
		}
	}
	if _, err := instance.ServerID(filepath.Join(dir, "none")); err == nil {
		t.Error("a name was stored in a folder that does not exist")
	}
}
