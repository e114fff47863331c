package snapshot_test

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
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Names of files are arguments of git: more of them than a program can be started with are refused, not tried.
func TestPatchOfLongNames(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w := h.Workspace()
	wstest.Write(t, w.Path, "new.txt", "new\n")
	sn := h.Keep(w.ID, snapshot.Request{})
	from, err := h.S.Snapshots.Resolve(t.Context(), w, "base", "")
	wstest.Must(t, err)
	to, err := h.S.Snapshots.Resolve(t.Context(), w, sn.ID, "")
	wstest.Must(t, err)
	var names []string
	for i := range 1500 {
		names = append(names, fmt.Sprintf("%s%d", strings.Repeat("long/", 400), i))
	}
	r, err := h.S.Snapshots.Patch(t.Context(), w.ID, from, to, names, 3, false)
	if err == nil {
		_, err = io.ReadAll(r)
		wstest.Must(t, r.Close())
	}
	wstest.WantCode(t, err, "too_many_paths")
}

func TestSnapshotHasTheWholeTree(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		ctx := context.Background()
		w := h.Workspace()
		wstest.Write(t, w.Path, "new/file.txt", "one\n")
		wstest.Write(t, w.Path, "odd\xffname\n\"x", "odd")
		wstest.Must(t, os.Symlink("/etc/passwd", filepath.Join(w.Path, "link")))
		wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "run.sh"), []byte("#!/bin/sh\n"), 0o755))
		wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "large"), bytes.Repeat([]byte("0123456789abcdef"), 200_000), 0o644))
		var heard []string
		h.S.Snapshots.OnSnapshot(func(_ string, s snapshot.Snap) { heard = append(heard, s.ID) })
		first := h.Keep(w.ID, snapshot.Request{Reason: "stop"})
		if first.Kind != snapshot.SnapKept || first.Reason != "stop" || first.Files != 5 {
			t.Errorf("the snapshot says %+v", first)
		}
		wstest.Write(t, w.Path, "new/file.txt", "two\n")
		wstest.Must(t, os.Remove(filepath.Join(w.Path, "run.sh")))
		second := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: "mine"})
		for rev, want := range map[string]string{first.ID: "one\n", second.ID: "two\n", "now": "two\n", first.Commit: "one\n", second.ID + "^": "one\n", "base": "-", "head": "-"} {
			if got := h.FileOf(w, rev, "new/file.txt"); got != want {
				t.Errorf("%s has %q, want %q", rev, got, want)
			}
		}
		if got := h.FileOf(w, first.ID, "odd\xffname\n\"x"); got != "odd" {
			t.Errorf("a file with an odd name has %q", got)
		}
		if got := h.FileOf(w, first.ID, "link"); got != "/etc/passwd" {
			t.Errorf("a link leads to %q", got)
		}
		if got := h.FileOf(w, first.ID, "large"); len(got) != 3_200_000 {
			t.Errorf("a large file has %d bytes", len(got))
		}
		third := h.Keep(w.ID, snapshot.Request{Reason: "delete"})
		if third.Tree != second.Tree || third.Files != 0 {
			t.Errorf("nothing changed, and the snapshot is another: %+v", third)
		}
		if len(heard) != 3 || h.Bus.Count("snapshots.updated") != 3 {
			t.Errorf("heard of %v", heard)
		}
		_, err := h.S.Snapshots.Resolve(ctx, w, strings.Repeat("0", 40), "")
		wstest.WantCode(t, err, "revision_not_found")
		_, err = h.S.Snapshots.Resolve(ctx, w, "review", h.Actor.User.ID)
		wstest.WantCode(t, err, "no_review")
		items, _, err := h.S.Snapshots.Snapshots(ctx, w.ID, nil, page.Page{})
		wstest.Must(t, err)
		if len(items) != 3 || items[0].ID != third.ID {
			t.Errorf("listed %+v", items)
		}
	})
}

func TestCompareTwoTrees(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	wstest.Write(t, w.Path, "moved.txt", strings.Join(lines, "\n"))
	wstest.Write(t, w.Path, "edited.txt", "a\nb\nc\n")
	wstest.Write(t, w.Path, "space.txt", "a b\n")
	wstest.Write(t, w.Path, "gone.txt", "x\n")
	wstest.Write(t, w.Path, ".gitattributes", "*.txt diff=evil\n*.txt filter=evil\n")
	one := h.Keep(w.ID, snapshot.Request{})
	wstest.Must(t, os.Rename(filepath.Join(w.Path, "moved.txt"), filepath.Join(w.Path, "there.txt")))
	wstest.Write(t, w.Path, "edited.txt", "a\nB\nc\nNeedle \xff\n")
	wstest.Write(t, w.Path, "space.txt", "a  b\n")
	wstest.Write(t, w.Path, "pic.png", "\x89PNG\x00\x01")
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "gone.txt")))
	two := h.Keep(w.ID, snapshot.Request{})
	from, err := h.S.Snapshots.Resolve(ctx, w, one.ID, "")
	wstest.Must(t, err)
	to, err := h.S.Snapshots.Resolve(ctx, w, two.ID, "")
	wstest.Must(t, err)
	c, err := h.S.Repo.Compare(ctx, w.ID, from, to, git.CompareOptions{Renames: true, IgnoreSpace: true})
	wstest.Must(t, err)
	var got []string
	for _, f := range c.Files {
		got = append(got, fmt.Sprintf("%s %s %s +%d -%d %s", f.Status, f.OldPath, f.Path, f.Additions, f.Deletions, f.Folded()))
	}
	want := "modified  edited.txt +2 -1 ;deleted  gone.txt +0 -1 deleted;added  pic.png +0 -0 binary;renamed moved.txt there.txt +0 -0 "
	if strings.Join(got, ";") != want {
		t.Errorf("they differ in\n%s\nwant\n%s", strings.Join(got, ";"), want)
	}
	c, err = h.S.Repo.Compare(ctx, w.ID, from, to, git.CompareOptions{Renames: true})
	wstest.Must(t, err)
	if len(c.Files) != 5 {
		t.Errorf("with white space %d files differ", len(c.Files))
	}
	r, err := h.S.Snapshots.Patch(ctx, w.ID, from, to, []string{"there.txt", "edited.txt"}, 3, false)
	wstest.Must(t, err)
	b, err := io.ReadAll(r)
	wstest.Must(t, err)
	wstest.Must(t, r.Close())
	if p := string(b); !strings.Contains(p, "rename from moved.txt") || !strings.Contains(p, "+Needle \xff\n") || strings.Contains(p, "space.txt") {
		t.Errorf("the patch is %q", p)
	}
	hits, more, err := h.S.Snapshots.SearchDiff(ctx, w.ID, from, to, "NEEDLE", false)
	wstest.Must(t, err)
	if len(hits) != 1 || more || hits[0].Path != "edited.txt" || hits[0].Line != 4 || hits[0].Side != "new" {
		t.Errorf("found %+v", hits)
	}
}
