package workspaces_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// A workspace that is removed for good leaves nothing behind, and takes nothing of another's with it.
func TestPurge(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		dir := h.repo("app")
		p := h.pathProject(dir)
		gone, stays := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Gone"}), h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Stays"})
		for _, w := range []workspaces.Workspace{gone, stays} {
			write(t, w.Path, "work.txt", strings.Repeat(w.Name+" worked\n", 1000))
			_, err := h.s.Delete(t.Context(), h.actor, w.ID)
			must(t, err)
		}
		wantCode(t, h.s.DeleteProject(t.Context(), h.actor, "prj_none"), "not_found")
		all, err := h.s.Trashed(t.Context(), h.team)
		must(t, err)
		if len(all) != 2 || !all[0].Restorable || all[0].DeletedBy != h.actor.User.ID || all[0].PurgeAt-all[0].DeletedAt != (30*24*time.Hour).Milliseconds() || all[0].Bytes != -1 {
			t.Fatalf("%+v", all)
		}
		u, err := h.s.UseOfWorkspace(t.Context(), gone.ID, p.GitDir)
		must(t, err)
		if u.Kept <= 0 || u.Worktree != 0 {
			t.Errorf("%+v", u)
		}
		must(t, h.s.Purge(t.Context(), workspaces.TrashWorkspace, gone.ID))
		if left := git(t, p.GitDir, "for-each-ref", "refs/parawork/"); strings.Contains(left, gone.ID) || !strings.Contains(left, stays.ID) {
			t.Errorf("refs left: %s", left)
		}
		for _, err := range []error{h.s.Purge(t.Context(), workspaces.TrashWorkspace, gone.ID), func() error { _, err := h.s.Restore(t.Context(), h.actor, gone.ID); return err }(),
			func() error { _, err := h.s.Workspace(t.Context(), gone.ID); return err }()} {
			wantCode(t, err, "not_found")
		}
		_, err = h.s.Restore(t.Context(), h.actor, stays.ID)
		must(t, err)
		if got := read(t, stays.Path, "work.txt"); !strings.HasPrefix(got, "Stays worked") {
			t.Errorf("%.40q", got)
		}
		wantCode(t, h.s.Purge(t.Context(), workspaces.TrashWorkspace, stays.ID), "not_found") // it lives
		if next := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Next"}); next.Num != stays.Num+1 {
			t.Errorf("the number %d was given again", next.Num)
		}
	})
}

// What lay in the trash for long enough goes by itself, workspaces before their project; what a crash cut is finished.
func TestTheTrashEmptiesItself(t *testing.T) {
	t.Parallel()
	now := time.Now()
	db := storetest.SQLite(t)
	h := newHouse(t, db, func(c *workspaces.Config) {
		c.Now = func() time.Time { return now }
		c.After = func(time.Duration) <-chan time.Time { return nil }
	})
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: workspaces.SourceSample})
	must(t, err)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "work.txt", "x")
	_, err = h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
	wantCode(t, h.s.Purge(t.Context(), workspaces.TrashProject, p.ID), "project_in_use")
	now = now.Add(29 * 24 * time.Hour)
	h.s.Retain(t.Context())
	// A wrong click four weeks ago: both come back.
	_, err = h.s.RestoreProject(t.Context(), p.ID)
	must(t, err)
	_, err = h.s.Restore(t.Context(), h.actor, w.ID)
	must(t, err)
	if read(t, w.Path, "work.txt") != "x" {
		t.Error("the work is gone")
	}
	_, err = h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
	now = now.Add(31 * 24 * time.Hour)
	must(t, store.NewTrash(db).BeginPurge(t.Context(), workspaces.TrashWorkspace, w.ID, now.UnixMilli())) // and the server is killed
	if all, err := h.s.Trashed(t.Context(), h.team); err != nil || len(all) != 1 {
		t.Errorf("%+v %v", all, err)
	}
	h.s.Retain(t.Context())
	if all, err := h.s.Trashed(t.Context(), h.team); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := os.Stat(filepath.Join(h.data, "projects", p.ID)); !os.IsNotExist(err) {
		t.Errorf("the clone is still there: %v", err)
	}
	if cut, err := store.NewTrash(db).CutPurges(t.Context()); err != nil || len(cut) != 0 {
		t.Errorf("%+v %v", cut, err)
	}
	_, err = h.s.RestoreProject(t.Context(), p.ID)
	wantCode(t, err, "not_found")
}

// Collecting frees what nothing names any more, and nothing that a sandbox borrows: not even what is only staged there.
func TestCollectLeavesWhatSandboxesBorrow(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: workspaces.SourceSample})
	must(t, err)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	blob := func(text string) string {
		write(t, h.data, "blob", text)
		return git(t, p.GitDir, "hash-object", "-w", filepath.Join(h.data, "blob"))
	}
	staged, loose, young := blob("only staged in a sandbox"), blob("needed by nobody"), blob("being written now")
	// What git notes while it merges and the like, and an index of a worktree the agent made itself, name objects, too.
	merging, rebased, linked := blob("being merged"), blob("before a rebase"), blob("staged in another worktree")
	private := filepath.Join(h.data, "boxes", w.ID, "git")
	must(t, os.MkdirAll(filepath.Dir(private), 0o755))
	git(t, h.data, "init", "-q", "--bare", private)
	write(t, private, "objects/info/alternates", filepath.Join(p.GitDir, "objects")+"\n")
	git(t, private, "update-index", "--add", "--cacheinfo", "100644,"+staged+",a.txt")
	must(t, os.MkdirAll(filepath.Join(private, "worktrees", "mine"), 0o755))
	must(t, os.Rename(filepath.Join(private, "index"), filepath.Join(private, "index.own")))
	git(t, private, "update-index", "--add", "--cacheinfo", "100644,"+linked+",b.txt")
	must(t, os.Rename(filepath.Join(private, "index"), filepath.Join(private, "worktrees", "mine", "index")))
	must(t, os.Rename(filepath.Join(private, "index.own"), filepath.Join(private, "index")))
	write(t, private, "AUTO_MERGE", merging+"\n")
	write(t, private, "rebase-merge/orig-head", rebased+"\n")
	old := time.Now().Add(-72 * time.Hour)
	must(t, filepath.WalkDir(filepath.Join(p.GitDir, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, young[2:]) {
			err = os.Chtimes(path, old, old)
		}
		return err
	}))
	_, err = h.s.Collect(t.Context(), p)
	must(t, err)
	for id, want := range map[string]bool{staged: true, loose: false, young: true, merging: true, rebased: true, linked: true} {
		if _, err := tryGit(p.GitDir, "cat-file", "-e", id); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", id, err == nil, want)
		}
	}
	if left := git(t, p.GitDir, "for-each-ref", "refs/parawork/collecting"); left != "" {
		t.Errorf("names left: %s", left)
	}
	git(t, p.GitDir, "fsck", "--connectivity-only")
	// While a sandbox has commits that are not home nothing is removed; nor while its git cannot be read.
	write(t, private, "refs/heads/secret", strings.Repeat("a", 40)+"\n")
	_, err = h.s.Collect(t.Context(), p)
	wantCode(t, err, "repository_borrowed")
	must(t, os.Remove(filepath.Join(private, "refs/heads/secret")))
	write(t, private, "worktrees/mine/HEAD", strings.Repeat("a", 40)+"\n")
	_, err = h.s.Collect(t.Context(), p)
	wantCode(t, err, "repository_borrowed")
	must(t, os.Remove(filepath.Join(private, "worktrees/mine/HEAD")))
	// Names in a reftable are no text: they are not read as if there were none. A branch and its log may be called like one.
	write(t, private, "refs/heads/reftable/mine", git(t, p.GitDir, "rev-parse", "HEAD")+"\n")
	write(t, private, "logs/refs/heads/reftable/mine", "")
	_, err = h.s.Collect(t.Context(), p)
	must(t, err)
	for _, dir := range []string{"reftable", "worktrees/mine/reftable"} {
		write(t, private, dir+"/0x000000000001-0x000000000002-5d2f1a0c.ref", "REFT\x01")
		_, err = h.s.Collect(t.Context(), p)
		if wantCode(t, err, "repository_borrowed"); !strings.Contains(fmt.Sprint(err), "reftable") {
			t.Errorf("%s: %v", dir, err)
		}
		must(t, os.RemoveAll(filepath.Join(private, dir)))
	}
	// More than is held in memory is not read: nothing of it costs room on the disk.
	for i := range 6 {
		write(t, private, fmt.Sprintf("logs/refs/heads/large%d", i), "")
		must(t, os.Truncate(filepath.Join(private, fmt.Sprintf("logs/refs/heads/large%d", i)), 100<<20))
	}
	_, err = h.s.Collect(t.Context(), p)
	wantCode(t, err, "repository_borrowed")
	must(t, os.RemoveAll(filepath.Join(private, "logs")))
	write(t, private, "index", "DIRC\x00\x00\x00\x02\xff\xff\xff\xff nonsense")
	_, err = h.s.Collect(t.Context(), p)
	wantCode(t, err, "repository_borrowed")
}
