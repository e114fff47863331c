package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/stage"
)

// messy fills a worktree with every kind of unsaved work.
func messy(t *testing.T, h *wstest.Env, dir string) {
	t.Helper()
	wstest.Write(t, dir, "a.txt", "modified\n")
	wstest.Write(t, dir, "untracked/deep/file", "untracked\n")
	wstest.Write(t, dir, "staged", "staged\n")
	wstest.Git(t, dir, "add", "staged")
	wstest.Must(t, os.Remove(filepath.Join(dir, "dir/b.txt")))
	wstest.Write(t, dir, "we\nird \"\\\x1b\xff", "weird\n")
	wstest.Must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	wstest.Write(t, dir, "run.sh", "#!/bin/sh\n")
	wstest.Must(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	wstest.Write(t, dir, "ignored/cache", "not kept")
	wstest.Must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	wstest.Write(t, dir, "forced/.env", "forced\n")
	wstest.Git(t, dir, "add", "-f", "forced/.env")
	wstest.Must(t, os.MkdirAll(filepath.Join(dir, "locked"), 0o755))
	wstest.Write(t, dir, "locked/x", "x")
	wstest.Must(t, os.Chmod(filepath.Join(dir, "locked"), 0o555))
}

func checkMess(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]string{"a.txt": "modified\n", "untracked/deep/file": "untracked\n", "staged": "staged\n", "we\nird \"\\\x1b\xff": "weird\n",
		"run.sh": "#!/bin/sh\n", "locked/x": "x", "more.txt": "committed\n"} {
		if !wstest.Exists(dir, name) || wstest.Read(t, dir, name) != want {
			t.Errorf("%q did not come back", name)
		}
	}
	if wstest.Exists(dir, "dir/b.txt") {
		t.Error("a deletion was forgotten")
	}
	if to, err := os.Readlink(filepath.Join(dir, "link")); err != nil || to != "/etc/passwd" {
		t.Errorf("link: %q %v", to, err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || fi.Mode()&0o100 == 0 {
		t.Error("the mode is lost")
	}
	if wstest.Git(t, dir, "diff", "--cached", "--name-only") != "" {
		t.Error("the work came back staged")
	}
}

func TestDeleteAndRestore(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"in the box", "on the host"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
				t.Parallel()
				dir := h.Repo("app")
				p := h.PathProject(dir)
				w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
				wstest.Write(t, w.Path, "more.txt", "committed\n")
				tip := wstest.CommitAll(t, w.Path, "mine")
				messy(t, h, w.Path)
				l, err := h.S.Lifecycle.Loss(t.Context(), w.ID)
				wstest.Must(t, err)
				if l.UnmergedCommits != 1 || l.UncommittedCount < 8 || !l.Restorable {
					t.Errorf("%+v", l)
				}
				if way == "on the host" {
					h.Sandboxes.Fail(errors.New("no sandbox"))
				}
				gone, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
				wstest.Must(t, err)
				sn := gone.Snapshot
				if gone.DeletedAt == 0 || sn == nil || sn.Head != tip || sn.Unmerged != 1 || sn.Uncommitted < 8 || sn.Ref != "refs/parawork/trash/"+w.ID+"/tree" {
					t.Fatalf("%+v %+v", gone, sn)
				}
				if wstest.Exists(h.Data, "worktrees/"+w.ID) || wstest.Git(t, dir, "branch", "--list", w.Branch) != "" || strings.Contains(wstest.Git(t, dir, "worktree", "list"), w.ID) {
					t.Error("something was left behind")
				}
				if got := wstest.Git(t, dir, "ls-tree", "-r", "--name-only", sn.Commit); strings.Contains(got, "ignored/") || strings.Contains(got, "fifo") {
					t.Errorf("kept: %s", got)
				}
				trash, _, err := h.S.Lifecycle.Trash(t.Context(), h.Team, page.Page{})
				if err != nil || len(trash) != 1 || trash[0].ID != w.ID {
					t.Errorf("%+v %v", trash, err)
				}
				list, _, err := h.S.Records.List(t.Context(), h.Team, workspaces.Filter{}, page.Page{})
				if err != nil || len(list) != 0 {
					t.Errorf("%+v %v", list, err)
				}
				_, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
				wstest.WantCode(t, err, "already_deleted")
				wstest.Git(t, dir, "gc", "-q", "--prune=now")
				back, err := h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
				wstest.Must(t, err)
				if back.State != workspaces.Ready || back.DeletedAt != 0 || back.Branch != w.Branch || wstest.Git(t, dir, "rev-parse", w.Branch) != tip {
					t.Errorf("%+v", back)
				}
				checkMess(t, back.Path)
				if way == "in the box" && wstest.Read(t, back.Path, "forced/.env") != "forced\n" {
					t.Error("what was added by force is lost")
				}
				if s := wstest.Git(t, back.Path, "status", "--porcelain"); !strings.Contains(s, " M a.txt") || !strings.Contains(s, " D dir/b.txt") || !strings.Contains(s, "?? staged") {
					t.Errorf("status %s", s)
				}
				_, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
				wstest.WantCode(t, err, "not_archived")
				// And once more: the second snapshot replaces the first.
				h.Sandboxes.Fail(nil)
				wstest.Write(t, back.Path, "a.txt", "later\n")
				_, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
				wstest.Must(t, err)
				back, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
				wstest.Must(t, err)
				if wstest.Read(t, back.Path, "a.txt") != "later\n" {
					t.Error("the newer work is lost")
				}
			})
		})
	}
}

func TestArchiveKeepsTheBranch(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "x", "unsaved")
	w, err := h.S.Lifecycle.Archive(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if w.State != workspaces.Archived || w.ArchivedAt == 0 || wstest.Exists(h.Data, "worktrees/"+w.ID) || wstest.Git(t, dir, "branch", "--list", w.Branch) == "" {
		t.Errorf("%+v", w)
	}
	_, err = h.S.Lifecycle.Archive(t.Context(), h.Actor, w.ID)
	wstest.WantCode(t, err, "already_archived")
	_, _, err = h.S.Records.Spec(t.Context(), w.ID)
	wstest.WantCode(t, err, "workspace_not_active")
	_, err = h.S.Stage.Commit(t.Context(), h.Actor, w.ID, stage.CommitRequest{Message: "m"})
	wstest.WantCode(t, err, "workspace_not_ready")
	if l, err := h.S.Lifecycle.Loss(t.Context(), w.ID); err != nil || l.UncommittedCount != 1 {
		t.Errorf("%+v %v", l, err)
	}
	// Somebody works on the branch meanwhile, somewhere else: the restored one gets another name.
	wstest.Git(t, dir, "checkout", "-q", w.Branch)
	w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if w.Branch != "parawork/fix-it-2" || wstest.Read(t, w.Path, "x") != "unsaved" {
		t.Errorf("%+v", w)
	}
	w, err = h.S.Lifecycle.Archive(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	// Deleting what is archived removes the branch and keeps the snapshot.
	w, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if wstest.Git(t, dir, "branch", "--list", w.Branch) != "" || w.Snapshot == nil {
		t.Errorf("%+v", w)
	}
	w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if wstest.Read(t, w.Path, "x") != "unsaved" || w.ArchivedAt != 0 {
		t.Errorf("%+v", w)
	}
	acts, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{})
	wstest.Must(t, err)
	var kinds []string
	for _, a := range acts {
		kinds = append(kinds, a.Kind)
	}
	if got := strings.Join(kinds, " "); got != "workspace.restored workspace.deleted workspace.archived workspace.restored workspace.archived workspace.created" {
		t.Error(got)
	}
}

func TestDeleteOfBrokenWorkspaces(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)

	// The folder is gone.
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "gone"})
	wstest.Write(t, w.Path, "x", "x")
	tip := wstest.CommitAll(t, w.Path, "work")
	wstest.Must(t, os.RemoveAll(w.Path))
	if l, err := h.S.Lifecycle.Loss(t.Context(), w.ID); err != nil || l.UnmergedCommits != 1 {
		t.Errorf("%+v %v", l, err)
	}
	w, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if w.Snapshot == nil || w.Snapshot.Head != tip || wstest.Git(t, dir, "branch", "--list", w.Branch) != "" || strings.Contains(wstest.Git(t, dir, "worktree", "list"), w.ID) {
		t.Errorf("%+v", w)
	}
	if w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID); err != nil || !wstest.Exists(w.Path, "x") {
		t.Errorf("%v", err)
	}

	// Its .git file was replaced by a link to another repository.
	other := h.Repo("other")
	w = h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "hijacked"})
	wstest.Write(t, w.Path, "y", "mine")
	wstest.Write(t, w.Path, ".git", "gitdir: "+other+"/.git\n")
	w, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if wstest.Git(t, other, "for-each-ref", "refs/parawork") != "" {
		t.Error("another repository was written to")
	}
	if w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID); err != nil || wstest.Read(t, w.Path, "y") != "mine" {
		t.Errorf("%v", err)
	}
	// No .git at all.
	wstest.Must(t, os.Remove(filepath.Join(w.Path, ".git")))
	wstest.Write(t, w.Path, "z", "mine")
	w, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID); err != nil || wstest.Read(t, w.Path, "z") != "mine" {
		t.Errorf("%v", err)
	}
	// The worktree is on another branch, or on none.
	for _, args := range [][]string{{"switch", "-q", "-c", "aside"}, {"switch", "-q", "--detach"}} {
		wstest.Git(t, w.Path, args...)
		wstest.Write(t, w.Path, "detached "+args[2], "x")
		tip := wstest.CommitAll(t, w.Path, "off the branch")
		if w, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID); err != nil || w.Snapshot.Head != tip {
			t.Fatalf("%+v %v", w.Snapshot, err)
		}
		if w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID); err != nil || wstest.Git(t, w.Path, "rev-parse", "HEAD") != tip {
			t.Fatalf("%v", err)
		}
	}
	// A failed creation.
	bad := h.Settled(h.Create(workspaces.NewWorkspace{ProjectID: p.ID, Name: "bad", Base: "nowhere"}).ID)
	_, err = h.S.Lifecycle.Archive(t.Context(), h.Actor, bad.ID)
	wstest.WantCode(t, err, "workspace_failed")
	if bad, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, bad.ID); err != nil || bad.DeletedAt == 0 {
		t.Errorf("%+v %v", bad, err)
	}
	_, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, bad.ID)
	wstest.WantCode(t, err, "nothing_to_restore")
}

func TestNestedRepositoriesAreRestored(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"in the box", "on the host", "without commits"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := wstest.SQLiteEnv(t)
			dir := h.Repo("app")
			w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
			nested := filepath.Join(w.Path, "lib/nested")
			wstest.Must(t, os.MkdirAll(nested, 0o755))
			wstest.Git(t, nested, "init", "-q")
			wstest.Write(t, nested, "n.txt", "nested\n")
			tip := ""
			if way != "without commits" {
				tip = wstest.CommitAll(t, nested, "inside")
			}
			wstest.Write(t, nested, "unsaved", "unsaved\n")
			wstest.Write(t, w.Path, "beside", "beside\n")
			if way == "on the host" {
				h.Sandboxes.Fail(errors.New("no sandbox"))
			}
			_, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
			wstest.Must(t, err)
			wstest.Git(t, dir, "gc", "-q", "--prune=now")
			w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
			wstest.Must(t, err)
			if wstest.Read(t, nested, "n.txt") != "nested\n" || wstest.Read(t, nested, "unsaved") != "unsaved\n" || wstest.Read(t, w.Path, "beside") != "beside\n" {
				t.Error("files are missing")
			}
			if tip != "" && wstest.Git(t, nested, "rev-parse", "HEAD") != tip {
				t.Error("its history is lost")
			}
			wstest.Git(t, nested, "status")
		})
	}
}

func TestNothingIsRemovedWithoutASnapshot(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Log("as root files cannot be made unreadable; the repository is broken instead")
	}
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	wstest.Write(t, w.Path, "precious", "x")
	h.Sandboxes.Fail(errors.New("no sandbox"))
	wstest.Must(t, os.Rename(filepath.Join(dir, ".git/objects"), filepath.Join(dir, ".git/objects-away")))
	if _, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID); err == nil {
		t.Fatal("deleted without a snapshot")
	}
	if now, err := h.S.Records.Workspace(t.Context(), w.ID); err != nil || now.State != workspaces.Ready || now.DeletedAt != 0 || !wstest.Exists(w.Path, "precious") {
		t.Errorf("%+v %v", now, err)
	}
	wstest.Must(t, os.Rename(filepath.Join(dir, ".git/objects-away"), filepath.Join(dir, ".git/objects")))
	if _, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID); err != nil {
		t.Error(err)
	}
}

func TestHiddenChangesAreSnapshotted(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID})
	wstest.Git(t, w.Path, "update-index", "--assume-unchanged", "a.txt")
	wstest.Git(t, w.Path, "update-index", "--skip-worktree", "dir/b.txt")
	wstest.Write(t, w.Path, "a.txt", "hidden 1\n")
	wstest.Write(t, w.Path, "dir/b.txt", "hidden 2\n")
	_, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if wstest.Read(t, w.Path, "a.txt") != "hidden 1\n" || wstest.Read(t, w.Path, "dir/b.txt") != "hidden 2\n" {
		t.Error("changes git was configured not to see are lost")
	}
}

func TestSpecialFilesDoNotHangForEver(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.SandboxTimeout, c.GitTimeout = 5*time.Second, time.Minute })
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID})
	wstest.Write(t, w.Path, "precious", "x")
	wstest.Must(t, os.Mkdir(filepath.Join(w.Path, "trap"), 0o755))
	fifo := filepath.Join(w.Path, "trap/.gitignore")
	wstest.Must(t, syscall.Mkfifo(fifo, 0o600))
	_, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.WantCode(t, err, "worktree_timeout")
	_, err = h.S.Lifecycle.Loss(t.Context(), w.ID)
	wstest.WantCode(t, err, "worktree_timeout")
	_, err = h.S.Stage.Commit(t.Context(), h.Actor, w.ID, stage.CommitRequest{Message: "m"})
	wstest.WantCode(t, err, "worktree_timeout")
	wstest.Must(t, os.Remove(fifo))
	if _, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID); err != nil {
		t.Error(err)
	}
}

func TestDeleteWhenTheRepositoryIsGone(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "precious", "x")
	wstest.WaitFor(t, "the creation's mark to be dropped", func() bool { return wstest.Git(t, p.GitDir, "for-each-ref", "refs/parawork/creating") == "" })
	for os.RemoveAll(dir) != nil { // git may still be at it
		runtime.Gosched()
	}
	w, err := h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if w.DeletedAt == 0 || w.Snapshot != nil || wstest.Read(t, h.Data, "kept/"+w.ID+"/fix-it/precious") != "x" {
		t.Errorf("%+v", w)
	}
	wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
}

func TestNoNewPlaceWhileLeaving(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID})
	if spec, kind, err := h.S.Records.Spec(t.Context(), w.ID); err != nil || spec.Root != w.Path || kind != "local" || len(spec.GitDirs) != 1 {
		t.Errorf("%+v %q %v", spec, kind, err)
	}
	h.Sandboxes.OnDestroy = func() {
		_, _, err := h.S.Records.Spec(context.Background(), w.ID)
		wstest.WantCode(t, err, "workspace_not_active")
	}
	_, err := h.S.Lifecycle.Archive(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	h.Sandboxes.OnDestroy = nil
	_, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if _, _, err = h.S.Records.Spec(t.Context(), w.ID); err != nil {
		t.Error(err)
	}
}
