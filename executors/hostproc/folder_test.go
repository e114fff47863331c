//go:build linux || darwin

package hostproc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/internal/fault"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestIDsAreOnePlainName(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"sbx_1", "A-b_9", strings.Repeat("a", 64)} {
		if err := hostproc.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", ".", "..", "a/b", "../a", "a b", "a\x00", "é", "a.b", strings.Repeat("a", 65)} {
		if err := hostproc.CheckID(id); fault.CodeOf(err) != "invalid_sandbox_id" {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// Two executors may keep their folders side by side: each finds its own.
func TestFoldersOfEachKind(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "made", "sandboxes")
	find := func(kind, unmarked executors.Kind, want ...string) {
		t.Helper()
		if got, err := hostproc.Folders(parent, kind, unmarked); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %s, unmarked ones of %s: %q, %v; want %q", kind, unmarked, got, err, want)
		}
	}
	find("local", "local") // before there is any
	for id, kind := range map[string]executors.Kind{"sbx_1": "local", "sbx_2": "bubblewrap", "sbx_3": "local"} {
		dir, err := hostproc.MakeFolder(parent, id, kind)
		if err != nil || dir != filepath.Join(parent, id) {
			t.Fatalf("%s: %s, %v", id, dir, err)
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", id, st.Mode(), err)
		}
	}
	if _, err := hostproc.MakeFolder(parent, "sbx_1", "bubblewrap"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder that is another's: %v", err)
	}
	for _, name := range []string{"unmarked", "no id.", "a file", "linked"} {
		if name == "a file" {
			write(t, filepath.Join(parent, name), "")
		} else if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(parent, "sbx_2", hostproc.KindName), filepath.Join(parent, "linked", hostproc.KindName)); err != nil {
		t.Fatal(err)
	}
	find("local", "local", "linked", "sbx_1", "sbx_3", "unmarked") // another's mark does not count through a link
	find("bubblewrap", "local", "sbx_2")
	find("bubblewrap", "bubblewrap", "linked", "sbx_2", "unmarked")
	find("docker", "local")
	if _, err := hostproc.Folders(filepath.Join(parent, "a file"), "local", "local"); err == nil {
		t.Error("a file was listed")
	}
}

func TestTheGuestsToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := hostproc.ReadToken(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is made: %v", err)
	}
	if token, err := hostproc.MakeToken(dir, iotest.ErrReader(errors.New("no entropy"))); err == nil || token != "" {
		t.Errorf("made without randomness: %q, %v", token, err)
	}
	token, err := hostproc.MakeToken(dir, bytes.NewReader(bytes.Repeat([]byte{0xab}, 40)))
	if err != nil || token != strings.Repeat("ab", 32) {
		t.Fatalf("%q, %v", token, err)
	}
	if st, err := os.Stat(filepath.Join(dir, hostproc.TokenName)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	write(t, filepath.Join(dir, hostproc.TokenName), token+"\n")
	if got, err := hostproc.ReadToken(dir); err != nil || got != token {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTheGuestsRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := hostproc.Identity{Pid: 7, Start: 8, BootID: "boot"}
	if err := hostproc.WriteRecord(dir, want); err != nil {
		t.Fatal(err)
	}
	var got hostproc.Identity
	if err := hostproc.ReadRecord(dir, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if err := hostproc.WriteRecord(dir, func() {}); err == nil {
		t.Error("what cannot be written was")
	}
	if err := hostproc.ReadRecord(dir, &got); err != nil || got != want {
		t.Errorf("and the one before is gone: %+v, %v", got, err)
	}
	write(t, filepath.Join(dir, hostproc.RecordName), `{"pid":`)
	if err := hostproc.ReadRecord(dir, &got); err == nil {
		t.Error("half a record was read")
	}
}

// An agent may write to its sandbox's folder: what it puts there holds up nobody and leads nowhere.
func TestOnlySmallRegularFilesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("real"), "text")
	write(t, at("large"), strings.Repeat("x", 1<<20))
	if err := os.Symlink(at("real"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", at("endless")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(at("pipe"), 0o600); err != nil { // that nobody writes to
		t.Fatal(err)
	}
	if b, err := hostproc.ReadSmall(at("real")); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := hostproc.ReadSmall(at("large")); err != nil || len(b) != 64<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for _, name := range []string{"link", "endless", "pipe", "none", "."} {
		if b, err := hostproc.ReadSmall(at(name)); err == nil {
			t.Errorf("%s: %q", name, b)
		}
	}
}

// A file that is away, or wrong, says that its sandbox is gone; one that cannot be read now says nothing.
func TestWhatCannotBeReadNow(t *testing.T) {
	t.Parallel()
	of := func(err error) error {
		return fmt.Errorf("reading: %w", &fs.PathError{Op: "open", Path: "x", Err: err})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{{of(syscall.EMFILE), true}, {of(syscall.EACCES), true}, {of(syscall.EIO), true}, {of(syscall.ENOENT), false}, {of(syscall.ENOTDIR), false}, {of(syscall.ELOOP), false},
		{errors.New("unexpected end of JSON input"), false}, {nil, false}} {
		if got := hostproc.Unreadable(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestWhatTheGuestPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := hostproc.Tail(dir); got != "it printed nothing" {
		t.Errorf("without a file: %q", got)
	}
	for range 2 {
		f, err := hostproc.OpenOutput(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("first \xff line\n"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := hostproc.Tail(dir); got != "first ? line\nfirst ? line" {
		t.Errorf("%q", got)
	}
	write(t, filepath.Join(dir, hostproc.OutputName), strings.Repeat("x", 5000)+"the end")
	if got := hostproc.Tail(dir); len(got) != 500 || !strings.HasSuffix(got, "xthe end") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if err := os.Remove(filepath.Join(dir, hostproc.OutputName)); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "log")
	if err := os.Symlink(outside, filepath.Join(dir, hostproc.OutputName)); err != nil {
		t.Fatal(err)
	}
	if f, err := hostproc.OpenOutput(dir); err == nil {
		f.Close()
		t.Error("what the guest prints is written where a link leads")
	}
	if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestFoldersAreRemovedAlsoWithoutRights(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sbx_1")
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	write(t, filepath.Join(outside, "kept"), "kept")
	write(t, filepath.Join(deep, "f"), "x")
	if err := os.Symlink(outside, filepath.Join(deep, "way")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{deep, filepath.Dir(deep)} {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := hostproc.RemoveFolder(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if st, err := os.Stat(filepath.Join(outside, "kept")); err != nil || st.Size() != 4 {
		t.Errorf("what a link led to: %v", err)
	}
	if err := hostproc.RemoveFolder(dir); err != nil {
		t.Errorf("again: %v", err)
	}
}
