package stage_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/stage"
)

func TestCommitChosenPaths(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		t.Parallel()
		dir := h.Repo("app")
		wstest.Write(t, dir, "gone.txt", "gone\n")
		wstest.Write(t, dir, "old name.txt", strings.Repeat("line\n", 20))
		wstest.CommitAll(t, dir, "more")
		w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
		wstest.Write(t, w.Path, "a.txt", "changed\n")
		wstest.Write(t, w.Path, "staged.txt", "staged\n")
		wstest.Git(t, w.Path, "add", "staged.txt")
		wstest.Write(t, w.Path, "untracked.txt", "x\n")
		wstest.Must(t, os.Remove(filepath.Join(w.Path, "gone.txt")))
		wstest.Must(t, os.Rename(filepath.Join(w.Path, "old name.txt"), filepath.Join(w.Path, "new name.txt")))
		weird := "we\nird\t\"\x1b[31m\xff*?[x]"
		wstest.Write(t, w.Path, weird, "weird\n")
		wstest.Write(t, w.Path, "-dash", "dash\n")
		wstest.Write(t, w.Path, ":(glob)**", "magic\n")
		wstest.Write(t, w.Path, "folder/x", "1\n")
		wstest.Write(t, w.Path, "folder/y", "2\n")

		c := h.Commit(w, "Chosen\n\nBody of it", "a.txt", "gone.txt", "old name.txt", "new name.txt", weird, "-dash", ":(glob)**", "folder")
		if c.Subject != "Chosen" || c.Body != "Body of it" || c.Author != h.Actor.User.Name || c.Email != h.Actor.User.Email || c.Files != 9 {
			t.Errorf("%+v", c)
		}
		got := wstest.Git(t, w.Path, "-c", "core.quotePath=false", "show", "--format=", "--name-status", "-M", "HEAD")
		for _, want := range []string{"M\ta.txt", "D\tgone.txt", "R100\told name.txt\tnew name.txt", "A\t-dash", "A\t:(glob)**", "A\tfolder/x", "A\tfolder/y"} {
			if !strings.Contains(got, want) {
				t.Errorf("missing %q in %s", want, got)
			}
		}
		// What was staged stays staged, what was untracked stays so, the rest is clean.
		if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "A  staged.txt\n?? untracked.txt" {
			t.Errorf("status %q", got)
		}
		c2 := h.Commit(w, "All")
		if c2.Files != 2 || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
			t.Errorf("%+v", c2)
		}
		_, err := h.S.Stage.Commit(t.Context(), h.Actor, w.ID, stage.CommitRequest{Message: "again"})
		wstest.WantCode(t, err, "nothing_to_commit")
		list, err := h.S.Ingest.Commits(t.Context(), w.ID)
		if err != nil || len(list) != 2 || list[0].Commit != c2.Commit || list[1].Commit != c.Commit || list[1].Files != 9 {
			t.Errorf("%+v %v", list, err)
		}
		acts, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{})
		if err != nil || len(acts) != 3 || acts[0].Kind != "commit" {
			t.Errorf("%+v %v", acts, err)
		}
		if left, _ := filepath.Glob(filepath.Join(h.Roots, "app/.git/worktrees/*/parawork*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		wstest.Git(t, w.Path, "fsck", "--strict")
	})
}

func TestImpossibleCommit(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	wstest.Write(t, w.Path, "a.txt", "changed\n")
	wstest.Write(t, w.Path, "ignored/x", "x")
	try := func(code, msg string, paths ...string) {
		t.Helper()
		before := wstest.Git(t, w.Path, "rev-parse", "HEAD") + wstest.Git(t, w.Path, "status", "--porcelain")
		_, err := h.S.Stage.Commit(t.Context(), h.Actor, w.ID, stage.CommitRequest{Message: msg, Paths: paths})
		wstest.WantCode(t, err, code)
		if after := wstest.Git(t, w.Path, "rev-parse", "HEAD") + wstest.Git(t, w.Path, "status", "--porcelain"); after != before {
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
	wstest.Git(t, w.Path, "switch", "-q", "-c", "elsewhere")
	try("branch_switched", "m")
	wstest.Git(t, w.Path, "switch", "-q", "--detach")
	try("branch_switched", "m")
	wstest.Git(t, w.Path, "switch", "-q", w.Branch)

	wstest.Write(t, w.Path, "a.txt", "ours\n")
	wstest.CommitAll(t, w.Path, "ours")
	wstest.Git(t, w.Path, "switch", "-q", "-c", "theirs", "HEAD~1")
	wstest.Write(t, w.Path, "a.txt", "theirs\n")
	wstest.CommitAll(t, w.Path, "theirs")
	wstest.Git(t, w.Path, "switch", "-q", w.Branch)
	if _, err := wstest.TryGit(w.Path, "merge", "theirs"); err == nil {
		t.Fatal("no conflict")
	}
	try("operation_in_progress", "m")
	wstest.Git(t, w.Path, "merge", "--abort")

	_, err := h.S.Stage.Commit(t.Context(), h.Actor, "ws_none", stage.CommitRequest{Message: "m"})
	wstest.WantCode(t, err, "not_found")
}

func TestCommitRunsNothingOfTheAgentsOnTheHost(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	mark := filepath.Join(h.Data, "fired")
	hooks := filepath.Join(dir, ".git", "hooks")
	wstest.Must(t, os.MkdirAll(hooks, 0o755))
	for _, hk := range []string{"pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-index-change", "post-checkout", "post-merge"} {
		wstest.Must(t, os.WriteFile(filepath.Join(hooks, hk), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755))
	}
	wstest.Git(t, dir, "config", "core.fsmonitor", "touch "+mark)
	wstest.Git(t, dir, "config", "merge.evil.driver", "touch "+mark)
	wstest.Git(t, dir, "config", "diff.evil.textconv", "touch "+mark)
	wstest.Git(t, dir, "config", "diff.external", "touch "+mark)
	wstest.Git(t, dir, "config", "gpg.program", "touch "+mark)
	wstest.Git(t, dir, "config", "commit.gpgSign", "true")
	wstest.Git(t, dir, "config", "log.showSignature", "true")
	wstest.Must(t, os.MkdirAll(filepath.Join(dir, ".git", "info"), 0o755))
	wstest.Must(t, os.WriteFile(filepath.Join(dir, ".git", "info", "attributes"), []byte("* merge=evil diff=evil\n"), 0o644))
	wstest.Must(t, os.RemoveAll(mark))
	wstest.Write(t, w.Path, "a.txt", "one\nworkspace\nthree\n")
	h.Commit(w, "theirs")
	wstest.Write(t, dir, "dir/b.txt", "base\n")
	wstest.Git(t, dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "commit", "-q", "-am", "base")
	wstest.Must(t, os.RemoveAll(mark)) // whatever that fired is not ours
	if r := h.Merge(w, "merge"); !r.Merged {
		t.Fatalf("%+v", r)
	}
	wstest.Write(t, w.Path, "a.txt", "one\nmore\nthree\n")
	h.Commit(w, "more")
	h.Merge(w, "rebase")
	w2 := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	_, err := h.S.Ingest.Commits(t.Context(), w.ID)
	wstest.Must(t, err)
	_, err = h.S.Lifecycle.Loss(t.Context(), w2.ID)
	wstest.Must(t, err)
	_, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w2.ID)
	wstest.Must(t, err)
	_, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w2.ID)
	wstest.Must(t, err)
	if wstest.Exists(h.Data, "fired") {
		t.Error("something of the repository's was run")
	}
}

// After a crash between any two steps of a commit, the agent's next commit does not revert the work: before the branch moves, the agent's
// index has what will be committed.
func TestCommitUpdatesTheIndexFirst(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string][]string{"all": nil, "chosen": {"a.txt", "gone.txt", "new.txt"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := wstest.SQLiteEnv(t)
			dir := h.Repo("app")
			wstest.Write(t, dir, "gone.txt", "gone\n")
			wstest.CommitAll(t, dir, "more")
			w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
			wstest.Write(t, w.Path, "a.txt", "changed\n")
			wstest.Write(t, w.Path, "new.txt", "new\n")
			wstest.Must(t, os.Remove(filepath.Join(w.Path, "gone.txt")))
			moves := 0
			h.Sandboxes.OnRun = func(argv []string) {
				if i := slices.Index(argv, "update-ref"); i > 0 {
					moves++
					if got := wstest.Git(t, w.Path, "diff-index", "--cached", "--name-status", argv[len(argv)-2]); got != "" {
						t.Errorf("the index lags behind the commit:\n%s", got)
					}
				}
			}
			h.Commit(w, "Work", paths...)
			if got := wstest.Git(t, w.Path, "status", "--porcelain"); moves != 1 || got != "" {
				t.Errorf("%d moves, status %q", moves, got)
			}

			// A branch that moves in between keeps its commit, and the index is restored for the agent.
			wstest.Write(t, w.Path, "a.txt", "changed again\n")
			h.Sandboxes.OnRun = func(argv []string) {
				if slices.Contains(argv, "update-ref") {
					h.Sandboxes.OnRun = nil
					wstest.Git(t, w.Path, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "--allow-empty", "-m", "the agent's")
				}
			}
			_, err := h.S.Stage.Commit(t.Context(), h.Actor, w.ID, stage.CommitRequest{Message: "lost", Paths: []string{"a.txt"}})
			wstest.WantCode(t, err, "branch_moved")
			if got := wstest.Git(t, w.Path, "diff", "--cached", "--name-status"); got != "" {
				t.Errorf("the index is not what the branch holds: %q", got)
			}
		})
	}
}
