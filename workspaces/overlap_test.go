package workspaces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/overlap"
)

// treeNow is the tree of everything in a worktree, as a snapshot would have it.
func treeNow(t *testing.T, h *wstest.Env, w workspaces.Workspace) string {
	t.Helper()
	now, err := h.S.Ingest.FilesNow(context.Background(), w.ID)
	wstest.Must(t, err)
	return now.Tree
}

func numbered(n int, change map[int]string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		text := fmt.Sprintf("line %d", i)
		if c, ok := change[i]; ok {
			text = c
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("o")
	wstest.Write(t, dir, "long.txt", numbered(60, nil))
	wstest.Write(t, dir, "old.txt", numbered(5, nil))
	wstest.Must(t, os.WriteFile(filepath.Join(dir, "pic"), []byte("a\x00b"), 0o644))
	wstest.CommitAll(t, dir, "more")
	p := h.PathProject(dir)
	make1 := func(name string, change func(dir string)) overlap.Footprint {
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: name})
		change(w.Path)
		f, err := h.S.Footprint(ctx, w, treeNow(t, h, w), overlap.Footprint{})
		wstest.Must(t, err)
		return f
	}
	top := make1("top", func(d string) { wstest.Write(t, d, "long.txt", numbered(60, map[int]string{10: "TOP"})) })
	bottom := make1("bottom", func(d string) { wstest.Write(t, d, "long.txt", numbered(60, map[int]string{50: "BOTTOM"})) })
	near := make1("near", func(d string) { wstest.Write(t, d, "long.txt", numbered(60, map[int]string{11: "NEAR"})) })
	same := make1("same", func(d string) { wstest.Write(t, d, "long.txt", numbered(60, map[int]string{10: "TOP"})) })
	gone := make1("gone", func(d string) { wstest.Must(t, os.Remove(filepath.Join(d, "long.txt"))) })
	odd := make1("odd", func(d string) {
		wstest.Write(t, d, "new \"one\"\n.txt", "x\n")
		wstest.Must(t, os.WriteFile(filepath.Join(d, "pic"), []byte("a\x00c"), 0o644))
	})
	odd2 := make1("odd2", func(d string) {
		wstest.Write(t, d, "new \"one\"\n.txt", "y\n")
		wstest.Must(t, os.WriteFile(filepath.Join(d, "pic"), []byte("a\x00d"), 0o644))
	})
	none := make1("none", func(string) {})

	if s := top.Files["long.txt"].Spans; len(s) != 1 || s[0] != (overlap.Span{From: 10, To: 10}) || top.Files["long.txt"].Whole {
		t.Errorf("the footprint is %+v", top.Files)
	}
	for _, c := range []struct {
		what  string
		a, b  overlap.Footprint
		meets bool
		want  string
	}{
		{"far apart", top, bottom, false, ""},
		{"side by side", top, near, true, "long.txt content"},
		{"the same", top, same, false, ""},
		{"removed", top, gone, true, "long.txt modify/delete"},
		{"odd names and binaries", odd, odd2, true, "new \"one\"\n.txt content, pic binary"},
		{"nothing", top, none, false, ""},
	} {
		if got := c.a.Meets(c.b); got != c.meets || c.b.Meets(c.a) != got {
			t.Errorf("%s: meets %v", c.what, got)
		}
		found, err := h.S.Collide(ctx, p.ID, c.a, []overlap.Footprint{c.b, none})
		wstest.Must(t, err)
		var got []string
		for _, f := range found[0] {
			kind := f.Kind
			if f.Path == "pic" {
				kind = "binary"
			}
			got = append(got, f.Path+" "+kind)
		}
		if s := strings.Join(got, ", "); s != c.want || len(found[1]) > 0 {
			t.Errorf("%s: %q, and with nothing %v; want %q", c.what, s, found[1], c.want)
		}
	}

	// What conflicts only because one of the two is behind its base is no overlap.
	behind := make1("behind", func(d string) { wstest.Write(t, d, "old.txt", numbered(5, map[int]string{2: "MINE"})) })
	wstest.Write(t, dir, "old.txt", numbered(5, map[int]string{2: "BASE"}))
	wstest.CommitAll(t, dir, "on")
	ahead := make1("ahead", func(d string) { wstest.Write(t, d, "old.txt", numbered(5, map[int]string{2: "BASE", 5: "END"})) })
	found, err := h.S.Collide(ctx, p.ID, behind, []overlap.Footprint{ahead})
	wstest.Must(t, err)
	if behind.Base == ahead.Base || !behind.Meets(ahead) || len(found[0]) > 0 {
		t.Errorf("bases %s and %s, conflicts %v", behind.Base, ahead.Base, found)
	}

	// An unchanged workspace is not compared again, and costs one statement: every workspace of a project is requested when one has
	// changed.
	w, err := h.S.Records.Workspace(ctx, top.WorkspaceID)
	wstest.Must(t, err)
	before := h.Db.Statements()
	again, err := h.S.Footprint(ctx, w, top.Tree, overlap.Footprint{WorkspaceID: top.WorkspaceID, Base: top.Base, Tree: top.Tree})
	wstest.Must(t, err)
	if again.Files != nil {
		t.Error("a known footprint was made again")
	}
	if n := h.Db.Statements() - before; n > 1 {
		t.Errorf("a known footprint took %d statements", n)
	}
}

func TestCheckOut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("c")
	wstest.Write(t, dir, ".gitignore", ".env\nnode_modules/\nconf/\n")
	wstest.CommitAll(t, dir, "ignore")
	p := h.PathProject(dir)
	patterns := []string{".env", "conf/local.json"}
	p, err := h.S.Projects.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{CopyIgnored: &patterns})
	wstest.Must(t, err)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "w"})
	wstest.Write(t, w.Path, ".env", "SECRET=1\n")
	wstest.Write(t, w.Path, "conf/local.json", "{}\n")
	wstest.Write(t, w.Path, "conf/other.json", "{}\n")
	wstest.Write(t, w.Path, "node_modules/x/index.js", "x\n")
	wstest.Write(t, w.Path, "dirty.txt", "not committed\n")
	before := wstest.Git(t, dir, "worktree", "list")

	head, tree, err := h.S.Ingest.BranchNow(ctx, w.ID)
	wstest.Must(t, err)
	now, err := h.S.Ingest.FilesNow(ctx, w.ID)
	wstest.Must(t, err)
	if now.Clean || now.Head != head || now.Tree == tree {
		t.Errorf("now %+v at %s %s", now, head, tree)
	}
	got, err := h.S.Ingest.CheckOut(ctx, w.ID, head, w.Base)
	wstest.Must(t, err)
	defer os.RemoveAll(got)
	if wstest.Read(t, got, ".env") != "SECRET=1\n" || !wstest.Exists(got, "conf/local.json") || wstest.Exists(got, "conf/other.json") || wstest.Exists(got, "node_modules") || wstest.Exists(got, "dirty.txt") ||
		wstest.Read(t, got, "a.txt") != "one\ntwo\nthree\n" {
		t.Errorf("the checkout has %s", wstest.Git(t, got, "status", "--ignored", "--short"))
	}
	if b := wstest.Git(t, got, "symbolic-ref", "--short", "HEAD"); b != "main" || wstest.Git(t, got, "rev-parse", "HEAD") != head {
		t.Errorf("it is on %s", b)
	}
	wstest.Write(t, got, "made by a check", "x")
	if again, err := h.S.Ingest.CheckOut(ctx, w.ID, head, w.Base); err != nil || again != got || wstest.Exists(got, "made by a check") {
		t.Errorf("again: %s %v", again, err)
	}
	if wstest.Git(t, dir, "worktree", "list") != before || strings.Contains(wstest.Git(t, w.Path, "status", "--short"), "merged") {
		t.Error("the checkout left traces")
	}
	wstest.Must(t, h.S.Ingest.DropCheckOut(ctx, w.ID))
	if wstest.Exists(got, "") {
		t.Error("it is still there")
	}
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "dirty.txt")))
	if now, err = h.S.Ingest.FilesNow(ctx, w.ID); err != nil || !now.Clean || now.Tree != tree {
		t.Errorf("clean: %+v %v", now, err)
	}
	if _, err := h.S.Ingest.CheckOut(ctx, w.ID, strings.Repeat("1", 40), w.Base); err == nil {
		t.Error("a commit that is not there was checked out")
	}
	list := []workspaces.Check{{Name: "a", Command: "true"}, {Name: "A", Command: "true"}}
	_, err = h.S.Projects.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{Checks: &list})
	wstest.WantCode(t, err, "check_invalid")
	list[1].Name = "b"
	p, err = h.S.Projects.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{Checks: &list, Merging: &workspaces.Merging{Strategy: "squash", RequireChecks: true}})
	wstest.Must(t, err)
	if p, err = h.S.Records.Project(ctx, p.ID); err != nil || len(p.Checks) != 2 || p.Checks[0].ID == "" || p.Checks[0].TimeoutSeconds != workspaces.DefaultCheckSeconds || !p.Merging.RequireChecks || p.Merging.HowToMerge() != "squash" {
		t.Errorf("%+v %v", p, err)
	}
}
