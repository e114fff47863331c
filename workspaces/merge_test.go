package workspaces_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// parted makes a workspace with two commits and a base that moved on meanwhile.
func parted(t *testing.T, h *house, dir string, p workspaces.Project) workspaces.Workspace {
	t.Helper()
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Work"})
	write(t, w.Path, "a.txt", "one\ntwo\nthree\nfour\n")
	h.commit(w, "Add four")
	write(t, w.Path, "new.txt", "new\n")
	h.commit(w, "Add new")
	write(t, dir, "base.txt", "base\n")
	commitAll(t, dir, "base moves on")
	return w
}

// The report of a merge stands beside its commit, where git shows it; a newer one takes its place.
func TestAReportIsAttachedToTheMerge(t *testing.T) {
	t.Parallel()
	h := newHouse(t, storetest.SQLite(t))
	dir := h.repo("app")
	w := parted(t, h, dir, h.pathProject(dir))
	if _, _, err := h.s.Annotate(t.Context(), h.actor, w.ID, "text"); !strings.Contains(fmt.Sprint(err), "not merged yet") {
		t.Errorf("before the merge: %v", err)
	}
	r := h.merge(w, "squash")
	for _, text := range []string{"# First\n", "# Second\n\n```` evil ````\n"} {
		commit, ref, err := h.s.Annotate(t.Context(), h.actor, w.ID, text)
		if err != nil || commit != r.Commit || ref != "refs/notes/parawork" {
			t.Fatalf("%s %s %v", commit, ref, err)
		}
		if got := git(t, dir, "notes", "--ref=parawork", "show", r.Commit); got != strings.TrimSpace(text) {
			t.Errorf("%q", got)
		}
	}
}

// readsAsMerged compares what was before a workspace's last merge with what it became: by name, and by the commits these names stand for.
func (h *house) readsAsMerged(w workspaces.Workspace, commit string, landed workspaces.Comparison) {
	h.t.Helper()
	before, err := h.s.Resolve(h.t.Context(), w, workspaces.RevMerged+"^", "")
	must(h.t, err)
	after, err := h.s.Resolve(h.t.Context(), w, workspaces.RevMerged, "")
	must(h.t, err)
	if after.Commit != commit || after.Rev != "merged" || before.Rev != "merged^" || before.At == 0 {
		h.t.Errorf("%+v %+v", before, after)
	}
	for _, fixed := range []*workspaces.Tree{&before, &after} {
		if *fixed, err = h.s.Resolve(h.t.Context(), w, fixed.Commit, ""); err != nil {
			h.t.Fatal(err)
		}
	}
	if c, err := h.s.Compare(h.t.Context(), w.ID, before, after, workspaces.CompareOptions{Renames: true}); err != nil || !reflect.DeepEqual(c, landed) {
		h.t.Errorf("%+v %v, want %+v", c, err, landed)
	}
}

func TestMergeStrategies(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			eachHouse(t, func(t *testing.T, h *house) {
				t.Parallel()
				dir := h.repo("app")
				p := h.pathProject(dir)
				w := parted(t, h, dir, p)
				base := git(t, dir, "rev-parse", "main")
				write(t, w.Path, "uncommitted", "keep me")
				dry, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: strategy, DryRun: true})
				must(t, err)
				if dry.Merged || !dry.DryRun || len(dry.Conflicts) != 0 || dry.Files != 2 || dry.Commits != 2 || git(t, dir, "rev-parse", "main") != base {
					t.Fatalf("dry run: %+v", dry)
				}
				if len(dry.Warnings) != 1 || !strings.Contains(dry.Warnings[0], "1 uncommitted change") {
					t.Errorf("warnings %q", dry.Warnings)
				}
				r := h.merge(w, strategy)
				if !r.Merged || r.BaseCommit != base || r.FastForward || git(t, dir, "rev-parse", "main") != r.Commit {
					t.Fatalf("%+v", r)
				}
				// The folder that has the base checked out moved with it.
				if git(t, dir, "status", "--porcelain") != "" || read(t, dir, "new.txt") != "new\n" || read(t, dir, "base.txt") != "base\n" {
					t.Error("the folder is out of step")
				}
				if read(t, w.Path, "uncommitted") != "keep me" {
					t.Error("uncommitted work is lost")
				}
				parents := strings.Fields(git(t, dir, "log", "-1", "--format=%P", "main"))
				subjects := git(t, dir, "log", "--format=%s", base+"..main")
				switch strategy {
				case "merge":
					if len(parents) != 2 || parents[0] != base || parents[1] != r.Head || !strings.HasPrefix(subjects, "Merge PW-1: Work") {
						t.Errorf("parents %v subjects %q", parents, subjects)
					}
				case "squash":
					if len(parents) != 1 || parents[0] != base || subjects != "Work" {
						t.Errorf("parents %v subjects %q", parents, subjects)
					}
				case "rebase":
					if len(parents) != 1 || subjects != "Add new\nAdd four" {
						t.Errorf("parents %v subjects %q", parents, subjects)
					}
				}
				if got := git(t, dir, "log", "-1", "--format=%an %cn", "main"); got != h.actor.User.Name+" "+h.actor.User.Name {
					t.Errorf("who: %q", got)
				}
				now, err := h.s.Workspace(t.Context(), w.ID)
				must(t, err)
				if now.MergedCommit != r.Commit || now.MergedAt == 0 || now.BaseCommit != r.Head {
					t.Errorf("%+v", now)
				}
				// The branch differs in no commit now: what was merged is told still.
				if landed, made, err := h.s.Landed(t.Context(), w.ID); err != nil || len(landed.Files) != r.Files || len(made) != r.Commits || r.Files == 0 {
					t.Errorf("%+v %+v %v", landed, made, err)
				} else {
					h.readsAsMerged(now, r.Commit, landed)
				}
				if l, err := h.s.Loss(t.Context(), w.ID); err != nil || l.UnmergedCommits != 0 || l.UncommittedCount != 1 {
					t.Errorf("%+v %v", l, err)
				}
				if again := h.merge(w, strategy); !again.UpToDate || again.Merged {
					t.Errorf("again: %+v", again)
				}
				// Work goes on in the same lines and can be merged again, whatever form the first merge had.
				write(t, w.Path, "a.txt", "one\ntwo\nthree\nfour changed\n")
				h.commit(w, "Change four")
				if r = h.merge(w, strategy); !r.Merged || r.Commits != 2 && r.Commits != 1 || !strings.Contains(read(t, dir, "a.txt"), "four changed") {
					t.Errorf("second: %+v", r)
				}
				git(t, dir, "fsck", "--strict")
				if left, _ := os.ReadDir(filepath.Join(h.data, "tmp/git")); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		})
	}
}

// Who looks at one strategy after the other does not wait between them.
func TestDryRunsAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		t.Parallel()
		dir := h.repo("app")
		w := parted(t, h, dir, h.pathProject(dir))
		var wg sync.WaitGroup
		for _, strategy := range []string{"merge", "squash", "rebase"} {
			wg.Go(func() {
				dry, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: strategy, DryRun: true})
				if err != nil || dry.Commits != 2 {
					t.Errorf("%s: %+v, %v", strategy, dry, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestMergeFastForwards(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	for i, strategy := range []string{"merge", "rebase"} {
		w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
		write(t, w.Path, fmt.Sprintf("new%d", i), "x")
		c := h.commit(w, "Add")
		if r := h.merge(w, strategy); !r.FastForward || r.Commit != c.Commit || git(t, dir, "rev-parse", "HEAD") != c.Commit {
			t.Errorf("%+v", r)
		}
	}
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "third", "x")
	h.commit(w, "Add third")
	r, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: "merge", Message: "Said\n\nby hand"})
	must(t, err)
	if r.FastForward || git(t, dir, "log", "-1", "--format=%s") != "Said" || git(t, dir, "log", "-1", "--format=%an") != h.actor.User.Name {
		t.Errorf("%+v", r)
	}
	_, err = h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: "octopus"})
	wantCode(t, err, "strategy_invalid")
}

func TestConflictsChangeNothing(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	write(t, dir, "del.txt", "del\n")
	write(t, dir, "bin", "\x00one")
	write(t, dir, "ren.txt", strings.Repeat("r\n", 20))
	commitAll(t, dir, "more")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	odd := "od\nd \xff.txt"
	write(t, w.Path, "a.txt", "workspace\n")
	write(t, w.Path, "del.txt", "changed\n")
	write(t, w.Path, "bin", "\x00two")
	write(t, w.Path, odd, "workspace\n")
	must(t, os.Rename(w.Path+"/ren.txt", w.Path+"/ren1.txt"))
	h.commit(w, "work")
	write(t, dir, "a.txt", "base\n")
	write(t, dir, "bin", "\x00three")
	write(t, dir, odd, "base\n")
	must(t, os.Remove(filepath.Join(dir, "del.txt")))
	must(t, os.Rename(dir+"/ren.txt", dir+"/ren2.txt"))
	commitAll(t, dir, "base")
	before := git(t, dir, "for-each-ref")
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		for _, dry := range []bool{true, false} {
			r, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: strategy, DryRun: dry})
			must(t, err)
			kinds := map[string]string{}
			for _, c := range r.Conflicts {
				kinds[c.Path] = c.Kind
			}
			if r.Merged || r.Commit != "" || kinds["a.txt"] != "content" || kinds["del.txt"] != "modify/delete" || kinds["bin"] == "" || kinds[odd] == "" || kinds["ren1.txt"] == "" {
				t.Errorf("%s: %+v", strategy, r)
			}
		}
	}
	if git(t, dir, "for-each-ref") != before || git(t, dir, "status", "--porcelain") != "" || exists(dir, ".git/MERGE_HEAD") || git(t, w.Path, "status", "--porcelain") != "" {
		t.Error("something changed")
	}
}

func TestMergeKeepsLocalChangesOfTheFolder(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := parted(t, h, dir, p)
	base := git(t, dir, "rev-parse", "main")
	write(t, dir, "a.txt", "my own change\n")
	write(t, dir, "dir/b.txt", "not touched by the merge\n")
	_, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
	wantCode(t, err, "base_dirty")
	if git(t, dir, "rev-parse", "main") != base || read(t, dir, "a.txt") != "my own change\n" {
		t.Fatal("something changed")
	}
	git(t, dir, "checkout", "a.txt")
	write(t, dir, "new.txt", "untracked, in the way\n")
	_, err = h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: "squash"})
	wantCode(t, err, "base_dirty")
	must(t, os.Remove(filepath.Join(dir, "new.txt")))
	if r := h.merge(w, "squash"); !r.Merged || git(t, dir, "status", "--porcelain") != " M dir/b.txt" {
		t.Errorf("%+v %s", r, git(t, dir, "status", "--porcelain"))
	}

	// The base checked out in another workspace is not moved under it.
	w2 := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "two"})
	write(t, w2.Path, "two", "2")
	h.commit(w2, "two")
	git(t, dir, "checkout", "-q", "-b", "aside")
	git(t, w.Path, "switch", "-q", "main")
	_, err = h.s.Merge(t.Context(), h.actor, w2.ID, workspaces.MergeRequest{Strategy: "merge"})
	wantCode(t, err, "base_in_workspace")
	git(t, w.Path, "switch", "-q", w.Branch)
	if r := h.merge(w2, "merge"); !r.Merged || git(t, dir, "rev-parse", "main") != r.Commit || git(t, dir, "status", "--porcelain") != " M dir/b.txt" {
		t.Errorf("%+v", r)
	}
}

func TestMergesAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		t.Parallel()
		dir := h.repo("app")
		p := h.pathProject(dir)
		var ws []workspaces.Workspace
		for i := range 4 {
			w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: fmt.Sprintf("w%d", i)})
			write(t, w.Path, fmt.Sprintf("f%d", i), "x")
			h.commit(w, fmt.Sprintf("c%d", i))
			ws = append(ws, w)
		}
		var wg sync.WaitGroup
		for i, w := range ws {
			wg.Go(func() {
				r, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: []string{"merge", "squash", "rebase"}[i%3]})
				if err != nil || !r.Merged {
					t.Errorf("%+v %v", r, err)
				}
			})
		}
		wg.Wait()
		for i := range ws {
			if !exists(dir, fmt.Sprintf("f%d", i)) {
				t.Errorf("f%d is missing", i)
			}
		}
		if got := git(t, dir, "status", "--porcelain"); got != "" {
			t.Error(got)
		}
	})
}

func TestClonedBaseStaysInStep(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	src := h.repo("origin")
	p := h.urlProject(src)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "mine", "x")
	h.commit(w, "mine")
	if r := h.merge(w, "squash"); !r.Merged || git(t, p.GitDir, "rev-parse", "main") != r.Commit {
		t.Fatalf("%+v", r)
	}
	// Only here: a new workspace begins with it.
	w2 := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "two"})
	if !exists(w2.Path, "mine") || !strings.Contains(stepOf(t, w2, "fetch").Detail, "1 commit is here that the remote has not") {
		t.Errorf("%+v", stepOf(t, w2, "fetch"))
	}
	// The remote moves on as well: now they have parted, and which is meant must be said.
	write(t, src, "theirs", "x")
	commitAll(t, src, "theirs")
	w3 := h.settled(h.create(workspaces.NewWorkspace{ProjectID: p.ID, Name: "three"}).ID)
	if w3.State != workspaces.Failed || !strings.Contains(w3.StateReason, "origin/main") {
		t.Errorf("%s %s", w3.State, w3.StateReason)
	}
	for base, want := range map[string]string{"origin/main": "theirs", "refs/heads/main": "mine"} {
		w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: want, Base: base})
		if !exists(w.Path, want) {
			t.Errorf("%s holds no %s", base, want)
		}
		write(t, w.Path, "from "+want, "x")
		h.commit(w, "x")
		r, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: "merge", DryRun: true})
		must(t, err)
		if r.Base != "main" || len(r.Conflicts) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "have parted") {
			t.Errorf("%s: %+v", base, r)
		}
	}
}

func TestRebaseOfUnusualHistories(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "one", "1\n")
	commitAll(t, w.Path, "one\n\nBody with unicode ä\n\nSigned-off-by: x")
	git(t, w.Path, "commit", "-q", "--allow-empty", "-m", "empty on purpose")
	write(t, w.Path, "picked", "p\n")
	picked := commitAll(t, w.Path, "picked")
	git(t, dir, "cherry-pick", picked) // the base has this change already
	write(t, dir, "side", "s\n")
	commitAll(t, dir, "side")
	git(t, w.Path, "merge", "-q", "--no-edit", "main")
	write(t, w.Path, "two", "2\n")
	commitAll(t, w.Path, "two")
	write(t, dir, "after", "s\n")
	commitAll(t, dir, "after")
	base := git(t, dir, "rev-parse", "main")
	r := h.merge(w, "rebase")
	if !r.Merged || len(r.Warnings) != 1 || git(t, dir, "log", "--format=%s", base+"..main") != "two\nempty on purpose\none" {
		t.Errorf("%+v %s", r, git(t, dir, "log", "--format=%s", base+"..main"))
	}
	if got := git(t, dir, "log", "-1", "--format=%an|%ae|%cn", "main"); got != "Agent|agent@example.com|"+h.actor.User.Name {
		t.Error(got)
	}
	if got := git(t, dir, "log", "-1", "--format=%b", "main~2"); !strings.Contains(got, "unicode ä") {
		t.Error(got)
	}
}

func TestUnsafeNamesDoNotReachTheBase(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
	// git's own commands refuse such a tree; an agent can write its object by hand.
	blob := git(t, w.Path, "hash-object", "-w", "a.txt")
	raw, err := hex.DecodeString(blob)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(h.data, "inner"), append([]byte("100644 config\x00"), raw...), 0o644))
	inner, err := hex.DecodeString(git(t, w.Path, "hash-object", "-w", "-t", "tree", "--literally", filepath.Join(h.data, "inner")))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(h.data, "outer"), append([]byte("40000 .git\x00"), inner...), 0o644))
	tree := git(t, w.Path, "hash-object", "-w", "-t", "tree", "--literally", filepath.Join(h.data, "outer"))
	commit := git(t, w.Path, "commit-tree", "-m", "evil", "-p", "HEAD", tree)
	git(t, w.Path, "update-ref", "refs/heads/"+w.Branch, commit)
	before := git(t, dir, "rev-parse", "main")
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		_, err = h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: strategy})
		wantCode(t, err, "tree_unsafe")
	}
	if git(t, dir, "rev-parse", "main") != before {
		t.Error("the base moved")
	}
}

func TestBaseOfChangesFollowsWhatIsMergedIn(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
	want := func(commit string) {
		t.Helper()
		for range 2 { // found, and remembered
			if got, err := h.s.BaseCommit(t.Context(), w.ID); err != nil || got != commit {
				t.Errorf("base %s, want %s (%v)", got, commit, err)
			}
		}
	}
	want(w.BaseCommit)
	write(t, w.Path, "mine", "1")
	commitAll(t, w.Path, "mine")
	write(t, dir, "theirs", "1")
	theirs := commitAll(t, dir, "theirs")
	want(w.BaseCommit)
	git(t, w.Path, "merge", "-q", "--no-edit", "main")
	want(theirs) // what came from main is no change of the workspace's
	git(t, w.Path, "reset", "-q", "--hard", "HEAD~1")
	want(w.BaseCommit)
	git(t, w.Path, "rebase", "-q", "main")
	want(theirs)
	r := h.merge(w, "squash")
	want(r.Head)
	write(t, w.Path, "mine", "2")
	commitAll(t, w.Path, "more")
	want(r.Head)
	_, err := h.s.Archive(t.Context(), h.actor, w.ID)
	must(t, err)
	want(r.Head)
	_, err = h.s.BaseCommit(t.Context(), "ws_none")
	wantCode(t, err, "not_found")
}
