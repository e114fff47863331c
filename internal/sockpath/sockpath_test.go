package sockpath

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deep is a folder whose sockets have no address.
func deep(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// speak listens at one path and says a word at the other.
func speak(t *testing.T, listen, dial string) {
	t.Helper()
	l, err := net.Listen("unix", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	c, err := net.Dial("unix", dial)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
		t.Fatalf("said %q, %v", b, err)
	}
}

func TestSocketInADeepFolder(t *testing.T) {
	t.Parallel()
	dir := deep(t)
	path, done, err := Short(dir, "sock")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if !Fits(path) || Fits(filepath.Join(dir, "sock")) {
		t.Fatalf("%s fits: %v", path, Fits(path))
	}
	speak(t, path, path)
}

func TestLinkIsNotAFolder(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(deep(t), link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Short(link, "sock"); err == nil {
		t.Error("Short goes through a link")
	}
	if _, err := linked(t.TempDir(), link, "sock"); err == nil {
		t.Error("linked goes through a link")
	}
}

// Where descriptors have no paths, as on macOS, a short link leads there.
func TestLinked(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("/tmp", "sp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	dir := deep(t)
	path, err := linked(temp, dir, "sock")
	if err != nil {
		t.Fatal(err)
	}
	again, err := linked(temp, dir, "sock")
	if err != nil || again != path {
		t.Fatalf("asked again it is %s, %v, not %s", again, err, path)
	}
	speak(t, path, again)
	other, err := linked(temp, deep(t), "sock")
	if err != nil || other == path {
		t.Fatalf("another folder has %s, %v", other, err)
	}
	// A link that leads elsewhere is put right.
	link := filepath.Dir(path)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	if _, err := linked(temp, dir, "sock"); err != nil {
		t.Fatal(err)
	}
	if to, _ := os.Readlink(link); to != dir {
		t.Errorf("the link leads to %s", to)
	}
	// A folder others may write to is not trusted.
	if err := os.Chmod(filepath.Dir(link), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := linked(temp, dir, "sock"); err == nil {
		t.Error("a folder everybody may write to is used")
	}
}
