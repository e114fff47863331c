package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Whoever can write into a repository's info folder must not have the server write patterns into another of its files.
func TestNoPatternIsWrittenThroughALink(t *testing.T) {
	t.Parallel()
	for target, is := range map[string]string{"../config": "[core]\n", "../missing": ""} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "info"), 0o755); err != nil {
			t.Fatal(err)
		}
		if is != "" {
			if err := os.WriteFile(filepath.Join(dir, "config"), []byte(is), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(target, filepath.Join(dir, "info", "exclude")); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := exclude(root, []string{"token"}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("a link to %s: %v", target, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "info", target))
		if string(b) != is || (is == "") != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is %q now, %v", target, b, err)
		}
	}
}
