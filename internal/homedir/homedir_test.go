package homedir_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/homedir"
)

// home is an agent's home with what an agent may leave there, and a file outside that none of it may lead to.
type home struct {
	*homedir.Dir
	t       *testing.T
	path    string
	outside string
}

func newHome(t *testing.T) *home {
	t.Helper()
	base := t.TempDir()
	h := &home{t: t, path: filepath.Join(base, "home"), outside: filepath.Join(base, "outside")}
	for _, d := range []string{h.path, h.outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.outside, "precious"), []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := homedir.Open(h.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	h.Dir = d
	return h
}

// at is where a name lies on the disk.
func (h *home) at(name string) string { return filepath.Join(h.path, name) }

// put writes a file as the agent does.
func (h *home) put(name, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.at(name)), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.at(name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// link makes a link as the agent does.
func (h *home) link(to, name string) {
	h.t.Helper()
	if err := os.Symlink(to, h.at(name)); err != nil {
		h.t.Fatal(err)
	}
}

// untouched checks that nothing outside was written or removed.
func (h *home) untouched() {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.outside, "precious"))
	left, derr := os.ReadDir(h.outside)
	if err != nil || derr != nil || string(b) != "precious" || len(left) != 1 {
		h.t.Errorf("outside there is %q, %v, %v, %v", b, left, err, derr)
	}
}

func TestFilesAreReadAndReplaced(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if _, err := h.ReadFile("config.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is there: %v", err)
	}
	for _, text := range []string{"one", "", "two, which is longer"} {
		if err := h.WriteFile("config.json", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := h.ReadFile("config.json"); err != nil || string(b) != text {
			t.Errorf("%q comes back as %q, %v", text, b, err)
		}
	}
	if st, err := os.Stat(h.at("config.json")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := h.Write("tool", strings.NewReader("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if st, err := h.Stat("tool"); err != nil || st.Perm != 0o755 || st.Size != 10 || !st.Regular() || st.IsDir() || st.Name != "tool" {
		t.Errorf("%+v, %v", st, err)
	}
	if err := h.WriteFile("none/config.json", []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that is not there: %v", err)
	}
	for range 2 {
		if err := h.Mkdir("some/folder"); err != nil {
			t.Error(err)
		}
	}
	if st, err := h.Stat("some/folder"); err != nil || !st.IsDir() || st.Regular() || st.Perm != 0o700 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := h.WriteFile("some/folder/f", []byte("x")); err != nil {
		t.Error(err)
	}
	if err := h.Remove("some/folder"); err == nil {
		t.Error("Remove took away a folder with a file in it")
	}
	for range 2 { // again: nothing to remove
		if err := h.RemoveAll("some"); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.Stat("some"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	if _, err := homedir.Open(h.at("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a home that is not there: %v", err)
	}
}

// Who reads meanwhile sees the file of before or that of after, and what could not be written whole is not there at all.
func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put("f", "before")
	open, err := h.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	_, before, err := open.Stat()
	if err != nil {
		t.Fatal(err)
	}
	cut := io.MultiReader(strings.NewReader("half of it"), iotest.ErrReader(errors.New("the pipe is cut")))
	if err := h.Write("f", cut, 0o600); err == nil {
		t.Error("a stream that was cut was taken for the file")
	}
	if b, err := h.ReadFile("f"); err != nil || string(b) != "before" {
		t.Errorf("%q, %v", b, err)
	}
	if err := h.WriteFile("f", []byte("after")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 6)
	if _, err := open.ReadAt(p, 0); err != nil || string(p) != "before" {
		t.Errorf("who had it open reads %q, %v", p, err)
	}
	if st, err := h.Stat("f"); err != nil || st.ID == before || st.ID == "" {
		t.Errorf("the file that took its name looks the same: %q, %q, %v", st.ID, before, err)
	}
	h.put("folder/f", "x")
	if err := h.WriteFile("folder", []byte("x")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if left, err := os.ReadDir(h.path); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put("real", "text")
	h.link("real", "to a file")
	h.link("/dev/zero", "to a device")
	h.link(filepath.Join(h.outside, "precious"), "to outside")
	h.link("nowhere", "to nothing")
	h.link("round", "round")
	if err := os.Mkdir(h.at("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(h.at("pipe"), 0o644); err != nil { // that nobody writes to: to open it would never end
		t.Fatal(err)
	}
	for _, name := range []string{"to a file", "to a device", "to outside", "to nothing", "round", "folder", "pipe"} {
		if f, err := h.Open(name); !errors.Is(err, homedir.ErrNotPlain) || f != nil {
			t.Errorf("Open %s: %v", name, err)
		}
		if b, err := h.ReadFile(name); !errors.Is(err, homedir.ErrNotPlain) || b != nil {
			t.Errorf("ReadFile %s: %q, %v", name, b, err)
		}
		if b, _, err := h.ReadAt(name, 0, 10); !errors.Is(err, homedir.ErrNotPlain) || b != nil {
			t.Errorf("ReadAt %s: %q, %v", name, b, err)
		}
		if err := h.Chtimes(name, time.Unix(1, 0)); !errors.Is(err, homedir.ErrNotPlain) {
			t.Errorf("Chtimes %s: %v", name, err)
		}
	}
	if st, err := h.Stat("to outside"); err != nil || st.Type != fs.ModeSymlink || st.Regular() || st.IsDir() {
		t.Errorf("a link is described as %+v, %v", st, err)
	}
	if _, to, err := h.OpenFile("to outside"); err != nil || to != filepath.Join(h.outside, "precious") {
		t.Errorf("a link leads to %q, %v", to, err)
	}
	f, to, err := h.OpenFile("real")
	if err != nil || to != "" {
		t.Fatalf("%q, %v", to, err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if _, _, err := h.OpenFile("pipe"); !errors.Is(err, homedir.ErrNotPlain) {
		t.Errorf("a pipe: %v", err)
	}
	if _, _, err := h.OpenFile("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

func TestNoNameLeadsOutside(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.link(h.outside, "way")
	h.link("..", "up")
	h.put("folder/f", "x")
	h.link("../..", "folder/up")
	for _, name := range []string{"../outside/precious", "way/precious", "up/outside/precious", "folder/up/outside/precious", filepath.Join(h.outside, "precious")} {
		if b, err := h.ReadFile(name); err == nil {
			t.Errorf("ReadFile %s: %q", name, b)
		}
		if err := h.WriteFile(name, []byte("overwritten")); err == nil {
			t.Errorf("WriteFile %s", name)
		}
		if st, err := h.Stat(name); err == nil {
			t.Errorf("Stat %s: %+v", name, st)
		}
		if err := h.Chtimes(name, time.Unix(1, 0)); err == nil {
			t.Errorf("Chtimes %s", name)
		}
		if err := h.Remove(name); err == nil {
			t.Errorf("Remove %s", name)
		}
		_ = h.RemoveAll(name)
		if err := h.Mkdir(filepath.Dir(name) + "/made"); err == nil {
			t.Errorf("Mkdir beside %s", name)
		}
		if err := h.Symlink("x", filepath.Dir(name)+"/link"); err == nil {
			t.Errorf("Symlink beside %s", name)
		}
		if f, _, err := h.OpenFile(name); err == nil {
			f.Close()
			t.Errorf("OpenFile %s", name)
		}
	}
	for _, pattern := range []string{"way/*", "up/outside/*", "../outside/*", "way/precious", "*/precious"} {
		if names, err := h.Glob(pattern); err == nil && len(names) > 0 {
			t.Errorf("Glob %s: %q", pattern, names)
		}
	}
	for _, dir := range []string{"way", "up", "../outside", "folder/up"} {
		if list, err := h.List(dir); err == nil && len(list) > 0 {
			t.Errorf("List %s: %+v", dir, list)
		}
	}
	h.untouched()
}

func TestALinkIsReplacedAndNotFollowed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.link(filepath.Join(h.outside, "precious"), "config")
	if err := h.WriteFile("config", []byte("ours")); err != nil {
		t.Fatal(err)
	}
	if st, err := h.Stat("config"); err != nil || !st.Regular() {
		t.Errorf("%+v, %v", st, err)
	}
	h.link(h.outside, "cache")
	if err := h.RemoveAll("cache"); err != nil {
		t.Fatal(err)
	}
	h.link(filepath.Join(h.outside, "precious"), "one")
	if err := h.Remove("one"); err != nil {
		t.Fatal(err)
	}
	h.put("folder/sub/f", "x")
	h.link(h.outside, "folder/sub/way")
	if err := h.RemoveAll("folder"); err != nil {
		t.Fatal(err)
	}
	h.untouched()
	if err := h.Symlink("elsewhere", "new"); err != nil {
		t.Fatal(err)
	}
	if err := h.Symlink("elsewhere", "new"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over what lies there: %v", err)
	}
}

func TestLargeFilesAreReadInParts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put("exact", strings.Repeat("x", homedir.MaxFile))
	h.put("over", strings.Repeat("x", homedir.MaxFile+1))
	if b, err := h.ReadFile("exact"); err != nil || len(b) != homedir.MaxFile {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := h.ReadFile("over"); !errors.Is(err, homedir.ErrTooLarge) {
		t.Errorf("%v", err)
	}
	h.put("log", "0123456789")
	for _, c := range []struct {
		off  int64
		most int
		want string
	}{{0, 4, "0123"}, {8, 4, "89"}, {10, 4, ""}, {50, 4, ""}, {0, 0, ""}, {3, 100, "3456789"}} {
		b, info, err := h.ReadAt("log", c.off, c.most)
		if err != nil || string(b) != c.want || info.Size != 10 {
			t.Errorf("%d bytes from %d: %q of %d, %v", c.most, c.off, b, info.Size, err)
		}
	}
	if b, _, err := h.ReadAt("none", 0, 1); !errors.Is(err, fs.ErrNotExist) || b != nil {
		t.Errorf("of none: %q, %v", b, err)
	}
}

func TestTimesAreSet(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put("f", "x")
	at := time.Date(2024, 2, 29, 12, 0, 0, 5000, time.UTC)
	if err := h.Chtimes("f", at); err != nil {
		t.Fatal(err)
	}
	if st, err := h.Stat("f"); err != nil || !st.ModTime.Equal(at) {
		t.Errorf("%v, %v", st.ModTime, err)
	}
}

func TestWhatLiesInAFolder(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put("b", "22")
	h.put("a", "1")
	h.put("sub/c", "3")
	h.link(h.outside, "way")
	list, err := h.List(".")
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	var got []string
	for _, i := range list {
		got = append(got, fmt.Sprint(i.Name, " ", i.Type == fs.ModeDir, " ", i.Regular()))
	}
	if want := []string{"a false true", "b false true", "sub true false", "way false false"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, none := range []string{"nowhere", "a"} {
		if list, err := h.List(none); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", none, list, err)
		}
	}
}

func TestFilesByTheirNames(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, name := range []string{"logs/2024/one.jsonl", "logs/2025/two.jsonl", "logs/2025/two.txt", "logs/top.jsonl", "other/2025/x.jsonl", "logs/[odd]/y.jsonl"} {
		h.put(name, "x")
	}
	if err := os.Mkdir(h.at("logs/2025/folder.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.put("logs/2025/folder.jsonl/in", "x")
	h.link("one.jsonl", "logs/2024/link.jsonl")
	h.link("2024", "logs/latest")
	for pattern, want := range map[string][]string{
		"logs/*/*.jsonl":          {"logs/2024/one.jsonl", "logs/2025/two.jsonl", "logs/[odd]/y.jsonl"},
		"logs/2025/*":             {"logs/2025/two.jsonl", "logs/2025/two.txt"},
		"logs/latest/*":           nil,
		"logs/2024/one.jsonl":     {"logs/2024/one.jsonl"},
		"logs/2024/link.jsonl":    nil,
		"logs/2025/folder.jsonl":  nil,
		"logs/20??/one.jsonl":     {"logs/2024/one.jsonl"},
		`logs/\[odd\]/y.jsonl`:    {"logs/[odd]/y.jsonl"},
		"nowhere/*":               nil,
		"logs/top.jsonl/*":        nil,
		"*/2025/[a-x].jsonl":      {"other/2025/x.jsonl"},
		"logs/2025/[":             nil,
		"logs/2025/folder.jsonl/": nil,
	} {
		if got, err := h.Glob(pattern); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", pattern, got, err, want)
		}
	}
}

// Of a folder that an agent fills the last names come, which are the newest where names tell the time.
func TestFullFoldersAreBounded(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const over = 10
	for i := range homedir.MaxMatches + over {
		if err := os.WriteFile(h.at(fmt.Sprintf("%05d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := h.List(".")
	if err != nil || len(list) != homedir.MaxMatches || list[0].Name != fmt.Sprintf("%05d", over) {
		t.Errorf("%d, %v", len(list), err)
	}
	names, err := h.Glob("*")
	if err != nil || len(names) != homedir.MaxMatches || names[0] != fmt.Sprintf("%05d", over) || names[len(names)-1] != fmt.Sprintf("%05d", homedir.MaxMatches+over-1) {
		t.Errorf("%d, %v", len(names), err)
	}
}

// A file that grows while it is open is read as far as it goes.
func TestAnOpenFileGrows(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put("log", "one\n")
	f, err := h.Open("log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, id, err := f.Stat()
	if err != nil || size != 4 {
		t.Errorf("%d, %v", size, err)
	}
	a, err := os.OpenFile(h.at("log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	size, same, err := f.Stat()
	if err != nil || size != 8 || same != id {
		t.Errorf("%d, %q and %q, %v", size, id, same, err)
	}
	p := make([]byte, 8)
	if n, err := f.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(p[:n], []byte("one\ntwo\n")) {
		t.Errorf("%q, %v", p[:n], err)
	}
}
