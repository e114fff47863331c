package workspaces_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

// TestHistoryIsCutWhereNothingIsMissed asks git there what it says here.
func TestHistoryIsCutWhereNothingIsMissed(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	dir := h.longRepo("r")
	// A branch that left long ago and is merged after the workspace begins; one that the workspace will merge.
	git(t, dir, "branch", "side", "HEAD~15")
	git(t, dir, "branch", "topic", "HEAD~3")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.sh(w, "echo 1 > one; git add one; git commit -qm one")
	a.end(w)
	git(t, dir, "switch", "-q", "side")
	write(t, dir, "side", "s")
	commitAll(t, dir, "side")
	git(t, dir, "switch", "-q", "main")
	git(t, dir, "merge", "-q", "--no-edit", "side")
	write(t, dir, "more", "m")
	commitAll(t, dir, "more")
	tip := git(t, dir, "rev-parse", "main")
	for _, ask := range []string{"git merge-base HEAD main", "git log --format=%H main..HEAD", "git rev-list --count HEAD..origin/main", "git diff --stat main...HEAD", "git rev-parse main"} {
		want := git(t, w.Path, strings.Fields(strings.TrimPrefix(strings.ReplaceAll(ask, "origin/main", "main"), "git "))...)
		if got := a.sh(w, ask); got != strings.TrimSpace(want) {
			t.Errorf("%s: %q there, %q here", ask, got, want)
		}
	}
	if got := a.sh(w, "git fsck --strict --connectivity-only; git rebase -q origin/main; git merge-base HEAD main; git log --format=%s main..HEAD; ls side more one"); got != tip+"\none\nmore\none\nside" {
		t.Errorf("after a rebase: %q", got)
	}
	if got := a.sh(w, "git log --format=%s | grep old | sort | head -1"); got != "old e" { // where side left
		t.Errorf("history begins with %q", got)
	}
	a.end(w)
	if got := git(t, dir, "log", "--format=%s", "main.."+w.Branch); got != "one" {
		t.Errorf("the branch holds %q", got)
	}
	git(t, dir, "fsck", "--strict")
}

// TestTheBaseMovesOn tells a live sandbox of a base that moved, with the commits it lacks.
func TestTheBaseMovesOn(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	dir := h.longRepo("r")
	git(t, dir, "branch", "side", "HEAD~15")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	other := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "other"})
	a.sh(w, "echo 1 > one; git add one; git commit -qm one")
	git(t, dir, "switch", "-q", "side")
	write(t, dir, "side", "s")
	commitAll(t, dir, "side")
	git(t, dir, "switch", "-q", "main")
	git(t, dir, "merge", "-q", "--no-edit", "side")
	a.sh(other, "echo 2 > two; git add two; git commit -qm two")
	h.merge(other, "rebase")
	tip := git(t, dir, "rev-parse", "main")
	waitFor(t, "the sandbox to learn of the base", func() bool {
		h.s.HeadMoved(w.ID)
		return a.sh(w, "git rev-parse main origin/main") == tip+"\n"+tip
	})
	if got := a.sh(w, "git fsck --strict; git rebase -q main; git log -2 --format=%s; cat two side; git merge-base HEAD main"); got != "one\ntwo\n2\ns"+tip {
		t.Errorf("after a rebase: %q", got)
	}
	if r := h.merge(w, "merge"); !r.Merged || !r.FastForward {
		t.Errorf("merge: %+v", r)
	}
	waitFor(t, "the sandbox to learn of the merge", func() bool {
		h.s.HeadMoved(w.ID)
		return a.sh(w, "git rev-parse main") == git(t, dir, "rev-parse", "main")
	})
}

// TestAShallowProject sends what a repository has whose own history is cut.
func TestAShallowProject(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	full := h.longRepo("full")
	dir := filepath.Join(h.roots, "short")
	git(t, h.roots, "clone", "-q", "--depth", "3", "file://"+full, dir)
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "main"})
	a.sh(w, "echo 1 > one; git add one; git commit -qm one; git fsck --strict")
	a.end(w)
	if got := git(t, dir, "log", "--format=%s", w.Branch); got != "one\nold t\nold s\nold r" {
		t.Errorf("log here: %q", got)
	}
	if got := a.sh(w, "git log --format=%s; git fsck"); got != "one\nold t" {
		t.Errorf("log there: %q", got)
	}
}

// TestASandboxThatIsLost keeps what had come home, and works on from there.
func TestASandboxThatIsLost(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	p := h.pathProject(h.longRepo("r"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	one := a.sh(w, "echo 1 > one; git add one; git commit -qm one; git rev-parse HEAD")
	waitFor(t, "the commit to come home", func() bool {
		h.s.HeadMoved(w.ID)
		out, _ := tryGit(p.GitDir, "rev-parse", w.Branch)
		return strings.TrimSpace(out) == one
	})
	place, _ := a.Manager.Live(w.ID)
	write(t, w.Path, "one", "1\n")        // as the mirror would have
	write(t, w.Path, "loose", "unsaved?") // likewise
	a.world.Vanish(place.SandboxID)
	if err := a.Check(context.Background(), w.ID); err == nil {
		t.Fatal("nobody saw that it is gone")
	}
	a.led(w)
	if got := git(t, w.Path, "status", "--porcelain"); got != "?? loose" {
		t.Errorf("status here: %q", got)
	}
	if got := a.sh(w, "git log -1 --format=%s; git status --porcelain"); got != "one\n?? loose" {
		t.Errorf("the next one begins with %q", got)
	}
}

// TestLedHomeAfterARestart does what a server that was killed had left to do.
func TestLedHomeAfterARestart(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	p := h.pathProject(h.longRepo("r"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.sh(w, "echo 1 > one; git add one; git commit -qm one; echo s > staged; git add staged")
	h.stop() // nothing follows any more
	must(t, a.Destroy(context.Background(), w.ID))
	if !exists(h.data, "boxes/"+w.ID+"/far") {
		t.Fatal("somebody led it home")
	}
	// Half of it was done: HEAD is there, the index is not.
	git(t, w.Path, "symbolic-ref", "HEAD", "refs/heads/main")
	h.start()
	a.led(w)
	if got := git(t, w.Path, "status", "--porcelain", "-b"); got != "## "+w.Branch+"\nA  staged" {
		t.Errorf("status here: %q", got)
	}
}

// TestPlacesChange moves work between places of either kind.
func TestPlacesChange(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	p := h.pathProject(h.longRepo("r"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	state := "git status --porcelain -b; git log --format=%s -1; cat loose; git stash list | wc -l"
	a.sh(w, "echo 1 > one; git add one; git commit -qm one; echo 2 >> a.txt; git stash -q; echo l > loose; echo 3 >> a.txt; git add a.txt")
	want := a.sh(w, state)
	for _, to := range []string{"here", string(farKind), "here", string(farKind)} {
		var err error
		w, _, err = h.s.Move(context.Background(), h.actor, w.ID, to, "")
		must(t, err)
		if got := a.sh(w, state); got != want && to != "here" || !strings.HasPrefix(got, want[:strings.LastIndex(want, "\n")]) {
			t.Errorf("in %s:\n%s\nwant\n%s", to, got, want)
		}
	}
	w, err := h.s.Delete(context.Background(), h.actor, w.ID)
	must(t, err)
	w, err = h.s.Restore(context.Background(), h.actor, w.ID)
	must(t, err)
	if got := a.sh(w, "git status --porcelain; git log -1 --format=%s; cat loose"); got != "M a.txt\n?? loose\none\nl" {
		t.Errorf("after the trash:\n%s", got)
	}
}

// TestSetupRunsAgain runs the setup script in each sandbox, and one that fails keeps nobody out.
func TestSetupRunsAgain(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	p := h.pathProject(h.longRepo("r"))
	out := filepath.Join(t.TempDir(), "ran")
	script := "echo $PARAWORK_BRANCH >> " + out
	p, err := h.s.UpdateProject(context.Background(), p.ID, workspaces.ProjectPatch{SetupScript: &script})
	must(t, err)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.end(w)
	a.sh(w, "true")
	if got := read(t, filepath.Dir(out), "ran"); got != w.Branch+"\n"+w.Branch+"\n" {
		t.Errorf("it ran: %q", got)
	}
	if got := strings.Join(a.say, " "); got != "send checkout send checkout" {
		t.Errorf("steps: %s", got)
	}
	script = "exit 3"
	_, err = h.s.UpdateProject(context.Background(), p.ID, workspaces.ProjectPatch{SetupScript: &script})
	must(t, err)
	a.end(w)
	a.sh(w, "true")
	list, _, err := h.s.Activity(context.Background(), w.ID, page.Page{})
	must(t, err)
	if len(list) == 0 || list[0].Kind != "setup.failed" {
		t.Errorf("nobody is told: %+v", list)
	}
}

// TestTheParcelIsMadeOnce has the making go on with what an earlier try had packed.
func TestTheParcelIsMadeOnce(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	p := h.pathProject(h.longRepo("r"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.end(w)
	a.exec.Set(fake.Knobs{OwnDisk: true, Kind: farKind, DialErr: os.ErrDeadlineExceeded})
	if _, err := a.Manager.Ensure(context.Background(), w.ID); err == nil {
		t.Fatal("it was made without a guest")
	}
	a.exec.Set(fake.Knobs{OwnDisk: true, Kind: farKind})
	a.sh(w, "git status")
	if left, _ := filepath.Glob(filepath.Join(h.data, "parcels", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestAMergeThatWasEndedElsewhere leaves no mark of itself here, and one whose sandbox never came to be is under way still.
func TestAMergeThatWasEndedElsewhere(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	dir := h.longRepo("r")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.sh(w, "echo ours > a.txt; git commit -qam ours")
	a.end(w)
	write(t, dir, "a.txt", "theirs\n")
	commitAll(t, dir, "theirs")
	if out, err := tryGit(w.Path, "merge", "main"); err == nil {
		t.Fatalf("no conflict: %s", out)
	}
	under := func() string { return git(t, w.Path, "status", "--porcelain") }
	a.exec.Set(fake.Knobs{OwnDisk: true, Kind: farKind, DialErr: os.ErrDeadlineExceeded})
	if _, err := a.Manager.Ensure(context.Background(), w.ID); err == nil {
		t.Fatal("it was made without a guest")
	}
	if got := under(); got != "UU a.txt" {
		t.Fatalf("status here: %q", got)
	}
	a.exec.Set(fake.Knobs{OwnDisk: true, Kind: farKind})
	if got := a.sh(w, "git status --porcelain; test -e .git/MERGE_HEAD && echo merging"); got != "UU a.txt\nmerging" {
		t.Fatalf("status there: %q", got)
	}
	a.sh(w, "echo both > a.txt; git add a.txt; git commit -qm merged; echo more > more; git add more; git commit -qm more")
	a.end(w)
	if exists(git(t, w.Path, "rev-parse", "--absolute-git-dir"), "MERGE_HEAD") || under() != "" {
		t.Errorf("a merge is under way here: %q", under())
	}
	if got := a.sh(w, "git status --porcelain; git log -1 --format=%s; test -e .git/MERGE_HEAD || echo none"); got != "more\nnone" {
		t.Errorf("there: %q", got)
	}
}
