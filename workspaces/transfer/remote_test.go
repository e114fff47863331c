package transfer_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

func TestTransferToRemoteSandbox(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	dir := h.LongRepo("My Project")
	wstest.Write(t, dir, ".env", "SECRET=1\n")
	wstest.Write(t, dir, "ignored/out.o", "built")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	root := a.Root(w)
	if got := strings.Join(a.Say, " "); got != "send checkout" {
		t.Errorf("steps: %s", got)
	}
	if s := a.Exec.Specs()[0]; s.Inside != "/work/my-project" {
		t.Errorf("it lies at %q", s.Inside)
	}
	for name, want := range map[string]string{"git status --porcelain": "", "git branch --show-current": w.Branch, "git log --format=%s": "old t",
		"git merge-base HEAD main": wstest.Git(t, dir, "rev-parse", "main"), "git config --get core.worktree || echo none": "none", "cat .env": "SECRET=1", "ls": "a.txt\ndir\nold",
		"git rev-parse origin/main": wstest.Git(t, dir, "rev-parse", "main"), "git rev-list --count --all": "1", "git fsck --strict": ""} {
		if got := a.Sh(w, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// Nothing in it names this machine's folders.
	wstest.Must(t, filepath.WalkDir(filepath.Join(root, ".git"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(h.Data)) || bytes.Contains(b, []byte(h.Roots)) {
			t.Errorf("%s names a folder of the host", path)
		}
		return err
	}))
	if left, _ := filepath.Glob(filepath.Join(h.Data, "bundles", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// One piece of work moves from executor to executor, with everything that is not committed.
func TestWorkIsTransferred(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	dir := h.LongRepo("r")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one; echo changed >> a.txt; git rm -q dir/b.txt; ln -s a.txt link; printf x > 'new file'; chmod +x 'new file'; echo staged > staged; git add staged; echo more >> staged; git branch other HEAD~1; git tag v1")
	a.Sh(w, "git switch -q other; git switch -q -; git stash -q -u; git stash apply -q --index")
	want := a.Sh(w, "git status --porcelain; git log --format=%H; git stash list --format=%H; git branch --show-current; cat staged; git show :staged; stat -c '%a %N' link 'new file'")
	for round := range 2 {
		a.End(w)
		if a.Awake(w.ID) {
			t.Fatal("it is still awake")
		}
		// The linked worktree is at the sandbox's position.
		if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != " M a.txt\nD  dir/b.txt\nAM staged\n?? link\n?? \"new file\"" {
			t.Errorf("round %d: status of the linked worktree:\n%s", round, got)
		}
		if got := wstest.Git(t, w.Path, "log", "-1", "--format=%s"); got != "one" {
			t.Errorf("the linked worktree is at %q", got)
		}
		if got := a.Sh(w, "git status --porcelain; git log --format=%H; git stash list --format=%H; git branch --show-current; cat staged; git show :staged; stat -c '%a %N' link 'new file'"); got != want {
			t.Errorf("round %d:\n%s\nwant\n%s", round, got, want)
		}
		if got := a.Sh(w, "git rev-parse other v1 | sort -u | wc -l; git fsck --strict"); got != "2" {
			t.Errorf("branches: %q", got)
		}
	}
}

// The host does what it can without waking a sandbox.
func TestNoSandboxIsWokenForTheHost(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	dir := h.LongRepo("r")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one; echo loose > loose; echo 2 >> a.txt")
	a.End(w)
	n := a.Creates()
	list, err := h.S.Ingest.Commits(context.Background(), w.ID)
	wstest.Must(t, err)
	if len(list) != 1 || list[0].Subject != "one" {
		t.Errorf("commits: %+v", list)
	}
	loss, err := h.S.Lifecycle.Loss(context.Background(), w.ID)
	wstest.Must(t, err)
	if loss.UncommittedCount != 2 || loss.UnmergedCommits != 1 {
		t.Errorf("loss: %+v", loss)
	}
	r := h.Merge(w, "merge")
	if !r.Merged || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "2 uncommitted changes") {
		t.Errorf("merge: %+v", r)
	}
	if got := wstest.Git(t, dir, "log", "-1", "--format=%s", "main"); got != "one" {
		t.Errorf("main is at %q", got)
	}
	arch, err := h.S.Lifecycle.Archive(context.Background(), h.Actor, w.ID)
	wstest.Must(t, err)
	if arch.Snapshot == nil || arch.Snapshot.Uncommitted != 2 {
		t.Errorf("snapshot: %+v", arch.Snapshot)
	}
	w, err = h.S.Lifecycle.Restore(context.Background(), h.Actor, w.ID)
	wstest.Must(t, err)
	if got := a.Creates(); got != n {
		t.Errorf("%d sandboxes were made for it", got-n)
	}
	if got := a.Sh(w, "git status --porcelain; cat loose"); got != "M a.txt\n?? loose\nloose" {
		t.Errorf("after the restore:\n%s", got)
	}
}
