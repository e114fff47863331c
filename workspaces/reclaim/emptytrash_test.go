package reclaim_test

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
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// Purging a workspace removes everything of it, and nothing of another's.
func TestPurge(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		dir := h.Repo("app")
		p := h.PathProject(dir)
		gone, stays := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Gone"}), h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Stays"})
		for _, w := range []workspaces.Workspace{gone, stays} {
			wstest.Write(t, w.Path, "work.txt", strings.Repeat(w.Name+" worked\n", 1000))
			_, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
			wstest.Must(t, err)
		}
		wstest.WantCode(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, "prj_none"), "not_found")
		all, err := h.S.Reclaim.Trashed(t.Context(), h.Team)
		wstest.Must(t, err)
		if len(all) != 2 || !all[0].Restorable || all[0].DeletedBy != h.Actor.User.ID || all[0].PurgeAt-all[0].DeletedAt != (30*24*time.Hour).Milliseconds() || all[0].Bytes != -1 {
			t.Fatalf("%+v", all)
		}
		u, err := h.S.Reclaim.UseOfWorkspace(t.Context(), gone.ID, p.GitDir)
		wstest.Must(t, err)
		if u.Kept <= 0 || u.Worktree != 0 {
			t.Errorf("%+v", u)
		}
		wstest.Must(t, h.S.Reclaim.Purge(t.Context(), reclaim.TrashWorkspace, gone.ID))
		if left := wstest.Git(t, p.GitDir, "for-each-ref", "refs/parawork/"); strings.Contains(left, gone.ID) || !strings.Contains(left, stays.ID) {
			t.Errorf("refs left: %s", left)
		}
		for _, err := range []error{h.S.Reclaim.Purge(t.Context(), reclaim.TrashWorkspace, gone.ID), func() error { _, err := h.S.Lifecycle.Restore(t.Context(), h.Actor, gone.ID); return err }(),
			func() error { _, err := h.S.Records.Workspace(t.Context(), gone.ID); return err }()} {
			wstest.WantCode(t, err, "not_found")
		}
		_, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, stays.ID)
		wstest.Must(t, err)
		if got := wstest.Read(t, stays.Path, "work.txt"); !strings.HasPrefix(got, "Stays worked") {
			t.Errorf("%.40q", got)
		}
		wstest.WantCode(t, h.S.Reclaim.Purge(t.Context(), reclaim.TrashWorkspace, stays.ID), "not_found") // it lives
		if next := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Next"}); next.Num != stays.Num+1 {
			t.Errorf("the number %d was given again", next.Num)
		}
	})
}

// What has been in the trash long enough is purged automatically, workspaces before their project; an interrupted purge is finished.
func TestTheTrashEmptiesItself(t *testing.T) {
	t.Parallel()
	now := time.Now()
	db := storetest.SQLite(t)
	h := wstest.New(t, db, func(c *assembly.Config) {
		c.Now = func() time.Time { return now }
		c.After = func(time.Duration) <-chan time.Time { return nil }
	})
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: workspaces.SourceSample})
	wstest.Must(t, err)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "work.txt", "x")
	_, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
	wstest.WantCode(t, h.S.Reclaim.Purge(t.Context(), reclaim.TrashProject, p.ID), "project_in_use")
	now = now.Add(29 * 24 * time.Hour)
	h.S.Reclaim.Retain(t.Context())
	// A wrong click four weeks ago: both come back.
	_, err = h.S.Reclaim.RestoreProject(t.Context(), p.ID)
	wstest.Must(t, err)
	_, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if wstest.Read(t, w.Path, "work.txt") != "x" {
		t.Error("the work is gone")
	}
	_, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
	now = now.Add(31 * 24 * time.Hour)
	wstest.Must(t, store.NewTrash(db).BeginPurge(t.Context(), reclaim.TrashWorkspace, w.ID, now.UnixMilli())) // and the server is killed
	if all, err := h.S.Reclaim.Trashed(t.Context(), h.Team); err != nil || len(all) != 1 {
		t.Errorf("%+v %v", all, err)
	}
	h.S.Reclaim.Retain(t.Context())
	if all, err := h.S.Reclaim.Trashed(t.Context(), h.Team); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := os.Stat(filepath.Join(h.Data, "projects", p.ID)); !os.IsNotExist(err) {
		t.Errorf("the clone is still there: %v", err)
	}
	if cut, err := store.NewTrash(db).CutPurges(t.Context()); err != nil || len(cut) != 0 {
		t.Errorf("%+v %v", cut, err)
	}
	_, err = h.S.Reclaim.RestoreProject(t.Context(), p.ID)
	wstest.WantCode(t, err, "not_found")
}

// Collecting frees unreachable objects, but none that a sandbox shares: not even one that is only staged there.
func TestCollectLeavesObjectsSandboxesShare(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: workspaces.SourceSample})
	wstest.Must(t, err)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	blob := func(text string) string {
		wstest.Write(t, h.Data, "blob", text)
		return wstest.Git(t, p.GitDir, "hash-object", "-w", filepath.Join(h.Data, "blob"))
	}
	staged, loose, young := blob("only staged in a sandbox"), blob("needed by nobody"), blob("being written now")
	// git's state of a merge and the like, and an index of a worktree the agent made itself, name objects, too.
	merging, rebased, linked := blob("being merged"), blob("before a rebase"), blob("staged in another worktree")
	private := filepath.Join(h.Data, "boxes", w.ID, "git")
	wstest.Must(t, os.MkdirAll(filepath.Dir(private), 0o755))
	wstest.Git(t, h.Data, "init", "-q", "--bare", private)
	wstest.Write(t, private, "objects/info/alternates", filepath.Join(p.GitDir, "objects")+"\n")
	wstest.Git(t, private, "update-index", "--add", "--cacheinfo", "100644,"+staged+",a.txt")
	wstest.Must(t, os.MkdirAll(filepath.Join(private, "worktrees", "mine"), 0o755))
	wstest.Must(t, os.Rename(filepath.Join(private, "index"), filepath.Join(private, "index.own")))
	wstest.Git(t, private, "update-index", "--add", "--cacheinfo", "100644,"+linked+",b.txt")
	wstest.Must(t, os.Rename(filepath.Join(private, "index"), filepath.Join(private, "worktrees", "mine", "index")))
	wstest.Must(t, os.Rename(filepath.Join(private, "index.own"), filepath.Join(private, "index")))
	wstest.Write(t, private, "AUTO_MERGE", merging+"\n")
	wstest.Write(t, private, "rebase-merge/orig-head", rebased+"\n")
	old := time.Now().Add(-72 * time.Hour)
	wstest.Must(t, filepath.WalkDir(filepath.Join(p.GitDir, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, young[2:]) {
			err = os.Chtimes(path, old, old)
		}
		return err
	}))
	_, err = h.S.Reclaim.Collect(t.Context(), p)
	wstest.Must(t, err)
	for id, want := range map[string]bool{staged: true, loose: false, young: true, merging: true, rebased: true, linked: true} {
		if _, err := wstest.TryGit(p.GitDir, "cat-file", "-e", id); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", id, err == nil, want)
		}
	}
	if left := wstest.Git(t, p.GitDir, "for-each-ref", "refs/parawork/collecting"); left != "" {
		t.Errorf("names left: %s", left)
	}
	wstest.Git(t, p.GitDir, "fsck", "--connectivity-only")
	// While a sandbox has unfetched commits, or its git cannot be read, nothing is removed.
	wstest.Write(t, private, "refs/heads/secret", strings.Repeat("a", 40)+"\n")
	_, err = h.S.Reclaim.Collect(t.Context(), p)
	wstest.WantCode(t, err, "repository_in_use")
	wstest.Must(t, os.Remove(filepath.Join(private, "refs/heads/secret")))
	wstest.Write(t, private, "worktrees/mine/HEAD", strings.Repeat("a", 40)+"\n")
	_, err = h.S.Reclaim.Collect(t.Context(), p)
	wstest.WantCode(t, err, "repository_in_use")
	wstest.Must(t, os.Remove(filepath.Join(private, "worktrees/mine/HEAD")))
	// Names in a reftable are not text: they are not treated as missing. A branch and its log may have that name.
	wstest.Write(t, private, "refs/heads/reftable/mine", wstest.Git(t, p.GitDir, "rev-parse", "HEAD")+"\n")
	wstest.Write(t, private, "logs/refs/heads/reftable/mine", "")
	_, err = h.S.Reclaim.Collect(t.Context(), p)
	wstest.Must(t, err)
	for _, dir := range []string{"reftable", "worktrees/mine/reftable"} {
		wstest.Write(t, private, dir+"/0x000000000001-0x000000000002-5d2f1a0c.ref", "REFT\x01")
		_, err = h.S.Reclaim.Collect(t.Context(), p)
		if wstest.WantCode(t, err, "repository_in_use"); !strings.Contains(fmt.Sprint(err), "reftable") {
			t.Errorf("%s: %v", dir, err)
		}
		wstest.Must(t, os.RemoveAll(filepath.Join(private, dir)))
	}
	// More than fits in memory is not read: it may be sparse on the disk.
	for i := range 6 {
		wstest.Write(t, private, fmt.Sprintf("logs/refs/heads/large%d", i), "")
		wstest.Must(t, os.Truncate(filepath.Join(private, fmt.Sprintf("logs/refs/heads/large%d", i)), 100<<20))
	}
	_, err = h.S.Reclaim.Collect(t.Context(), p)
	wstest.WantCode(t, err, "repository_in_use")
	wstest.Must(t, os.RemoveAll(filepath.Join(private, "logs")))
	wstest.Write(t, private, "index", "DIRC\x00\x00\x00\x02\xff\xff\xff\xff nonsense")
	_, err = h.S.Reclaim.Collect(t.Context(), p)
	wstest.WantCode(t, err, "repository_in_use")
}
