package workspaces_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces"
)

func (h *house) update(w workspaces.Workspace, strategy string, dry bool) workspaces.UpdateResult {
	h.t.Helper()
	r, err := h.s.Update(h.t.Context(), h.actor, w.ID, workspaces.UpdateRequest{Strategy: strategy, DryRun: dry})
	must(h.t, err)
	return r
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "rebase"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			h := sqliteHouse(t)
			dir := h.repo("app")
			p := h.pathProject(dir)
			w := parted(t, h, dir, p)
			base := git(t, dir, "rev-parse", "main")
			// Uncommitted work of every kind, none of it where the base changed something.
			write(t, w.Path, "dir/b.txt", "staged\n")
			git(t, w.Path, "add", "dir/b.txt")
			write(t, w.Path, "a.txt", "one\ntwo\nthree\nfour\nfive\n")
			write(t, w.Path, "untracked", "keep me")
			write(t, w.Path, "ignored/x", "keep me, too")
			before, head := git(t, w.Path, "status", "--porcelain"), git(t, w.Path, "rev-parse", "HEAD")
			dry := h.update(w, strategy, true)
			if dry.Updated || dry.Commits != 1 || len(dry.Files) != 1 || dry.Files[0] != (workspaces.FileStatus{Path: "base.txt", Status: "added"}) || len(dry.Dirty)+len(dry.Conflicts)+len(dry.Carried) != 0 {
				t.Fatalf("%+v", dry)
			}
			if git(t, w.Path, "status", "--porcelain") != before || git(t, w.Path, "rev-parse", "HEAD") != head {
				t.Error("looking changed something")
			}
			_, err := h.s.Update(t.Context(), h.actor, w.ID, workspaces.UpdateRequest{Strategy: strategy, ExpectedBase: head})
			wantCode(t, err, "base_moved")
			r := h.update(w, strategy, false)
			if !r.Updated || r.BaseCommit != base || r.Head != head || git(t, w.Path, "rev-parse", "HEAD") != r.Commit || git(t, w.Path, "symbolic-ref", "--short", "HEAD") != w.Branch {
				t.Fatalf("%+v", r)
			}
			if git(t, w.Path, "status", "--porcelain") != before || read(t, w.Path, "base.txt") != "base\n" || read(t, w.Path, "ignored/x") != "keep me, too" {
				t.Errorf("status was %q, is %q", before, git(t, w.Path, "status", "--porcelain"))
			}
			if strategy == "merge" {
				if git(t, w.Path, "log", "-1", "--format=%P %an") != head+" "+base+" "+h.actor.User.Name {
					t.Error("not a merge of both by who asked")
				}
			} else if git(t, w.Path, "log", "--format=%s %an", base+"..HEAD") != "Add new "+h.actor.User.Name+"\nAdd four "+h.actor.User.Name {
				t.Errorf("commits %q", git(t, w.Path, "log", "--format=%s %an", base+"..HEAD"))
			}
			now, err := h.s.Workspace(t.Context(), w.ID)
			if err != nil || now.BaseCommit != base {
				t.Errorf("counted from %s, %v", now.BaseCommit, err)
			}
			if r = h.update(w, strategy, false); !r.UpToDate || r.Updated {
				t.Errorf("again: %+v", r)
			}
			git(t, dir, "fsck", "--strict")
		})
	}
}

// What was squashed into the base before is not in conflict with itself.
func TestUpdateAfterASquash(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "rebase"} {
		h := sqliteHouse(t)
		dir := h.repo("app")
		w := parted(t, h, dir, h.pathProject(dir))
		h.merge(w, "squash")
		write(t, w.Path, "a.txt", "one\ntwo\nthree\nFOUR\n")
		h.commit(w, "Shout")
		if r := h.update(w, strategy, false); !r.Updated || len(r.Conflicts) != 0 {
			t.Fatalf("%s: %+v", strategy, r)
		}
		if read(t, w.Path, "a.txt") != "one\ntwo\nthree\nFOUR\n" || git(t, w.Path, "diff", "--name-only", "main...HEAD") != "a.txt" {
			t.Errorf("%s: the branch differs in %q", strategy, git(t, w.Path, "diff", "--name-only", "main...HEAD"))
		}
		if r := h.merge(w, "squash"); !r.Merged || r.Files != 1 {
			t.Errorf("%s: %+v", strategy, r)
		}
	}
}

// Uncommitted changes in files that the base changed are kept on top where they fit, and stop the update where they do not.
func TestUpdateCarriesWhatFits(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	long := strings.Repeat("line\n", 20)
	write(t, dir, "long.txt", long)
	commitAll(t, dir, "long")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, dir, "long.txt", "base\n"+long)
	write(t, dir, "fresh.txt", "base\n")
	commitAll(t, dir, "above")
	write(t, w.Path, "long.txt", long+"agent\n")
	git(t, w.Path, "add", "long.txt")
	write(t, w.Path, "fresh.txt", "agent's own\n")

	r := h.update(w, "merge", false)
	if r.Updated || !slices.Equal(r.Dirty, []string{"fresh.txt"}) || read(t, w.Path, "fresh.txt") != "agent's own\n" || read(t, w.Path, "long.txt") != long+"agent\n" {
		t.Fatalf("%+v", r)
	}
	write(t, w.Path, "fresh.txt", "base\n") // the same on both sides is no conflict
	if r = h.update(w, "merge", true); len(r.Dirty) != 0 || !slices.Equal(r.Carried, []string{"fresh.txt", "long.txt"}) {
		t.Fatalf("%+v", r)
	}
	r = h.update(w, "merge", false)
	if !r.Updated || read(t, w.Path, "long.txt") != "base\n"+long+"agent\n" || git(t, w.Path, "status", "--porcelain") != " M long.txt" {
		t.Errorf("%+v\n%s", r, git(t, w.Path, "status", "--porcelain"))
	}
	// An ignored file is nobody's to overwrite either.
	write(t, w.Path, "ignored/x", "precious")
	git(t, dir, "rm", "-q", "--cached", ".gitignore")
	write(t, dir, "ignored/x", "the base has it now\n")
	git(t, dir, "add", "-f", "ignored/x")
	git(t, dir, "commit", "-q", "-m", "unignored")
	if r = h.update(w, "merge", false); r.Updated || !slices.Equal(r.Dirty, []string{"ignored/x"}) || read(t, w.Path, "ignored/x") != "precious" {
		t.Errorf("%+v", r)
	}
}

// What the agent does at the same moment is not lost, and nothing is half done.
func TestUpdateMeetsTheAgent(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	w := parted(t, h, dir, h.pathProject(dir))
	head := git(t, w.Path, "rev-parse", "HEAD")
	var meanwhile func()
	h.box.onRun = func(argv []string) {
		if do := meanwhile; do != nil && slices.Contains(argv, "update-ref") {
			meanwhile = nil
			do()
		}
	}
	// A commit that knows nothing of the update: everything is taken back.
	meanwhile = func() {
		git(t, w.Path, "update-ref", "refs/heads/"+w.Branch, git(t, w.Path, "commit-tree", "-p", head, "-m", "at the same moment", head+"^{tree}"))
	}
	_, err := h.s.Update(t.Context(), h.actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
	wantCode(t, err, "head_moved")
	if git(t, w.Path, "rev-parse", "HEAD~1") != head || exists(w.Path, "base.txt") || git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("status %q", git(t, w.Path, "status", "--porcelain"))
	}
	// One that takes what is staged along: nothing of it is taken back behind its back.
	meanwhile = func() { git(t, w.Path, "commit", "-q", "-m", "with all that is staged") }
	_, err = h.s.Update(t.Context(), h.actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
	wantCode(t, err, "head_moved")
	if !exists(w.Path, "base.txt") || git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("status %q", git(t, w.Path, "status", "--porcelain"))
	}
	git(t, w.Path, "reset", "-q", "--hard", head)
	// Killed after the files moved and before the branch did: it is done again, and everything fits.
	git(t, w.Path, "read-tree", "-m", "-u", "HEAD", h.update(w, "merge", true).Commit)
	if r := h.update(w, "merge", false); !r.Updated || git(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("%+v %s", r, git(t, w.Path, "status", "--porcelain"))
	}
	git(t, w.Path, "switch", "-q", "-c", "other")
	write(t, dir, "more.txt", "more\n")
	commitAll(t, dir, "more")
	_, err = h.s.Update(t.Context(), h.actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
	wantCode(t, err, "branch_switched")
}

// conflicting makes a workspace and a base that both changed the same lines.
func conflicting(t *testing.T, h *house) (workspaces.Workspace, string) {
	t.Helper()
	h.s.ConnectFiles(treeFiles{paths: h.path})
	dir := h.repo("app")
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
	write(t, w.Path, "a.txt", "one\nours\nthree\n")
	must(t, os.Remove(filepath.Join(w.Path, "dir/b.txt")))
	h.commit(w, "ours")
	write(t, dir, "a.txt", "one\ntheirs\nthree\n")
	write(t, dir, "dir/b.txt", "theirs\n")
	commitAll(t, dir, "theirs")
	return w, dir
}

func TestConflictsAreShownAndResolved(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "rebase"} {
		h := sqliteHouse(t)
		w, dir := conflicting(t, h)
		r := h.update(w, strategy, false)
		if r.Updated || len(r.Conflicts) != 2 || r.Commit != "" || git(t, w.Path, "status", "--porcelain") != "" {
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
		write(t, w.Path, "dirty", "x")
		git(t, w.Path, "add", "dirty")
		_, err := h.s.BeginResolve(t.Context(), h.actor, w.ID, strategy)
		wantCode(t, err, "files_in_the_way")
		git(t, w.Path, "rm", "-q", "-f", "dirty")
		for range 2 { // who asks again is told the same
			b, err := h.s.BeginResolve(t.Context(), h.actor, w.ID, strategy)
			must(t, err)
			if !slices.Equal(b.Files, []string{"a.txt", "dir/b.txt"}) || !strings.Contains(b.Prompt, `"a.txt"`) || b.Strategy != strategy {
				t.Fatalf("%+v", b)
			}
		}
		if st, _, err := h.s.Standing(t.Context(), w.ID, false); err != nil || st.UnderWay != strategy || len(st.Conflicts) != 2 {
			t.Errorf("%+v, %v", st, err)
		}
		_, err = h.s.Update(t.Context(), h.actor, w.ID, workspaces.UpdateRequest{Strategy: strategy})
		must(t, err) // it is in conflict still
		must(t, h.s.AbortResolve(t.Context(), h.actor, w.ID))
		if git(t, w.Path, "status", "--porcelain") != "" || git(t, w.Path, "log", "-1", "--format=%s") != "ours" {
			t.Error("giving up left something")
		}
		wantCode(t, h.s.AbortResolve(t.Context(), h.actor, w.ID), "nothing_under_way")
		_, err = h.s.BeginResolve(t.Context(), h.actor, w.ID, strategy)
		must(t, err)
		_, _, err = h.s.FinishResolve(t.Context(), h.actor, w.ID)
		wantCode(t, err, "undecided_conflicts") // of dir/b.txt
		h.decide(w, "dir/b.txt", "keep")
		_, _, err = h.s.FinishResolve(t.Context(), h.actor, w.ID)
		wantCode(t, err, "unresolved_conflicts") // both sides are in a.txt
		write(t, w.Path, "a.txt", "one\nours and theirs\nthree\n")
		op, left, err := h.s.FinishResolve(t.Context(), h.actor, w.ID)
		must(t, err)
		if op != strategy || len(left) > 0 || git(t, w.Path, "status", "--porcelain") != "" {
			t.Errorf("%s left %v", op, left)
		}
		_, _, err = h.s.FinishResolve(t.Context(), h.actor, w.ID)
		wantCode(t, err, "nothing_under_way")
		if m := h.merge(w, "merge"); !m.Merged || read(t, dir, "a.txt") != "one\nours and theirs\nthree\n" {
			t.Errorf("%+v", m)
		}
		_, err = h.s.BeginResolve(t.Context(), h.actor, w.ID, strategy)
		wantCode(t, err, "no_conflicts")
	}
}

// A workspace behind walls and one far away are updated where their agents work.
func TestUpdateElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("boxed", func(t *testing.T) {
		t.Parallel()
		h, walls := walledHouse(t)
		dir := h.repo("app")
		w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
		sh := func(script string) string {
			r, err := walls.RunInBox(t.Context(), w.ID, executors.BoxCommand{Argv: []string{"sh", "-ec", script}, TimeoutMs: 30_000})
			must(t, err)
			return string(r.Stdout) + string(r.Stderr)
		}
		sh("echo ours > ours.txt; git add -A; git commit -qm ours; echo late >> a.txt")
		write(t, dir, "a.txt", "zero\none\ntwo\nthree\n")
		base := commitAll(t, dir, "theirs")
		r := h.update(w, "rebase", false)
		if !r.Updated || !slices.Equal(r.Carried, []string{"a.txt"}) || git(t, dir, "rev-parse", w.Branch) != r.Commit {
			t.Fatalf("%+v", r)
		}
		if got := sh("git rev-parse HEAD~1; cat a.txt; git status --porcelain"); got != base+"\nzero\none\ntwo\nthree\nlate\n M a.txt\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("far", func(t *testing.T) {
		t.Parallel()
		h, a := farHouse(t)
		dir := h.longRepo("r")
		w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
		a.sh(w, "echo ours > ours.txt; git add -A; git commit -qm ours; echo mine > mine.txt")
		write(t, dir, "theirs.txt", "theirs\n")
		commitAll(t, dir, "theirs")
		r := h.update(w, "merge", false)
		if !r.Updated || git(t, dir, "rev-parse", w.Branch) != r.Commit {
			t.Fatalf("%+v", r)
		}
		if got := a.sh(w, "git log -1 --format=%P; cat theirs.txt; git status --porcelain; git fsck --connectivity-only"); got != r.Head+" "+r.BaseCommit+"\ntheirs\n?? mine.txt" {
			t.Errorf("%q", got)
		}
	})
}
