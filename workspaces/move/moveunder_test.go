package move_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// A git dir with a merge in progress is not left: its state would not come along. A merge that was started before the sandbox was created,
// and ended in it, is over when the workspace comes back.
func TestAMoveLeavesNoHalfMergeBehind(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "one"})
	gitHere := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", w.Path, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			return strings.TrimSpace(string(out)) + " " + err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	// One over which a sandbox is created.
	_, _, err := h.S.Move(t.Context(), h.Actor, w.ID, "local", "")
	wstest.Must(t, err)
	wstest.Write(t, w.Path, "both", "a\n")
	gitHere("add", "both")
	gitHere("commit", "-qm", "a")
	gitHere("branch", "side")
	wstest.Write(t, w.Path, "both", "ours\n")
	gitHere("commit", "-qam", "ours")
	tree := gitHere("rev-parse", "HEAD^{tree}")
	side := gitHere("commit-tree", "-p", "side", "-m", "theirs", tree)
	gitHere("merge", "-q", "--no-commit", "--no-ff", side)
	if out := gitHere("rev-parse", "--verify", "-q", "MERGE_HEAD"); out != side {
		t.Fatalf("no merge is under way: %s", out)
	}
	_, _, err = h.S.Move(t.Context(), h.Actor, w.ID, "bubblewrap", "")
	wstest.Must(t, err)
	if out := b.Sh(w, "git rev-parse MERGE_HEAD"); out != side {
		t.Errorf("in the sandbox: %s", out)
	}
	_, _, err = h.S.Move(t.Context(), h.Actor, w.ID, "local", "")
	if fault.CodeOf(err) != "operation_in_progress" {
		t.Fatalf("half a merge is left behind: %v", err)
	}
	if plan, err := h.S.PlanMove(t.Context(), h.Actor, w.ID, "local", ""); err != nil || plan.Possible || plan.Code != "operation_in_progress" {
		t.Errorf("the plan: %+v, %v", plan, err)
	}
	if plan, err := h.S.PlanMove(t.Context(), h.Actor, w.ID, "docker", ""); err != nil || !plan.Possible {
		t.Errorf("the plan to a place that works with the same git dir: %+v, %v", plan, err)
	}
	b.Sh(w, "git commit -qm merged")
	head := b.Sh(w, "git rev-parse HEAD")
	moved, _, err := h.S.Move(t.Context(), h.Actor, w.ID, "local", "")
	wstest.Must(t, err)
	if moved.Executor != string(executors.Local) || gitHere("rev-parse", "HEAD") != head {
		t.Errorf("it lives in %s at %s, want %s", moved.Executor, gitHere("rev-parse", "HEAD"), head)
	}
	if out := gitHere("rev-parse", "--verify", "-q", "MERGE_HEAD"); out == side {
		t.Error("the merge that was ended in the sandbox is under way again: the next commit would be one of it")
	}
	sn, err := h.Store.SnapshotBefore(t.Context(), w.ID, 0)
	if err != nil || sn.Reason != "move" {
		t.Errorf("kept before it moved: %+v, %v", sn, err)
	}
}
