package workspaces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/overlap"
)

// treeNow is the tree of everything in a worktree, as a snapshot would have it.
func treeNow(t *testing.T, h *house, w workspaces.Workspace) string {
	t.Helper()
	now, err := h.s.FilesNow(context.Background(), w.ID)
	must(t, err)
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
	h := sqliteHouse(t)
	dir := h.repo("o")
	write(t, dir, "long.txt", numbered(60, nil))
	write(t, dir, "old.txt", numbered(5, nil))
	must(t, os.WriteFile(filepath.Join(dir, "pic"), []byte("a\x00b"), 0o644))
	commitAll(t, dir, "more")
	p := h.pathProject(dir)
	make1 := func(name string, change func(dir string)) overlap.Footprint {
		w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: name})
		change(w.Path)
		f, err := h.s.Footprint(ctx, w, treeNow(t, h, w), overlap.Footprint{})
		must(t, err)
		return f
	}
	top := make1("top", func(d string) { write(t, d, "long.txt", numbered(60, map[int]string{10: "TOP"})) })
	bottom := make1("bottom", func(d string) { write(t, d, "long.txt", numbered(60, map[int]string{50: "BOTTOM"})) })
	near := make1("near", func(d string) { write(t, d, "long.txt", numbered(60, map[int]string{11: "NEAR"})) })
	same := make1("same", func(d string) { write(t, d, "long.txt", numbered(60, map[int]string{10: "TOP"})) })
	gone := make1("gone", func(d string) { must(t, os.Remove(filepath.Join(d, "long.txt"))) })
	odd := make1("odd", func(d string) {
		write(t, d, "new \"one\"\n.txt", "x\n")
		must(t, os.WriteFile(filepath.Join(d, "pic"), []byte("a\x00c"), 0o644))
	})
	odd2 := make1("odd2", func(d string) {
		write(t, d, "new \"one\"\n.txt", "y\n")
		must(t, os.WriteFile(filepath.Join(d, "pic"), []byte("a\x00d"), 0o644))
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
		found, err := h.s.Collide(ctx, p.ID, c.a, []overlap.Footprint{c.b, none})
		must(t, err)
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
	behind := make1("behind", func(d string) { write(t, d, "old.txt", numbered(5, map[int]string{2: "MINE"})) })
	write(t, dir, "old.txt", numbered(5, map[int]string{2: "BASE"}))
	commitAll(t, dir, "on")
	ahead := make1("ahead", func(d string) { write(t, d, "old.txt", numbered(5, map[int]string{2: "BASE", 5: "END"})) })
	found, err := h.s.Collide(ctx, p.ID, behind, []overlap.Footprint{ahead})
	must(t, err)
	if behind.Base == ahead.Base || !behind.Meets(ahead) || len(found[0]) > 0 {
		t.Errorf("bases %s and %s, conflicts %v", behind.Base, ahead.Base, found)
	}

	// Unchanged is not looked at again, and costs one statement: every workspace of a project is asked for when one has changed.
	w, err := h.s.Workspace(ctx, top.WorkspaceID)
	must(t, err)
	before := h.db.Statements()
	again, err := h.s.Footprint(ctx, w, top.Tree, overlap.Footprint{WorkspaceID: top.WorkspaceID, Base: top.Base, Tree: top.Tree})
	must(t, err)
	if again.Files != nil {
		t.Error("a known footprint was made again")
	}
	if n := h.db.Statements() - before; n > 1 {
		t.Errorf("a known footprint took %d statements", n)
	}
}

func TestCheckOut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := sqliteHouse(t)
	dir := h.repo("c")
	write(t, dir, ".gitignore", ".env\nnode_modules/\nconf/\n")
	commitAll(t, dir, "ignore")
	p := h.pathProject(dir)
	patterns := []string{".env", "conf/local.json"}
	p, err := h.s.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{CopyIgnored: &patterns})
	must(t, err)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "w"})
	write(t, w.Path, ".env", "SECRET=1\n")
	write(t, w.Path, "conf/local.json", "{}\n")
	write(t, w.Path, "conf/other.json", "{}\n")
	write(t, w.Path, "node_modules/x/index.js", "x\n")
	write(t, w.Path, "dirty.txt", "not committed\n")
	before := git(t, dir, "worktree", "list")

	head, tree, err := h.s.BranchNow(ctx, w.ID)
	must(t, err)
	now, err := h.s.FilesNow(ctx, w.ID)
	must(t, err)
	if now.Clean || now.Head != head || now.Tree == tree {
		t.Errorf("now %+v at %s %s", now, head, tree)
	}
	got, err := h.s.CheckOut(ctx, w.ID, head, w.Base)
	must(t, err)
	defer os.RemoveAll(got)
	if read(t, got, ".env") != "SECRET=1\n" || !exists(got, "conf/local.json") || exists(got, "conf/other.json") || exists(got, "node_modules") || exists(got, "dirty.txt") ||
		read(t, got, "a.txt") != "one\ntwo\nthree\n" {
		t.Errorf("the checkout has %s", git(t, got, "status", "--ignored", "--short"))
	}
	if b := git(t, got, "symbolic-ref", "--short", "HEAD"); b != "main" || git(t, got, "rev-parse", "HEAD") != head {
		t.Errorf("it is on %s", b)
	}
	write(t, got, "made by a check", "x")
	if again, err := h.s.CheckOut(ctx, w.ID, head, w.Base); err != nil || again != got || exists(got, "made by a check") {
		t.Errorf("again: %s %v", again, err)
	}
	if git(t, dir, "worktree", "list") != before || strings.Contains(git(t, w.Path, "status", "--short"), "merged") {
		t.Error("the checkout left traces")
	}
	must(t, h.s.DropCheckOut(ctx, w.ID))
	if exists(got, "") {
		t.Error("it is still there")
	}
	must(t, os.Remove(filepath.Join(w.Path, "dirty.txt")))
	if now, err = h.s.FilesNow(ctx, w.ID); err != nil || !now.Clean || now.Tree != tree {
		t.Errorf("clean: %+v %v", now, err)
	}
	if _, err := h.s.CheckOut(ctx, w.ID, strings.Repeat("1", 40), w.Base); err == nil {
		t.Error("a commit that is not there was checked out")
	}
	list := []workspaces.Check{{Name: "a", Command: "true"}, {Name: "A", Command: "true"}}
	_, err = h.s.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{Checks: &list})
	wantCode(t, err, "check_invalid")
	list[1].Name = "b"
	p, err = h.s.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{Checks: &list, Merging: &workspaces.Merging{Strategy: "squash", RequireChecks: true}})
	must(t, err)
	if p, err = h.s.Project(ctx, p.ID); err != nil || len(p.Checks) != 2 || p.Checks[0].ID == "" || p.Checks[0].TimeoutSeconds != workspaces.DefaultCheckSeconds || !p.Merging.RequireChecks || p.Merging.HowToMerge() != "squash" {
		t.Errorf("%+v %v", p, err)
	}
}
