package workspaces_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

// keep takes a snapshot that somebody asks for.
func (h *house) keep(id string, f workspaces.KeepFor) workspaces.Snap {
	h.t.Helper()
	sn, err := h.s.Keep(context.Background(), id, f)
	must(h.t, err)
	return sn
}

// fileOf reads a file of a tree, "-" when there is none.
func (h *house) fileOf(w workspaces.Workspace, rev, path string) string {
	h.t.Helper()
	t, err := h.s.Resolve(context.Background(), w, rev, h.actor.User.ID)
	must(h.t, err)
	r, _, err := h.s.FileAt(context.Background(), w.ID, t, path)
	if err != nil {
		wantCode(h.t, err, "file_not_found")
		return "-"
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	must(h.t, err)
	return string(b)
}

// Names of files are arguments of git: more of them than a program can be started with are refused, not tried.
func TestPatchOfLongNames(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	w := h.workspace()
	write(t, w.Path, "new.txt", "new\n")
	sn := h.keep(w.ID, workspaces.KeepFor{})
	from, err := h.s.Resolve(t.Context(), w, "base", "")
	must(t, err)
	to, err := h.s.Resolve(t.Context(), w, sn.ID, "")
	must(t, err)
	var names []string
	for i := range 1500 {
		names = append(names, fmt.Sprintf("%s%d", strings.Repeat("long/", 400), i))
	}
	r, err := h.s.Patch(t.Context(), w.ID, from, to, names, 3, false)
	if err == nil {
		_, err = io.ReadAll(r)
		must(t, r.Close())
	}
	wantCode(t, err, "too_many_paths")
}

func TestKeepHoldsTheWholeTree(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		ctx := context.Background()
		w := h.workspace()
		write(t, w.Path, "new/file.txt", "one\n")
		write(t, w.Path, "odd\xffname\n\"x", "odd")
		must(t, os.Symlink("/etc/passwd", filepath.Join(w.Path, "link")))
		must(t, os.WriteFile(filepath.Join(w.Path, "run.sh"), []byte("#!/bin/sh\n"), 0o755))
		must(t, os.WriteFile(filepath.Join(w.Path, "large"), bytes.Repeat([]byte("0123456789abcdef"), 200_000), 0o644))
		var heard []string
		h.s.OnSnapshot(func(_ string, s workspaces.Snap) { heard = append(heard, s.ID) })
		first := h.keep(w.ID, workspaces.KeepFor{Reason: "stop"})
		if first.Kind != workspaces.SnapKept || first.Reason != "stop" || first.Files != 5 {
			t.Errorf("the snapshot says %+v", first)
		}
		write(t, w.Path, "new/file.txt", "two\n")
		must(t, os.Remove(filepath.Join(w.Path, "run.sh")))
		second := h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual, Title: "mine"})
		for rev, want := range map[string]string{first.ID: "one\n", second.ID: "two\n", "now": "two\n", first.Commit: "one\n", second.ID + "^": "one\n", "base": "-", "head": "-"} {
			if got := h.fileOf(w, rev, "new/file.txt"); got != want {
				t.Errorf("%s has %q, want %q", rev, got, want)
			}
		}
		if got := h.fileOf(w, first.ID, "odd\xffname\n\"x"); got != "odd" {
			t.Errorf("a file with an odd name has %q", got)
		}
		if got := h.fileOf(w, first.ID, "link"); got != "/etc/passwd" {
			t.Errorf("a link leads to %q", got)
		}
		if got := h.fileOf(w, first.ID, "large"); len(got) != 3_200_000 {
			t.Errorf("a large file has %d bytes", len(got))
		}
		third := h.keep(w.ID, workspaces.KeepFor{Reason: "delete"})
		if third.Tree != second.Tree || third.Files != 0 {
			t.Errorf("nothing changed, and the snapshot is another: %+v", third)
		}
		if len(heard) != 3 || h.bus.count("snapshots.updated") != 3 {
			t.Errorf("heard of %v", heard)
		}
		_, err := h.s.Resolve(ctx, w, strings.Repeat("0", 40), "")
		wantCode(t, err, "revision_not_found")
		_, err = h.s.Resolve(ctx, w, "review", h.actor.User.ID)
		wantCode(t, err, "no_review")
		items, _, err := h.s.Snapshots(ctx, w.ID, nil, page.Page{})
		must(t, err)
		if len(items) != 3 || items[0].ID != third.ID {
			t.Errorf("listed %+v", items)
		}
	})
}

func TestCompareTwoTrees(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	write(t, w.Path, "moved.txt", strings.Join(lines, "\n"))
	write(t, w.Path, "edited.txt", "a\nb\nc\n")
	write(t, w.Path, "space.txt", "a b\n")
	write(t, w.Path, "gone.txt", "x\n")
	write(t, w.Path, ".gitattributes", "*.txt diff=evil\n*.txt filter=evil\n")
	one := h.keep(w.ID, workspaces.KeepFor{})
	must(t, os.Rename(filepath.Join(w.Path, "moved.txt"), filepath.Join(w.Path, "there.txt")))
	write(t, w.Path, "edited.txt", "a\nB\nc\nNeedle \xff\n")
	write(t, w.Path, "space.txt", "a  b\n")
	write(t, w.Path, "pic.png", "\x89PNG\x00\x01")
	must(t, os.Remove(filepath.Join(w.Path, "gone.txt")))
	two := h.keep(w.ID, workspaces.KeepFor{})
	from, err := h.s.Resolve(ctx, w, one.ID, "")
	must(t, err)
	to, err := h.s.Resolve(ctx, w, two.ID, "")
	must(t, err)
	c, err := h.s.Compare(ctx, w.ID, from, to, workspaces.CompareOptions{Renames: true, IgnoreSpace: true})
	must(t, err)
	var got []string
	for _, f := range c.Files {
		got = append(got, fmt.Sprintf("%s %s %s +%d -%d %s", f.Status, f.OldPath, f.Path, f.Additions, f.Deletions, f.Folded()))
	}
	want := "modified  edited.txt +2 -1 ;deleted  gone.txt +0 -1 deleted;added  pic.png +0 -0 binary;renamed moved.txt there.txt +0 -0 "
	if strings.Join(got, ";") != want {
		t.Errorf("they differ in\n%s\nwant\n%s", strings.Join(got, ";"), want)
	}
	c, err = h.s.Compare(ctx, w.ID, from, to, workspaces.CompareOptions{Renames: true})
	must(t, err)
	if len(c.Files) != 5 {
		t.Errorf("with white space %d files differ", len(c.Files))
	}
	r, err := h.s.Patch(ctx, w.ID, from, to, []string{"there.txt", "edited.txt"}, 3, false)
	must(t, err)
	b, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	if p := string(b); !strings.Contains(p, "rename from moved.txt") || !strings.Contains(p, "+Needle \xff\n") || strings.Contains(p, "space.txt") {
		t.Errorf("the patch is %q", p)
	}
	hits, more, err := h.s.SearchDiff(ctx, w.ID, from, to, "NEEDLE", false)
	must(t, err)
	if len(hits) != 1 || more || hits[0].Path != "edited.txt" || hits[0].Line != 4 || hits[0].Side != "new" {
		t.Errorf("found %+v", hits)
	}
}

// workspace makes a project and a workspace of it.
func (h *house) workspace() workspaces.Workspace {
	h.t.Helper()
	p := h.pathProject(h.repo("app"))
	return h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Work"})
}
