package transfer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// git gives the same answers in the sandbox as on the server.
func TestHistoryIsShallowWhereNothingIsMissed(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	dir := h.LongRepo("r")
	// A branch that left long ago and is merged after the workspace begins; one that the workspace will merge.
	wstest.Git(t, dir, "branch", "side", "HEAD~15")
	wstest.Git(t, dir, "branch", "topic", "HEAD~3")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one")
	a.End(w)
	wstest.Git(t, dir, "switch", "-q", "side")
	wstest.Write(t, dir, "side", "s")
	wstest.CommitAll(t, dir, "side")
	wstest.Git(t, dir, "switch", "-q", "main")
	wstest.Git(t, dir, "merge", "-q", "--no-edit", "side")
	wstest.Write(t, dir, "more", "m")
	wstest.CommitAll(t, dir, "more")
	tip := wstest.Git(t, dir, "rev-parse", "main")
	for _, ask := range []string{"git merge-base HEAD main", "git log --format=%H main..HEAD", "git rev-list --count HEAD..origin/main", "git diff --stat main...HEAD", "git rev-parse main"} {
		want := wstest.Git(t, w.Path, strings.Fields(strings.TrimPrefix(strings.ReplaceAll(ask, "origin/main", "main"), "git "))...)
		if got := a.Sh(w, ask); got != strings.TrimSpace(want) {
			t.Errorf("%s: %q there, %q here", ask, got, want)
		}
	}
	if got := a.Sh(w, "git fsck --strict --connectivity-only; git rebase -q origin/main; git merge-base HEAD main; git log --format=%s main..HEAD; ls side more one"); got != tip+"\none\nmore\none\nside" {
		t.Errorf("after a rebase: %q", got)
	}
	if got := a.Sh(w, "git log --format=%s | grep old | sort | head -1"); got != "old e" { // where side left
		t.Errorf("history begins with %q", got)
	}
	a.End(w)
	if got := wstest.Git(t, dir, "log", "--format=%s", "main.."+w.Branch); got != "one" {
		t.Errorf("the branch holds %q", got)
	}
	wstest.Git(t, dir, "fsck", "--strict")
}

// A live sandbox is sent the commits of a base that moved.
func TestTheBaseMovesOn(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	dir := h.LongRepo("r")
	wstest.Git(t, dir, "branch", "side", "HEAD~15")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	other := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "other"})
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one")
	wstest.Git(t, dir, "switch", "-q", "side")
	wstest.Write(t, dir, "side", "s")
	wstest.CommitAll(t, dir, "side")
	wstest.Git(t, dir, "switch", "-q", "main")
	wstest.Git(t, dir, "merge", "-q", "--no-edit", "side")
	a.Sh(other, "echo 2 > two; git add two; git commit -qm two")
	h.Merge(other, "rebase")
	tip := wstest.Git(t, dir, "rev-parse", "main")
	wstest.WaitFor(t, "the sandbox to learn of the base", func() bool {
		h.S.Ingest.HeadMoved(w.ID)
		return a.Sh(w, "git rev-parse main origin/main") == tip+"\n"+tip
	})
	if got := a.Sh(w, "git fsck --strict; git rebase -q main; git log -2 --format=%s; cat two side; git merge-base HEAD main"); got != "one\ntwo\n2\ns"+tip {
		t.Errorf("after a rebase: %q", got)
	}
	if r := h.Merge(w, "merge"); !r.Merged || !r.FastForward {
		t.Errorf("merge: %+v", r)
	}
	wstest.WaitFor(t, "the sandbox to learn of the merge", func() bool {
		h.S.Ingest.HeadMoved(w.ID)
		return a.Sh(w, "git rev-parse main") == wstest.Git(t, dir, "rev-parse", "main")
	})
}

// A repository with a shallow history is transferred.
func TestAShallowProject(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	full := h.LongRepo("full")
	dir := filepath.Join(h.Roots, "short")
	wstest.Git(t, h.Roots, "clone", "-q", "--depth", "3", "file://"+full, dir)
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "main"})
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one; git fsck --strict")
	a.End(w)
	if got := wstest.Git(t, dir, "log", "--format=%s", w.Branch); got != "one\nold t\nold s\nold r" {
		t.Errorf("log here: %q", got)
	}
	if got := a.Sh(w, "git log --format=%s; git fsck"); got != "one\nold t" {
		t.Errorf("log there: %q", got)
	}
}

// After a sandbox is lost, what was fetched stays, and work continues from there.
func TestASandboxThatIsLost(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	p := h.PathProject(h.LongRepo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	one := a.Sh(w, "echo 1 > one; git add one; git commit -qm one; git rev-parse HEAD")
	wstest.WaitFor(t, "the commit to be fetched", func() bool {
		h.S.Ingest.HeadMoved(w.ID)
		out, _ := wstest.TryGit(p.GitDir, "rev-parse", w.Branch)
		return strings.TrimSpace(out) == one
	})
	place, _ := a.Manager.Live(w.ID)
	wstest.Write(t, w.Path, "one", "1\n")        // as the mirror would have
	wstest.Write(t, w.Path, "loose", "unsaved?") // likewise
	a.World.Vanish(place.SandboxID)
	if err := a.Check(context.Background(), w.ID); err == nil {
		t.Fatal("nobody saw that it is gone")
	}
	a.Led(w)
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "?? loose" {
		t.Errorf("status here: %q", got)
	}
	if got := a.Sh(w, "git log -1 --format=%s; git status --porcelain"); got != "one\n?? loose" {
		t.Errorf("the next one begins with %q", got)
	}
}

// A restart finishes what a killed server had left to do.
func TestWorktreeIsRestoredAfterARestart(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	p := h.PathProject(h.LongRepo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one; echo s > staged; git add staged")
	h.Stop() // nothing follows any more
	wstest.Must(t, a.Destroy(context.Background(), w.ID))
	if !wstest.Exists(h.Data, "boxes/"+w.ID+"/far") {
		t.Fatal("somebody led it home")
	}
	// Half of it was done: HEAD is there, the index is not.
	wstest.Git(t, w.Path, "symbolic-ref", "HEAD", "refs/heads/main")
	h.Start()
	a.Led(w)
	if got := wstest.Git(t, w.Path, "status", "--porcelain", "-b"); got != "## "+w.Branch+"\nA  staged" {
		t.Errorf("status here: %q", got)
	}
}

// Work moves between executors of either kind.
func TestExecutorsChange(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	p := h.PathProject(h.LongRepo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	state := "git status --porcelain -b; git log --format=%s -1; cat loose; git stash list | wc -l"
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one; echo 2 >> a.txt; git stash -q; echo l > loose; echo 3 >> a.txt; git add a.txt")
	want := a.Sh(w, state)
	for _, to := range []string{"here", string(wstest.RemoteKind), "here", string(wstest.RemoteKind)} {
		var err error
		w, _, err = h.S.Move(context.Background(), h.Actor, w.ID, to, "")
		wstest.Must(t, err)
		if got := a.Sh(w, state); got != want && to != "here" || !strings.HasPrefix(got, want[:strings.LastIndex(want, "\n")]) {
			t.Errorf("in %s:\n%s\nwant\n%s", to, got, want)
		}
	}
	w, err := h.S.Lifecycle.Delete(context.Background(), h.Actor, w.ID)
	wstest.Must(t, err)
	w, err = h.S.Lifecycle.Restore(context.Background(), h.Actor, w.ID)
	wstest.Must(t, err)
	if got := a.Sh(w, "git status --porcelain; git log -1 --format=%s; cat loose"); got != "M a.txt\n?? loose\none\nl" {
		t.Errorf("after the trash:\n%s", got)
	}
}

// The setup script runs in each sandbox, and a failing one does not prevent using it.
func TestSetupRunsAgain(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	p := h.PathProject(h.LongRepo("r"))
	out := filepath.Join(t.TempDir(), "ran")
	script := "echo $PARAWORK_BRANCH >> " + out
	p, err := h.S.Projects.UpdateProject(context.Background(), p.ID, workspaces.ProjectPatch{SetupScript: &script})
	wstest.Must(t, err)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.End(w)
	a.Sh(w, "true")
	if got := wstest.Read(t, filepath.Dir(out), "ran"); got != w.Branch+"\n"+w.Branch+"\n" {
		t.Errorf("it ran: %q", got)
	}
	if got := strings.Join(a.Say, " "); got != "send checkout send checkout" {
		t.Errorf("steps: %s", got)
	}
	script = "exit 3"
	_, err = h.S.Projects.UpdateProject(context.Background(), p.ID, workspaces.ProjectPatch{SetupScript: &script})
	wstest.Must(t, err)
	a.End(w)
	a.Sh(w, "true")
	list, _, err := h.S.Records.Activity(context.Background(), w.ID, page.Page{})
	wstest.Must(t, err)
	if len(list) == 0 || list[0].Kind != "setup.failed" {
		t.Errorf("the timeline says nothing: %+v", list)
	}
}

// A second try continues with what an earlier one had packed.
func TestTheBundleIsMadeOnce(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	p := h.PathProject(h.LongRepo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.End(w)
	a.Exec.Set(fake.Knobs{OwnDisk: true, Kind: wstest.RemoteKind, DialErr: os.ErrDeadlineExceeded})
	if _, err := a.Manager.Ensure(context.Background(), w.ID); err == nil {
		t.Fatal("it was made without a guest")
	}
	a.Exec.Set(fake.Knobs{OwnDisk: true, Kind: wstest.RemoteKind})
	a.Sh(w, "git status")
	if left, _ := filepath.Glob(filepath.Join(h.Data, "bundles", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A merge finished in the sandbox leaves no state on the server, and one whose sandbox was never created is still in progress.
func TestMergeFinishedInTheSandbox(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	dir := h.LongRepo("r")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.Sh(w, "echo ours > a.txt; git commit -qam ours")
	a.End(w)
	wstest.Write(t, dir, "a.txt", "theirs\n")
	wstest.CommitAll(t, dir, "theirs")
	if out, err := wstest.TryGit(w.Path, "merge", "main"); err == nil {
		t.Fatalf("no conflict: %s", out)
	}
	under := func() string { return wstest.Git(t, w.Path, "status", "--porcelain") }
	a.Exec.Set(fake.Knobs{OwnDisk: true, Kind: wstest.RemoteKind, DialErr: os.ErrDeadlineExceeded})
	if _, err := a.Manager.Ensure(context.Background(), w.ID); err == nil {
		t.Fatal("it was made without a guest")
	}
	if got := under(); got != "UU a.txt" {
		t.Fatalf("status here: %q", got)
	}
	a.Exec.Set(fake.Knobs{OwnDisk: true, Kind: wstest.RemoteKind})
	if got := a.Sh(w, "git status --porcelain; test -e .git/MERGE_HEAD && echo merging"); got != "UU a.txt\nmerging" {
		t.Fatalf("status there: %q", got)
	}
	a.Sh(w, "echo both > a.txt; git add a.txt; git commit -qm merged; echo more > more; git add more; git commit -qm more")
	a.End(w)
	if wstest.Exists(wstest.Git(t, w.Path, "rev-parse", "--absolute-git-dir"), "MERGE_HEAD") || under() != "" {
		t.Errorf("a merge is under way here: %q", under())
	}
	if got := a.Sh(w, "git status --porcelain; git log -1 --format=%s; test -e .git/MERGE_HEAD || echo none"); got != "more\nnone" {
		t.Errorf("there: %q", got)
	}
}
