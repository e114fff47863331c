//go:build linux

package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

func hashOf(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (p *place) read(path string) ([]byte, guest.FileInfo, error) {
	r, info, err := p.ReadFile(within(p.t), path)
	if err != nil {
		return nil, info, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return b, info, err
}

func (p *place) write(path string, b []byte, o client.WriteOptions) (guest.FileInfo, error) {
	return p.WriteFile(within(p.t), path, bytes.NewReader(b), o)
}

func TestFilesRoundTrip(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	big := make([]byte, 5<<20+17)
	patternAt(big, 0)
	for name, content := range map[string][]byte{
		"empty": {}, "a/b/c.txt": []byte("hello"), "big": big, "new\nline \x1b[31m": []byte("x"), "-rf": []byte("y"), "ünï/文": []byte("z"),
		guest.EncodePath("bytes \xff\xfe"): []byte("not utf-8"),
	} {
		info, err := p.write(name, content, client.WriteOptions{})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if info.Path != name || info.Size != int64(len(content)) || info.Hash != hashOf(content) || info.Mode != 0o644 || info.Type != "file" {
			t.Fatalf("%q: written %+v", name, info)
		}
		b, got, err := p.read(name)
		if err != nil || !bytes.Equal(b, content) || got.Hash != info.Hash || got.Path != name {
			t.Fatalf("%q: read %d bytes, %+v, %v", name, len(b), got, err)
		}
		onDisk, err := os.ReadFile(filepath.Join(p.root, guest.DecodePath(name)))
		if err != nil || !bytes.Equal(onDisk, content) {
			t.Fatalf("%q on disk: %d bytes, %v", name, len(onDisk), err)
		}
		if st, err := p.Stat(within(t), name); err != nil || st.Size != int64(len(content)) || st.Hash != "" {
			t.Fatalf("%q: stat %+v, %v", name, st, err)
		}
	}
	if err := p.Mkdir(within(t), "d/e"); err != nil {
		t.Fatal(err)
	}
	if err := p.Mkdir(within(t), "d/e"); err != nil {
		t.Fatal(err)
	}
	list, err := p.List(within(t), "")
	var names []string
	for _, f := range list.Items {
		names = append(names, f.Name)
	}
	want := []string{"-rf", "a", "big", guest.EncodePath("bytes \xff\xfe"), "d", "empty", "new\nline \x1b[31m", "ünï"}
	if err != nil || strings.Join(names, "|") != strings.Join(want, "|") {
		t.Fatalf("list %q, %v", names, err)
	}
	if err := p.RemoveFile(within(t), "d"); fault.CodeOf(err) != "not_empty" {
		t.Fatalf("removing a folder that is not empty: %v", err)
	}
	for _, f := range []string{"d/e", "d", "big"} {
		if err := p.RemoveFile(within(t), f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.write("full/of/files", nil, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../a", filepath.Join(p.root, "full", "link")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"full", "full"} {
		if err := p.RemoveAll(within(t), f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(p.root, "full")); !os.IsNotExist(err) {
		t.Fatalf("a folder removed with its contents: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(p.root, "a/b/c.txt")); err != nil {
		t.Fatalf("a link was followed: %v", err)
	}
	for _, f := range []string{"", ".git", "../a"} {
		if p.RemoveAll(within(t), f) == nil {
			t.Errorf("%q was removed", f)
		}
	}
	if _, _, err := p.read("big"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("reading a removed file: %v", err)
	}
	if err := p.RemoveFile(within(t), "big"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("removing a removed file: %v", err)
	}
	if entries, _ := filepath.Glob(filepath.Join(p.root, ".parawork-*")); len(entries) > 0 {
		t.Fatalf("left behind: %v", entries)
	}
}

func TestIfMatchAndModes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	info, err := p.write("f", []byte("one"), client.WriteOptions{Mode: 0o755})
	if err != nil || info.Mode != 0o755 {
		t.Fatalf("%+v, %v", info, err)
	}
	if info, err = p.write("f", []byte("two"), client.WriteOptions{IfMatch: info.Hash}); err != nil || info.Mode != 0o755 {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err = p.write("f", []byte("three"), client.WriteOptions{IfMatch: hashOf([]byte("one"))}); !fault.Is(err, fault.Precondition) {
		t.Fatalf("a file that moved on: %v", err)
	}
	if _, err = p.write("none", []byte("x"), client.WriteOptions{IfMatch: hashOf(nil)}); !fault.Is(err, fault.Precondition) {
		t.Fatalf("a file that is not there: %v", err)
	}
	if b, _, err := p.read("f"); err != nil || string(b) != "two" {
		t.Fatalf("%q, %v", b, err)
	}
	if _, err = p.write("f", nil, client.WriteOptions{Mode: 0o4755}); !fault.Is(err, fault.Invalid) {
		t.Fatalf("a setuid file: %v", err)
	}
	failing := io.MultiReader(strings.NewReader("half"), failingReader{})
	if _, err = p.WriteFile(within(t), "f", failing, client.WriteOptions{}); !errors.Is(err, errSource) {
		t.Fatalf("a source that fails: %v", err)
	}
	eventually(t, "the half-written file is gone", func() bool {
		left, _ := filepath.Glob(filepath.Join(p.root, ".parawork-*"))
		b, _, err := p.read("f")
		return err == nil && string(b) == "two" && len(left) == 0
	})
}

// While a file is being sent nothing of it is in the workspace: git's status names no file nobody made, and a commit of everything takes none.
func TestNothingIsSeenOfAFileThatIsBeingSent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	probe, err := os.OpenFile(p.root, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		t.Skipf("the disk has no files without a name: %v", err)
	}
	probe.Close()
	if _, err := p.write("there", []byte("old"), client.WriteOptions{Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	before := names(t, p.root)
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, name := range []string{"there", "fresh", "folder/fresh"} {
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			info, err := p.WriteFile(within(t), name, r, client.WriteOptions{Mode: 0o755})
			if err == nil && (info.Hash != hashOf(body) || info.Mode != 0o755 || info.Size != int64(len(body))) {
				err = fmt.Errorf("written %+v", info)
			}
			done <- err
		}()
		if _, err := w.Write(body[:len(body)/2]); err != nil {
			t.Fatal(err)
		}
		eventually(t, "half of it is in the sandbox", func() bool { return p.openBelow() >= int64(len(body)/4) })
		if now := names(t, p.root); !slices.Equal(now, before) {
			t.Errorf("%s: while it is sent there is %q, before it was %q", name, now, before)
		}
		if _, err := w.Write(body[len(body)/2:]); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := <-done; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b, _, err := p.read(name); err != nil || !bytes.Equal(b, body) {
			t.Errorf("%s: read %d bytes, %v", name, len(b), err)
		}
		if name != "there" {
			before = append(before, name)
			slices.Sort(before)
		}
		if now := names(t, p.root); !slices.Equal(now, before) {
			t.Errorf("%s: afterwards there is %q, not %q", name, now, before)
		}
	}
}

// names are all files below a folder.
func names(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(root, path)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// openBelow is the size of the largest file of the workspace, with a name or without, that the guest has open.
func (p *place) openBelow() (size int64) {
	of := fmt.Sprintf("/proc/%d/fd/", p.cmd.Process.Pid)
	fds, _ := os.ReadDir(of)
	for _, fd := range fds {
		name, err := os.Readlink(of + fd.Name())
		if err != nil || !strings.HasPrefix(name, p.root+"/") {
			continue
		}
		if fi, err := os.Stat(of + fd.Name()); err == nil && fi.Mode().IsRegular() {
			size = max(size, fi.Size())
		}
	}
	return size
}

var errSource = errors.New("the source failed")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errSource }

func TestHostilePaths(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(p.root, name) }
	for _, err := range []error{
		os.Symlink(secret, in("absolute")), os.Symlink("../../../../../../"+secret, in("relative")), os.Symlink(outside, in("dir")),
		os.Symlink("loop", in("loop")), syscall.Mkfifo(in("fifo"), 0o600), os.Mkdir(in(".git"), 0o700), os.WriteFile(in(".git/config"), nil, 0o600),
		os.Symlink(".git/config", in("config")), os.Mkdir(in("folder"), 0o700), os.WriteFile(in("AGENTS.md"), []byte("old"), 0o640),
		os.Symlink("AGENTS.md", in("CLAUDE.md")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, path := range []string{"absolute", "relative", "dir/secret", "loop", "fifo", "socket", ".git/config", ".GIT/config", "../x", "a/../b", "/etc/passwd",
		"", "a//b", ".", "a\x00b", "folder", strings.Repeat("x/", 3000) + "x", strings.Repeat("y", 300), "AGENTS.md/x"} {
		if b, _, err := p.read(path); err == nil {
			t.Errorf("read %q: %q", path, b)
		} else if k := fault.KindOf(err); k == fault.Internal || k == fault.Unavailable {
			t.Errorf("read %q: %s: %v", path, k, err)
		}
		if path == "folder" || path == "AGENTS.md/x" {
			continue
		}
		if _, err := p.write(path, []byte("overwritten"), client.WriteOptions{}); err == nil {
			t.Errorf("wrote %q", path)
		} else if k := fault.KindOf(err); k == fault.Internal || k == fault.Unavailable {
			t.Errorf("write %q: %s: %v", path, k, err)
		}
	}
	if _, err := p.write("config", []byte("x"), client.WriteOptions{}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("wrote git's configuration through a link: %v", err)
	}
	if _, err := p.write("folder", nil, client.WriteOptions{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("wrote a folder: %v", err)
	}
	if b, _ := os.ReadFile(secret); string(b) != "secret" {
		t.Errorf("outside the root: %q", b)
	}
	if _, err := p.write("CLAUDE.md", []byte("new"), client.WriteOptions{}); err != nil {
		t.Errorf("through a link: %v", err)
	}
	if info, err := os.Lstat(in("CLAUDE.md")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	if b, _ := os.ReadFile(in("AGENTS.md")); string(b) != "new" {
		t.Errorf("the link's target is %q", b)
	}
	if st, err := p.Stat(within(t), "absolute"); err != nil || st.Type != "symlink" || st.Link != secret {
		t.Errorf("stat of a link: %+v, %v", st, err)
	}
	if st, err := p.Stat(within(t), "fifo"); err != nil || st.Type != "other" {
		t.Errorf("stat of a FIFO: %+v, %v", st, err)
	}
	list, err := p.List(within(t), "")
	if err != nil || len(list.Items) != 10 {
		t.Errorf("list %v, %v", list.Items, err)
	}
	for _, f := range list.Items {
		if strings.EqualFold(f.Name, ".git") {
			t.Error(".git was listed")
		}
	}
	if _, err := p.List(within(t), "dir"); err == nil {
		t.Error("listed a folder outside the root")
	}
	if _, err := p.List(within(t), "AGENTS.md"); !fault.Is(err, fault.Conflict) {
		t.Errorf("listed a file: %v", err)
	}
}

// A file that grows and shrinks while it is read never arrives as something it was not.
func TestFileThatChangesWhileRead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	path := filepath.Join(p.root, "moving")
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(path, bytes.Repeat([]byte{byte('a' + i%26)}, 2<<20+i%3), 0o600)
			}
		}
	}()
	for range 30 {
		b, info, err := p.read("moving")
		if err == nil && hashOf(b) != info.Hash {
			t.Error("other bytes than its hash says")
		}
	}
	close(stop)
	<-stopped
}

func TestHugeFolderIsCapped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := filepath.Join(p.root, "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 10_500 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%05d", i)))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	list, err := p.List(within(t), "d")
	if err != nil || len(list.Items) != 10_000 {
		t.Fatalf("%d entries, %v", len(list.Items), err)
	}
}
