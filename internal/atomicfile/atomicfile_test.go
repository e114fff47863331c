package atomicfile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/parawork/parawork/internal/atomicfile"
)

func TestReadersSeeOneContentOrTheOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	old, fresh := strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<17)
	if err := atomicfile.Write(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i := range 4 { // at once: each has a new file of its own
		writers.Go(func() {
			for range 20 {
				err := atomicfile.WriteDurable(path, []byte(fresh), 0o640)
				if i%2 == 0 {
					err = atomicfile.Write(path, []byte(old), 0o600)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != old && string(b) != fresh {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	alone(t, path)
}

func TestAFailedWriteLeavesTheOldFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.CopyDurable(path, strings.NewReader("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the line was cut")
	if err := atomicfile.CopyDurable(path, io.MultiReader(strings.NewReader("ne"), iotest.ErrReader(broken)), 0o600); !errors.Is(err, broken) {
		t.Errorf("a cut copy: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
	alone(t, path)
	if err := atomicfile.Write(filepath.Join(path, "no", "folder"), nil, 0o600); err == nil {
		t.Error("a file was written below a file")
	}
}

// alone demands that nothing half-written stays beside the file.
func alone(t *testing.T, path string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestCopyInReplacesALinkAndNotWhatItPointsAt(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(outside, []byte("theirs"), 0o600), os.Symlink(outside, filepath.Join(dir, "file"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := atomicfile.CopyIn(root, "file", strings.NewReader("ours"), 0o640); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "theirs" {
		t.Errorf("outside: %q, %v", b, err)
	}
	st, err := os.Lstat(filepath.Join(dir, "file"))
	if err != nil || st.Mode() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	alone(t, filepath.Join(dir, "file"))
}
