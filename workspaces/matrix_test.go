package workspaces_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// attack is one way to make git run a program, planted by an agent in its sandbox.
type attack struct {
	name  string
	plant string // in the sandbox; $EVIL is the program
	fires string // a git call on the host that would run it, were it made with what the agent wrote; "" = none that is plain
}

// attacks are all we know of: what git runs by config, attributes, hooks, nested repositories and links.
var attacks = []attack{
	{"core.fsmonitor", `git config core.fsmonitor $EVIL`, "status"},
	{"hooks", `mkdir -p $G/hooks; for h in post-index-change pre-commit post-commit reference-transaction post-checkout pre-auto-gc post-merge post-rewrite pre-merge-commit commit-msg prepare-commit-msg pre-push pre-rebase
		do cp $EVIL $G/hooks/$h; done`, "update-ref refs/heads/probe HEAD"},
	{"core.hooksPath", `mkdir -p .h; cp $EVIL .h/reference-transaction; cp $EVIL .h/post-index-change; git config core.hooksPath $PWD/.h`, "update-ref refs/heads/probe HEAD"},
	{"hooks in config", `for e in reference-transaction post-checkout post-index-change pre-commit post-commit; do git config --add hook.evil.event $e; done; git config hook.evil.command $EVIL`, ""},
	{"filter clean", `git config filter.evil.clean "$EVIL; cat"; echo '* filter=evil' > .gitattributes; touch a.txt`, "add -A"},
	{"filter process", `git config filter.evil.process $EVIL; echo '* filter=evil' >> $G/info/attributes; touch a.txt`, "add -A"},
	{"filter smudge", `git config filter.evil.smudge "$EVIL; cat"; echo '* filter=evil' > .gitattributes`, "checkout-index -f a.txt"},
	{"diff.external", `git config diff.external $EVIL`, "diff"},
	{"diff command", `git config diff.evil.command $EVIL; echo '* diff=evil' > .gitattributes`, "diff"},
	{"textconv", `git config diff.evil.textconv $EVIL; echo '* diff=evil' > .gitattributes`, "diff"},
	{"merge driver", `git config merge.evil.driver "$EVIL; true"; echo '* merge=evil' > .gitattributes`, ""},
	{"gpg", `git config gpg.program $EVIL; git config commit.gpgSign true; git config log.showSignature true`, ""},
	{"pager and editor", `git config core.pager $EVIL; git config core.editor $EVIL; git config sequence.editor $EVIL; git config interactive.diffFilter $EVIL; git config core.askPass $EVIL`, ""},
	{"ssh and remotes", `git config core.sshCommand $EVIL; git config remote.origin.url ssh://nowhere/x; git config remote.origin.uploadpack $EVIL; git config protocol.ext.allow always; git config remote.evil.url "ext::$EVIL"; git config credential.helper "!$EVIL"`, ""},
	{"insteadOf", `git config url.ext::$EVIL.insteadOf https://; git config http.proxy http://127.0.0.1:1`, ""},
	{"promisor", `git config extensions.partialClone evil; git config remote.evil.promisor true; git config remote.evil.url "ext::$EVIL"; git config protocol.ext.allow always`, ""},
	{"alternateRefsCommand", `git config core.alternateRefsCommand $EVIL; git config gc.recentObjectsHook $EVIL; git config uploadpack.packObjectsHook $EVIL`, ""},
	{"tar and aliases", `git config tar.evil.command $EVIL; git config alias.status "!$EVIL"; git config alias.pack-objects "!$EVIL"; git config trailer.evil.command $EVIL`, ""},
	{"include", `printf '[core]\n\tfsmonitor = %s\n' $EVIL > .inc; git config include.path $PWD/.inc`, "status"},
	{"commondir", `mkdir -p .common; cp -r $G/. .common/ 2>/dev/null; git config -f .common/config core.fsmonitor $EVIL; echo $PWD/.common > $G/commondir`, ""},
	{"core.worktree", `git config core.worktree /etc`, ""},
	{"alternates", `echo /root/.git/objects >> $G/objects/info/alternates`, ""},
	{"replaced objects", `git replace HEAD $(git commit-tree -m lie HEAD^{tree})`, ""},
	{"nested repository", `mkdir -p nested; cd nested; git init -q; git commit -q --allow-empty -m n; git config core.fsmonitor $EVIL; git config filter.evil.clean "$EVIL; cat"; echo '* filter=evil' > .gitattributes
		echo x > x; cp $EVIL .git/hooks/post-index-change; cd ..; git update-index --add --cacheinfo 160000,$(git -C nested rev-parse HEAD),nested`, "status"},
	{"submodule", `printf '[submodule "s"]\n\tpath = s\n\turl = ext::%s\n\tupdate = !%s\n' $EVIL $EVIL > .git-modules; git config -f $G/config submodule.s.update "!$EVIL"; git config submodule.recurse true; git config submodule.s.url "ext::$EVIL"`, ""},
	{"rebase todo", `mkdir -p $G/rebase-merge; echo "exec $EVIL" > $G/rebase-merge/git-rebase-todo; rm -r $G/rebase-merge`, ""},
	{"links to the host", `ln -s /etc/passwd link; ln -s / root; ln -s ../../../../etc up; ln -s $G gitlink`, ""},
	{"a .git that is a folder below", `mkdir -p deep/er/.git; printf 'ref: refs/heads/x\n' > deep/er/.git/HEAD; printf '[core]\n\tfsmonitor = %s\n\trepositoryformatversion = 0\n' $EVIL > deep/er/.git/config; mkdir deep/er/.git/objects deep/er/.git/refs`, ""},
}

// However an agent configures git in its sandbox, the host never runs what it wrote: not while it looks, commits, merges, snapshots or
// restores, with a sandbox and without one.
func noAttackRuns(t *testing.T, calls *hostCalls) {
	h, b := wstest.IsolatedEnv(t, calls.hear)
	dir := h.Repo("r")
	p := h.PathProject(dir)
	wstest.Write(t, dir, "own.txt", "the base's own\n") // where each workspace has another
	wstest.CommitAll(t, dir, "on")
	for i, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: fmt.Sprintf("attack %d", i)})
			marker := filepath.Join(t.TempDir(), "ran") // a folder no sandbox sees: only the host can write there
			evil := filepath.Join(w.Path, ".evil")
			b.Sh(w, fmt.Sprintf("printf '#!/bin/sh\\necho ran >> %s 2>/dev/null\\nexit 0\\n' > .evil; chmod 755 .evil; git reset -q --hard HEAD~1; echo own > own.txt; git add own.txt; git commit -qm own; echo more >> a.txt", marker))
			b.Sh(w, fmt.Sprintf("EVIL=%s; G=$(git rev-parse --absolute-git-dir); %s", evil, a.plant))
			ctx := context.Background()
			run := func(what string, fn func() error) {
				t.Helper()
				if err := fn(); err != nil {
					t.Logf("%s: %v", what, err) // an error is fine, running is not
				}
				if _, err := os.Stat(marker); err == nil {
					t.Fatalf("%s: the host ran what the agent wrote", what)
				}
			}
			run("loss", func() error { _, err := h.S.Lifecycle.Loss(ctx, w.ID); return err })
			run("commits", func() error { _, err := h.S.Ingest.Commits(ctx, w.ID); return err })
			run("base", func() error { _, err := h.S.Repo.BaseCommit(ctx, w.ID); return err })
			run("commit", func() error {
				_, err := h.S.Stage.Commit(ctx, h.Actor, w.ID, stage.CommitRequest{Message: "m", Paths: []string{"a.txt"}})
				return err
			})
			for _, s := range []string{"merge", "squash", "rebase"} {
				run("dry "+s, func() error {
					_, err := h.S.Merging.Merge(ctx, h.Actor, w.ID, workspaces.MergeRequest{Strategy: s, DryRun: true})
					return err
				})
			}
			run("dry update", func() error {
				_, err := h.S.Merging.Update(ctx, h.Actor, w.ID, workspaces.UpdateRequest{Strategy: "merge", DryRun: true})
				return err
			})
			run("standing", func() error { _, _, err := h.S.Merging.Status(ctx, w.ID, false); return err })
			run("snapshot", func() error {
				_, err := h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "update"})
				return err
			})
			if i%4 == 0 { // they take their time
				run("restoring a snapshot", func() error {
					sn, err := h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: "kept"})
					if err == nil {
						b.Sh(w, "echo worse >> a.txt")
						_, err = h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{EvenWhileWorking: true})
					}
					return err
				})
				run("resolving", func() error { _, err := h.S.Conflicts.BeginResolve(ctx, h.Actor, w.ID, "merge"); return err })
				run("giving it up", func() error { return h.S.Conflicts.AbortResolve(ctx, h.Actor, w.ID) })
			}
			run("branches", func() error { _, err := h.S.Ingest.Branches(ctx, p.ID, true); return err })
			run("archive", func() error { _, err := h.S.Lifecycle.Archive(ctx, h.Actor, w.ID); return err })
			run("restore", func() error { _, err := h.S.Lifecycle.Restore(ctx, h.Actor, w.ID); return err })
			run("planting again", func() error {
				_, err := b.Try(w, fmt.Sprintf("EVIL=%s; G=$(git rev-parse --absolute-git-dir); echo again >> a.txt; %s", evil, a.plant))
				return err
			})

			if git := filepath.Join(h.Data, "boxes", w.ID, "git"); a.fires != "" && wstest.Exists(git, "HEAD") {
				// The attack works: the same call with the agent's git dir runs it.
				out, err := wstest.TryGit(w.Path, append([]string{"--git-dir=" + git, "--work-tree=" + w.Path}, strings.Fields(a.fires)...)...)
				if _, serr := os.Stat(marker); serr != nil {
					t.Errorf("git %s with the agent's git dir does not run it: the attack is none: %v %s", a.fires, err, out)
				}
				_ = os.Remove(marker)
			}
			b.FallFor(w.ID, errors.New("the sandbox is broken"))
			run("delete without a sandbox", func() error { _, err := h.S.Lifecycle.Delete(ctx, h.Actor, w.ID); return err })
			b.FallFor(w.ID, nil)
			run("restore again", func() error { _, err := h.S.Lifecycle.Restore(ctx, h.Actor, w.ID); return err })
			run("at home again", func() error { _, err := h.S.Ingest.Commits(ctx, w.ID); return err })
			if out, err := wstest.TryGit(p.GitDir, "config", "--get-regexp", "evil|fsmonitor|hookspath|insteadof"); err == nil {
				t.Errorf("the repository's config: %s", out)
			}
		})
	}
}

// A FIFO where git reads patterns blocks git forever: the calls end in time, and others continue meanwhile.
func TestFIFODoesNotBlock(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t, func(c *assembly.Config) { c.SandboxTimeout, c.GitTimeout = 5*time.Second, 5*time.Second })
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	other := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "other"})
	b.Sh(w, "rm .gitignore; mkfifo .gitignore; mkdir d; mkfifo d/.gitattributes d/.gitignore")
	began := time.Now()
	_, err := h.S.Lifecycle.Loss(context.Background(), w.ID)
	wstest.WantCode(t, err, "worktree_timeout")
	_, err = h.S.Lifecycle.Archive(context.Background(), h.Actor, w.ID)
	wstest.WantCode(t, err, "worktree_timeout")
	b.Breaks(errors.New("no sandbox"))
	if _, err = h.S.Lifecycle.Archive(context.Background(), h.Actor, w.ID); err == nil {
		t.Error("archived what could not be read")
	}
	b.Breaks(nil)
	if d := time.Since(began); d > 2*time.Minute {
		t.Errorf("it took %s", d)
	}
	b.Sh(other, "echo x > x")
	h.Commit(other, "others go on")
	if !wstest.Exists(w.Path, "a.txt") {
		t.Error("files are gone")
	}
}

// A file with a hard link elsewhere is not given away with a worktree.
func TestHardLinksAreNotGivenAway(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	b.Sh(w, "git status")
	wstest.Must(t, b.Destroy(context.Background(), w.ID))
	wstest.Must(t, h.S.Ingest.ReleaseSandbox(context.Background(), w.ID))
	outside := filepath.Join(h.Data, "secret")
	wstest.Must(t, os.WriteFile(outside, []byte("secret"), 0o600))
	wstest.Must(t, os.Link(outside, filepath.Join(w.Path, "linked")))
	wstest.Write(t, w.Path, "one", "1")
	wstest.Must(t, os.Link(filepath.Join(w.Path, "one"), filepath.Join(w.Path, "two")))
	wstest.Must(t, os.Symlink(outside, filepath.Join(w.Path, "link")))
	b.Sh(w, "echo mine > linked; echo 2 >> two; test $(stat -c %h one) = 2")
	if got := wstest.Read(t, h.Data, "secret"); got != "secret" {
		t.Errorf("a file outside was written: %q", got)
	}
	if uid := wstest.Owner(t, outside); uid != 0 {
		t.Errorf("a file outside belongs to %d", uid)
	}
	if a, z := wstest.Owner(t, filepath.Join(w.Path, "one")), wstest.Owner(t, filepath.Join(w.Path, "two")); a != z || a == 0 || wstest.Read(t, w.Path, "one") != "12\n" {
		t.Errorf("one is %d's, two %d's: %q", a, z, wstest.Read(t, w.Path, "one"))
	}
}
