package sandboxgit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// In a sandbox git works normally, in the workspace's private git dir.
func TestGitInIsolatedSandbox(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	if out := b.Sh(w, "git status --porcelain"); out != "" {
		t.Errorf("a fresh workspace shows changes: %s", out)
	}
	if out := b.Sh(w, "git branch --show-current; git log --format=%s; git log --format=%s origin/main; git rev-parse --absolute-git-dir"); out !=
		w.Branch+"\nfirst\nfirst\n"+filepath.Join(h.Data, "boxes", w.ID, "git") {
		t.Errorf("the box knows:\n%s", out)
	}
	b.Sh(w, `echo more >> a.txt; git commit -qam one; git commit -q --amend -m two; git switch -qc side; echo s > s; git add s; git commit -qm side
		git switch -q -; git cherry-pick side; git tag t; echo x > x; git add x; git stash -q; git stash pop -q; git branch -D side; git merge -q origin/main; git gc -q; git fsck`)
	if _, err := b.Try(w, "echo bad > .git"); err == nil {
		t.Error("the .git file can be written")
	}
	if _, err := b.Try(w, "rm -f .git"); err == nil {
		t.Error("the .git file can be removed")
	}
	if out, err := b.Try(w, "touch "+p.GitDir+"/objects/x"); err == nil {
		t.Errorf("the repository's objects can be written: %s", out)
	}
	if out := b.Sh(w, "ls -A "+p.GitDir); out != "objects" {
		t.Errorf("the box sees of the repository: %s", out)
	}
	if os.Geteuid() == 0 {
		if uid := wstest.Owner(t, filepath.Join(w.Path, "a.txt")); uid < 600_100_001 {
			t.Errorf("a file belongs to %d", uid)
		}
	}
}

func TestSandboxesOfUnusualRepositories(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	makeRepo := func(name string, init ...string) string {
		dir := filepath.Join(h.Roots, name)
		wstest.Must(t, os.MkdirAll(dir, 0o755))
		wstest.Git(t, dir, append([]string{"init", "-q", "-b", "main"}, init...)...)
		for _, n := range []string{"a", "b", "c"} {
			wstest.Write(t, dir, "dir "+n+"/"+n, n)
			wstest.CommitAll(t, dir, n)
		}
		return dir
	}
	plain := makeRepo("plain")
	packed := makeRepo("packed")
	wstest.Git(t, packed, "gc", "-q")
	wstest.Git(t, packed, "pack-refs", "--all")
	borrowing := filepath.Join(h.Roots, "borrowing")
	wstest.Git(t, h.Roots, "clone", "-q", "--shared", plain, borrowing)
	shallow := filepath.Join(h.Roots, "shallow")
	wstest.Git(t, h.Roots, "clone", "-q", "--depth", "1", "file://"+plain, shallow)
	sub := makeRepo("sub")
	wstest.Git(t, sub, "submodule", "add", "-q", plain, "module")
	wstest.CommitAll(t, sub, "with a module")
	sparse := makeRepo("sparse")
	wstest.Git(t, sparse, "config", "extensions.worktreeConfig", "true")
	for name, dir := range map[string]string{"packed": packed, "borrowing": borrowing, "shallow": shallow, "submodule": sub, "sparse": sparse,
		"sha256": makeRepo("sha256", "--object-format=sha256")} {
		p := h.PathProject(dir)
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: name})
		if out := b.Sh(w, "git status --porcelain"); out != "" {
			t.Errorf("%s: shows changes: %s", name, out)
		}
		b.Sh(w, "echo x > x; git add x; git commit -qm x; git log --oneline; git fsck --connectivity-only; git repack -qad -l")
	}
}
