package ingest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

func TestCommitsAreFetched(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	tip := func(ref string) string {
		out, _ := wstest.TryGit(p.GitDir, "rev-parse", "--verify", "-q", ref)
		return strings.TrimSpace(out)
	}
	main := tip("refs/heads/main")
	commits := func() string {
		list, err := h.S.Ingest.Commits(context.Background(), w.ID)
		wstest.Must(t, err)
		var s []string
		for _, c := range list {
			s = append(s, c.Subject)
		}
		return strings.Join(s, " ")
	}
	b.Sh(w, "echo 1 > one; git add one; git commit -qm one")
	if got := commits(); got != "one" {
		t.Fatalf("the host knows of %q", got)
	}
	wstest.Write(t, w.Path, "two", "2")
	if os.Geteuid() == 0 {
		wstest.Must(t, os.Chmod(filepath.Join(w.Path, "two"), 0o666))
	}
	h.Commit(w, "two")
	if got := commits(); got != "two one" {
		t.Fatalf("the host knows of %q", got)
	}
	two := tip("refs/heads/" + w.Branch)

	// Rewritten history: the old commits are saved.
	b.Sh(w, "git commit -q --amend -m deux; git branch other HEAD~1; git tag v1; echo s > s; git add s; git stash -q")
	if got := commits(); got != "deux one" {
		t.Fatalf("the host knows of %q", got)
	}
	if got := tip("refs/parawork/keep/" + w.ID + "/1"); got != two {
		t.Errorf("the commit before the amend is not kept: %q", got)
	}
	refs := wstest.Git(t, p.GitDir, "for-each-ref", "--format=%(refname:lstrip=4)", "refs/parawork/agent/"+w.ID)
	if refs != "heads/other\nstash/0\ntags/v1" {
		t.Errorf("own refs: %q", refs)
	}
	if tip("refs/heads/other") != "" || tip("refs/tags/v1") != "" || tip("refs/heads/main") != main {
		t.Error("the sandbox moved the repository's own refs")
	}

	// A name that becomes a folder of names, a branch that goes, a detached head.
	b.Sh(w, "git branch -m other other/a; git switch -q --detach; git commit -q --allow-empty -m loose")
	loose := b.Sh(w, "git rev-parse HEAD")
	b.Sh(w, "git switch -q -")
	b.Sh(w, "git switch -q --detach "+loose)
	if commits(); tip("refs/parawork/agent/"+w.ID+"/detached") != loose || tip("refs/parawork/agent/"+w.ID+"/heads/other/a") == "" {
		t.Error("a detached head or a renamed branch is not home")
	}
	b.Sh(w, "git switch -q -")
	commits()
	if out := wstest.Git(t, p.GitDir, "for-each-ref", "--contains", loose, "refs/parawork/keep"); out == "" {
		t.Error("a commit left behind is not kept")
	}
	wstest.Git(t, p.GitDir, "fsck", "--strict")

	// The base moves, and the sandbox sees it under all its names.
	wstest.Write(t, p.Source, "base.txt", "new")
	wstest.CommitAll(t, p.Source, "on the base")
	h.Merge(w, "merge")
	b.Sh(w, "git fetch -q 2>/dev/null || true; git merge-base --is-ancestor one HEAD 2>/dev/null || true")
	wstest.WaitFor(t, "the box to learn of the merge", func() bool {
		h.S.Ingest.HeadMoved(w.ID)
		return b.Sh(w, "git rev-parse main") == tip("refs/heads/main") && b.Sh(w, "git rev-parse origin/main") == tip("refs/heads/main")
	})
	b.Sh(w, "git rebase -q main && git log -1 --format=%s main")
}

// The server checks what a sandbox sends: whatever it is, the repository is unchanged.
func TestALyingSandboxIsRefused(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	state := func() string {
		files, err := filepath.Glob(filepath.Join(p.GitDir, "objects", "*", "*"))
		wstest.Must(t, err)
		tmp, _ := filepath.Glob(filepath.Join(p.GitDir, "objects", "tmp_*"))
		return wstest.Git(t, p.GitDir, "for-each-ref", "refs/heads", "refs/parawork/agent", "refs/parawork/keep") + strings.Join(files, "\n") + strings.Join(tmp, "\n")
	}
	before := state()
	oid := strings.Repeat("1", 40)
	is := func(c executors.SandboxCommand, sub string) bool {
		for _, a := range c.Argv {
			if a == sub {
				return true
			}
		}
		return false
	}
	say := func(sub, text string) func(executors.SandboxCommand) (executors.SandboxResult, bool) {
		return func(c executors.SandboxCommand) (executors.SandboxResult, bool) {
			return executors.SandboxResult{Stdout: []byte(text)}, is(c, sub)
		}
	}
	evil := func(line string) func(executors.SandboxCommand) (executors.SandboxResult, bool) {
		done := false
		return func(c executors.SandboxCommand) (executors.SandboxResult, bool) {
			if is(c, "for-each-ref") && !done {
				done = true
				b.Answer = nil
				b.Sh(w, line)
			}
			return executors.SandboxResult{}, false
		}
	}
	commitTree := `c=$(git commit-tree -p HEAD -m evil $t); git update-ref refs/heads/$(git branch --show-current) $c`
	for name, lie := range map[string]func(executors.SandboxCommand) (executors.SandboxResult, bool){
		"a commit that is not there":   say("for-each-ref", oid+" refs/heads/"+w.Branch+"\n"),
		"a name that leads out":        say("for-each-ref", oid+" refs/heads/../../x\n"),
		"a name with a newline's rest": say("for-each-ref", oid+" refs/heads/a b\n"),
		"a ref that was not asked for": say("for-each-ref", oid+" refs/parawork/base/x\n"),
		"a name that is no name":       say("for-each-ref", "HEAD refs/heads/x\n"),
		"words instead of a pack":      say("pack-objects", "PACK no"),
		"nothing instead of a pack":    say("pack-objects", ""),
		"a pack cut short":             say("pack-objects", "PACK\x00\x00\x00\x02\x00\x00\x00\x05"),
		"a pack of the wrong objects":  say("pack-objects", "PACK\x00\x00\x00\x02\x00\x00\x00\x00\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e"),
		"a tree with a .git":           evil(`x=$(echo evil | git hash-object -w --stdin); s=$(printf '100644 blob %s\tconfig\n' $x | git mktree); t=$(printf '040000 tree %s\t.git\n' $s | git mktree); ` + commitTree),
		"a tree with a .GIT":           evil(`x=$(echo evil | git hash-object -w --stdin); s=$(printf '100644 blob %s\tconfig\n' $x | git mktree); t=$(printf '040000 tree %s\t.GIT\n' $s | git mktree); ` + commitTree),
		"a tree with ..":               evil(`x=$(echo evil | git hash-object -w --stdin); s=$(printf '100644 blob %s\tconfig\n' $x | git mktree); t=$(printf '040000 tree %s\t..\n' $s | git mktree); ` + commitTree),
		"a .gitmodules that is a link": evil(`x=$(printf /etc/passwd | git hash-object -w --stdin); t=$(printf '120000 blob %s\t.gitmodules\n' $x | git mktree); ` + commitTree),
		"a submodule with a bad url":   evil(`printf '[submodule "x"]\n\tpath = x\n\turl = -u./payload\n' > .gitmodules; x=$(git hash-object -w .gitmodules); rm .gitmodules; t=$(printf '100644 blob %s\t.gitmodules\n' $x | git mktree); ` + commitTree),
		"a commit that is a file":      evil(`x=$(echo evil | git hash-object -w --stdin); mkdir -p .parawork; d=$(git rev-parse --absolute-git-dir); echo $x > $d/refs/heads/$(git branch --show-current)`),
		"a commit without its files":   evil(`t=$(printf '100644 blob ` + strings.Repeat("2", 40) + `\tx\n' | git mktree --missing); ` + commitTree),
	} {
		t.Run(name, func(t *testing.T) {
			b.Sh(w, "rm -rf .parawork; echo x$(date +%N) >> a.txt; git commit -qam honest")
			b.Answer = lie
			_, err := h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
			b.Answer = nil
			if err == nil {
				t.Error("it was merged")
			} else if !strings.Contains(err.Error(), "rejected") && !strings.Contains(err.Error(), "failed") {
				t.Errorf("refused with %v", err)
			}
			if got := state(); got != before {
				t.Errorf("the repository changed:\n%s\nwas\n%s", got, before)
			}
			d := filepath.Join(h.Data, "boxes", w.ID, "git", "refs", "heads", w.Branch)
			_ = os.Remove(d)
			b.Sh(w, "rm -rf .parawork; git update-ref refs/heads/"+w.Branch+" origin/main; git reset -q --hard origin/main")
		})
	}
	b.Sh(w, "echo good > good; git add good; git commit -qm good")
	h.Merge(w, "merge")
}

// A stream without end is ended by the host.
func TestAnEndlessPackIsEnded(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	b.Sh(w, "echo x > x; git add x; git commit -qm x")
	sent := 0
	b.Stream = func(c executors.SandboxCommand) (func([]byte) (int, error), bool) {
		for _, a := range c.Argv {
			if a == "pack-objects" {
				return func(p []byte) (int, error) {
					for i := range p {
						p[i] = byte(i * 7)
					}
					if sent == 0 {
						copy(p, "PACK\x00\x00\x00\x02\x7f\xff\xff\xff")
					}
					sent += len(p)
					return len(p), nil
				}, true
			}
		}
		return nil, false
	}
	_, err := h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "commits_refused")
	if sent > 64<<20 {
		t.Errorf("%d MiB were taken of it", sent>>20)
	}
}

// Commits of a sandbox that died are fetched with the next one, and are not lost if there is none.
func TestNothingOfADeadSandboxIsLost(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	b.Sh(w, "echo 1 > one; git add one; git commit -qm one; echo 2 > two")
	b.Fall(w.ID)
	h.Stop()
	h.Start()
	if list, err := h.S.Ingest.Commits(context.Background(), w.ID); err != nil || len(list) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	b.Sh(w, "git add two; git commit -qm two; echo 3 > three; git branch side")
	tip := b.Sh(w, "git rev-parse HEAD")
	b.Fall(w.ID)
	b.Breaks(errors.New("no sandbox can be made"))
	if _, err := h.S.Lifecycle.Archive(context.Background(), h.Actor, w.ID); err != nil {
		t.Fatal(err)
	}
	b.Breaks(nil)
	w, err := h.S.Lifecycle.Restore(context.Background(), h.Actor, w.ID)
	wstest.Must(t, err)
	if out := b.Sh(w, "git log --format=%s -2; git status --porcelain; git rev-parse HEAD side"); out != "two\none\n?? three\n"+tip+"\n"+tip {
		t.Errorf("restored:\n%s", out)
	}
	for range 2 { // the ordinary way, twice over
		b.Sh(w, "git stash -qu 2>/dev/null || true; git stash pop -q 2>/dev/null || true; git tag -f kept -m kept HEAD")
		if _, err := h.S.Lifecycle.Delete(context.Background(), h.Actor, w.ID); err != nil {
			t.Fatal(err)
		}
		if wstest.Exists(h.Data, "boxes/"+w.ID+"/git") || wstest.Exists(h.Data, "boxes/"+w.ID+"/home") {
			t.Error("the git dir or the home is still there")
		}
		if w, err = h.S.Lifecycle.Restore(context.Background(), h.Actor, w.ID); err != nil {
			t.Fatal(err)
		}
		if out := b.Sh(w, "git status --porcelain; git rev-parse HEAD side kept^{commit}; git fsck --no-dangling"); out != "?? three\n"+tip+"\n"+tip+"\n"+tip {
			t.Errorf("restored:\n%s", out)
		}
	}
}

// A workspace moves to an executor without isolation and back, and retains its branch, what is staged, and the owner of its files.
func TestMoveBetweenExecutors(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	ctx := context.Background()
	b.Sh(w, "git switch -qc side; echo 1 > one; git add one; git commit -qm one; echo staged > s; git add s; echo more >> s; echo loose > l")
	wantState := "AM s\n?? l"
	b.Fall(w.ID)
	wstest.WantCode(t, h.S.Ingest.ReleaseSandbox(ctx, w.ID), "commits_not_synced")
	if _, _, err := h.S.Move(ctx, h.Actor, w.ID, "local", ""); err != nil {
		t.Fatal(err)
	}
	if wstest.Exists(h.Data, "boxes/"+w.ID+"/git") || os.Geteuid() == 0 && wstest.Owner(t, filepath.Join(w.Path, "one")) != 0 {
		t.Error("the sandbox's git dir is still there, or its user still has the files")
	}
	wstest.Must(t, h.S.Ingest.ReleaseSandbox(ctx, w.ID)) // nothing left to do
	if out := wstest.Git(t, w.Path, "branch", "--show-current") + "\n" + wstest.Git(t, w.Path, "status", "--porcelain") + "\n" + wstest.Git(t, w.Path, "log", "-1", "--format=%s"); out != "side\n"+wantState+"\none" {
		t.Errorf("outside:\n%s", out)
	}
	wstest.Git(t, w.Path, "commit", "-q", "-m", "two")
	wstest.Git(t, w.Path, "add", "l")
	if _, _, err := h.S.Move(ctx, h.Actor, w.ID, "bubblewrap", ""); err != nil {
		t.Fatal(err)
	}
	if out := b.Sh(w, "git branch --show-current; git status --porcelain; git log -2 --format=%s"); out != "side\nA  l\n M s\ntwo\none" {
		t.Errorf("inside again:\n%s", out)
	}
	b.Sh(w, "git commit -qam three")
	b.Sh(w, "echo again > again; git add again")
	wstest.Must(t, b.Destroy(ctx, w.ID))
	b.Sh(w, "git reset -q")
	if _, _, err := h.S.Move(ctx, h.Actor, w.ID, "local", ""); err != nil {
		t.Fatal(err)
	}
	if out := wstest.Git(t, w.Path, "status", "--porcelain"); out != "?? again" {
		t.Errorf("staged before, not any more:\n%s", out)
	}
}

// Objects that only their owner can read work in sandboxes, and stay unreadable otherwise: those a sandbox may read are packed for it.
func TestClosedRepositories(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a server that is root has users of sandboxes")
	}
	h, b := wstest.IsolatedEnv(t)
	dir := h.Repo("r")
	wstest.Git(t, dir, "gc", "-q")
	cloned, mine := h.UrlProject(dir), h.PathProject(dir)
	for _, p := range []workspaces.Project{cloned, mine} {
		for _, sub := range []string{"objects/pack", "objects"} {
			wstest.Must(t, os.Chmod(filepath.Join(p.GitDir, sub), 0o700))
		}
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
		b.Sh(w, "git log; echo x > x; git add x; git commit -qm x")
		if list, err := h.S.Ingest.Commits(context.Background(), w.ID); err != nil || len(list) != 1 {
			t.Errorf("%+v %v", list, err)
		}
		b.Sh(w, "git cat-file -p HEAD")
		if fi, err := os.Stat(filepath.Join(p.GitDir, "objects")); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("the repository's objects: %v %v", fi.Mode(), err)
		}
	}
}
