package workspaces_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// smallDisk mounts a disk of 32 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root can make a small disk: what a full one does is NOT TESTED here")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a small disk could not be mounted (%v): what a full one does is NOT TESTED here", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	return disk
}

// noise is data that cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(b)
	return b
}

// fillDisk fills all but some of a disk's space, until empty is called.
func fillDisk(t *testing.T, disk string, spare int64) (empty func()) {
	t.Helper()
	name := filepath.Join(disk, "filler")
	f, err := os.Create(name)
	wstest.Must(t, err)
	for chunk := make([]byte, 64<<10); ; {
		_, err := f.Write(chunk)
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		wstest.Must(t, err)
	}
	fi, err := f.Stat()
	wstest.Must(t, err)
	wstest.Must(t, f.Truncate(max(fi.Size()-spare, 0)))
	wstest.Must(t, f.Close())
	return func() { wstest.Must(t, os.Remove(name)) }
}

// On a full disk nothing starts that cannot be finished: the error says so, refs, rows and files are unchanged, and once there is space it
// works.
func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	h := wstest.New(t, storetest.SQLite(t), func(c *assembly.Config) { c.DataDir = filepath.Join(disk, "data") })
	ctx := context.Background()
	dir := h.Repo("app")
	p := h.UrlProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Work"})
	fill := func(spare int64) (empty func()) { return fillDisk(t, disk, spare) }
	state := func() string {
		t.Helper()
		snaps, _, err := h.S.Snapshots.Snapshots(ctx, w.ID, nil, page.Page{})
		wstest.Must(t, err)
		ids := make([]string, len(snaps))
		for i, sn := range snaps {
			ids[i] = sn.ID
		}
		return wstest.Git(t, p.GitDir, "for-each-ref", "--format=%(refname) %(objectname)") + strings.Join(ids, " ")
	}
	wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "large"), noise(2<<20), 0o600))
	wstest.Write(t, w.Path, "a.txt", "first\n")
	first := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	ops := []struct {
		name string
		make func() // something for it to do
		do   func() error
	}{
		{"keep", func() { wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "large"), noise(3<<20), 0o600)) }, func() error {
			sn, err := h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapManual})
			if err == nil && len(sn.Missing) > 0 {
				t.Errorf("it is kept without %+v", sn.Missing)
			}
			return err
		}},
		{"commit", func() { wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "large"), noise(1<<20), 0o600)) }, func() error {
			_, err := h.S.Stage.Commit(ctx, h.Actor, w.ID, stage.CommitRequest{Message: "large"})
			return err
		}},
		{"restore", func() { wstest.Write(t, w.Path, "a.txt", "second\n") }, func() error {
			_, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, first, snapshot.RestoreRequest{})
			return err
		}},
		{"update", func() {
			wstest.Must(t, os.WriteFile(filepath.Join(dir, "theirs"), noise(1<<20), 0o600))
			wstest.CommitAll(t, dir, "theirs")
			_, err := h.S.Ingest.Branches(ctx, p.ID, true)
			wstest.Must(t, err)
		}, func() error {
			_, err := h.S.Merging.Update(ctx, h.Actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
			return err
		}},
		{"merge", func() {}, func() error {
			_, err := h.S.Merging.Merge(ctx, h.Actor, w.ID, workspaces.MergeRequest{Strategy: "squash"})
			return err
		}},
	}
	for _, op := range ops {
		op.make()
		was := state()
		files := map[string][]byte{}
		for _, name := range []string{"a.txt", "large"} {
			b, err := os.ReadFile(filepath.Join(w.Path, name))
			wstest.Must(t, err)
			files[name] = b
		}
		for _, spare := range []int64{0, 256 << 10} {
			empty := fill(spare)
			err := op.do()
			empty()
			if err == nil {
				t.Logf("%s goes with %d bytes to spare", op.name, spare)
				break
			}
			if !fault.Is(err, fault.DiskFull) || fault.CodeOf(err) != "disk_full" {
				t.Errorf("%s with %d bytes to spare: %s %s: %v", op.name, spare, fault.KindOf(err), fault.CodeOf(err), err)
			}
			if now := state(); now != was && op.name != "restore" && op.name != "update" { // which take a snapshot first
				t.Errorf("%s with %d bytes to spare failed, and left\n%s\nwhere was\n%s", op.name, spare, now, was)
			}
			for name, b := range files {
				now, err := os.ReadFile(filepath.Join(w.Path, name))
				if err != nil || !bytes.Equal(now, b) && op.name != "restore" {
					t.Errorf("%s with %d bytes to spare failed and left %d bytes of %s, %v", op.name, spare, len(now), name, err)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(w.Path, ".parawork-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
		if err := op.do(); err != nil && fault.CodeOf(err) != "nothing_to_commit" {
			t.Errorf("%s with room again: %v", op.name, err)
		}
		if out, err := wstest.TryGit(p.GitDir, "fsck", "--no-dangling", "--no-progress"); err != nil {
			t.Errorf("git fsck after %s: %v %s", op.name, err, out)
		}
	}
	if got := h.FileOf(w, first.ID, "a.txt"); got != "first\n" {
		t.Errorf("what was kept first has %q", got)
	}
}

// A workspace that cannot be archived because of a full disk keeps its sessions: archiving and deleting are rejected before any of them has
// ended, whether the snapshot does not fit or only what comes after it. With enough space they work.
func TestNoSessionEndsForAnArchiveWithoutDiskSpace(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	h := wstest.New(t, storetest.SQLite(t), func(c *assembly.Config) { c.DataDir = filepath.Join(disk, "data") })
	ctx := context.Background()
	p := h.UrlProject(h.Repo("app"))
	ends := func() int {
		h.Ses.Mu.Lock()
		defer h.Ses.Mu.Unlock()
		return h.Ses.Stopped
	}
	for i, way := range []struct {
		name string
		do   func(context.Context, accounts.Actor, string) (workspaces.Workspace, error)
	}{{"archive", h.S.Lifecycle.Archive}, {"delete", h.S.Lifecycle.Delete}} {
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: way.name})
		h.Ses.Mu.Lock()
		h.Ses.Open = 2
		h.Ses.Mu.Unlock()
		wstest.Write(t, w.Path, "a.txt", "not committed\n")
		before := ends()
		for _, at := range []struct {
			name  string
			spare int64
			large int // bytes of a file that is in no snapshot yet
		}{{"no room", 0, 0}, {"room for less than what comes after", 2 << 20, 0}, {"no room for the files", 5 << 20, 6<<20 + i}} {
			wstest.Must(t, os.WriteFile(filepath.Join(w.Path, "large"), noise(at.large), 0o600))
			empty := fillDisk(t, disk, at.spare)
			_, err := way.do(ctx, h.Actor, w.ID)
			empty()
			if fault.CodeOf(err) != "disk_full" {
				t.Errorf("%s with %s: %v", way.name, at.name, err)
			}
			if n := ends() - before; n != 0 {
				t.Errorf("%s with %s ended the sessions %d times", way.name, at.name, n)
			}
			if now, err := h.Store.Workspace(ctx, w.ID); err != nil || now.State != workspaces.Ready || now.DeletedAt != 0 || now.Snapshot != nil {
				t.Errorf("%s with %s left it %s, deleted at %d, snapshot %+v, %v", way.name, at.name, now.State, now.DeletedAt, now.Snapshot, err)
			}
			if got := wstest.Read(t, w.Path, "a.txt"); got != "not committed\n" {
				t.Errorf("%s with %s left %q", way.name, at.name, got)
			}
		}
		wstest.Must(t, os.Remove(filepath.Join(w.Path, "large"))) // the small disk is shared
		gone, err := way.do(ctx, h.Actor, w.ID)
		if err != nil || gone.State != workspaces.Archived && gone.DeletedAt == 0 {
			t.Fatalf("%s with room: %s, %v", way.name, gone.State, err)
		}
		if ends() == before {
			t.Errorf("%s with room ended no session", way.name)
		}
	}
}
