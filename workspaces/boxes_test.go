package workspaces_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// In a sandbox git works as it does anywhere, on a git dir of the workspace's own.
func TestGitInABox(t *testing.T) {
	t.Parallel()
	h, b := walledHouse(t)
	p := h.pathProject(h.repo("r"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	if out := b.sh(w, "git status --porcelain"); out != "" {
		t.Errorf("a fresh workspace shows changes: %s", out)
	}
	if out := b.sh(w, "git branch --show-current; git log --format=%s; git log --format=%s origin/main; git rev-parse --absolute-git-dir"); out !=
		w.Branch+"\nfirst\nfirst\n"+filepath.Join(h.data, "boxes", w.ID, "git") {
		t.Errorf("the box knows:\n%s", out)
	}
	b.sh(w, `echo more >> a.txt; git commit -qam one; git commit -q --amend -m two; git switch -qc side; echo s > s; git add s; git commit -qm side
		git switch -q -; git cherry-pick side; git tag t; echo x > x; git add x; git stash -q; git stash pop -q; git branch -D side; git merge -q origin/main; git gc -q; git fsck`)
	if _, err := b.try(w, "echo bad > .git"); err == nil {
		t.Error("the .git file can be written")
	}
	if _, err := b.try(w, "rm -f .git"); err == nil {
		t.Error("the .git file can be removed")
	}
	if out, err := b.try(w, "touch "+p.GitDir+"/objects/x"); err == nil {
		t.Errorf("the repository's objects can be written: %s", out)
	}
	if out := b.sh(w, "ls -A "+p.GitDir); out != "objects" {
		t.Errorf("the box sees of the repository: %s", out)
	}
	if os.Geteuid() == 0 {
		if uid := owner(t, filepath.Join(w.Path, "a.txt")); uid < 600_100_001 {
			t.Errorf("a file belongs to %d", uid)
		}
	}
}

// owner is whose a file is.
func owner(t *testing.T, path string) int {
	t.Helper()
	fi, err := os.Lstat(path)
	must(t, err)
	return int(fi.Sys().(*syscall.Stat_t).Uid)
}

func TestBoxesOfOddRepositories(t *testing.T) {
	t.Parallel()
	h, b := walledHouse(t)
	makeRepo := func(name string, init ...string) string {
		dir := filepath.Join(h.roots, name)
		must(t, os.MkdirAll(dir, 0o755))
		git(t, dir, append([]string{"init", "-q", "-b", "main"}, init...)...)
		for _, n := range []string{"a", "b", "c"} {
			write(t, dir, "dir "+n+"/"+n, n)
			commitAll(t, dir, n)
		}
		return dir
	}
	plain := makeRepo("plain")
	packed := makeRepo("packed")
	git(t, packed, "gc", "-q")
	git(t, packed, "pack-refs", "--all")
	borrowing := filepath.Join(h.roots, "borrowing")
	git(t, h.roots, "clone", "-q", "--shared", plain, borrowing)
	shallow := filepath.Join(h.roots, "shallow")
	git(t, h.roots, "clone", "-q", "--depth", "1", "file://"+plain, shallow)
	sub := makeRepo("sub")
	git(t, sub, "submodule", "add", "-q", plain, "module")
	commitAll(t, sub, "with a module")
	sparse := makeRepo("sparse")
	git(t, sparse, "config", "extensions.worktreeConfig", "true")
	for name, dir := range map[string]string{"packed": packed, "borrowing": borrowing, "shallow": shallow, "submodule": sub, "sparse": sparse,
		"sha256": makeRepo("sha256", "--object-format=sha256")} {
		p := h.pathProject(dir)
		w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: name})
		if out := b.sh(w, "git status --porcelain"); out != "" {
			t.Errorf("%s: shows changes: %s", name, out)
		}
		b.sh(w, "echo x > x; git add x; git commit -qm x; git log --oneline; git fsck --connectivity-only; git repack -qad -l")
	}
}
