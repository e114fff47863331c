package testkit_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// What an agent commits in a real sandbox comes to the repository by itself, and what others merge there reaches the sandbox.
func TestCommitsLeaveASandboxByThemselves(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, boxed(t, failpoint.HomeMoved))
	d := &death{Instance: h, t: t, project: h.Sample()}
	ws := h.Workspace(d.project, "Work")
	gitDir := gitDirOf(t, filepath.Join(h.Dir, "data", "projects", d.project))
	repo := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"--git-dir=" + gitDir}, args...)...).CombinedOutput()
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	// The tag exists before the worktree moves, so a fetch after the move gets both.
	d.execIn(ws, "sh", "-ec", "echo one > one; git add one; c=$(git commit-tree -p HEAD -m one $(git write-tree)); git tag mine $c; git update-ref HEAD $c")
	if id := strings.TrimSpace(d.execIn(ws, "id", "-un")); id != "agent" {
		t.Fatalf("it runs as %s: not in a sandbox", id)
	}
	head := strings.TrimSpace(d.execIn(ws, "git", "rev-parse", "HEAD"))
	h.Wait("the commit is in the repository", func() bool { return repo("rev-parse", "refs/heads/"+ws.Branch) == head })
	h.Wait("the tag comes along", func() bool { return repo("rev-parse", "refs/parawork/agent/"+ws.ID+"/tags/mine") == head })
	if _, err := os.Stat(filepath.Join(h.Dir, "data", "boxes", ws.ID, "git", "HEAD")); err != nil {
		t.Errorf("it does not live in a box: %v", err)
	}
	other := h.Workspace(d.project, "Other")
	d.execIn(other, "sh", "-ec", "echo two > two; git add two; git commit -qm two")
	h.API("POST", "/workspaces/"+other.ID+"/merge", map[string]any{"strategy": "squash", "message": "two"}, nil)
	h.Wait("the sandbox knows the merge", func() bool {
		return strings.TrimSpace(d.execIn(ws, "git", "log", "-1", "--format=%s", ws.Base)) == "two"
	})
	d.execIn(ws, "git", "rebase", "-q", ws.Base)
	if log := strings.Join(strings.Fields(d.execIn(ws, "git", "log", "--format=%s", "-2")), " "); log != "one two" {
		t.Errorf("rebased: %q", log)
	}
	h.Wait("the rebased branch is in the repository", func() bool {
		return repo("rev-parse", "refs/heads/"+ws.Branch+"~1") == repo("rev-parse", "refs/heads/"+ws.Base)
	})
	h.Wait("the commit before the rebase is kept", func() bool {
		return repo("for-each-ref", "--contains", head, "refs/parawork/agent", "refs/parawork/keep") != ""
	})
	h.API("POST", "/workspaces/"+ws.ID+"/merge", map[string]any{"strategy": "merge"}, nil)
}

// gitDirOf finds the repository in a project's folder.
func gitDirOf(t *testing.T, dir string) string {
	t.Helper()
	var found string
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) { // git works there meanwhile
			return nil
		}
		if err == nil && e.Name() == "objects" && e.IsDir() {
			found = filepath.Dir(path)
			return filepath.SkipAll
		}
		return err
	}))
	if found == "" {
		t.Fatalf("no repository in %s", dir)
	}
	return found
}
