package search_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/search"
	"github.com/parawork/parawork/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree is a folder with files, each as old as its place in the list says: the first is the newest.
type tree struct {
	*testing.T
	dir string
	s   *search.Searcher
}

func newTree(t *testing.T, repository bool, files ...string) tree {
	t.Helper()
	tr := tree{T: t, dir: t.TempDir()}
	if repository {
		if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", tr.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for i, f := range files {
		name, content, _ := strings.Cut(f, "=")
		tr.write(name, content)
		at := time.Now().Add(-time.Duration(i) * time.Hour)
		must(t, os.Chtimes(filepath.Join(tr.dir, name), at, at))
	}
	root, err := os.OpenRoot(tr.dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	tr.s = search.New(root)
	return tr
}

func (tr tree) write(name, content string) {
	file := filepath.Join(tr.dir, name)
	must(tr.T, os.MkdirAll(filepath.Dir(file), 0o755))
	must(tr.T, os.WriteFile(file, []byte(content), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (tr tree) search(req guest.SearchRequest) guest.SearchAnswer {
	tr.Helper()
	if req.Limit == 0 {
		req.Limit = 100
	}
	a, err := tr.s.Search(tr.Context(), req)
	if err != nil {
		tr.Fatalf("%+v: %v", req, err)
	}
	return a
}

// finds returns the paths that a search found.
func (tr tree) finds(req guest.SearchRequest) string {
	tr.Helper()
	var out []string
	for _, i := range tr.search(req).Items {
		out = append(out, i.Path)
	}
	return strings.Join(out, " ")
}

// Globs select paths as in .gitignore and ripgrep; ignored and hidden files are left out until somebody asks for them.
func TestNames(t *testing.T) {
	t.Parallel()
	tr := newTree(t, true, "a.go=", "cmd/x/main.go=", "cmd/b.ts=", "cmd/c.tsx=", "out/gen.go=", ".ci/job.yml=", "cmd/[x].md=", "näh.txt=", ".gitignore=out/\n", "sub/.git/HEAD=ref: refs/heads/main\n", "sub/s.go=")
	for _, c := range []struct {
		req  guest.SearchRequest
		want string
	}{
		{guest.SearchRequest{Glob: "*.go"}, "a.go cmd/x/main.go sub/s.go"},
		{guest.SearchRequest{Glob: "**/*.go"}, "a.go cmd/x/main.go sub/s.go"},
		{guest.SearchRequest{Glob: "cmd/*.{ts,tsx}"}, "cmd/b.ts cmd/c.tsx"},
		{guest.SearchRequest{Glob: "cmd/**"}, "cmd/x/main.go cmd/b.ts cmd/c.tsx cmd/[x].md"},
		{guest.SearchRequest{Glob: "x/*", Path: "cmd"}, "cmd/x/main.go"},
		{guest.SearchRequest{Glob: `\[x\].md`}, "cmd/[x].md"},
		{guest.SearchRequest{Glob: "[!a-b].ts*"}, "cmd/c.tsx"},
		{guest.SearchRequest{Glob: "n?h.txt"}, "näh.txt"},
		{guest.SearchRequest{Glob: "*.yml"}, ""},
		{guest.SearchRequest{Glob: "*.yml", Hidden: true}, ".ci/job.yml"},
		{guest.SearchRequest{Glob: ".ci/*"}, ".ci/job.yml"},
		{guest.SearchRequest{Glob: "*.yml", Path: ".ci"}, ".ci/job.yml"},
		{guest.SearchRequest{Glob: "gen.go"}, ""},
		{guest.SearchRequest{Glob: "gen.go", Ignored: true}, "out/gen.go"},
		{guest.SearchRequest{Glob: "*", Path: "out"}, "out/gen.go"}, // somebody named it
		{guest.SearchRequest{Path: "cmd/x/main.go"}, "cmd/x/main.go"},
		{guest.SearchRequest{Glob: "HEAD", Hidden: true, Ignored: true}, ""},
	} {
		if got := tr.finds(c.req); got != c.want {
			t.Errorf("%+v: %q, not %q", c.req, got, c.want)
		}
	}
	a := tr.search(guest.SearchRequest{Glob: "*.go", Limit: 2})
	if a.Files != 3 || len(a.Items) != 2 || a.Items[0].Path != "a.go" {
		t.Errorf("limited: %+v", a)
	}
	for _, bad := range []guest.SearchRequest{{Glob: "{a"}, {Glob: "[a"}, {Pattern: "("}, {Pattern: strings.Repeat("x", 5000)}, {Path: "../x"}, {Path: "/etc"}, {Path: "a\x00"}, {Path: ".git"}, {Path: "missing"}, {Path: "a.go/x"}} {
		if _, err := tr.s.Search(t.Context(), bad); fault.CodeOf(err) == "" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Lines come with their numbers and what is around them; a file that is no text, or has strange lines, does no harm.
func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000) + "needle" + strings.Repeat("y", 100_000)
	tr := newTree(t, false, "a.txt=one\ntwo needle\nthree\nfour\nfive\nNEEDLE six", "crlf.txt=needle\r\nend\r\n", "bin=\x00needle", "latin.txt=needle \xe4\xff", "long.txt="+long, "none.txt=no", "empty=")
	a := tr.search(guest.SearchRequest{Pattern: "needle", Lines: true, Context: 1})
	var got []string
	for _, i := range a.Items {
		for _, l := range i.Lines {
			if i.Path == "long.txt" {
				if !l.Cut || !strings.Contains(l.Text, "needle") || len(l.Text) != guest.MaxFoundLine {
					t.Errorf("of a long line: %d bytes, %v", len(l.Text), l.Cut)
				}
				continue
			}
			got = append(got, fmt.Sprintf("%s:%d:%s:%v", i.Path, l.Number, l.Text, l.Match))
		}
	}
	want := []string{"a.txt:1:one:false", "a.txt:2:two needle:true", "a.txt:3:three:false", "crlf.txt:1:needle:true", "crlf.txt:2:end:false", "latin.txt:1:needle \uFFFD:true"}
	if !slices.Equal(got, want) || a.Files != 4 || a.Matches != 4 {
		t.Errorf("%q\n%+v", got, a)
	}
	for pattern, want := range map[string]string{`needle$`: "a.txt crlf.txt", `^needle$`: "crlf.txt", `\Aneedle\z`: "crlf.txt", `(?i)^needle six`: "a.txt", `one\s+two`: "", `[^a]*two`: "a.txt", `fi?ve|six`: "a.txt"} {
		if got := tr.finds(guest.SearchRequest{Pattern: pattern}); got != want {
			t.Errorf("%s: %q, not %q", pattern, got, want)
		}
	}
	if a := tr.search(guest.SearchRequest{Pattern: "needle", IgnoreCase: true, Glob: "a.txt"}); a.Matches != 2 {
		t.Errorf("without case: %+v", a)
	}
	if a := tr.search(guest.SearchRequest{Pattern: "e", Lines: true, Limit: 2}); a.Matches < 6 || len(a.Items) != 1 || len(a.Items[0].Lines) != 2 {
		t.Errorf("limited: %+v", a)
	}
}

// What is around a match is there also where the lines before it were searched as one.
func TestContextOverBlocks(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := 1; b.Len() < 300<<10; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	n := strings.Count(b.String(), "\n")
	tr := newTree(t, false, "f="+b.String()+"needle\nafter")
	for _, pattern := range []string{"needle", `\Aneedle\z`} { // the second is looked for line by line
		var got []string
		for _, l := range tr.search(guest.SearchRequest{Pattern: pattern, Lines: true, Context: 2}).Items[0].Lines {
			got = append(got, fmt.Sprintf("%d:%s", l.Number, l.Text))
		}
		if want := []string{fmt.Sprintf("%d:line %d", n-1, n-1), fmt.Sprintf("%d:line %d", n, n), fmt.Sprintf("%d:needle", n+1), fmt.Sprintf("%d:after", n+2)}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", pattern, got, want)
		}
	}
}

// A hostile tree neither blocks a search nor leads it out of the root.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("needle"), 0o600))
	for _, repository := range []bool{false, true} {
		tr := newTree(t, repository, "a\nb.txt=needle", "bad\xff.txt=needle", "dir/deep.txt=needle")
		must(t, os.Symlink(outside, filepath.Join(tr.dir, "out")))
		must(t, os.Symlink(filepath.Join(outside, "secret.txt"), filepath.Join(tr.dir, "link.txt")))
		must(t, os.Symlink(".", filepath.Join(tr.dir, "dir", "loop")))
		must(t, os.Symlink("self", filepath.Join(tr.dir, "self")))
		must(t, syscall.Mkfifo(filepath.Join(tr.dir, "fifo.txt"), 0o644))
		if repository {
			tr.write(".git/evil", "#!/bin/sh\ntouch "+outside+"/ran\n")
			must(t, os.Chmod(filepath.Join(tr.dir, ".git/evil"), 0o755))
			f, err := os.OpenFile(filepath.Join(tr.dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = fmt.Fprintf(f, "[core]\n\tfsmonitor = %s/.git/evil\n\thooksPath = %s/.git\n", tr.dir, tr.dir)
			must(t, err)
			must(t, f.Close())
		}
		must(t, os.Symlink("dir", filepath.Join(tr.dir, "inside")))
		if got := tr.finds(guest.SearchRequest{Path: "inside", Pattern: "needle"}); got != "dir/deep.txt" {
			t.Errorf("repository %v: through a link inside: %q", repository, got)
		}
		if repository {
			must(t, os.Symlink("../.git", filepath.Join(tr.dir, "dir", "closed")))
			if a, err := tr.s.Search(t.Context(), guest.SearchRequest{Path: "dir/closed", Pattern: "core", Limit: 10}); fault.CodeOf(err) != "git_directory" {
				t.Errorf("through a link to .git: %+v, %v", a, err)
			}
		}
		a := tr.search(guest.SearchRequest{Pattern: "needle"})
		var got []string
		for _, i := range a.Items {
			got = append(got, i.Path)
		}
		slices.Sort(got)
		if want := []string{"a\nb.txt", "bad\uf7ff.txt", "dir/deep.txt"}; !slices.Equal(got, want) || a.Partial != "" {
			t.Errorf("repository %v: %q %q", repository, got, a.Partial)
		}
		for _, p := range []string{"out", "link.txt", "self", "dir/loop/loop/../../.."} {
			if a, err := tr.s.Search(t.Context(), guest.SearchRequest{Path: p, Pattern: "needle", Limit: 10}); err == nil && len(a.Items) > 0 {
				t.Errorf("%s leads to %+v", p, a.Items)
			}
		}
		if a, err := tr.s.Search(t.Context(), guest.SearchRequest{Path: "fifo.txt", Pattern: "needle", Limit: 10}); err != nil || len(a.Items) > 0 {
			t.Errorf("in a FIFO: %+v, %v", a, err)
		}
		if _, err := os.Stat(filepath.Join(outside, "ran")); err == nil {
			t.Error("a program of the repository's configuration ran")
		}
	}
}

// Whatever files hold, an answer is one that the host reads.
func TestAnswersFit(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("\x01", 1000) + "\n"
	tr := newTree(t, false, "a="+strings.Repeat(line, 1500), "b="+strings.Repeat(line, 1500))
	a := tr.search(guest.SearchRequest{Pattern: `\x01`, Lines: true, Limit: guest.MaxFound})
	b, err := json.Marshal(a)
	must(t, err)
	if len(b) > 2*guest.MaxFoundBytes || len(a.Items) != 1 || len(a.Items[0].Lines) < 100 || a.Files != 2 || a.Matches != 3000 {
		t.Errorf("%d bytes, %d files of %d, %d lines", len(b), len(a.Items), a.Files, a.Matches)
	}
}

// An expression that would take minutes for one file is refused: nothing could end it.
func TestLargeExpressions(t *testing.T) {
	t.Parallel()
	tr := newTree(t, false, "a="+strings.Repeat("a", 100<<10))
	for pattern, refused := range map[string]bool{strings.Repeat("(?:[a-z]?){1000}", 200) + "!": true, `\w{1,100}foo.{0,500}bar`: false} {
		if _, err := tr.s.Search(t.Context(), guest.SearchRequest{Pattern: pattern, TimeoutMs: 1}); (fault.CodeOf(err) == "invalid_pattern") != refused {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
}

// A search stops when its caller has left, and says that it is not complete when its time is over.
func TestSearchesEnd(t *testing.T) {
	t.Parallel()
	tr := newTree(t, false)
	slow := strings.Repeat(strings.Repeat("a", 1000)+"\n", 1000)
	for i := range 4 {
		tr.write(fmt.Sprint(i), slow)
	}
	a := tr.search(guest.SearchRequest{Pattern: "(a?){30}b", TimeoutMs: 1})
	if a.Partial != guest.SearchTime {
		t.Errorf("%+v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.s.Search(ctx, guest.SearchRequest{Pattern: "a"}); err == nil {
		t.Error("a search for nobody")
	}
}
