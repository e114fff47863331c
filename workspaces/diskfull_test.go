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

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// On a disk that is full nothing is begun that cannot be ended: it is said, refs, rows and files are as they were, and once there is room it
// goes.
func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root can make a small disk: what a full one does is NOT TESTED here")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a small disk could not be mounted (%v): what a full one does is NOT TESTED here", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	h := newHouse(t, storetest.SQLite(t), func(c *workspaces.Config) { c.DataDir = filepath.Join(disk, "data") })
	ctx := context.Background()
	dir := h.repo("app")
	p := h.urlProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Work"})
	noise := func(n int) []byte { // which cannot be made smaller
		b := make([]byte, n)
		r := rand.NewChaCha8([32]byte{byte(n)})
		_, _ = r.Read(b)
		return b
	}
	fill := func(spare int64) (empty func()) {
		t.Helper()
		name := filepath.Join(disk, "filler")
		f, err := os.Create(name)
		must(t, err)
		for chunk := make([]byte, 64<<10); ; {
			n, err := f.Write(chunk)
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			must(t, err)
			_ = n
		}
		fi, err := f.Stat()
		must(t, err)
		must(t, f.Truncate(max(fi.Size()-spare, 0)))
		must(t, f.Close())
		return func() { must(t, os.Remove(name)) }
	}
	state := func() string {
		t.Helper()
		snaps, _, err := h.s.Snapshots(ctx, w.ID, nil, page.Page{})
		must(t, err)
		ids := make([]string, len(snaps))
		for i, sn := range snaps {
			ids[i] = sn.ID
		}
		return git(t, p.GitDir, "for-each-ref", "--format=%(refname) %(objectname)") + strings.Join(ids, " ")
	}
	must(t, os.WriteFile(filepath.Join(w.Path, "large"), noise(2<<20), 0o600))
	write(t, w.Path, "a.txt", "first\n")
	first := h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual})
	ops := []struct {
		name string
		make func() // something for it to do
		do   func() error
	}{
		{"keep", func() { must(t, os.WriteFile(filepath.Join(w.Path, "large"), noise(3<<20), 0o600)) }, func() error {
			sn, err := h.s.Keep(ctx, w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual})
			if err == nil && len(sn.Missing) > 0 {
				t.Errorf("it is kept without %+v", sn.Missing)
			}
			return err
		}},
		{"commit", func() { must(t, os.WriteFile(filepath.Join(w.Path, "large"), noise(1<<20), 0o600)) }, func() error {
			_, err := h.s.Commit(ctx, h.actor, w.ID, workspaces.CommitRequest{Message: "large"})
			return err
		}},
		{"restore", func() { write(t, w.Path, "a.txt", "second\n") }, func() error {
			_, err := h.s.RestoreSnapshot(ctx, h.actor, first, workspaces.RestoreRequest{})
			return err
		}},
		{"update", func() {
			must(t, os.WriteFile(filepath.Join(dir, "theirs"), noise(1<<20), 0o600))
			commitAll(t, dir, "theirs")
			_, err := h.s.Branches(ctx, p.ID, true)
			must(t, err)
		}, func() error {
			_, err := h.s.Update(ctx, h.actor, w.ID, workspaces.UpdateRequest{Strategy: "merge"})
			return err
		}},
		{"merge", func() {}, func() error {
			_, err := h.s.Merge(ctx, h.actor, w.ID, workspaces.MergeRequest{Strategy: "squash"})
			return err
		}},
	}
	for _, op := range ops {
		op.make()
		was := state()
		files := map[string][]byte{}
		for _, name := range []string{"a.txt", "large"} {
			b, err := os.ReadFile(filepath.Join(w.Path, name))
			must(t, err)
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
			if now := state(); now != was && op.name != "restore" && op.name != "update" { // which keep first
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
		if out, err := tryGit(p.GitDir, "fsck", "--no-dangling", "--no-progress"); err != nil {
			t.Errorf("git fsck after %s: %v %s", op.name, err, out)
		}
	}
	if got := h.fileOf(w, first.ID, "a.txt"); got != "first\n" {
		t.Errorf("what was kept first has %q", got)
	}
}
