package merge_test

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
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// The report of a merge is attached to its commit, where git shows it; a newer one replaces it.
func TestAReportIsAttachedToTheMerge(t *testing.T) {
	t.Parallel()
	h := wstest.New(t, storetest.SQLite(t))
	dir := h.Repo("app")
	w := wstest.Parted(t, h, dir, h.PathProject(dir))
	if _, _, err := h.S.Annotate(t.Context(), h.Actor, w.ID, "text"); !strings.Contains(fmt.Sprint(err), "not merged yet") {
		t.Errorf("before the merge: %v", err)
	}
	r := h.Merge(w, "squash")
	for _, text := range []string{"# First\n", "# Second\n\n```` evil ````\n"} {
		commit, ref, err := h.S.Annotate(t.Context(), h.Actor, w.ID, text)
		if err != nil || commit != r.Commit || ref != "refs/notes/parawork" {
			t.Fatalf("%s %s %v", commit, ref, err)
		}
		if got := wstest.Git(t, dir, "notes", "--ref=parawork", "show", r.Commit); got != strings.TrimSpace(text) {
			t.Errorf("%q", got)
		}
	}
}

// readsAsMerged compares the base before a workspace's last merge with the result: by name, and by the commits these names refer to.
func readsAsMerged(h *wstest.Env, w workspaces.Workspace, commit string, landed git.Comparison) {
	h.T.Helper()
	before, err := h.S.Snapshots.Resolve(h.T.Context(), w, snapshot.RevMerged+"^", "")
	wstest.Must(h.T, err)
	after, err := h.S.Snapshots.Resolve(h.T.Context(), w, snapshot.RevMerged, "")
	wstest.Must(h.T, err)
	if after.Commit != commit || after.Rev != "merged" || before.Rev != "merged^" || before.At == 0 {
		h.T.Errorf("%+v %+v", before, after)
	}
	for _, fixed := range []*git.Tree{&before, &after} {
		if *fixed, err = h.S.Snapshots.Resolve(h.T.Context(), w, fixed.Commit, ""); err != nil {
			h.T.Fatal(err)
		}
	}
	if c, err := h.S.Repo.Compare(h.T.Context(), w.ID, before, after, git.CompareOptions{Renames: true}); err != nil || !reflect.DeepEqual(c, landed) {
		h.T.Errorf("%+v %v, want %+v", c, err, landed)
	}
}

func TestMergeStrategies(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
				t.Parallel()
				dir := h.Repo("app")
				p := h.PathProject(dir)
				w := wstest.Parted(t, h, dir, p)
				base := wstest.Git(t, dir, "rev-parse", "main")
				wstest.Write(t, w.Path, "uncommitted", "keep me")
				dry, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: strategy, DryRun: true})
				wstest.Must(t, err)
				if dry.Merged || !dry.DryRun || len(dry.Conflicts) != 0 || dry.Files != 2 || dry.Commits != 2 || wstest.Git(t, dir, "rev-parse", "main") != base {
					t.Fatalf("dry run: %+v", dry)
				}
				if len(dry.Warnings) != 1 || !strings.Contains(dry.Warnings[0], "1 uncommitted change") {
					t.Errorf("warnings %q", dry.Warnings)
				}
				r := h.Merge(w, strategy)
				if !r.Merged || r.BaseCommit != base || r.FastForward || wstest.Git(t, dir, "rev-parse", "main") != r.Commit {
					t.Fatalf("%+v", r)
				}
				// The folder that has the base checked out moved with it.
				if wstest.Git(t, dir, "status", "--porcelain") != "" || wstest.Read(t, dir, "new.txt") != "new\n" || wstest.Read(t, dir, "base.txt") != "base\n" {
					t.Error("the folder is out of step")
				}
				if wstest.Read(t, w.Path, "uncommitted") != "keep me" {
					t.Error("uncommitted work is lost")
				}
				parents := strings.Fields(wstest.Git(t, dir, "log", "-1", "--format=%P", "main"))
				subjects := wstest.Git(t, dir, "log", "--format=%s", base+"..main")
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
				if got := wstest.Git(t, dir, "log", "-1", "--format=%an %cn", "main"); got != h.Actor.User.Name+" "+h.Actor.User.Name {
					t.Errorf("who: %q", got)
				}
				now, err := h.S.Records.Workspace(t.Context(), w.ID)
				wstest.Must(t, err)
				if now.MergedCommit != r.Commit || now.MergedAt == 0 || now.BaseCommit != r.Head {
					t.Errorf("%+v", now)
				}
				// The branch differs in no commit now: the merge is still reported.
				if landed, made, err := h.S.Merging.Landed(t.Context(), w.ID); err != nil || len(landed.Files) != r.Files || len(made) != r.Commits || r.Files == 0 {
					t.Errorf("%+v %+v %v", landed, made, err)
				} else {
					readsAsMerged(h, now, r.Commit, landed)
				}
				if l, err := h.S.Lifecycle.Loss(t.Context(), w.ID); err != nil || l.UnmergedCommits != 0 || l.UncommittedCount != 1 {
					t.Errorf("%+v %v", l, err)
				}
				if again := h.Merge(w, strategy); !again.UpToDate || again.Merged {
					t.Errorf("again: %+v", again)
				}
				// Work goes on in the same lines and can be merged again, whatever form the first merge had.
				wstest.Write(t, w.Path, "a.txt", "one\ntwo\nthree\nfour changed\n")
				h.Commit(w, "Change four")
				if r = h.Merge(w, strategy); !r.Merged || r.Commits != 2 && r.Commits != 1 || !strings.Contains(wstest.Read(t, dir, "a.txt"), "four changed") {
					t.Errorf("second: %+v", r)
				}
				wstest.Git(t, dir, "fsck", "--strict")
				if left, _ := os.ReadDir(filepath.Join(h.Data, "tmp/git")); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		})
	}
}

// Who looks at one strategy after the other does not wait between them.
func TestDryRunsAtTheSameTime(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		t.Parallel()
		dir := h.Repo("app")
		w := wstest.Parted(t, h, dir, h.PathProject(dir))
		var wg sync.WaitGroup
		for _, strategy := range []string{"merge", "squash", "rebase"} {
			wg.Go(func() {
				dry, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: strategy, DryRun: true})
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
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	for i, strategy := range []string{"merge", "rebase"} {
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
		wstest.Write(t, w.Path, fmt.Sprintf("new%d", i), "x")
		c := h.Commit(w, "Add")
		if r := h.Merge(w, strategy); !r.FastForward || r.Commit != c.Commit || wstest.Git(t, dir, "rev-parse", "HEAD") != c.Commit {
			t.Errorf("%+v", r)
		}
	}
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "third", "x")
	h.Commit(w, "Add third")
	r, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge", Message: "Said\n\nby hand"})
	wstest.Must(t, err)
	if r.FastForward || wstest.Git(t, dir, "log", "-1", "--format=%s") != "Said" || wstest.Git(t, dir, "log", "-1", "--format=%an") != h.Actor.User.Name {
		t.Errorf("%+v", r)
	}
	_, err = h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "octopus"})
	wstest.WantCode(t, err, "strategy_invalid")
}

func TestConflictsChangeNothing(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	wstest.Write(t, dir, "del.txt", "del\n")
	wstest.Write(t, dir, "bin", "\x00one")
	wstest.Write(t, dir, "ren.txt", strings.Repeat("r\n", 20))
	wstest.CommitAll(t, dir, "more")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	odd := "od\nd \xff.txt"
	wstest.Write(t, w.Path, "a.txt", "workspace\n")
	wstest.Write(t, w.Path, "del.txt", "changed\n")
	wstest.Write(t, w.Path, "bin", "\x00two")
	wstest.Write(t, w.Path, odd, "workspace\n")
	wstest.Must(t, os.Rename(w.Path+"/ren.txt", w.Path+"/ren1.txt"))
	h.Commit(w, "work")
	wstest.Write(t, dir, "a.txt", "base\n")
	wstest.Write(t, dir, "bin", "\x00three")
	wstest.Write(t, dir, odd, "base\n")
	wstest.Must(t, os.Remove(filepath.Join(dir, "del.txt")))
	wstest.Must(t, os.Rename(dir+"/ren.txt", dir+"/ren2.txt"))
	wstest.CommitAll(t, dir, "base")
	before := wstest.Git(t, dir, "for-each-ref")
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		for _, dry := range []bool{true, false} {
			r, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: strategy, DryRun: dry})
			wstest.Must(t, err)
			kinds := map[string]string{}
			for _, c := range r.Conflicts {
				kinds[c.Path] = c.Kind
			}
			if r.Merged || r.Commit != "" || kinds["a.txt"] != "content" || kinds["del.txt"] != "modify/delete" || kinds["bin"] == "" || kinds[odd] == "" || kinds["ren1.txt"] == "" {
				t.Errorf("%s: %+v", strategy, r)
			}
		}
	}
	if wstest.Git(t, dir, "for-each-ref") != before || wstest.Git(t, dir, "status", "--porcelain") != "" || wstest.Exists(dir, ".git/MERGE_HEAD") || wstest.Git(t, w.Path, "status", "--porcelain") != "" {
		t.Error("something changed")
	}
}

func TestMergeKeepsLocalChangesOfTheFolder(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := wstest.Parted(t, h, dir, p)
	base := wstest.Git(t, dir, "rev-parse", "main")
	wstest.Write(t, dir, "a.txt", "my own change\n")
	wstest.Write(t, dir, "dir/b.txt", "not touched by the merge\n")
	_, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "base_dirty")
	if wstest.Git(t, dir, "rev-parse", "main") != base || wstest.Read(t, dir, "a.txt") != "my own change\n" {
		t.Fatal("something changed")
	}
	wstest.Git(t, dir, "checkout", "a.txt")
	wstest.Write(t, dir, "new.txt", "untracked, in the way\n")
	_, err = h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "squash"})
	wstest.WantCode(t, err, "base_dirty")
	wstest.Must(t, os.Remove(filepath.Join(dir, "new.txt")))
	if r := h.Merge(w, "squash"); !r.Merged || wstest.Git(t, dir, "status", "--porcelain") != " M dir/b.txt" {
		t.Errorf("%+v %s", r, wstest.Git(t, dir, "status", "--porcelain"))
	}

	// A base that is checked out in another workspace is not moved.
	w2 := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "two"})
	wstest.Write(t, w2.Path, "two", "2")
	h.Commit(w2, "two")
	wstest.Git(t, dir, "checkout", "-q", "-b", "aside")
	wstest.Git(t, w.Path, "switch", "-q", "main")
	_, err = h.S.Merging.Merge(t.Context(), h.Actor, w2.ID, workspaces.MergeRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "base_in_workspace")
	wstest.Git(t, w.Path, "switch", "-q", w.Branch)
	if r := h.Merge(w2, "merge"); !r.Merged || wstest.Git(t, dir, "rev-parse", "main") != r.Commit || wstest.Git(t, dir, "status", "--porcelain") != " M dir/b.txt" {
		t.Errorf("%+v", r)
	}
}

func TestMergesAtTheSameTime(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		t.Parallel()
		dir := h.Repo("app")
		p := h.PathProject(dir)
		var ws []workspaces.Workspace
		for i := range 4 {
			w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: fmt.Sprintf("w%d", i)})
			wstest.Write(t, w.Path, fmt.Sprintf("f%d", i), "x")
			h.Commit(w, fmt.Sprintf("c%d", i))
			ws = append(ws, w)
		}
		var wg sync.WaitGroup
		for i, w := range ws {
			wg.Go(func() {
				r, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: []string{"merge", "squash", "rebase"}[i%3]})
				if err != nil || !r.Merged {
					t.Errorf("%+v %v", r, err)
				}
			})
		}
		wg.Wait()
		for i := range ws {
			if !wstest.Exists(dir, fmt.Sprintf("f%d", i)) {
				t.Errorf("f%d is missing", i)
			}
		}
		if got := wstest.Git(t, dir, "status", "--porcelain"); got != "" {
			t.Error(got)
		}
	})
}

func TestClonedBaseIsFastForwarded(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	src := h.Repo("origin")
	p := h.UrlProject(src)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "mine", "x")
	h.Commit(w, "mine")
	if r := h.Merge(w, "squash"); !r.Merged || wstest.Git(t, p.GitDir, "rev-parse", "main") != r.Commit {
		t.Fatalf("%+v", r)
	}
	// Only local: a new workspace starts from it.
	w2 := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "two"})
	if !wstest.Exists(w2.Path, "mine") || !strings.Contains(wstest.StepOf(t, w2, "fetch").Detail, "1 commit is here that the remote has not") {
		t.Errorf("%+v", wstest.StepOf(t, w2, "fetch"))
	}
	// The remote moves as well: now they have diverged, and the user must choose.
	wstest.Write(t, src, "theirs", "x")
	wstest.CommitAll(t, src, "theirs")
	w3 := h.Settled(h.Create(workspaces.NewWorkspace{ProjectID: p.ID, Name: "three"}).ID)
	if w3.State != workspaces.Failed || !strings.Contains(w3.StateReason, "origin/main") {
		t.Errorf("%s %s", w3.State, w3.StateReason)
	}
	for base, want := range map[string]string{"origin/main": "theirs", "refs/heads/main": "mine"} {
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: want, Base: base})
		if !wstest.Exists(w.Path, want) {
			t.Errorf("%s holds no %s", base, want)
		}
		wstest.Write(t, w.Path, "from "+want, "x")
		h.Commit(w, "x")
		r, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge", DryRun: true})
		wstest.Must(t, err)
		if r.Base != "main" || len(r.Conflicts) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "have diverged") {
			t.Errorf("%s: %+v", base, r)
		}
	}
}

func TestRebaseOfUnusualHistories(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "one", "1\n")
	wstest.CommitAll(t, w.Path, "one\n\nBody with unicode ä\n\nSigned-off-by: x")
	wstest.Git(t, w.Path, "commit", "-q", "--allow-empty", "-m", "empty on purpose")
	wstest.Write(t, w.Path, "picked", "p\n")
	picked := wstest.CommitAll(t, w.Path, "picked")
	wstest.Git(t, dir, "cherry-pick", picked) // the base has this change already
	wstest.Write(t, dir, "side", "s\n")
	wstest.CommitAll(t, dir, "side")
	wstest.Git(t, w.Path, "merge", "-q", "--no-edit", "main")
	wstest.Write(t, w.Path, "two", "2\n")
	wstest.CommitAll(t, w.Path, "two")
	wstest.Write(t, dir, "after", "s\n")
	wstest.CommitAll(t, dir, "after")
	base := wstest.Git(t, dir, "rev-parse", "main")
	r := h.Merge(w, "rebase")
	if !r.Merged || len(r.Warnings) != 1 || wstest.Git(t, dir, "log", "--format=%s", base+"..main") != "two\nempty on purpose\none" {
		t.Errorf("%+v %s", r, wstest.Git(t, dir, "log", "--format=%s", base+"..main"))
	}
	if got := wstest.Git(t, dir, "log", "-1", "--format=%an|%ae|%cn", "main"); got != "Agent|agent@example.com|"+h.Actor.User.Name {
		t.Error(got)
	}
	if got := wstest.Git(t, dir, "log", "-1", "--format=%b", "main~2"); !strings.Contains(got, "unicode ä") {
		t.Error(got)
	}
}

func TestUnsafeNamesDoNotReachTheBase(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	// git's own commands reject such a tree; an agent can write its object manually.
	blob := wstest.Git(t, w.Path, "hash-object", "-w", "a.txt")
	raw, err := hex.DecodeString(blob)
	wstest.Must(t, err)
	wstest.Must(t, os.WriteFile(filepath.Join(h.Data, "inner"), append([]byte("100644 config\x00"), raw...), 0o644))
	inner, err := hex.DecodeString(wstest.Git(t, w.Path, "hash-object", "-w", "-t", "tree", "--literally", filepath.Join(h.Data, "inner")))
	wstest.Must(t, err)
	wstest.Must(t, os.WriteFile(filepath.Join(h.Data, "outer"), append([]byte("40000 .git\x00"), inner...), 0o644))
	tree := wstest.Git(t, w.Path, "hash-object", "-w", "-t", "tree", "--literally", filepath.Join(h.Data, "outer"))
	commit := wstest.Git(t, w.Path, "commit-tree", "-m", "evil", "-p", "HEAD", tree)
	wstest.Git(t, w.Path, "update-ref", "refs/heads/"+w.Branch, commit)
	before := wstest.Git(t, dir, "rev-parse", "main")
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		_, err = h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: strategy})
		wstest.WantCode(t, err, "tree_unsafe")
	}
	if wstest.Git(t, dir, "rev-parse", "main") != before {
		t.Error("the base moved")
	}
}

func TestBaseOfChangesFollowsWhatIsMergedIn(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	want := func(commit string) {
		t.Helper()
		for range 2 { // found, and remembered
			if got, err := h.S.Repo.BaseCommit(t.Context(), w.ID); err != nil || got != commit {
				t.Errorf("base %s, want %s (%v)", got, commit, err)
			}
		}
	}
	want(w.BaseCommit)
	wstest.Write(t, w.Path, "mine", "1")
	wstest.CommitAll(t, w.Path, "mine")
	wstest.Write(t, dir, "theirs", "1")
	theirs := wstest.CommitAll(t, dir, "theirs")
	want(w.BaseCommit)
	wstest.Git(t, w.Path, "merge", "-q", "--no-edit", "main")
	want(theirs) // what came from main is no change of the workspace's
	wstest.Git(t, w.Path, "reset", "-q", "--hard", "HEAD~1")
	want(w.BaseCommit)
	wstest.Git(t, w.Path, "rebase", "-q", "main")
	want(theirs)
	r := h.Merge(w, "squash")
	want(r.Head)
	wstest.Write(t, w.Path, "mine", "2")
	wstest.CommitAll(t, w.Path, "more")
	want(r.Head)
	_, err := h.S.Lifecycle.Archive(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	want(r.Head)
	_, err = h.S.Repo.BaseCommit(t.Context(), "ws_none")
	wstest.WantCode(t, err, "not_found")
}
