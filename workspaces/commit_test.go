package workspaces_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

func TestCommitChosenPaths(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		t.Parallel()
		dir := h.repo("app")
		write(t, dir, "gone.txt", "gone\n")
		write(t, dir, "old name.txt", strings.Repeat("line\n", 20))
		commitAll(t, dir, "more")
		w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
		write(t, w.Path, "a.txt", "changed\n")
		write(t, w.Path, "staged.txt", "staged\n")
		git(t, w.Path, "add", "staged.txt")
		write(t, w.Path, "untracked.txt", "x\n")
		must(t, os.Remove(filepath.Join(w.Path, "gone.txt")))
		must(t, os.Rename(filepath.Join(w.Path, "old name.txt"), filepath.Join(w.Path, "new name.txt")))
		weird := "we\nird\t\"\x1b[31m\xff*?[x]"
		write(t, w.Path, weird, "weird\n")
		write(t, w.Path, "-dash", "dash\n")
		write(t, w.Path, ":(glob)**", "magic\n")
		write(t, w.Path, "folder/x", "1\n")
		write(t, w.Path, "folder/y", "2\n")

		c := h.commit(w, "Chosen\n\nBody of it", "a.txt", "gone.txt", "old name.txt", "new name.txt", weird, "-dash", ":(glob)**", "folder")
		if c.Subject != "Chosen" || c.Body != "Body of it" || c.Author != h.actor.User.Name || c.Email != h.actor.User.Email || c.Files != 9 {
			t.Errorf("%+v", c)
		}
		got := git(t, w.Path, "-c", "core.quotePath=false", "show", "--format=", "--name-status", "-M", "HEAD")
		for _, want := range []string{"M\ta.txt", "D\tgone.txt", "R100\told name.txt\tnew name.txt", "A\t-dash", "A\t:(glob)**", "A\tfolder/x", "A\tfolder/y"} {
			if !strings.Contains(got, want) {
				t.Errorf("missing %q in %s", want, got)
			}
		}
		// What was staged stays staged, what was untracked stays so, the rest is clean.
		if got := git(t, w.Path, "status", "--porcelain"); got != "A  staged.txt\n?? untracked.txt" {
			t.Errorf("status %q", got)
		}
		c2 := h.commit(w, "All")
		if c2.Files != 2 || git(t, w.Path, "status", "--porcelain") != "" {
			t.Errorf("%+v", c2)
		}
		_, err := h.s.Commit(t.Context(), h.actor, w.ID, workspaces.CommitRequest{Message: "again"})
		wantCode(t, err, "nothing_to_commit")
		list, err := h.s.Commits(t.Context(), w.ID)
		if err != nil || len(list) != 2 || list[0].Commit != c2.Commit || list[1].Commit != c.Commit || list[1].Files != 9 {
			t.Errorf("%+v %v", list, err)
		}
		acts, _, err := h.s.Activity(t.Context(), w.ID, page.Page{})
		if err != nil || len(acts) != 3 || acts[0].Kind != "commit" {
			t.Errorf("%+v %v", acts, err)
		}
		if left, _ := filepath.Glob(filepath.Join(h.roots, "app/.git/worktrees/*/parawork*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		git(t, w.Path, "fsck", "--strict")
	})
}

func TestCommitThatCannotBe(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
	write(t, w.Path, "a.txt", "changed\n")
	write(t, w.Path, "ignored/x", "x")
	try := func(code, msg string, paths ...string) {
		t.Helper()
		before := git(t, w.Path, "rev-parse", "HEAD") + git(t, w.Path, "status", "--porcelain")
		_, err := h.s.Commit(t.Context(), h.actor, w.ID, workspaces.CommitRequest{Message: msg, Paths: paths})
		wantCode(t, err, code)
		if after := git(t, w.Path, "rev-parse", "HEAD") + git(t, w.Path, "status", "--porcelain"); after != before {
			t.Errorf("something changed: %s", after)
		}
	}
	try("message_missing", " \n")
	try("message_invalid", "a\x00b")
	for _, p := range []string{"", "/etc/passwd", "../x", "a/../../x", ".git/config", "x/.GIT/hooks", "a\x00b", ".."} {
		try("path_invalid", "m", p)
	}
	try("path_unknown", "m", "no such file")
	try("path_unknown", "m", "*.txt") // literal, never a pattern
	try("path_ignored", "m", "ignored/x")
	try("nothing_to_commit", "m", "dir/b.txt")
	git(t, w.Path, "switch", "-q", "-c", "elsewhere")
	try("branch_switched", "m")
	git(t, w.Path, "switch", "-q", "--detach")
	try("branch_switched", "m")
	git(t, w.Path, "switch", "-q", w.Branch)

	write(t, w.Path, "a.txt", "ours\n")
	commitAll(t, w.Path, "ours")
	git(t, w.Path, "switch", "-q", "-c", "theirs", "HEAD~1")
	write(t, w.Path, "a.txt", "theirs\n")
	commitAll(t, w.Path, "theirs")
	git(t, w.Path, "switch", "-q", w.Branch)
	if _, err := tryGit(w.Path, "merge", "theirs"); err == nil {
		t.Fatal("no conflict")
	}
	try("operation_in_progress", "m")
	git(t, w.Path, "merge", "--abort")

	_, err := h.s.Commit(t.Context(), h.actor, "ws_none", workspaces.CommitRequest{Message: "m"})
	wantCode(t, err, "not_found")
}

func TestCommitRunsNothingOfTheAgentsOnTheHost(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	mark := filepath.Join(h.data, "fired")
	hooks := filepath.Join(dir, ".git", "hooks")
	must(t, os.MkdirAll(hooks, 0o755))
	for _, hk := range []string{"pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-index-change", "post-checkout", "post-merge"} {
		must(t, os.WriteFile(filepath.Join(hooks, hk), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755))
	}
	git(t, dir, "config", "core.fsmonitor", "touch "+mark)
	git(t, dir, "config", "merge.evil.driver", "touch "+mark)
	git(t, dir, "config", "diff.evil.textconv", "touch "+mark)
	git(t, dir, "config", "diff.external", "touch "+mark)
	git(t, dir, "config", "gpg.program", "touch "+mark)
	git(t, dir, "config", "commit.gpgSign", "true")
	git(t, dir, "config", "log.showSignature", "true")
	must(t, os.MkdirAll(filepath.Join(dir, ".git", "info"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, ".git", "info", "attributes"), []byte("* merge=evil diff=evil\n"), 0o644))
	must(t, os.RemoveAll(mark))
	write(t, w.Path, "a.txt", "one\nworkspace\nthree\n")
	h.commit(w, "theirs")
	write(t, dir, "dir/b.txt", "base\n")
	git(t, dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "commit", "-q", "-am", "base")
	must(t, os.RemoveAll(mark)) // whatever that fired is not ours
	if r := h.merge(w, "merge"); !r.Merged {
		t.Fatalf("%+v", r)
	}
	write(t, w.Path, "a.txt", "one\nmore\nthree\n")
	h.commit(w, "more")
	h.merge(w, "rebase")
	w2 := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	_, err := h.s.Commits(t.Context(), w.ID)
	must(t, err)
	_, err = h.s.Loss(t.Context(), w2.ID)
	must(t, err)
	_, err = h.s.Delete(t.Context(), h.actor, w2.ID)
	must(t, err)
	_, err = h.s.Restore(t.Context(), h.actor, w2.ID)
	must(t, err)
	if exists(h.data, "fired") {
		t.Error("something of the repository's was run")
	}
}

// A crash between any two steps of a commit leaves an index from which the next commit of an agent does not take the work back:
// before the branch moves, the agent's index knows what will be committed.
func TestCommitTellsTheIndexFirst(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string][]string{"all": nil, "chosen": {"a.txt", "gone.txt", "new.txt"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := sqliteHouse(t)
			dir := h.repo("app")
			write(t, dir, "gone.txt", "gone\n")
			commitAll(t, dir, "more")
			w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
			write(t, w.Path, "a.txt", "changed\n")
			write(t, w.Path, "new.txt", "new\n")
			must(t, os.Remove(filepath.Join(w.Path, "gone.txt")))
			moves := 0
			h.box.onRun = func(argv []string) {
				if i := slices.Index(argv, "update-ref"); i > 0 {
					moves++
					if got := git(t, w.Path, "diff-index", "--cached", "--name-status", argv[len(argv)-2]); got != "" {
						t.Errorf("the index lags behind the commit:\n%s", got)
					}
				}
			}
			h.commit(w, "Work", paths...)
			if got := git(t, w.Path, "status", "--porcelain"); moves != 1 || got != "" {
				t.Errorf("%d moves, status %q", moves, got)
			}

			// A branch that moves in between keeps its commit, and the index is the agent's again.
			write(t, w.Path, "a.txt", "changed again\n")
			h.box.onRun = func(argv []string) {
				if slices.Contains(argv, "update-ref") {
					h.box.onRun = nil
					git(t, w.Path, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "--allow-empty", "-m", "the agent's")
				}
			}
			_, err := h.s.Commit(t.Context(), h.actor, w.ID, workspaces.CommitRequest{Message: "lost", Paths: []string{"a.txt"}})
			wantCode(t, err, "branch_moved")
			if got := git(t, w.Path, "diff", "--cached", "--name-status"); got != "" {
				t.Errorf("the index is not what the branch holds: %q", got)
			}
		})
	}
}
