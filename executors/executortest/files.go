package executortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

func (b *box) write(path, content string, opts client.WriteOptions) (guest.FileInfo, error) {
	b.t.Helper()
	return b.c.WriteFile(b.ctx, path, strings.NewReader(content), opts)
}

func (b *box) read(path string) string {
	b.t.Helper()
	r, _, err := b.c.ReadFile(b.ctx, path)
	if err != nil {
		b.t.Fatalf("ReadFile %q: %v", path, err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		b.t.Fatalf("reading %q: %v", path, err)
	}
	return string(got)
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func testFiles(t *testing.T, cfg Config) {
	t.Run("write makes parents, read gives the bytes back", func(t *testing.T) {
		b := newBox(t, cfg)
		content := "\x00\xff bytes\n"
		info, err := b.write("deep/er/file.bin", content, client.WriteOptions{})
		if err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		if info.Hash != sha(content) || info.Size != int64(len(content)) || info.Type != "file" {
			t.Errorf("info %+v", info)
		}
		if got := b.read("deep/er/file.bin"); got != content {
			t.Errorf("read %q", got)
		}
		if got := b.run("cat deep/er/file.bin"); got != content {
			t.Errorf("the sandbox sees %q", got)
		}
	})
	t.Run("a file of many megabytes", func(t *testing.T) {
		b := newBox(t, cfg)
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		if _, err := b.c.WriteFile(b.ctx, "big", bytes.NewReader(data), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := b.read("big"); got != string(data) {
			t.Errorf("read %d bytes, want %d, or other ones", len(got), len(data))
		}
	})
	t.Run("a missing file is not found", func(t *testing.T) {
		b := newBox(t, cfg)
		_, _, err := b.c.ReadFile(b.ctx, "no/such/file")
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("ReadFile: %v", err)
		}
		if _, err := b.c.Stat(b.ctx, "no/such/file"); !fault.Is(err, fault.NotFound) {
			t.Errorf("Stat: %v", err)
		}
	})
	t.Run("If-Match", func(t *testing.T) {
		b := newBox(t, cfg)
		if _, err := b.write("a.txt", "new", client.WriteOptions{IfMatch: sha("something else")}); !fault.Is(err, fault.Precondition) {
			t.Errorf("a wrong hash: %v", err)
		}
		if got := b.read("a.txt"); got != "one\ntwo\nthree\n" {
			t.Fatalf("the file was changed: %q", got)
		}
		if _, err := b.write("a.txt", "new", client.WriteOptions{IfMatch: sha("one\ntwo\nthree\n")}); err != nil {
			t.Errorf("the right hash: %v", err)
		}
		if got := b.read("a.txt"); got != "new" {
			t.Errorf("read %q", got)
		}
	})
	t.Run("paths that lead out are refused", func(t *testing.T) {
		b := newBox(t, cfg)
		b.run("ln -s /etc out; ln -s /etc/passwd pw; ln -s ../.. up; mkdir -p in; ln -s /etc in/out")
		for _, path := range []string{"../x", "/etc/passwd", "a/../../x", "pw", "out/passwd", "up/x", "in/out/passwd", ""} {
			if r, _, err := b.c.ReadFile(b.ctx, path); err == nil {
				r.Close()
				t.Errorf("ReadFile %q was allowed", path)
			}
		}
		for _, path := range []string{"../x", "/tmp/parawork-escape", "out/x", "in/out/x", "up/x"} {
			if _, err := b.write(path, "x", client.WriteOptions{}); err == nil {
				t.Errorf("WriteFile %q was allowed", path)
			}
		}
		for _, path := range []string{"out/hosts", "../x", "."} {
			if err := b.c.RemoveFile(b.ctx, path); err == nil {
				t.Errorf("RemoveFile %q was allowed", path)
			}
		}
	})
	t.Run("a link inside the root may be read", func(t *testing.T) {
		b := newBox(t, cfg)
		b.run("ln -s a.txt link")
		if got := b.read("link"); got != "one\ntwo\nthree\n" {
			t.Errorf("read %q", got)
		}
		info, err := b.c.Stat(b.ctx, "link")
		if err != nil || info.Type != "symlink" || info.Link != "a.txt" {
			t.Errorf("Stat: %+v, %v", info, err)
		}
	})
	t.Run("a FIFO does not block", func(t *testing.T) {
		b := newBox(t, cfg)
		b.run("mkfifo pipe")
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		if r, _, err := b.c.ReadFile(ctx, "pipe"); err == nil {
			r.Close()
			t.Error("a FIFO was read")
		}
		if ctx.Err() != nil {
			t.Error("a FIFO blocked")
		}
	})
	t.Run("tree, folders, removal", func(t *testing.T) {
		b := newBox(t, cfg)
		if err := b.c.Mkdir(b.ctx, "new/folder"); err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		b.run(`printf x > new/"$(printf 'a\nb')"`)
		list, err := b.c.List(b.ctx, "new")
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		var names []string
		for _, f := range list.Items {
			names = append(names, f.Type+" "+f.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"dir folder", "file a\nb"}) {
			t.Errorf("entries %q", names)
		}
		for _, root := range []string{"", "."} {
			if list, err := b.c.List(b.ctx, root); err == nil && len(list.Items) > 0 {
				break
			} else if root == "." {
				t.Errorf("the root has no entries: %v", err)
			}
		}
		if err := b.c.RemoveFile(b.ctx, "a.txt"); err != nil {
			t.Fatalf("RemoveFile: %v", err)
		}
		if _, err := b.c.Stat(b.ctx, "a.txt"); !fault.Is(err, fault.NotFound) {
			t.Errorf("after removal: %v", err)
		}
	})
}
