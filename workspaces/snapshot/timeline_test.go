package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func TestRestoreASnapshot(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	wstest.Write(t, w.Path, "a.txt", "edited\n")
	wstest.Write(t, w.Path, "new/deep/file", "new\n")
	wstest.Must(t, os.Symlink("a.txt", filepath.Join(w.Path, "link")))
	wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "run.sh"), []byte("#!/bin/sh\n"), 0o755))
	h.Keep(w.ID, snapshot.Request{})
	sn := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: "good"})
	wstest.Must(t, os.RemoveAll(filepath.Join(w.Path, "new")))
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "link")))
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "run.sh")))
	wstest.Write(t, w.Path, "new", "a file where a folder was\n")
	wstest.Write(t, w.Path, "a.txt", "worse\n")
	wstest.Write(t, w.Path, "later", "later\n")

	dry, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{DryRun: true})
	wstest.Must(t, err)
	if wstest.Read(t, w.Path, "a.txt") != "worse\n" || dry.Kept.ID != "" {
		t.Errorf("a dry run did something: %+v", dry)
	}
	one, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{Paths: []string{"a.txt"}})
	wstest.Must(t, err)
	if !slices.Equal(one.Changed, []string{"a.txt"}) || wstest.Read(t, w.Path, "a.txt") != "edited\n" || wstest.Read(t, w.Path, "later") != "later\n" {
		t.Errorf("one file was asked for: %+v", one)
	}
	if got := h.FileOf(w, one.Kept.ID, "a.txt"); got != "worse\n" {
		t.Errorf("before the restore %q was kept", got)
	}
	all, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{})
	wstest.Must(t, err)
	if len(all.Conflicts) != 0 || wstest.Read(t, w.Path, "new/deep/file") != "new\n" {
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
	if got := h.FileOf(w, all.Kept.ID, "later"); got != "later\n" {
		t.Errorf("before the restore %q was kept", got)
	}
	if again := h.Keep(w.ID, snapshot.Request{}); again.Tree != sn.Tree {
		t.Error("after the restore the files are others than in the snapshot")
	}

	fresh, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, all.Kept, snapshot.RestoreRequest{New: true, Name: "Second try"})
	wstest.Must(t, err)
	n := fresh.Workspace
	if n.ID == w.ID || n.State != workspaces.Ready || n.Branch == w.Branch || wstest.Read(t, n.Path, "later") != "later\n" || wstest.Read(t, n.Path, "a.txt") != "edited\n" {
		t.Errorf("the new workspace is %+v", n)
	}
	if out := wstest.Git(t, n.Path, "status", "--porcelain", "--untracked-files=all"); !strings.Contains(out, "?? later") {
		t.Errorf("its files are not uncommitted: %q", out)
	}
}

// A file that somebody writes at the moment of a restore is left alone.
func TestRestoreLeavesWhatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	sn := h.Keep(w.ID, snapshot.Request{})
	wstest.Write(t, w.Path, "a.txt", "one\n")
	var once atomic.Bool
	h.S.Snapshots.OnSnapshot(func(_ string, s snapshot.Snap) {
		if s.Reason == "restore" && once.CompareAndSwap(false, true) {
			wstest.Write(t, w.Path, "a.txt", "written meanwhile\n")
		}
	})
	done, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{})
	wstest.Must(t, err)
	if !slices.Equal(done.Conflicts, []string{"a.txt"}) || wstest.Read(t, w.Path, "a.txt") != "written meanwhile\n" {
		t.Errorf("restored %+v, the file has %q", done, wstest.Read(t, w.Path, "a.txt"))
	}
}

func TestSnapshotsExpireWithTheirDays(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		ctx := context.Background()
		var ahead atomic.Int64
		h.Stop()
		h.Cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		h.Start()
		w := h.Workspace()
		polled := func(text string) snapshot.Snap {
			wstest.Write(t, w.Path, "a.txt", text)
			wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
			sn, err := h.S.Snapshots.Now(ctx, w.ID)
			wstest.Must(t, err)
			return sn
		}
		old := polled("old\n")
		pinned := polled("pinned\n")
		pinned, err := h.S.Snapshots.PinSnapshot(ctx, pinned, true)
		wstest.Must(t, err)
		if pinned.ExpiresAt != 0 {
			t.Errorf("a pinned one ends at %d", pinned.ExpiresAt)
		}
		kept := h.Keep(w.ID, snapshot.Request{Reason: "stop"})
		ahead.Store(int64(9 * 24 * time.Hour))
		newer := polled("newer\n")
		if n, err := h.S.Snapshots.PruneSnapshots(ctx); err != nil || n != 1 {
			t.Fatalf("%d ended: %v", n, err)
		}
		_, err = h.S.Snapshots.Resolve(ctx, w, old.ID, "")
		wstest.WantCode(t, err, "revision_not_found")
		wstest.Git(t, w.Path, "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
		for rev, want := range map[string]string{pinned.ID: "pinned\n", kept.ID: "pinned\n", newer.ID: "newer\n"} {
			if got := h.FileOf(w, rev, "a.txt"); got != want {
				t.Errorf("%s has %q, want %q", rev, got, want)
			}
		}
		if out, err := wstest.TryGit(w.Path, "cat-file", "-e", old.Commit); err == nil {
			t.Errorf("what ended is still in the repository: %s", out)
		}
		ahead.Store(int64(60 * 24 * time.Hour))
		if _, err := h.S.Snapshots.PruneSnapshots(ctx); err != nil {
			t.Fatal(err)
		}
		if got := h.FileOf(w, pinned.ID, "a.txt"); got != "pinned\n" {
			t.Errorf("the pinned one has %q", got)
		}
		items, _, err := h.S.Snapshots.Timeline(ctx, w.ID, []string{"poll", "kept"}, page.Page{})
		wstest.Must(t, err)
		if len(items) != 1 || items[0].Snap.ID != pinned.ID {
			t.Errorf("the timeline has %d items", len(items))
		}
		// With nothing before it, the next one is of everything again.
		if got := h.FileOf(w, polled("afterwards\n").ID, "dir/b.txt"); got != "b\n" {
			t.Errorf("a file that did not change has %q", got)
		}
	})
}

// A snapshot that expired stays if a review begins to refer to it while expired ones are being deleted, and nobody deletes it from then on.
func TestAReviewKeepsAnExpiredSnapshot(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	var ahead atomic.Int64
	h.Stop()
	h.Cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h.Start()
	w := h.Workspace()
	polled := func(text string) snapshot.Snap {
		wstest.Write(t, w.Path, "a.txt", text)
		wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
		sn, err := h.S.Snapshots.Now(ctx, w.ID)
		wstest.Must(t, err)
		return sn
	}
	read := polled("read\n")
	ahead.Store(int64(9 * 24 * time.Hour))
	h.Stop() // nothing else reads the database
	defer h.Start()
	pruned := make(chan error, 1)
	wstest.Must(t, h.S.Snapshots.Hold(ctx, w.ID, read.ID, func() error {
		before := h.Db.Statements()
		go func() { _, err := h.S.Snapshots.PruneSnapshots(ctx); pruned <- err }()
		for end := time.Now().Add(10 * time.Second); h.Db.Statements() < before+2; runtime.Gosched() { // it has listed what is to be deleted
			if time.Now().After(end) {
				t.Fatal("nothing is being deleted")
			}
		}
		_, err := h.Db.Exec(ctx, `INSERT INTO reviews (id, team_id, workspace_id, author_id, state, snapshot_id, created_at, updated_at) VALUES ('rev_1', ?, ?, ?, 'sent', ?, 1, 1)`, w.TeamID, w.ID, w.CreatedBy, read.ID)
		return err
	}))
	wstest.Must(t, <-pruned)
	h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	wstest.WantCode(t, h.S.Snapshots.DeleteSnapshot(ctx, read), "snapshot_in_review")
	if got := h.FileOf(w, read.ID, "a.txt"); got != "read\n" {
		t.Errorf("it has %q", got)
	}
}

// The cost of deleting old snapshots grows with their workspaces, not with the number of snapshots of each.
func TestOldSnapshotsAreReadAtOnce(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	var ahead atomic.Int64
	h.Stop()
	h.Cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h.Start()
	w := h.Workspace()
	prune := func(snaps int) int64 {
		for i := range snaps {
			wstest.Write(t, w.Path, "a.txt", fmt.Sprintf("%d of %d\n", i, snaps))
			wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
		}
		ahead.Add(int64(9 * 24 * time.Hour))
		h.Stop() // nothing else is read meanwhile
		defer h.Start()
		before := h.Db.Statements()
		if n, err := h.S.Snapshots.PruneSnapshots(ctx); err != nil || n != snaps {
			t.Fatalf("%d ended, not %d: %v", n, snaps, err)
		}
		return h.Db.Statements() - before
	}
	if one, many := prune(1), prune(12); one != many {
		t.Errorf("one old snapshot takes %d statements, 12 take %d", one, many)
	}
}

// A row that was not stored, because the server was killed, is recreated from the repository.
func TestInterruptedSnapshotsAreRecovered(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	wstest.Write(t, w.Path, "a.txt", "one\n")
	h.Keep(w.ID, snapshot.Request{Reason: "stop"})
	wstest.Write(t, w.Path, "a.txt", "two\n")
	lost := h.Keep(w.ID, snapshot.Request{Reason: "update", Title: "second"})
	wstest.Must(t, h.Store.DeleteSnapshots(ctx, []string{lost.ID}))
	h.Stop()
	h.Start()
	wstest.Write(t, w.Path, "a.txt", "three\n")
	h.Keep(w.ID, snapshot.Request{})
	got, err := h.S.Snapshots.Snap(ctx, w.ID, lost.ID)
	wstest.Must(t, err)
	if got.Tree != lost.Tree || got.Commit != lost.Commit || got.At != lost.At || got.Title != "second" || got.Reason != "update" || got.Files != lost.Files {
		t.Errorf("recovered as %+v, was %+v", got, lost)
	}
}

// Whatever an agent puts into its worktree: a snapshot takes what can be stored, lists the rest, runs nothing and ends.
func TestSnapshotOfAHostileTree(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	mark := filepath.Join(t.TempDir(), "ran")
	wstest.Write(t, w.Path, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
	wstest.Git(t, w.Path, "config", "filter.evil.clean", "touch "+mark)
	wstest.Git(t, w.Path, "config", "filter.evil.smudge", "touch "+mark)
	wstest.Git(t, w.Path, "config", "diff.evil.textconv", "touch "+mark)
	wstest.Git(t, w.Path, "config", "core.fsmonitor", "touch "+mark)
	wstest.Write(t, w.Path, "plain", "plain\n")
	wstest.Must(t, syscall.Mkfifo(filepath.Join(w.Path, "fifo"), 0o600))
	f, err := os.Create(filepath.Join(w.Path, "sparse"))
	wstest.Must(t, err)
	wstest.Must(t, f.Truncate(3<<30))
	wstest.Must(t, f.Close())
	wstest.Must(t, os.Symlink("/etc", filepath.Join(w.Path, "etc")))
	wstest.Must(t, os.MkdirAll(filepath.Join(w.Path, "nested/.git"), 0o755))
	wstest.Must(t, os.MkdirAll(filepath.Join(w.Path, "sub/.GIT"), 0o755))
	wstest.Write(t, w.Path, "sub/.GIT/config", "[core]\n")
	paths := []string{".gitattributes", "plain", "fifo", "sparse", "etc", "etc/passwd", "nested", "sub/.GIT/config", "../outside", "gone", "a.txt"}
	wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, paths, true))
	sn, err := h.S.Snapshots.Now(ctx, w.ID)
	wstest.Must(t, err)
	for name, want := range map[string]string{"plain": "plain\n", "etc": "/etc", "etc/passwd": "-", "sparse": "-", "fifo": "-", "sub/.GIT/config": "-", "a.txt": "one\ntwo\nthree\n"} {
		if got := h.FileOf(w, sn.ID, name); got != want {
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
	from, err := h.S.Snapshots.Resolve(ctx, w, "base", "")
	wstest.Must(t, err)
	to, err := h.S.Snapshots.Resolve(ctx, w, sn.ID, "")
	wstest.Must(t, err)
	r, err := h.S.Snapshots.Patch(ctx, w.ID, from, to, nil, 3, false)
	wstest.Must(t, err)
	b := make([]byte, 1<<20)
	_, _ = r.Read(b)
	wstest.Must(t, r.Close())
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a program of the agent's ran on the host")
	}
}

// A turn's changes are all it changed, however many polls saw them.
func TestATurnIsComparedWithTheTurnBefore(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	turn := func() snapshot.Snap {
		return h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapTurn, Title: "Do it"})
	}
	turn()
	for _, text := range []string{"1\n", "2\n", "3\n"} {
		wstest.Write(t, w.Path, "new", text)
		wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"new"}, true))
	}
	sn := turn()
	if sn.Files != 1 || sn.Additions != 1 {
		t.Errorf("the turn says %+v", sn)
	}
	if got := h.FileOf(w, sn.ID+"^", "new"); got != "-" {
		t.Errorf("before the turn the file had %q", got)
	}
}
