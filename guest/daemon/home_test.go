//go:build linux

package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
)

// files are what a home on this machine and one behind a guest can both do.
type files interface {
	Stat(name string) (homedir.Info, error)
	Open(name string) (homedir.File, error)
	ReadFile(name string) ([]byte, error)
	WriteFile(name string, b []byte) error
	Mkdir(name string) error
	Symlink(to, name string) error
	Remove(name string) error
	RemoveAll(name string) error
	List(name string) ([]homedir.Info, error)
	Glob(pattern string) ([]string, error)
}

// A home behind a guest works as one on this machine does, and neither leads out of it or hangs, whatever the agent put there.
func TestHomeIsTheSameHereAndBehindTheGuest(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	dir, err := homedir.Open(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	p := newPlaceWithHome(t)
	for name, c := range map[string]struct {
		path string
		files
	}{"here": {here, dir}, "behind the guest": {p.home, p.Home(within(t))}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tryHome(t, c.path, c.files)
		})
	}
}

func newPlaceWithHome(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	_ = p.cmd.Process.Kill()
	<-p.done
	p.home = t.TempDir()
	p.boot()
	p.Client = p.connect(testToken)
	if h, err := p.Hello(within(t)); err != nil || h.Home != p.home {
		t.Fatalf("hello %+v, %v", h, err)
	}
	return p
}

func tryHome(t *testing.T, path string, h files) {
	want := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	big := make([]byte, 3<<20+5)
	patternAt(big, 0)
	ok("mkdir", h.Mkdir("a/b"))
	ok("mkdir again", h.Mkdir("a/b"))
	for name, content := range map[string][]byte{"empty": {}, "a/b/c": []byte("hello"), "big": big, "ünï": []byte("z")} {
		ok(name, h.WriteFile(name, content))
		got, err := h.ReadFile(name)
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%s: %d bytes, %v", name, len(got), err)
		}
		if st, err := os.Lstat(filepath.Join(path, name)); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if st, err := os.Lstat(filepath.Join(path, "a")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", st.Mode(), err)
	}

	f, err := h.Open("big")
	ok("open", err)
	defer f.Close()
	if size, id, err := f.Stat(); err != nil || size != int64(len(big)) || id == "" {
		t.Errorf("stat: %d, %q, %v", size, id, err)
	}
	buf := make([]byte, 2<<20)
	if n, err := f.ReadAt(buf, 1<<20+1); err != nil || !bytes.Equal(buf[:n], big[1<<20+1:][:2<<20]) {
		t.Errorf("read at: %d, %v", n, err)
	}
	if n, err := f.ReadAt(buf, 3<<20); err != io.EOF || !bytes.Equal(buf[:n], big[3<<20:]) {
		t.Errorf("read at the end: %d, %v", n, err)
	}
	if n, err := f.ReadAt(buf, 9<<20); err != io.EOF || n != 0 {
		t.Errorf("read behind the end: %d, %v", n, err)
	}

	// What an agent may have put there.
	secret := filepath.Join(t.TempDir(), "secret")
	ok("secret", os.WriteFile(secret, []byte("of the host"), 0o644))
	ok("out", os.Symlink(secret, filepath.Join(path, "out")))
	ok("up", os.Symlink(filepath.Dir(secret), filepath.Join(path, "up")))
	ok("pipe", syscall.Mkfifo(filepath.Join(path, "pipe"), 0o600))
	for _, name := range []string{"out", "pipe", "a"} {
		_, err := h.ReadFile(name)
		want("reading "+name, err, homedir.ErrNotPlain)
		_, err = h.Open(name)
		want("opening "+name, err, homedir.ErrNotPlain)
	}
	if b, err := h.ReadFile("up/secret"); err == nil {
		t.Errorf("read through a link: %q", b)
	}
	if err := h.WriteFile("up/planted", []byte("x")); err == nil {
		t.Error("written through a link")
	}
	if _, err := h.ReadFile("../" + filepath.Base(path) + "/empty"); err == nil {
		t.Error("read through ..")
	}
	if _, err := h.ReadFile(secret); err == nil {
		t.Error("read an absolute path")
	}
	// A link or a pipe where a file is written is replaced, and where it led is left alone.
	for _, name := range []string{"out", "pipe"} {
		ok("writing over "+name, h.WriteFile(name, []byte("mine")))
		if b, err := h.ReadFile(name); err != nil || string(b) != "mine" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, _ := os.ReadFile(secret); string(b) != "of the host" {
		t.Errorf("the host's file holds %q", b)
	}

	// Links inside the home are those of accounts: a file behind one is reached.
	ok("link", h.Symlink("../a", "a/self"))
	want("link again", h.Symlink("elsewhere", "a/self"), fs.ErrExist)
	if b, err := h.ReadFile("a/self/b/c"); err != nil || string(b) != "hello" {
		t.Errorf("through a link of the home: %q, %v", b, err)
	}
	if st, err := h.Stat("a/self"); err != nil || st.Type != fs.ModeSymlink {
		t.Errorf("link: %+v, %v", st, err)
	}
	if st, err := h.Stat("a/b/c"); err != nil || !st.Regular() || st.Size != 5 || st.Perm != 0o600 || time.Since(st.ModTime) > time.Hour || st.ID == "" || st.Name != "c" {
		t.Errorf("stat: %+v, %v", st, err)
	}

	list, err := h.List("a")
	var names []string
	for _, i := range list {
		names = append(names, i.Name)
	}
	if err != nil || !slices.Equal(names, []string{"b", "self"}) || !list[0].IsDir() {
		t.Errorf("list: %q, %v", names, err)
	}
	ok("more", h.Mkdir("p/x"))
	ok("more", h.Mkdir("p/y"))
	for _, name := range []string{"p/x/1.jsonl", "p/y/1.jsonl", "p/y/2.txt"} {
		ok(name, h.WriteFile(name, nil))
	}
	ok("a link", os.Symlink(secret, filepath.Join(path, "p", "x", "2.jsonl")))
	if got, err := h.Glob("p/*/*.jsonl"); err != nil || !slices.Equal(got, []string{"p/x/1.jsonl", "p/y/1.jsonl"}) {
		t.Errorf("glob: %q, %v", got, err)
	}
	if got, err := h.Glob("nothing/*/here"); err != nil || len(got) != 0 {
		t.Errorf("glob of nothing: %q, %v", got, err)
	}
	_, err = h.ReadFile("nothing")
	want("reading nothing", err, fs.ErrNotExist)
	_, err = h.Stat("nothing/at/all")
	want("stat of nothing", err, fs.ErrNotExist)
	want("removing nothing", h.Remove("nothing"), fs.ErrNotExist)
	ok("removing nothing whole", h.RemoveAll("nothing"))
	ok("removing", h.Remove("a/b/c"))
	ok("removing whole", h.RemoveAll("up"))
	ok("removing whole", h.RemoveAll("a"))
	if _, err := os.Stat(secret); err != nil {
		t.Errorf("removed behind a link: %v", err)
	}
	if err := h.RemoveAll("."); err == nil {
		t.Error("the home itself was removed")
	}

	// A file that grows past what is read whole.
	ok("large", os.Truncate(filepath.Join(path, "big"), homedir.MaxFile+1))
	_, err = h.ReadFile("big")
	want("too large", err, homedir.ErrTooLarge)
	// Another file takes the name of one that is open.
	old, err := h.Open("empty")
	ok("open", err)
	defer old.Close()
	ok("replaced", h.WriteFile("empty", []byte("new")))
	if n, err := old.ReadAt(buf, 0); n != 0 && string(buf[:n]) == "new" {
		t.Errorf("read the new file as the old one: %q, %v", buf[:n], err)
	}
}

func TestHomeThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h := p.Home(within(t))
	for what, call := range map[string]func() error{
		"stat": func() error { _, err := h.Stat("x"); return err }, "write": func() error { return h.WriteFile("x", nil) },
		"glob": func() error { _, err := h.Glob("*"); return err }, "link": func() error { return h.Symlink("a", "b") },
	} {
		if err := call(); fault.CodeOf(err) != "no_home" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := p.Home(within(t)).WriteFile(strings.Repeat("x", 5000), nil); fault.CodeOf(err) != "invalid_path" {
		t.Errorf("a long path: %v", err)
	}
}
