package ingest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// What an abandoned sandbox did after its workspace continued without it is saved.
func TestRemnantsAreSavedNextToTheWork(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	p := h.PathProject(h.LongRepo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	ctx := context.Background()
	place, _ := a.Manager.Live(w.ID)
	was := wstest.Git(t, p.GitDir, "rev-parse", w.Branch)
	keep := func() []string {
		t.Helper()
		wstest.Must(t, h.S.Ingest.SaveRemnants(ctx, place))
		return strings.Fields(wstest.Git(t, p.GitDir, "for-each-ref", "--format=%(refname:short)", "refs/heads/"+w.Branch+"-on-*"))
	}
	if got := keep(); len(got) != 0 {
		t.Errorf("of nothing new there are branches %q", got)
	}
	one := a.Sh(w, "echo 1 > one; git add one; git commit -qm one; git rev-parse HEAD")
	a.Sh(w, "echo loose > loose; echo more >> a.txt; rm -r dir")
	a.Sh(w, "git branch side; git switch -q side; git stash -q -u; echo 2 > two; git add two; git commit -qm two; git switch -q -; git stash pop -q")
	got := keep()
	if len(got) != 2 {
		t.Fatalf("branches: %q", got)
	}
	for _, name := range got {
		if strings.HasSuffix(name, "-side") {
			if s := wstest.Git(t, p.GitDir, "log", "-1", "--format=%s", name); s != "two" {
				t.Errorf("%s is at %q", name, s)
			}
			continue
		}
		if s := wstest.Git(t, p.GitDir, "rev-parse", name+"^"); s != one {
			t.Errorf("%s stands on %s", name, s)
		}
		if s := wstest.Git(t, p.GitDir, "diff-tree", "-r", "--name-status", one, name); s != "M\ta.txt\nD\tdir/b.txt\nA\tloose" {
			t.Errorf("%s holds\n%s", name, s)
		}
	}
	if now := wstest.Git(t, p.GitDir, "rev-parse", w.Branch); now != was && now != one { // a background fetch may have moved it
		t.Errorf("the workspace's own branch is at %s", now)
	}
	if again := keep(); len(again) != 2 {
		t.Errorf("kept again: %q", again)
	}
	log, _, err := h.S.Records.Activity(ctx, w.ID, page.Page{Limit: 50})
	wstest.Must(t, err)
	reported := 0
	for _, e := range log {
		if e.Kind == "workspace.left_kept" {
			reported++
			if !strings.Contains(e.Text, "3 files not committed") || !strings.Contains(e.Text, got[0]) {
				t.Errorf("told: %s", e.Text)
			}
		}
	}
	if reported != 1 {
		t.Errorf("told %d times", reported)
	}
}
