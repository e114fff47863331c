package workspaces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

// keepsOnEnd has files kept before a sandbox ends, as the server does.
func (a *away) keepsOnEnd() {
	a.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) { a.h.s.KeepBefore(ctx, p.WorkspaceID, "stop") }})
}

// lose has a sandbox vanish, with nobody asked before.
func (a *away) lose(w workspaces.Workspace) {
	a.t.Helper()
	p, _ := a.Manager.Live(w.ID)
	a.world.Vanish(p.SandboxID)
	if err := a.Check(context.Background(), w.ID); err == nil {
		a.t.Fatal("nobody saw that it is gone")
	}
	a.led(w)
}

// told is what a workspace's activity says, the newest first.
func (h *house) told(w workspaces.Workspace) string {
	h.t.Helper()
	acts, _, err := h.s.Activity(h.t.Context(), w.ID, page.Page{Limit: 20})
	must(h.t, err)
	var out []string
	for _, a := range acts {
		out = append(out, a.Text)
	}
	return strings.Join(out, "\n")
}

// Ignored files that a project keeps are in each sandbox with a disk of its own, whatever became of the one before.
func TestChosenIgnoredFilesTravel(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t, func(e executors.Executor) executors.Executor { return &fake.Cloud{Executor: e.(*fake.Executor)} }) // one that can stand still
	a.keepsOnEnd()
	ctx := context.Background()
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID, Name: "Work"})
	h.keeping(w, ".env", "ignored/")
	odd := "ignored/tab\tname"
	a.sh(w, "echo one > .env; mkdir -p ignored/sub; printf key > ignored/sub/a.key; chmod +x ignored/sub/a.key; echo 1 > ignored/gone; echo odd > '"+odd+"'; ln -s /etc/passwd ignored/link; dd if=/dev/zero of=ignored/large bs=1M count=9 2>/dev/null; dd if=/dev/zero of=ignored/most bs=1M count=7 2>/dev/null")
	a.end(w)
	if read(t, w.Path, ".env") != "one\n" || read(t, w.Path, odd) != "odd\n" || exists(w.Path, "ignored/link") || exists(w.Path, "ignored/large") {
		t.Error("this server's folder is not as the sandbox was")
	}
	look := "cat .env ignored/sub/a.key ignored/tab*; test -x ignored/sub/a.key; wc -c < ignored/most; ls ignored; git status --porcelain"
	want := "one\nkeyodd\n" + fmt.Sprint(7<<20) + "\ngone\nmost\nsub\n'tab'$'\\t''name'"
	got := a.sh(w, look)
	if strings.ReplaceAll(got, "tab\tname", "'tab'$'\\t''name'") != want {
		t.Errorf("the next sandbox has\n%s", got)
	}

	// What became of them there takes the place of what was sent; what somebody has here since does not go.
	a.sh(w, "echo two > .env; echo there > ignored/gone; chmod -x ignored/sub/a.key; echo new > ignored/new")
	write(t, w.Path, "ignored/gone", "here\n")
	a.end(w)
	if fi, err := os.Stat(filepath.Join(w.Path, "ignored/sub/a.key")); err != nil || fi.Mode().Perm()&0o100 != 0 {
		t.Errorf("a key has another mode: %v, %v", fi, err)
	}
	if read(t, w.Path, ".env") != "two\n" || read(t, w.Path, "ignored/gone") != "here\n" || read(t, w.Path, "ignored/new") != "new\n" {
		t.Error("this server's folder is not as it should be")
	}
	if acts := h.told(w); !strings.Contains(acts, "1 ignored file of the sandbox did not take the place of others on this server: ignored/gone.") {
		t.Errorf("told of: %s", acts)
	}
	if got := git(t, h.keeping(w, ".env", "ignored/").GitDir, "for-each-ref", "refs/parawork/far/"); got != "" {
		t.Errorf("left behind: %s", got)
	}

	// Put away while its sandbox could not be asked, and out of the trash into a far place again.
	a.sh(w, "echo three > .env")
	h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual})
	must(t, a.Pause(ctx, w.ID, "test"))
	_, err := h.s.Archive(ctx, h.actor, w.ID)
	must(t, err)
	w, err = h.s.Restore(ctx, h.actor, w.ID)
	must(t, err)
	if got := a.sh(w, "cat .env ignored/gone; git status --porcelain"); got != "three\nhere" {
		t.Errorf("out of the archive it has %q", got)
	}
	_, err = h.s.Delete(ctx, h.actor, w.ID)
	must(t, err)
	w, err = h.s.Restore(ctx, h.actor, w.ID)
	must(t, err)
	if got := a.sh(w, "cat .env"); got != "three" {
		t.Errorf("out of the trash it has %q", got)
	}

	// Into a new workspace, which is far, too.
	sn := h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual})
	made, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{New: true, Name: "again", Ignored: true})
	must(t, err)
	if got := a.sh(made.Workspace, "cat .env"); got != "three" {
		t.Errorf("a new workspace has %q", got)
	}

	// A sandbox that is lost all at once: they are as they were kept last.
	h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual})
	a.sh(w, "echo never > .env")
	a.lose(w)
	if got := a.sh(w, "cat .env"); got != "three" {
		t.Errorf("after it was lost it has %q", got)
	}
}

// Files of secrets do not leave this server, whoever chose them.
func TestSecretFilesDoNotTravel(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID, Name: "Work"})
	a.end(w)
	h.keeping(w, ".env", "ignored/")
	copied := []string{"ignored/secret"}
	_, err := h.s.UpdateProject(t.Context(), w.ProjectID, workspaces.ProjectPatch{CopyIgnored: &copied})
	must(t, err)
	blob, blob256 := workspaces.BlobNames([]byte("TOKEN=x\n"))
	must(t, h.s.Exclude(t.Context(), w.ID, []string{".env"}))
	write(t, w.Path, ".env", "TOKEN=x\nchanged\n")
	write(t, w.Path, "ignored/secret", "now\n")
	write(t, w.Path, "ignored/copy", "TOKEN=x\n")
	write(t, w.Path, "ignored/mine", "mine\n")
	h.s.Connect(a, secretSessions{h.ses, workspaces.SecretFiles{Paths: map[string]bool{"ignored/secret": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	if got := a.sh(w, "ls -A ignored; ls .env 2>/dev/null || true"); got != "mine" {
		t.Errorf("there is %q", got)
	}
}

// A plan names the ignored files that come along, how large they are, and which do not and why; the move does what it said.
func TestPlanOfChosenIgnoredFiles(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	m := &movers{setups: h.ses, runs: map[string]bool{}}
	h.s.Connect(a, m)
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID, Name: "Work", Executor: "here"})
	h.keeping(w, ".env", "ignored/*.key")
	write(t, w.Path, ".env", strings.Repeat("x", 2048))
	write(t, w.Path, "ignored/a.key", "key\n")
	write(t, w.Path, "ignored/large.key", strings.Repeat("x", 9<<20))
	write(t, w.Path, "ignored/out.o", "built")
	plan := func(to string) map[string]string {
		t.Helper()
		p, err := h.s.PlanMove(t.Context(), h.actor, w.ID, to, "")
		must(t, err)
		if !p.Possible {
			t.Fatalf("not possible: %s", p.Reason)
		}
		says := make(map[string]string)
		for _, i := range append(p.Carried, p.Lost...) {
			says[i.What] = i.Detail
		}
		return says
	}
	move := func(to string) workspaces.Moving {
		t.Helper()
		_, err := h.s.MoveLive(t.Context(), h.actor, w.ID, to, "")
		must(t, err)
		return h.moveEnds(w.ID)
	}
	says := plan(string(farKind))
	if got := says["kept_ignored"]; got != "2 ignored files that the project keeps, 2 kB: .env, ignored/a.key." {
		t.Errorf("come along: %q", got)
	}
	if got := says["kept_left"]; got != "1 ignored file that the project keeps: ignored/large.key (9.0 MB): it is larger than 8 MB. They are not sent there, and stay on this server." {
		t.Errorf("are left: %q", got)
	}
	if m := move(string(farKind)); m.State != workspaces.MoveDone {
		t.Fatalf("moved: %+v", m)
	}
	if got := a.sh(w, "wc -c < .env; cat ignored/a.key; ls ignored"); got != "2048\nkey\na.key" {
		t.Errorf("there is %q", got)
	}

	a.sh(w, "echo two > .env; dd if=/dev/zero of=ignored/more.key bs=1M count=9 2>/dev/null; echo built > ignored/out2.o")
	says = plan("here")
	if got := says["kept_ignored"]; got != "2 ignored files that the project keeps, 8 bytes: .env, ignored/a.key." {
		t.Errorf("come back: %q", got)
	}
	if got := says["kept_left"]; !strings.HasPrefix(got, "1 ignored file that the project keeps: ignored/more.key (9.0 MB): it is larger than 8 MB. They end") {
		t.Errorf("are left there: %q", got)
	}

	// A place is asked for an agent's program before the old one is left.
	m.mu.Lock()
	m.runs["agent"], m.needs = true, "no-such-program"
	m.mu.Unlock()
	if m := move("here"); m.State != workspaces.MoveFailed || !strings.HasPrefix(m.Reason, "No program there.") {
		t.Errorf("it went to a place without the agent: %+v", m)
	}
	m.mu.Lock()
	m.runs["agent"], m.needs = false, ""
	m.mu.Unlock()

	// What cannot be read there keeps it there.
	a.sh(w, "chmod 000 ignored/a.key")
	if os.Geteuid() != 0 {
		if m := move("here"); m.State != workspaces.MoveFailed || !strings.Contains(m.Reason, "ignored/a.key could not be read") {
			t.Errorf("it was left: %+v", m)
		}
	}
	a.sh(w, "chmod 600 ignored/a.key")
	m2 := move("here")
	if m2.State != workspaces.MoveDone || !strings.Contains(m2.Steps[3].Detail, "2 ignored files come along. Left behind: ignored/more.key: it is larger than 8 MB.") {
		t.Fatalf("moved back: %+v", m2)
	}
	if read(t, w.Path, ".env") != "two\n" || !exists(w.Path, "ignored/out.o") || !exists(w.Path, "ignored/large.key") || exists(w.Path, "ignored/more.key") {
		t.Error("this server's folder is not as it should be")
	}
}

// What git was told not to look at is looked at all the same where it differs: it goes along, and is kept.
func TestFilesGitDoesNotLookAtTravel(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID, Name: "Work", Executor: "here"})
	git(t, w.Path, "update-index", "--skip-worktree", "a.txt")
	git(t, w.Path, "update-index", "--assume-unchanged", "dir/b.txt")
	write(t, w.Path, "a.txt", "mine\n")
	write(t, w.Path, "dir/b.txt", "mine, too\n")
	h.s.Connect(a, &movers{setups: h.ses, runs: map[string]bool{}})
	_, err := h.s.MoveLive(t.Context(), h.actor, w.ID, string(farKind), "")
	must(t, err)
	if m := h.moveEnds(w.ID); m.State != workspaces.MoveDone {
		t.Fatalf("moved: %+v", m)
	}
	if got := a.sh(w, "cat a.txt dir/b.txt"); got != "mine\nmine, too" {
		t.Errorf("there is %q", got)
	}
}
