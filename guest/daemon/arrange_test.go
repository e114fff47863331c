//go:build linux

package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Files, links and folders get other paths; nothing is replaced, and nothing leaves the root or enters .git.
func TestMove(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	outside := t.TempDir()
	for _, f := range []string{"a.txt", "b.txt", "src/one", "src/deep/two", "own/.git/HEAD"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.root, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.root, f), []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "/etc/passwd", "out": outside} {
		if err := os.Symlink(to, filepath.Join(p.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"a.txt": "new/folder/a.txt", "src": "lib", "link": "moved link"} {
		if info, err := p.Move(within(t), from, to); err != nil || info.Path != to {
			t.Fatalf("%s to %s: %+v, %v", from, to, info, err)
		}
	}
	if b, _, err := p.read("lib/deep/two"); err != nil || string(b) != "src/deep/two" {
		t.Fatalf("in the moved folder: %q, %v", b, err)
	}
	if target, err := os.Readlink(filepath.Join(p.root, "moved link")); target != "/etc/passwd" {
		t.Fatalf("the link leads to %q, %v", target, err)
	}
	for _, c := range []struct{ from, to, code string }{
		{"b.txt", "lib/one", "file_exists"}, {"lib", "b.txt", "file_exists"}, {"new", "lib", "file_exists"}, {"missing", "x", "file_not_found"},
		{"lib", "lib/deep/lib", "invalid_path"}, {"b.txt", ".git/hooks/x", "git_directory"}, {"own/.git", "x", "git_directory"}, {"own", "x", "git_directory"},
		{"b.txt", "out/b.txt", "path_escapes"}, {"out/x", "y", "path_escapes"}, {"b.txt", "../b.txt", "invalid_path"}, {"b.txt", "lib/one/b.txt", "file_exists"},
	} {
		if _, err := p.Move(within(t), c.from, c.to); fault.CodeOf(err) != c.code {
			t.Errorf("%s to %s: %v, want %s", c.from, c.to, err, c.code)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if b, _, err := p.read("b.txt"); err != nil || string(b) != "b.txt" {
		t.Errorf("b.txt: %q, %v", b, err)
	}
}

// A list says what git ignores, and a search is streamed up to its limit.
func TestFoundFilesAreStreamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, content := range map[string]string{".gitignore": "*.log\nout/\n", ":(bad": "", "a.go": "needle\nhay\nneedle\n", "b.go": "needle\n", "x.log": "needle\n", "out/c.go": "needle\n", "sub/deep/d.go": "hay\n"} {
		if _, err := p.write(name, []byte(content), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", p.root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list, err := p.ListMarked(within(t), "")
	if err != nil {
		t.Fatal(err)
	}
	var ignored []string
	for _, f := range list.Items {
		if f.Ignored {
			ignored = append(ignored, f.Name)
		}
	}
	if got := strings.Join(ignored, " "); got != "out x.log" {
		t.Errorf("ignored: %s", got)
	}
	if list, err = p.ListMarked(within(t), "out"); err != nil || len(list.Items) != 1 || !list.Items[0].Ignored {
		t.Errorf("in an ignored folder: %+v, %v", list, err)
	}
	find := func(req guest.SearchRequest) (string, guest.SearchAnswer) {
		var found []string
		end, err := p.SearchStream(within(t), req, func(f guest.Found) error {
			found = append(found, f.Path)
			for _, l := range f.Lines {
				found[len(found)-1] += ":" + l.Text
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%+v: %v", req, err)
		}
		slices.Sort(found)
		return strings.Join(found, " "), end
	}
	if got, end := find(guest.SearchRequest{Hidden: true, Limit: guest.MaxListed}); got != ".gitignore :(bad a.go b.go sub/deep/d.go" || end.Partial != "" {
		t.Errorf("by name: %s, %+v", got, end)
	}
	if got, end := find(guest.SearchRequest{Limit: 2}); strings.Count(got, " ") != 1 || end.Partial != guest.SearchLimit {
		t.Errorf("at most two: %s, %+v", got, end)
	}
	if got, end := find(guest.SearchRequest{Pattern: "needle", Lines: true, Limit: 100}); got != "a.go:needle:needle b.go:needle" || end.Matches != 3 {
		t.Errorf("lines: %s, %+v", got, end)
	}
	if got, end := find(guest.SearchRequest{Pattern: "needle", Lines: true, Limit: 1, Path: "a.go"}); got != "a.go:needle" || end.Matches != 2 {
		t.Errorf("one line: %s, %+v", got, end)
	}
}
