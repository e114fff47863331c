package changes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/guest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree is a linked worktree of a repository with some files, as a workspace has it.
type tree struct {
	t    testing.TB
	repo string // the main repository
	root string // the worktree
	base string
	env  []string
}

// base files of every tree.
var baseFiles = map[string]string{
	"README.md":      "# Title\n\nSome words.\n",
	"src/main.go":    "package main\n\nfunc main() {\n}\n",
	"src/lib.go":     strings.Repeat("line of the library\n", 40),
	"src/old.go":     strings.Repeat("old text, to be moved\n", 30),
	"run.sh":         "#!/bin/sh\necho hi\n",
	"empty":          "",
	"bin.dat":        "a\x00b\x01c",
	".gitignore":     "ignored/\n*.log\n",
	"dir/deep/a.txt": "a\n",
}

func newTree(t testing.TB) *tree {
	t.Helper()
	dir := realTemp(t)
	tr := &tree{t: t, repo: filepath.Join(dir, "repo"), root: filepath.Join(dir, "wt"), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.org",
	}}
	if err := os.Mkdir(tr.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	tr.gitIn(tr.repo, "init", "-q", "-b", "main")
	for name, text := range baseFiles {
		writeFile(t, filepath.Join(tr.repo, name), text)
	}
	if err := os.Symlink("README.md", filepath.Join(tr.repo, "link")); err != nil {
		t.Fatal(err)
	}
	tr.gitIn(tr.repo, "add", "-A")
	tr.gitIn(tr.repo, "commit", "-q", "-m", "base")
	tr.gitIn(tr.repo, "worktree", "add", "-q", "--no-track", "-b", "work", tr.root)
	tr.base = tr.git("rev-parse", "HEAD")
	return tr
}

func realTemp(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (tr *tree) gitIn(dir string, args ...string) string {
	tr.t.Helper()
	cmd := exec.CommandContext(tr.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, tr.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		tr.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (tr *tree) git(args ...string) string { tr.t.Helper(); return tr.gitIn(tr.root, args...) }

func (tr *tree) path(name string) string { return filepath.Join(tr.root, name) }

func (tr *tree) write(name, text string) { tr.t.Helper(); writeFile(tr.t, tr.path(name), text) }

func (tr *tree) remove(name string) {
	tr.t.Helper()
	if err := os.RemoveAll(tr.path(name)); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) move(from, to string) {
	tr.t.Helper()
	if err := os.Rename(tr.path(from), tr.path(to)); err != nil {
		tr.t.Fatal(err)
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := fs.FileMode(0o644)
	if strings.HasSuffix(path, ".sh") {
		mode = 0o755
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// poller makes a Poller of the tree.
func (tr *tree) poller() *Poller {
	p := New(Config{Root: tr.root, Dir: filepath.Join(realTemp(tr.t), "private"), Timeout: 20 * time.Second})
	tr.t.Cleanup(func() { p.Close() })
	return p
}

// poll looks once and returns the changes by path.
func (tr *tree) poll(p *Poller) map[string]guest.Change {
	tr.t.Helper()
	set := tr.pollSet(p)
	if set.Error != "" {
		tr.t.Fatalf("poll: %s", set.Error)
	}
	got := byPath(tr.t, set)
	named := tr.named(p)
	for _, c := range got {
		if !named[c.Path] || c.OldPath != "" && !named[c.OldPath] {
			tr.t.Fatalf("the names %q lack the change %+v", slices.Collect(maps.Keys(named)), c)
		}
	}
	return got
}

// named looks once for names alone: whatever poll tells is among them.
func (tr *tree) named(p *Poller) map[string]bool {
	tr.t.Helper()
	d, err := p.Dirty(tr.t.Context(), tr.base)
	if err != nil || d.Base != tr.base {
		tr.t.Fatalf("the names: base %q, %v", d.Base, err)
	}
	m := make(map[string]bool)
	for _, path := range d.Paths {
		if m[path] {
			tr.t.Fatalf("%q is named twice", path)
		}
		m[path] = true
	}
	return m
}

func (tr *tree) pollSet(p *Poller) guest.ChangeSet {
	tr.t.Helper()
	set, err := p.PollNow(tr.t.Context(), tr.base)
	if err != nil {
		tr.t.Fatal(err)
	}
	return set
}

func byPath(t testing.TB, set guest.ChangeSet) map[string]guest.Change {
	t.Helper()
	if !set.Reset || set.More {
		t.Fatalf("not a whole set: reset %v more %v", set.Reset, set.More)
	}
	m := make(map[string]guest.Change)
	for _, c := range set.Upserts {
		m[c.Path] = c
	}
	return m
}

func (tr *tree) diff(p *Poller, path, oldPath string) string {
	tr.t.Helper()
	var b bytes.Buffer
	err := p.Diff(tr.t.Context(), guest.DiffRequest{Base: tr.base, Path: path, OldPath: oldPath, Context: 3}, &b)
	if err != nil {
		tr.t.Fatalf("diff of %q: %v", path, err)
	}
	return b.String()
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// mayFail runs git where failing is the point.
func (tr *tree) mayFail(args ...string) {
	ctx, cancel := context.WithTimeout(tr.t.Context(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = tr.root, tr.env, time.Second
	_ = cmd.Run()
}
