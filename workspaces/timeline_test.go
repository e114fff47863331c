package workspaces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

func TestRestoreASnapshot(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	write(t, w.Path, "a.txt", "edited\n")
	write(t, w.Path, "new/deep/file", "new\n")
	must(t, os.Symlink("a.txt", filepath.Join(w.Path, "link")))
	must(t, os.WriteFile(filepath.Join(w.Path, "run.sh"), []byte("#!/bin/sh\n"), 0o755))
	h.keep(w.ID, workspaces.KeepFor{})
	sn := h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual, Title: "good"})
	must(t, os.RemoveAll(filepath.Join(w.Path, "new")))
	must(t, os.Remove(filepath.Join(w.Path, "link")))
	must(t, os.Remove(filepath.Join(w.Path, "run.sh")))
	write(t, w.Path, "new", "a file where a folder was\n")
	write(t, w.Path, "a.txt", "worse\n")
	write(t, w.Path, "later", "later\n")

	dry, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{DryRun: true})
	must(t, err)
	if read(t, w.Path, "a.txt") != "worse\n" || dry.Kept.ID != "" {
		t.Errorf("a dry run did something: %+v", dry)
	}
	one, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{Paths: []string{"a.txt"}})
	must(t, err)
	if !slices.Equal(one.Changed, []string{"a.txt"}) || read(t, w.Path, "a.txt") != "edited\n" || read(t, w.Path, "later") != "later\n" {
		t.Errorf("one file was asked for: %+v", one)
	}
	if got := h.fileOf(w, one.Kept.ID, "a.txt"); got != "worse\n" {
		t.Errorf("before the restore %q was kept", got)
	}
	all, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{})
	must(t, err)
	if len(all.Conflicts) != 0 || read(t, w.Path, "new/deep/file") != "new\n" {
		t.Errorf("restored %+v", all)
	}
	if to, err := os.Readlink(filepath.Join(w.Path, "link")); err != nil || to != "a.txt" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if fi, err := os.Stat(filepath.Join(w.Path, "run.sh")); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("the program is %v, %v", fi, err)
	}
	if _, err := os.Lstat(filepath.Join(w.Path, "later")); err == nil {
		t.Error("what the snapshot has not is still there")
	}
	if got := h.fileOf(w, all.Kept.ID, "later"); got != "later\n" {
		t.Errorf("before the restore %q was kept", got)
	}
	if again := h.keep(w.ID, workspaces.KeepFor{}); again.Tree != sn.Tree {
		t.Error("after the restore the files are others than in the snapshot")
	}

	fresh, err := h.s.RestoreSnapshot(ctx, h.actor, all.Kept, workspaces.RestoreRequest{New: true, Name: "Second try"})
	must(t, err)
	n := fresh.Workspace
	if n.ID == w.ID || n.State != workspaces.Ready || n.Branch == w.Branch || read(t, n.Path, "later") != "later\n" || read(t, n.Path, "a.txt") != "edited\n" {
		t.Errorf("the new workspace is %+v", n)
	}
	if out := git(t, n.Path, "status", "--porcelain", "--untracked-files=all"); !strings.Contains(out, "?? later") {
		t.Errorf("its files are not uncommitted: %q", out)
	}
}

// A file that somebody writes in the moment of a restore is left alone.
func TestRestoreLeavesWhatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	sn := h.keep(w.ID, workspaces.KeepFor{})
	write(t, w.Path, "a.txt", "one\n")
	var once atomic.Bool
	h.s.OnSnapshot(func(_ string, s workspaces.Snap) {
		if s.Reason == "restore" && once.CompareAndSwap(false, true) {
			write(t, w.Path, "a.txt", "written meanwhile\n")
		}
	})
	done, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{})
	must(t, err)
	if !slices.Equal(done.Conflicts, []string{"a.txt"}) || read(t, w.Path, "a.txt") != "written meanwhile\n" {
		t.Errorf("restored %+v, the file has %q", done, read(t, w.Path, "a.txt"))
	}
}

func TestSnapshotsEndWithTheirDays(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		ctx := context.Background()
		var ahead atomic.Int64
		h.stop()
		h.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		h.start()
		w := h.workspace()
		polled := func(text string) workspaces.Snap {
			write(t, w.Path, "a.txt", text)
			must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
			sn, err := h.s.Now(ctx, w.ID)
			must(t, err)
			return sn
		}
		old := polled("old\n")
		pinned := polled("pinned\n")
		pinned, err := h.s.PinSnapshot(ctx, pinned, true)
		must(t, err)
		if pinned.ExpiresAt != 0 {
			t.Errorf("a pinned one ends at %d", pinned.ExpiresAt)
		}
		kept := h.keep(w.ID, workspaces.KeepFor{Reason: "stop"})
		ahead.Store(int64(9 * 24 * time.Hour))
		newer := polled("newer\n")
		if n, err := h.s.PruneSnapshots(ctx); err != nil || n != 1 {
			t.Fatalf("%d ended: %v", n, err)
		}
		_, err = h.s.Resolve(ctx, w, old.ID, "")
		wantCode(t, err, "revision_not_found")
		git(t, w.Path, "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
		for rev, want := range map[string]string{pinned.ID: "pinned\n", kept.ID: "pinned\n", newer.ID: "newer\n"} {
			if got := h.fileOf(w, rev, "a.txt"); got != want {
				t.Errorf("%s has %q, want %q", rev, got, want)
			}
		}
		if out, err := tryGit(w.Path, "cat-file", "-e", old.Commit); err == nil {
			t.Errorf("what ended is still in the repository: %s", out)
		}
		ahead.Store(int64(60 * 24 * time.Hour))
		if _, err := h.s.PruneSnapshots(ctx); err != nil {
			t.Fatal(err)
		}
		if got := h.fileOf(w, pinned.ID, "a.txt"); got != "pinned\n" {
			t.Errorf("the pinned one has %q", got)
		}
		items, _, err := h.s.Timeline(ctx, w.ID, []string{"poll", "kept"}, page.Page{})
		must(t, err)
		if len(items) != 1 || items[0].Snap.ID != pinned.ID {
			t.Errorf("the timeline has %d items", len(items))
		}
		// With nothing before it, the next one is of everything again.
		if got := h.fileOf(w, polled("afterwards\n").ID, "dir/b.txt"); got != "b\n" {
			t.Errorf("a file that did not change has %q", got)
		}
	})
}

// What old snapshots cost to let go of grows with their workspaces, not with how many there are of each.
func TestOldSnapshotsAreReadAtOnce(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	var ahead atomic.Int64
	h.stop()
	h.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h.start()
	w := h.workspace()
	prune := func(snaps int) int64 {
		for i := range snaps {
			write(t, w.Path, "a.txt", fmt.Sprintf("%d of %d\n", i, snaps))
			must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
		}
		ahead.Add(int64(9 * 24 * time.Hour))
		h.stop() // nothing else is read meanwhile
		defer h.start()
		before := h.db.Statements()
		if n, err := h.s.PruneSnapshots(ctx); err != nil || n != snaps {
			t.Fatalf("%d ended, not %d: %v", n, snaps, err)
		}
		return h.db.Statements() - before
	}
	if one, many := prune(1), prune(12); one != many {
		t.Errorf("one old snapshot takes %d statements, 12 take %d", one, many)
	}
}

// A row that was not stored, because the server was killed, is made from the repository.
func TestSnapshotsThatWereCutAreMended(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	write(t, w.Path, "a.txt", "one\n")
	h.keep(w.ID, workspaces.KeepFor{Reason: "stop"})
	write(t, w.Path, "a.txt", "two\n")
	lost := h.keep(w.ID, workspaces.KeepFor{Reason: "update", Title: "second"})
	must(t, h.store.DeleteSnapshots(ctx, []string{lost.ID}))
	h.stop()
	h.start()
	write(t, w.Path, "a.txt", "three\n")
	h.keep(w.ID, workspaces.KeepFor{})
	got, err := h.s.Snap(ctx, w.ID, lost.ID)
	must(t, err)
	if got.Tree != lost.Tree || got.Commit != lost.Commit || got.At != lost.At || got.Title != "second" || got.Reason != "update" || got.Files != lost.Files {
		t.Errorf("mended to %+v, was %+v", got, lost)
	}
}

// Whatever an agent puts into its worktree: a snapshot takes what can be kept, names the rest, runs nothing and comes to an end.
func TestSnapshotOfAHostileTree(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	mark := filepath.Join(t.TempDir(), "ran")
	write(t, w.Path, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
	git(t, w.Path, "config", "filter.evil.clean", "touch "+mark)
	git(t, w.Path, "config", "filter.evil.smudge", "touch "+mark)
	git(t, w.Path, "config", "diff.evil.textconv", "touch "+mark)
	git(t, w.Path, "config", "core.fsmonitor", "touch "+mark)
	write(t, w.Path, "plain", "plain\n")
	must(t, syscall.Mkfifo(filepath.Join(w.Path, "fifo"), 0o600))
	f, err := os.Create(filepath.Join(w.Path, "sparse"))
	must(t, err)
	must(t, f.Truncate(3<<30))
	must(t, f.Close())
	must(t, os.Symlink("/etc", filepath.Join(w.Path, "etc")))
	must(t, os.MkdirAll(filepath.Join(w.Path, "nested/.git"), 0o755))
	must(t, os.MkdirAll(filepath.Join(w.Path, "sub/.GIT"), 0o755))
	write(t, w.Path, "sub/.GIT/config", "[core]\n")
	paths := []string{".gitattributes", "plain", "fifo", "sparse", "etc", "etc/passwd", "nested", "sub/.GIT/config", "../outside", "gone", "a.txt"}
	must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, paths, true))
	sn, err := h.s.Now(ctx, w.ID)
	must(t, err)
	for name, want := range map[string]string{"plain": "plain\n", "etc": "/etc", "etc/passwd": "-", "sparse": "-", "fifo": "-", "sub/.GIT/config": "-", "a.txt": "one\ntwo\nthree\n"} {
		if got := h.fileOf(w, sn.ID, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	var missing []string
	for _, m := range sn.Missing {
		missing = append(missing, m.Path)
	}
	slices.Sort(missing)
	if want := []string{"../outside", "nested", "sparse", "sub/.GIT/config"}; !slices.Equal(missing, want) {
		t.Errorf("missing are %q, want %q", missing, want)
	}
	from, err := h.s.Resolve(ctx, w, "base", "")
	must(t, err)
	to, err := h.s.Resolve(ctx, w, sn.ID, "")
	must(t, err)
	r, err := h.s.Patch(ctx, w.ID, from, to, nil, 3, false)
	must(t, err)
	b := make([]byte, 1<<20)
	_, _ = r.Read(b)
	must(t, r.Close())
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a program of the agent's ran on the host")
	}
}

// What a turn changed is all it changed, however many looks saw it change.
func TestATurnIsComparedWithTheTurnBefore(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	turn := func() workspaces.Snap {
		return h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapTurn, Title: "Do it"})
	}
	turn()
	for _, text := range []string{"1\n", "2\n", "3\n"} {
		write(t, w.Path, "new", text)
		must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"new"}, true))
	}
	sn := turn()
	if sn.Files != 1 || sn.Additions != 1 {
		t.Errorf("the turn says %+v", sn)
	}
	if got := h.fileOf(w, sn.ID+"^", "new"); got != "-" {
		t.Errorf("before the turn the file had %q", got)
	}
}
