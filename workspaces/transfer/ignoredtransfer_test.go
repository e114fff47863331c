package transfer_test

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
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// reported is what a workspace's activity says, the newest first.
func reported(h *wstest.Env, w workspaces.Workspace) string {
	h.T.Helper()
	acts, _, err := h.S.Records.Activity(h.T.Context(), w.ID, page.Page{Limit: 20})
	wstest.Must(h.T, err)
	var out []string
	for _, a := range acts {
		out = append(out, a.Text)
	}
	return strings.Join(out, "\n")
}

// Ignored files that a project selects are in each sandbox with its own disk, whatever happened to the one before.
func TestSelectedIgnoredFilesAreTransferred(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t, func(e executors.Executor) executors.Executor { return &fake.Cloud{Executor: e.(*fake.Executor)} }) // one that can suspend
	a.KeepsOnEnd()
	ctx := context.Background()
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "Work"})
	h.Keeping(w, ".env", "ignored/")
	odd := "ignored/tab\tname"
	a.Sh(w, "echo one > .env; mkdir -p ignored/sub; printf key > ignored/sub/a.key; chmod +x ignored/sub/a.key; echo 1 > ignored/gone; echo odd > '"+odd+"'; ln -s /etc/passwd ignored/link; dd if=/dev/zero of=ignored/large bs=1M count=9 2>/dev/null; dd if=/dev/zero of=ignored/most bs=1M count=7 2>/dev/null")
	a.End(w)
	if wstest.Read(t, w.Path, ".env") != "one\n" || wstest.Read(t, w.Path, odd) != "odd\n" || wstest.Exists(w.Path, "ignored/link") || wstest.Exists(w.Path, "ignored/large") {
		t.Error("this server's folder is not as the sandbox was")
	}
	look := "cat .env ignored/sub/a.key ignored/tab*; test -x ignored/sub/a.key; wc -c < ignored/most; ls ignored; git status --porcelain"
	want := "one\nkeyodd\n" + fmt.Sprint(7<<20) + "\ngone\nmost\nsub\n'tab'$'\\t''name'"
	got := a.Sh(w, look)
	if strings.ReplaceAll(got, "tab\tname", "'tab'$'\\t''name'") != want {
		t.Errorf("the next sandbox has\n%s", got)
	}

	// Changed files of the sandbox replace what was sent; files changed here since stay.
	a.Sh(w, "echo two > .env; echo there > ignored/gone; chmod -x ignored/sub/a.key; echo new > ignored/new")
	wstest.Write(t, w.Path, "ignored/gone", "here\n")
	a.End(w)
	if fi, err := os.Stat(filepath.Join(w.Path, "ignored/sub/a.key")); err != nil || fi.Mode().Perm()&0o100 != 0 {
		t.Errorf("a key has another mode: %v, %v", fi, err)
	}
	if wstest.Read(t, w.Path, ".env") != "two\n" || wstest.Read(t, w.Path, "ignored/gone") != "here\n" || wstest.Read(t, w.Path, "ignored/new") != "new\n" {
		t.Error("this server's folder is not as it should be")
	}
	if acts := reported(h, w); !strings.Contains(acts, "1 ignored file of the sandbox did not replace others on this server: ignored/gone.") {
		t.Errorf("reported: %s", acts)
	}
	if got := wstest.Git(t, h.Keeping(w, ".env", "ignored/").GitDir, "for-each-ref", "refs/parawork/far/"); got != "" {
		t.Errorf("left behind: %s", got)
	}

	// Deleted while its sandbox could not be asked, and restored from the trash into a remote sandbox.
	a.Sh(w, "echo three > .env")
	h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	wstest.Must(t, a.Pause(ctx, w.ID, "test"))
	_, err := h.S.Lifecycle.Archive(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	w, err = h.S.Lifecycle.Restore(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	if got := a.Sh(w, "cat .env ignored/gone; git status --porcelain"); got != "three\nhere" {
		t.Errorf("out of the archive it has %q", got)
	}
	_, err = h.S.Lifecycle.Delete(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	w, err = h.S.Lifecycle.Restore(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	if got := a.Sh(w, "cat .env"); got != "three" {
		t.Errorf("out of the trash it has %q", got)
	}

	// Into a new workspace, which is remote, too.
	sn := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	made, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{New: true, Name: "again", Ignored: true})
	wstest.Must(t, err)
	if got := a.Sh(made.Workspace, "cat .env"); got != "three" {
		t.Errorf("a new workspace has %q", got)
	}

	// A sandbox that is lost suddenly: they are as last stored.
	h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	a.Sh(w, "echo never > .env")
	a.Lose(w)
	if got := a.Sh(w, "cat .env"); got != "three" {
		t.Errorf("after it was lost it has %q", got)
	}
}

// Files of secrets do not leave this server, whoever selects them.
func TestSecretFilesAreNotTransferred(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "Work"})
	a.End(w)
	h.Keeping(w, ".env", "ignored/")
	copied := []string{"ignored/secret"}
	_, err := h.S.Projects.UpdateProject(t.Context(), w.ProjectID, workspaces.ProjectPatch{CopyIgnored: &copied})
	wstest.Must(t, err)
	blob, blob256 := snapshot.BlobNames([]byte("TOKEN=x\n"))
	wstest.Must(t, h.S.Repo.Exclude(t.Context(), w.ID, []string{".env"}))
	wstest.Write(t, w.Path, ".env", "TOKEN=x\nchanged\n")
	wstest.Write(t, w.Path, "ignored/secret", "now\n")
	wstest.Write(t, w.Path, "ignored/copy", "TOKEN=x\n")
	wstest.Write(t, w.Path, "ignored/mine", "mine\n")
	h.S.Records.Connect(a, wstest.SecretSessions{Setups: h.Ses, Files: workspaces.SecretFiles{Paths: map[string]bool{"ignored/secret": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	if got := a.Sh(w, "ls -A ignored; ls .env 2>/dev/null || true"); got != "mine" {
		t.Errorf("there is %q", got)
	}
}

// A plan lists the ignored files that come along, their size, and which do not and why; the move does what the plan said.
func TestPlanOfChosenIgnoredFiles(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	m := &wstest.Movers{Setups: h.Ses, Runs: map[string]bool{}}
	h.S.Records.Connect(a, m)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "Work", Executor: "here"})
	h.Keeping(w, ".env", "ignored/*.key")
	wstest.Write(t, w.Path, ".env", strings.Repeat("x", 2048))
	wstest.Write(t, w.Path, "ignored/a.key", "key\n")
	wstest.Write(t, w.Path, "ignored/large.key", strings.Repeat("x", 9<<20))
	wstest.Write(t, w.Path, "ignored/out.o", "built")
	plan := func(to string) map[string]string {
		t.Helper()
		p, err := h.S.PlanMove(t.Context(), h.Actor, w.ID, to, "")
		wstest.Must(t, err)
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
		_, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, to, "")
		wstest.Must(t, err)
		return h.MoveEnds(w.ID)
	}
	says := plan(string(wstest.RemoteKind))
	if got := says["kept_ignored"]; got != "2 ignored files that the project selects, 2 kB: .env, ignored/a.key." {
		t.Errorf("come along: %q", got)
	}
	if got := says["kept_left"]; got != "1 ignored file that the project selects: ignored/large.key (9.0 MB): it is larger than 8 MB. They are not sent there, and stay on this server." {
		t.Errorf("are left: %q", got)
	}
	if m := move(string(wstest.RemoteKind)); m.State != workspaces.MoveDone {
		t.Fatalf("moved: %+v", m)
	}
	if got := a.Sh(w, "wc -c < .env; cat ignored/a.key; ls ignored"); got != "2048\nkey\na.key" {
		t.Errorf("there is %q", got)
	}

	a.Sh(w, "echo two > .env; dd if=/dev/zero of=ignored/more.key bs=1M count=9 2>/dev/null; echo built > ignored/out2.o")
	says = plan("here")
	if got := says["kept_ignored"]; got != "2 ignored files that the project selects, 8 bytes: .env, ignored/a.key." {
		t.Errorf("come back: %q", got)
	}
	if got := says["kept_left"]; !strings.HasPrefix(got, "1 ignored file that the project selects: ignored/more.key (9.0 MB): it is larger than 8 MB. They are lost") {
		t.Errorf("are left there: %q", got)
	}

	// A place is asked for an agent's program before the old one is left.
	m.Mu.Lock()
	m.Runs["agent"], m.Needs = true, "no-such-program"
	m.Mu.Unlock()
	if m := move("here"); m.State != workspaces.MoveFailed || !strings.HasPrefix(m.Reason, "No program there.") {
		t.Errorf("it went to a place without the agent: %+v", m)
	}
	m.Mu.Lock()
	m.Runs["agent"], m.Needs = false, ""
	m.Mu.Unlock()

	// If they cannot be read there, the workspace stays there.
	a.Sh(w, "chmod 000 ignored/a.key")
	if os.Geteuid() != 0 {
		if m := move("here"); m.State != workspaces.MoveFailed || !strings.Contains(m.Reason, "ignored/a.key could not be read") {
			t.Errorf("it was left: %+v", m)
		}
	}
	a.Sh(w, "chmod 600 ignored/a.key")
	m2 := move("here")
	if m2.State != workspaces.MoveDone || !strings.Contains(m2.Steps[3].Detail, "2 ignored files come along. Left behind: ignored/more.key: it is larger than 8 MB.") {
		t.Fatalf("moved back: %+v", m2)
	}
	if wstest.Read(t, w.Path, ".env") != "two\n" || !wstest.Exists(w.Path, "ignored/out.o") || !wstest.Exists(w.Path, "ignored/large.key") || wstest.Exists(w.Path, "ignored/more.key") {
		t.Error("this server's folder is not as it should be")
	}
}

// Changes that git was configured to ignore are found nevertheless: they are transferred and snapshotted.
func TestFilesGitIgnoresChangesOfAreTransferred(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "Work", Executor: "here"})
	wstest.Git(t, w.Path, "update-index", "--skip-worktree", "a.txt")
	wstest.Git(t, w.Path, "update-index", "--assume-unchanged", "dir/b.txt")
	wstest.Write(t, w.Path, "a.txt", "mine\n")
	wstest.Write(t, w.Path, "dir/b.txt", "mine, too\n")
	h.S.Records.Connect(a, &wstest.Movers{Setups: h.Ses, Runs: map[string]bool{}})
	_, err := h.S.MoveLive(t.Context(), h.Actor, w.ID, string(wstest.RemoteKind), "")
	wstest.Must(t, err)
	if m := h.MoveEnds(w.ID); m.State != workspaces.MoveDone {
		t.Fatalf("moved: %+v", m)
	}
	if got := a.Sh(w, "cat a.txt dir/b.txt"); got != "mine\nmine, too" {
		t.Errorf("there is %q", got)
	}
}
