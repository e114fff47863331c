package origin_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/origin"
)

// MergedThere fetches what was squashed on the forge: the local base follows, the workspace counts as merged, and its old commits no
// longer count as work of its own.
func TestMergedOnTheForge(t *testing.T) {
	t.Parallel()
	h, f, _, p, bare := pushHarness(t)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main", Name: "Merge it there"})
	wstest.Write(t, w.Path, "new.txt", "new\n")
	h.Commit(w, "Add new")
	wstest.Write(t, w.Path, "new.txt", "newer\n")
	c := h.Commit(w, "Make it newer")

	if url, err := h.S.From.Origin(t.Context(), p.ID); err != nil || url != "https://"+f.Host()+"/a.git" {
		t.Errorf("origin %q %v", url, err)
	}
	a, err := h.S.Ahead(t.Context(), w.ID)
	if err != nil || a.Target != "main" || a.Branch != w.Branch || a.Head != c.Commit || !slices.Equal(a.Subjects, []string{"Make it newer", "Add new"}) {
		t.Fatalf("ahead %+v %v", a, err)
	}
	_, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{})
	wstest.Must(t, err)
	work := filepath.Join(t.TempDir(), "work")
	wstest.Git(t, t.TempDir(), "clone", "--quiet", bare, work)
	wstest.Git(t, work, "merge", "--quiet", "--squash", "origin/"+w.Branch)
	squashed := wstest.CommitAll(t, work, "All of it (#1)")
	wstest.Git(t, work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
	wstest.Write(t, w.Path, "later.txt", "later\n")
	later := h.Commit(w, "Go on")

	there := origin.MergedThere{Base: "main", Head: c.Commit, Commit: squashed, Text: "Merged there"}
	for range 2 { // the second time says nothing new
		wstest.Must(t, h.S.MergedThere(t.Context(), w.ID, there))
	}
	w, err = h.S.Records.Workspace(t.Context(), w.ID)
	if err != nil || w.MergedAt == 0 || w.MergedCommit != squashed || w.BaseCommit != c.Commit {
		t.Errorf("%d %s %s %v", w.MergedAt, w.MergedCommit, w.BaseCommit, err)
	}
	if got := wstest.Git(t, p.GitDir, "rev-parse", "refs/heads/main"); got != squashed {
		t.Errorf("main is at %s", got)
	}
	acts, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{})
	wstest.Must(t, err)
	if n := len(slices.DeleteFunc(acts, func(a workspaces.Activity) bool { return a.Kind != "merge" })); n != 1 {
		t.Errorf("it is in the timeline %d times", n)
	}
	if a, err = h.S.Ahead(t.Context(), w.ID); err != nil || !slices.Equal(a.Subjects, []string{"Go on"}) {
		t.Errorf("left to merge: %+v %v", a, err)
	}
	r, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: workspaces.StrategyMerge, DryRun: true})
	if err != nil || r.Commits != 1 || len(r.Conflicts) > 0 || r.Head != later.Commit {
		t.Errorf("the next merge: %+v %v", r, err)
	}

	err = h.S.MergedThere(t.Context(), w.ID, origin.MergedThere{Base: "main", Head: "--upload-pack=x", Commit: squashed})
	wstest.WantCode(t, err, "forge_answer_wrong")
}
