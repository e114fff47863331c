package merge_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

func update(h *wstest.Env, w workspaces.Workspace, strategy string, dry bool) workspaces.UpdateResult {
	h.T.Helper()
	r, err := h.S.Merging.Update(h.T.Context(), h.Actor, w.ID, workspaces.UpdateRequest{Strategy: strategy, DryRun: dry})
	wstest.Must(h.T, err)
	return r
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "rebase"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			h := wstest.SQLiteEnv(t)
			dir := h.Repo("app")
			p := h.PathProject(dir)
			w := wstest.Parted(t, h, dir, p)
			base := wstest.Git(t, dir, "rev-parse", "main")
			// Uncommitted work of every kind, none of it where the base changed something.
			wstest.Write(t, w.Path, "dir/b.txt", "staged\n")
			wstest.Git(t, w.Path, "add", "dir/b.txt")
			wstest.Write(t, w.Path, "a.txt", "one\ntwo\nthree\nfour\nfive\n")
			wstest.Write(t, w.Path, "untracked", "keep me")
			wstest.Write(t, w.Path, "ignored/x", "keep me, too")
			before, head := wstest.Git(t, w.Path, "status", "--porcelain"), wstest.Git(t, w.Path, "rev-parse", "HEAD")
			dry := update(h, w, strategy, true)
			if dry.Updated || dry.Commits != 1 || len(dry.Files) != 1 || dry.Files[0] != (workspaces.FileStatus{Path: "base.txt", Status: "added"}) || len(dry.Dirty)+len(dry.Conflicts)+len(dry.Carried) != 0 {
				t.Fatalf("%+v", dry)
			}
			if wstest.Git(t, w.Path, "status", "--porcelain") != before || wstest.Git(t, w.Path, "rev-parse", "HEAD") != head {
				t.Error("looking changed something")
			}
			_, err := h.S.Merging.Update(t.Context(), h.Actor, w.ID, workspaces.UpdateRequest{Strategy: strategy, ExpectedBase: head})
			wstest.WantCode(t, err, "base_moved")
			r := update(h, w, strategy, false)
			if !r.Updated || r.BaseCommit != base || r.Head != head || wstest.Git(t, w.Path, "rev-parse", "HEAD") != r.Commit || wstest.Git(t, w.Path, "symbolic-ref", "--short", "HEAD") != w.Branch {
				t.Fatalf("%+v", r)
			}
			if wstest.Git(t, w.Path, "status", "--porcelain") != before || wstest.Read(t, w.Path, "base.txt") != "base\n" || wstest.Read(t, w.Path, "ignored/x") != "keep me, too" {
				t.Errorf("status was %q, is %q", before, wstest.Git(t, w.Path, "status", "--porcelain"))
			}
			if strategy == "merge" {
				if wstest.Git(t, w.Path, "log", "-1", "--format=%P %an") != head+" "+base+" "+h.Actor.User.Name {
					t.Error("not a merge of both by who asked")
				}
			} else if wstest.Git(t, w.Path, "log", "--format=%s %an", base+"..HEAD") != "Add new "+h.Actor.User.Name+"\nAdd four "+h.Actor.User.Name {
				t.Errorf("commits %q", wstest.Git(t, w.Path, "log", "--format=%s %an", base+"..HEAD"))
			}
			now, err := h.S.Records.Workspace(t.Context(), w.ID)
			if err != nil || now.BaseCommit != base {
				t.Errorf("counted from %s, %v", now.BaseCommit, err)
			}
			if r = update(h, w, strategy, false); !r.UpToDate || r.Updated {
				t.Errorf("again: %+v", r)
			}
			wstest.Git(t, dir, "fsck", "--strict")
		})
	}
}

// What was squashed into the base before is not in conflict with itself.
func TestUpdateAfterASquash(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "rebase"} {
		h := wstest.SQLiteEnv(t)
		dir := h.Repo("app")
		w := wstest.Parted(t, h, dir, h.PathProject(dir))
		h.Merge(w, "squash")
		wstest.Write(t, w.Path, "a.txt", "one\ntwo\nthree\nFOUR\n")
		h.Commit(w, "Shout")
		if r := update(h, w, strategy, false); !r.Updated || len(r.Conflicts) != 0 {
			t.Fatalf("%s: %+v", strategy, r)
		}
		if wstest.Read(t, w.Path, "a.txt") != "one\ntwo\nthree\nFOUR\n" || wstest.Git(t, w.Path, "diff", "--name-only", "main...HEAD") != "a.txt" {
			t.Errorf("%s: the branch differs in %q", strategy, wstest.Git(t, w.Path, "diff", "--name-only", "main...HEAD"))
		}
		if r := h.Merge(w, "squash"); !r.Merged || r.Files != 1 {
			t.Errorf("%s: %+v", strategy, r)
		}
	}
}

// Uncommitted changes in files that the base changed are reapplied if they merge cleanly, and stop the update if not.
func TestUpdateCarriesWhatFits(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	long := strings.Repeat("line\n", 20)
	wstest.Write(t, dir, "long.txt", long)
	wstest.CommitAll(t, dir, "long")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, dir, "long.txt", "base\n"+long)
	wstest.Write(t, dir, "fresh.txt", "base\n")
	wstest.CommitAll(t, dir, "above")
	wstest.Write(t, w.Path, "long.txt", long+"agent\n")
	wstest.Git(t, w.Path, "add", "long.txt")
	wstest.Write(t, w.Path, "fresh.txt", "agent's own\n")

	r := update(h, w, "merge", false)
	if r.Updated || !slices.Equal(r.Dirty, []string{"fresh.txt"}) || wstest.Read(t, w.Path, "fresh.txt") != "agent's own\n" || wstest.Read(t, w.Path, "long.txt") != long+"agent\n" {
		t.Fatalf("%+v", r)
	}
	wstest.Write(t, w.Path, "fresh.txt", "base\n") // the same on both sides is no conflict
	if r = update(h, w, "merge", true); len(r.Dirty) != 0 || !slices.Equal(r.Carried, []string{"fresh.txt", "long.txt"}) {
		t.Fatalf("%+v", r)
	}
	r = update(h, w, "merge", false)
	if !r.Updated || wstest.Read(t, w.Path, "long.txt") != "base\n"+long+"agent\n" || wstest.Git(t, w.Path, "status", "--porcelain") != " M long.txt" {
		t.Errorf("%+v\n%s", r, wstest.Git(t, w.Path, "status", "--porcelain"))
	}
	// An ignored file must not be overwritten either.
	wstest.Write(t, w.Path, "ignored/x", "precious")
	wstest.Git(t, dir, "rm", "-q", "--cached", ".gitignore")
	wstest.Write(t, dir, "ignored/x", "the base has it now\n")
	wstest.Git(t, dir, "add", "-f", "ignored/x")
	wstest.Git(t, dir, "commit", "-q", "-m", "unignored")
	if r = update(h, w, "merge", false); r.Updated || !slices.Equal(r.Dirty, []string{"ignored/x"}) || wstest.Read(t, w.Path, "ignored/x") != "precious" {
		t.Errorf("%+v", r)
	}
}

// What the agent does at the same moment is not lost, and nothing is half done.
func TestUpdateMeetsTheAgent(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := wstest.Parted(t, h, dir, h.PathProject(dir))
	head := wstest.Git(t, w.Path, "rev-parse", "HEAD")
	var meanwhile func()
	h.Sandboxes.OnRun = func(argv []string) {
		if do := meanwhile; do != nil && slices.Contains(argv, "update-ref") {
			meanwhile = nil
			do()
		}
	}
	// A commit without the update: everything is undone.
	meanwhile = func() {
		wstest.Git(t, w.Path, "update-ref", "refs/heads/"+w.Branch, wstest.Git(t, w.Path, "commit-tree", "-p", head, "-m", "at the same moment", head+"^{tree}"))
	}
	_, err := h.S.Merging.Update(t.Context(), h.Actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "head_moved")
	if wstest.Git(t, w.Path, "rev-parse", "HEAD~1") != head || wstest.Exists(w.Path, "base.txt") || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("status %q", wstest.Git(t, w.Path, "status", "--porcelain"))
	}
	// One that includes what is staged: none of it is undone silently.
	meanwhile = func() { wstest.Git(t, w.Path, "commit", "-q", "-m", "with all that is staged") }
	_, err = h.S.Merging.Update(t.Context(), h.Actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "head_moved")
	if !wstest.Exists(w.Path, "base.txt") || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("status %q", wstest.Git(t, w.Path, "status", "--porcelain"))
	}
	wstest.Git(t, w.Path, "reset", "-q", "--hard", head)
	// Killed after the files moved and before the branch did: it is done again, and everything fits.
	wstest.Git(t, w.Path, "read-tree", "-m", "-u", "HEAD", update(h, w, "merge", true).Commit)
	if r := update(h, w, "merge", false); !r.Updated || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("%+v %s", r, wstest.Git(t, w.Path, "status", "--porcelain"))
	}
	wstest.Git(t, w.Path, "switch", "-q", "-c", "other")
	wstest.Write(t, dir, "more.txt", "more\n")
	wstest.CommitAll(t, dir, "more")
	_, err = h.S.Merging.Update(t.Context(), h.Actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "branch_switched")
}

// conflicting makes a workspace and a base that both changed the same lines.
func conflicting(t *testing.T, h *wstest.Env) (workspaces.Workspace, string) {
	t.Helper()
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path})
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	wstest.Write(t, w.Path, "a.txt", "one\nours\nthree\n")
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "dir/b.txt")))
	h.Commit(w, "ours")
	wstest.Write(t, dir, "a.txt", "one\ntheirs\nthree\n")
	wstest.Write(t, dir, "dir/b.txt", "theirs\n")
	wstest.CommitAll(t, dir, "theirs")
	return w, dir
}

func TestConflictsAreShownAndResolved(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "rebase"} {
		h := wstest.SQLiteEnv(t)
		w, dir := conflicting(t, h)
		r := update(h, w, strategy, false)
		if r.Updated || len(r.Conflicts) != 2 || r.Commit != "" || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
			t.Fatalf("%+v", r)
		}
		for _, c := range r.Conflicts {
			ours, theirs := "ours\n", "theirs\n"
			if strategy == "rebase" { // the commit is replayed onto the base
				ours, theirs = theirs, ours
			}
			if c.Path == "a.txt" && (len(c.Hunks) != 1 || c.Hunks[0] != (workspaces.ConflictHunk{Line: 2, Ours: ours, Theirs: theirs}) || c.Ours != "changed") {
				t.Errorf("%+v", c)
			}
		}
		wstest.Write(t, w.Path, "dirty", "x")
		wstest.Git(t, w.Path, "add", "dirty")
		_, err := h.S.Conflicts.BeginResolve(t.Context(), h.Actor, w.ID, strategy)
		wstest.WantCode(t, err, "files_in_the_way")
		wstest.Git(t, w.Path, "rm", "-q", "-f", "dirty")
		for range 2 { // asking again gives the same answer
			b, err := h.S.Conflicts.BeginResolve(t.Context(), h.Actor, w.ID, strategy)
			wstest.Must(t, err)
			if !slices.Equal(b.Files, []string{"a.txt", "dir/b.txt"}) || !strings.Contains(b.Prompt, `"a.txt"`) || b.Strategy != strategy {
				t.Fatalf("%+v", b)
			}
		}
		if st, _, err := h.S.Merging.Status(t.Context(), w.ID, false); err != nil || st.UnderWay != strategy || len(st.Conflicts) != 2 {
			t.Errorf("%+v, %v", st, err)
		}
		_, err = h.S.Merging.Update(t.Context(), h.Actor, w.ID, workspaces.UpdateRequest{Strategy: strategy})
		wstest.Must(t, err) // it is in conflict still
		wstest.Must(t, h.S.Conflicts.AbortResolve(t.Context(), h.Actor, w.ID))
		if wstest.Git(t, w.Path, "status", "--porcelain") != "" || wstest.Git(t, w.Path, "log", "-1", "--format=%s") != "ours" {
			t.Error("giving up left something")
		}
		wstest.WantCode(t, h.S.Conflicts.AbortResolve(t.Context(), h.Actor, w.ID), "no_operation_in_progress")
		_, err = h.S.Conflicts.BeginResolve(t.Context(), h.Actor, w.ID, strategy)
		wstest.Must(t, err)
		_, _, err = h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
		wstest.WantCode(t, err, "undecided_conflicts") // of dir/b.txt
		h.Decide(w, "dir/b.txt", "keep")
		_, _, err = h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
		wstest.WantCode(t, err, "unresolved_conflicts") // both sides are in a.txt
		wstest.Write(t, w.Path, "a.txt", "one\nours and theirs\nthree\n")
		op, left, err := h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
		wstest.Must(t, err)
		if op != strategy || len(left) > 0 || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
			t.Errorf("%s left %v", op, left)
		}
		_, _, err = h.S.Conflicts.FinishResolve(t.Context(), h.Actor, w.ID)
		wstest.WantCode(t, err, "no_operation_in_progress")
		if m := h.Merge(w, "merge"); !m.Merged || wstest.Read(t, dir, "a.txt") != "one\nours and theirs\nthree\n" {
			t.Errorf("%+v", m)
		}
		_, err = h.S.Conflicts.BeginResolve(t.Context(), h.Actor, w.ID, strategy)
		wstest.WantCode(t, err, "no_conflicts")
	}
}

// Isolated and remote workspaces are updated where their agents work.
func TestUpdateInIsolatedAndRemoteSandboxes(t *testing.T) {
	t.Parallel()
	t.Run("boxed", func(t *testing.T) {
		t.Parallel()
		h, walls := wstest.IsolatedEnv(t)
		dir := h.Repo("app")
		w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
		sh := func(script string) string {
			r, err := walls.RunInSandbox(t.Context(), w.ID, executors.SandboxCommand{Argv: []string{"sh", "-ec", script}, TimeoutMs: 30_000})
			wstest.Must(t, err)
			return string(r.Stdout) + string(r.Stderr)
		}
		sh("echo ours > ours.txt; git add -A; git commit -qm ours; echo late >> a.txt")
		wstest.Write(t, dir, "a.txt", "zero\none\ntwo\nthree\n")
		base := wstest.CommitAll(t, dir, "theirs")
		r := update(h, w, "rebase", false)
		if !r.Updated || !slices.Equal(r.Carried, []string{"a.txt"}) || wstest.Git(t, dir, "rev-parse", w.Branch) != r.Commit {
			t.Fatalf("%+v", r)
		}
		if got := sh("git rev-parse HEAD~1; cat a.txt; git status --porcelain"); got != base+"\nzero\none\ntwo\nthree\nlate\n M a.txt\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("far", func(t *testing.T) {
		t.Parallel()
		h, a := wstest.RemoteEnv(t)
		dir := h.LongRepo("r")
		w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
		a.Sh(w, "echo ours > ours.txt; git add -A; git commit -qm ours; echo mine > mine.txt")
		wstest.Write(t, dir, "theirs.txt", "theirs\n")
		wstest.CommitAll(t, dir, "theirs")
		r := update(h, w, "merge", false)
		if !r.Updated || wstest.Git(t, dir, "rev-parse", w.Branch) != r.Commit {
			t.Fatalf("%+v", r)
		}
		if got := a.Sh(w, "git log -1 --format=%P; cat theirs.txt; git status --porcelain; git fsck --connectivity-only"); got != r.Head+" "+r.BaseCommit+"\ntheirs\n?? mine.txt" {
			t.Errorf("%q", got)
		}
	})
}
