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

	"github.com/parawork/parawork/workspaces"
)

// attack is one way in which git can be made to run a program, planted by an agent in its box.
type attack struct {
	name  string
	plant string // in the box; $EVIL is the program
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

// However an agent sets git up in its box, the host never runs what it wrote: not while it looks, commits, merges, keeps, brings
// back, with a sandbox and without one.
func noAttackRuns(t *testing.T, calls *hostCalls) {
	h, b := walledHouse(t, calls.hear)
	dir := h.repo("r")
	p := h.pathProject(dir)
	write(t, dir, "own.txt", "the base's own\n") // where each workspace has another
	commitAll(t, dir, "on")
	for i, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: fmt.Sprintf("attack %d", i)})
			marker := filepath.Join(t.TempDir(), "ran") // a folder no box shows: only the host can write there
			evil := filepath.Join(w.Path, ".evil")
			b.sh(w, fmt.Sprintf("printf '#!/bin/sh\\necho ran >> %s 2>/dev/null\\nexit 0\\n' > .evil; chmod 755 .evil; git reset -q --hard HEAD~1; echo own > own.txt; git add own.txt; git commit -qm own; echo more >> a.txt", marker))
			b.sh(w, fmt.Sprintf("EVIL=%s; G=$(git rev-parse --absolute-git-dir); %s", evil, a.plant))
			ctx := context.Background()
			run := func(what string, fn func() error) {
				t.Helper()
				if err := fn(); err != nil {
					t.Logf("%s: %v", what, err) // refusing is fine, running is not
				}
				if _, err := os.Stat(marker); err == nil {
					t.Fatalf("%s: the host ran what the agent wrote", what)
				}
			}
			run("loss", func() error { _, err := h.s.Loss(ctx, w.ID); return err })
			run("commits", func() error { _, err := h.s.Commits(ctx, w.ID); return err })
			run("base", func() error { _, err := h.s.BaseCommit(ctx, w.ID); return err })
			run("commit", func() error {
				_, err := h.s.Commit(ctx, h.actor, w.ID, workspaces.CommitRequest{Message: "m", Paths: []string{"a.txt"}})
				return err
			})
			for _, s := range []string{"merge", "squash", "rebase"} {
				run("dry "+s, func() error {
					_, err := h.s.Merge(ctx, h.actor, w.ID, workspaces.MergeRequest{Strategy: s, DryRun: true})
					return err
				})
			}
			run("dry update", func() error {
				_, err := h.s.Update(ctx, h.actor, w.ID, workspaces.UpdateRequest{Strategy: "merge", DryRun: true})
				return err
			})
			run("standing", func() error { _, _, err := h.s.Standing(ctx, w.ID, false); return err })
			run("snapshot", func() error {
				_, err := h.s.Keep(ctx, w.ID, workspaces.KeepFor{Reason: "update"})
				return err
			})
			if i%4 == 0 { // they take their time
				run("restoring a snapshot", func() error {
					sn, err := h.s.Keep(ctx, w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual, Title: "kept"})
					if err == nil {
						b.sh(w, "echo worse >> a.txt")
						_, err = h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{EvenWhileWorking: true})
					}
					return err
				})
				run("resolving", func() error { _, err := h.s.BeginResolve(ctx, h.actor, w.ID, "merge"); return err })
				run("giving it up", func() error { return h.s.AbortResolve(ctx, h.actor, w.ID) })
			}
			run("branches", func() error { _, err := h.s.Branches(ctx, p.ID, true); return err })
			run("archive", func() error { _, err := h.s.Archive(ctx, h.actor, w.ID); return err })
			run("restore", func() error { _, err := h.s.Restore(ctx, h.actor, w.ID); return err })
			run("planting again", func() error {
				_, err := b.try(w, fmt.Sprintf("EVIL=%s; G=$(git rev-parse --absolute-git-dir); echo again >> a.txt; %s", evil, a.plant))
				return err
			})

			if git := filepath.Join(h.data, "boxes", w.ID, "git"); a.fires != "" && exists(git, "HEAD") {
				// That it would run otherwise: the same call with the agent's git dir.
				out, err := tryGit(w.Path, append([]string{"--git-dir=" + git, "--work-tree=" + w.Path}, strings.Fields(a.fires)...)...)
				if _, serr := os.Stat(marker); serr != nil {
					t.Errorf("git %s with the agent's git dir does not run it: the attack is none: %v %s", a.fires, err, out)
				}
				_ = os.Remove(marker)
			}
			b.fallFor(w.ID, errors.New("the sandbox is broken"))
			run("delete without a sandbox", func() error { _, err := h.s.Delete(ctx, h.actor, w.ID); return err })
			b.fallFor(w.ID, nil)
			run("restore again", func() error { _, err := h.s.Restore(ctx, h.actor, w.ID); return err })
			run("at home again", func() error { _, err := h.s.Commits(ctx, w.ID); return err })
			if out, err := tryGit(p.GitDir, "config", "--get-regexp", "evil|fsmonitor|hookspath|insteadof"); err == nil {
				t.Errorf("the repository's config: %s", out)
			}
		})
	}
}

// A FIFO where git reads patterns makes git wait for ever: the calls end in time, and others go on meanwhile.
func TestAFIFOStallsNobody(t *testing.T) {
	t.Parallel()
	h, b := walledHouse(t, func(c *workspaces.Config) { c.BoxTimeout, c.GitTimeout = 5*time.Second, 5*time.Second })
	p := h.pathProject(h.repo("r"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	other := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "other"})
	b.sh(w, "rm .gitignore; mkfifo .gitignore; mkdir d; mkfifo d/.gitattributes d/.gitignore")
	began := time.Now()
	_, err := h.s.Loss(context.Background(), w.ID)
	wantCode(t, err, "worktree_timeout")
	_, err = h.s.Archive(context.Background(), h.actor, w.ID)
	wantCode(t, err, "worktree_timeout")
	b.breaks(errors.New("no sandbox"))
	if _, err = h.s.Archive(context.Background(), h.actor, w.ID); err == nil {
		t.Error("archived what could not be read")
	}
	b.breaks(nil)
	if d := time.Since(began); d > 2*time.Minute {
		t.Errorf("it took %s", d)
	}
	b.sh(other, "echo x > x")
	h.commit(other, "others go on")
	if !exists(w.Path, "a.txt") {
		t.Error("files are gone")
	}
}

// A file with a name elsewhere is not given away with a worktree.
func TestHardLinksAreNotGivenAway(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	h, b := walledHouse(t)
	p := h.pathProject(h.repo("r"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	b.sh(w, "git status")
	must(t, b.Destroy(context.Background(), w.ID))
	must(t, h.s.Unbox(context.Background(), w.ID))
	outside := filepath.Join(h.data, "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o600))
	must(t, os.Link(outside, filepath.Join(w.Path, "linked")))
	write(t, w.Path, "one", "1")
	must(t, os.Link(filepath.Join(w.Path, "one"), filepath.Join(w.Path, "two")))
	must(t, os.Symlink(outside, filepath.Join(w.Path, "link")))
	b.sh(w, "echo mine > linked; echo 2 >> two; test $(stat -c %h one) = 2")
	if got := read(t, h.data, "secret"); got != "secret" {
		t.Errorf("a file outside was written: %q", got)
	}
	if uid := owner(t, outside); uid != 0 {
		t.Errorf("a file outside belongs to %d", uid)
	}
	if a, z := owner(t, filepath.Join(w.Path, "one")), owner(t, filepath.Join(w.Path, "two")); a != z || a == 0 || read(t, w.Path, "one") != "12\n" {
		t.Errorf("one is %d's, two %d's: %q", a, z, read(t, w.Path, "one"))
	}
}
