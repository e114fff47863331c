//go:build linux

package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// contents asks for files and returns what came, by path.
func (p *place) contents(items ...guest.ContentItem) (map[string]guest.Content, map[string]string) {
	p.t.Helper()
	x, err := p.Contents(within(p.t), guest.ContentsRequest{Items: items})
	if err != nil {
		p.t.Fatal(err)
	}
	defer x.Close()
	heads, bodies := map[string]guest.Content{}, map[string]string{}
	for {
		c, r, err := x.Next()
		if errors.Is(err, io.EOF) {
			return heads, bodies
		}
		if err != nil {
			p.t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil || int64(len(b)) != c.Length {
			p.t.Fatalf("%+v: %d bytes, %v", c, len(b), err)
		}
		heads[items[c.Index].Path], bodies[items[c.Index].Path] = c, string(b)
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := func(name, text string, mode os.FileMode) {
		path := filepath.Join(p.root, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode))
		if err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "secret")
	big := strings.Repeat("0123456789abcdef", 300_000)
	file("a.txt", "a\n", 0o644)
	file("run.sh", "#!\n", 0o755)
	file("empty", "", 0o600)
	file("same", "same\n", 0o644)
	file("big", big, 0o644)
	file("caf\xe9", "odd\n", 0o644)
	file(".git/config", "private\n", 0o644)
	for to, name := range map[string]string{outside: "out", "a.txt": "link"} {
		if err := os.Symlink(to, filepath.Join(p.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(outside, []byte("secret"), 0o644), syscall.Mkfifo(filepath.Join(p.root, "fifo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	items := []guest.ContentItem{{Path: "a.txt"}, {Path: "run.sh"}, {Path: "empty"}, {Path: "same", Have: hashOf([]byte("same\n"))}, {Path: "gone"}, {Path: "a.txt/x"},
		{Path: "fifo"}, {Path: "out"}, {Path: "link", Have: hashOf([]byte("a.txt"))}, {Path: guest.EncodePath("caf\xe9")}, {Path: ".git/config"}, {Path: "big"}, {Path: "big", Offset: 1 << 20}}
	heads, bodies := p.contents(items[:12]...)
	for path, want := range map[string]guest.Content{
		"a.txt": {State: guest.ContentWhole, Mode: "100644"}, "run.sh": {State: guest.ContentWhole, Mode: "100755"}, "empty": {State: guest.ContentWhole, Mode: "100644"},
		"same": {State: guest.ContentSame, Mode: "100644"}, "gone": {State: guest.ContentGone}, "a.txt/x": {State: guest.ContentGone}, "fifo": {State: guest.ContentOther},
		"out": {State: guest.ContentLink, Mode: "120000"}, "link": {State: guest.ContentSame, Mode: "120000"}, guest.EncodePath("caf\xe9"): {State: guest.ContentWhole, Mode: "100644"},
		".git/config": {State: guest.ContentOther}, "big": {State: guest.ContentPiece, Mode: "100644"},
	} {
		if got := heads[path]; got.State != want.State || got.Mode != want.Mode {
			t.Errorf("%q: %+v, want %+v", path, got, want)
		}
	}
	if bodies["a.txt"] != "a\n" || bodies["out"] != outside || bodies["same"] != "" || bodies[guest.EncodePath("caf\xe9")] != "odd\n" || heads["a.txt"].Hash != hashOf([]byte("a\n")) {
		t.Errorf("bodies %.100q", bodies)
	}

	// A large file comes in pieces that belong together; once it is written to they do not.
	first := heads["big"]
	got := bodies["big"]
	for int64(len(got)) < first.Size {
		h, b := p.contents(guest.ContentItem{Path: "big", ID: first.ID, Offset: int64(len(got))})
		if h["big"].State != guest.ContentPiece || h["big"].ID != first.ID {
			t.Fatalf("%+v", h["big"])
		}
		got += b["big"]
	}
	if got != big {
		t.Errorf("%d bytes came of %d", len(got), len(big))
	}
	if h, _ := p.contents(guest.ContentItem{Path: "big", Have: hashOf([]byte(big))}); h["big"].State != guest.ContentSame {
		t.Errorf("%+v", h["big"])
	}
	file("big", big+"more", 0o644)
	if h, _ := p.contents(guest.ContentItem{Path: "big", ID: first.ID, Offset: 4 << 20}); h["big"].State != guest.ContentMoved {
		t.Errorf("%+v", h["big"])
	}
	for _, bad := range []string{"", "../x", "/etc/passwd", "a//b"} {
		if _, err := p.Contents(within(t), guest.ContentsRequest{Items: []guest.ContentItem{{Path: bad}}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := p.Contents(within(t), guest.ContentsRequest{Scope: "elsewhere"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("another scope: %v", err)
	}
}

// An answer ends before it is too long; what is left is asked for again.
func TestContentsInSeveralAnswers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	text := bytes.Repeat([]byte("x"), 3<<20)
	var items []guest.ContentItem
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if err := os.WriteFile(filepath.Join(p.root, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
		items = append(items, guest.ContentItem{Path: name})
	}
	heads, _ := p.contents(items...)
	if len(heads) != 3 || heads["c"].State != guest.ContentWhole {
		t.Errorf("%d files came at once", len(heads))
	}
}
