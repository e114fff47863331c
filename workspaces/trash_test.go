package workspaces_test

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
	"github.com/parawork/parawork/workspaces"
)

// messy fills a worktree with every kind of unsaved work.
func messy(t *testing.T, h *house, dir string) {
	t.Helper()
	write(t, dir, "a.txt", "modified\n")
	write(t, dir, "untracked/deep/file", "untracked\n")
	write(t, dir, "staged", "staged\n")
	git(t, dir, "add", "staged")
	must(t, os.Remove(filepath.Join(dir, "dir/b.txt")))
	write(t, dir, "we\nird \"\\\x1b\xff", "weird\n")
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	write(t, dir, "run.sh", "#!/bin/sh\n")
	must(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	write(t, dir, "ignored/cache", "not kept")
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	write(t, dir, "forced/.env", "forced\n")
	git(t, dir, "add", "-f", "forced/.env")
	must(t, os.MkdirAll(filepath.Join(dir, "locked"), 0o755))
	write(t, dir, "locked/x", "x")
	must(t, os.Chmod(filepath.Join(dir, "locked"), 0o555))
}

func checkMess(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]string{"a.txt": "modified\n", "untracked/deep/file": "untracked\n", "staged": "staged\n", "we\nird \"\\\x1b\xff": "weird\n",
		"run.sh": "#!/bin/sh\n", "locked/x": "x", "more.txt": "committed\n"} {
		if !exists(dir, name) || read(t, dir, name) != want {
			t.Errorf("%q did not come back", name)
		}
	}
	if exists(dir, "dir/b.txt") {
		t.Error("a deletion was forgotten")
	}
	if to, err := os.Readlink(filepath.Join(dir, "link")); err != nil || to != "/etc/passwd" {
		t.Errorf("link: %q %v", to, err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || fi.Mode()&0o100 == 0 {
		t.Error("the mode is lost")
	}
	if git(t, dir, "diff", "--cached", "--name-only") != "" {
		t.Error("the work came back staged")
	}
}

func TestDeleteAndRestore(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"in the box", "on the host"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			eachHouse(t, func(t *testing.T, h *house) {
				t.Parallel()
				dir := h.repo("app")
				p := h.pathProject(dir)
				w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
				write(t, w.Path, "more.txt", "committed\n")
				tip := commitAll(t, w.Path, "mine")
				messy(t, h, w.Path)
				l, err := h.s.Loss(t.Context(), w.ID)
				must(t, err)
				if l.UnmergedCommits != 1 || l.UncommittedCount < 8 || !l.Restorable {
					t.Errorf("%+v", l)
				}
				if way == "on the host" {
					h.box.fail(errors.New("no sandbox"))
				}
				gone, err := h.s.Delete(t.Context(), h.actor, w.ID)
				must(t, err)
				sn := gone.Snapshot
				if gone.DeletedAt == 0 || sn == nil || sn.Head != tip || sn.Unmerged != 1 || sn.Uncommitted < 8 || sn.Ref != "refs/parawork/trash/"+w.ID+"/tree" {
					t.Fatalf("%+v %+v", gone, sn)
				}
				if exists(h.data, "worktrees/"+w.ID) || git(t, dir, "branch", "--list", w.Branch) != "" || strings.Contains(git(t, dir, "worktree", "list"), w.ID) {
					t.Error("something was left behind")
				}
				if got := git(t, dir, "ls-tree", "-r", "--name-only", sn.Commit); strings.Contains(got, "ignored/") || strings.Contains(got, "fifo") {
					t.Errorf("kept: %s", got)
				}
				trash, _, err := h.s.Trash(t.Context(), h.team, page.Page{})
				if err != nil || len(trash) != 1 || trash[0].ID != w.ID {
					t.Errorf("%+v %v", trash, err)
				}
				list, _, err := h.s.List(t.Context(), h.team, workspaces.Filter{}, page.Page{})
				if err != nil || len(list) != 0 {
					t.Errorf("%+v %v", list, err)
				}
				_, err = h.s.Delete(t.Context(), h.actor, w.ID)
				wantCode(t, err, "already_deleted")
				git(t, dir, "gc", "-q", "--prune=now")
				back, err := h.s.Restore(t.Context(), h.actor, w.ID)
				must(t, err)
				if back.State != workspaces.Ready || back.DeletedAt != 0 || back.Branch != w.Branch || git(t, dir, "rev-parse", w.Branch) != tip {
					t.Errorf("%+v", back)
				}
				checkMess(t, back.Path)
				if way == "in the box" && read(t, back.Path, "forced/.env") != "forced\n" {
					t.Error("what was added by force is lost")
				}
				if s := git(t, back.Path, "status", "--porcelain"); !strings.Contains(s, " M a.txt") || !strings.Contains(s, " D dir/b.txt") || !strings.Contains(s, "?? staged") {
					t.Errorf("status %s", s)
				}
				_, err = h.s.Restore(t.Context(), h.actor, w.ID)
				wantCode(t, err, "not_archived")
				// And once more: the second snapshot replaces the first.
				h.box.fail(nil)
				write(t, back.Path, "a.txt", "later\n")
				_, err = h.s.Delete(t.Context(), h.actor, w.ID)
				must(t, err)
				back, err = h.s.Restore(t.Context(), h.actor, w.ID)
				must(t, err)
				if read(t, back.Path, "a.txt") != "later\n" {
					t.Error("the newer work is lost")
				}
			})
		})
	}
}

func TestArchiveKeepsTheBranch(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "x", "unsaved")
	w, err := h.s.Archive(t.Context(), h.actor, w.ID)
	must(t, err)
	if w.State != workspaces.Archived || w.ArchivedAt == 0 || exists(h.data, "worktrees/"+w.ID) || git(t, dir, "branch", "--list", w.Branch) == "" {
		t.Errorf("%+v", w)
	}
	_, err = h.s.Archive(t.Context(), h.actor, w.ID)
	wantCode(t, err, "already_archived")
	_, _, err = h.s.Spec(t.Context(), w.ID)
	wantCode(t, err, "workspace_not_active")
	_, err = h.s.Commit(t.Context(), h.actor, w.ID, workspaces.CommitRequest{Message: "m"})
	wantCode(t, err, "workspace_not_ready")
	if l, err := h.s.Loss(t.Context(), w.ID); err != nil || l.UncommittedCount != 1 {
		t.Errorf("%+v %v", l, err)
	}
	// Somebody works on the branch meanwhile, somewhere else: the restored one gets another name.
	git(t, dir, "checkout", "-q", w.Branch)
	w, err = h.s.Restore(t.Context(), h.actor, w.ID)
	must(t, err)
	if w.Branch != "parawork/fix-it-2" || read(t, w.Path, "x") != "unsaved" {
		t.Errorf("%+v", w)
	}
	w, err = h.s.Archive(t.Context(), h.actor, w.ID)
	must(t, err)
	// Deleting what is archived removes the branch and keeps the snapshot.
	w, err = h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	if git(t, dir, "branch", "--list", w.Branch) != "" || w.Snapshot == nil {
		t.Errorf("%+v", w)
	}
	w, err = h.s.Restore(t.Context(), h.actor, w.ID)
	must(t, err)
	if read(t, w.Path, "x") != "unsaved" || w.ArchivedAt != 0 {
		t.Errorf("%+v", w)
	}
	acts, _, err := h.s.Activity(t.Context(), w.ID, page.Page{})
	must(t, err)
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
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)

	// The folder is gone.
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "gone"})
	write(t, w.Path, "x", "x")
	tip := commitAll(t, w.Path, "work")
	must(t, os.RemoveAll(w.Path))
	if l, err := h.s.Loss(t.Context(), w.ID); err != nil || l.UnmergedCommits != 1 {
		t.Errorf("%+v %v", l, err)
	}
	w, err := h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	if w.Snapshot == nil || w.Snapshot.Head != tip || git(t, dir, "branch", "--list", w.Branch) != "" || strings.Contains(git(t, dir, "worktree", "list"), w.ID) {
		t.Errorf("%+v", w)
	}
	if w, err = h.s.Restore(t.Context(), h.actor, w.ID); err != nil || !exists(w.Path, "x") {
		t.Errorf("%v", err)
	}

	// Its .git file was replaced by a link to another repository.
	other := h.repo("other")
	w = h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "hijacked"})
	write(t, w.Path, "y", "mine")
	write(t, w.Path, ".git", "gitdir: "+other+"/.git\n")
	w, err = h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	if git(t, other, "for-each-ref", "refs/parawork") != "" {
		t.Error("another repository was written to")
	}
	if w, err = h.s.Restore(t.Context(), h.actor, w.ID); err != nil || read(t, w.Path, "y") != "mine" {
		t.Errorf("%v", err)
	}
	// No .git at all.
	must(t, os.Remove(filepath.Join(w.Path, ".git")))
	write(t, w.Path, "z", "mine")
	w, err = h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	if w, err = h.s.Restore(t.Context(), h.actor, w.ID); err != nil || read(t, w.Path, "z") != "mine" {
		t.Errorf("%v", err)
	}
	// The worktree is on another branch, or on none.
	for _, args := range [][]string{{"switch", "-q", "-c", "aside"}, {"switch", "-q", "--detach"}} {
		git(t, w.Path, args...)
		write(t, w.Path, "detached "+args[2], "x")
		tip := commitAll(t, w.Path, "off the branch")
		if w, err = h.s.Delete(t.Context(), h.actor, w.ID); err != nil || w.Snapshot.Head != tip {
			t.Fatalf("%+v %v", w.Snapshot, err)
		}
		if w, err = h.s.Restore(t.Context(), h.actor, w.ID); err != nil || git(t, w.Path, "rev-parse", "HEAD") != tip {
			t.Fatalf("%v", err)
		}
	}
	// A failed creation.
	bad := h.settled(h.create(workspaces.NewWorkspace{ProjectID: p.ID, Name: "bad", Base: "nowhere"}).ID)
	_, err = h.s.Archive(t.Context(), h.actor, bad.ID)
	wantCode(t, err, "workspace_failed")
	if bad, err = h.s.Delete(t.Context(), h.actor, bad.ID); err != nil || bad.DeletedAt == 0 {
		t.Errorf("%+v %v", bad, err)
	}
	_, err = h.s.Restore(t.Context(), h.actor, bad.ID)
	wantCode(t, err, "nothing_to_restore")
}

func TestNestedRepositoriesComeBack(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"in the box", "on the host", "without commits"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := sqliteHouse(t)
			dir := h.repo("app")
			w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
			nested := filepath.Join(w.Path, "lib/nested")
			must(t, os.MkdirAll(nested, 0o755))
			git(t, nested, "init", "-q")
			write(t, nested, "n.txt", "nested\n")
			tip := ""
			if way != "without commits" {
				tip = commitAll(t, nested, "inside")
			}
			write(t, nested, "unsaved", "unsaved\n")
			write(t, w.Path, "beside", "beside\n")
			if way == "on the host" {
				h.box.fail(errors.New("no sandbox"))
			}
			_, err := h.s.Delete(t.Context(), h.actor, w.ID)
			must(t, err)
			git(t, dir, "gc", "-q", "--prune=now")
			w, err = h.s.Restore(t.Context(), h.actor, w.ID)
			must(t, err)
			if read(t, nested, "n.txt") != "nested\n" || read(t, nested, "unsaved") != "unsaved\n" || read(t, w.Path, "beside") != "beside\n" {
				t.Error("files are missing")
			}
			if tip != "" && git(t, nested, "rev-parse", "HEAD") != tip {
				t.Error("its history is lost")
			}
			git(t, nested, "status")
		})
	}
}

func TestNothingIsRemovedWithoutASnapshot(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Log("as root files cannot be made unreadable; the repository is broken instead")
	}
	h := sqliteHouse(t)
	dir := h.repo("app")
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
	write(t, w.Path, "precious", "x")
	h.box.fail(errors.New("no sandbox"))
	must(t, os.Rename(filepath.Join(dir, ".git/objects"), filepath.Join(dir, ".git/objects-away")))
	if _, err := h.s.Delete(t.Context(), h.actor, w.ID); err == nil {
		t.Fatal("deleted without a snapshot")
	}
	if now, err := h.s.Workspace(t.Context(), w.ID); err != nil || now.State != workspaces.Ready || now.DeletedAt != 0 || !exists(w.Path, "precious") {
		t.Errorf("%+v %v", now, err)
	}
	must(t, os.Rename(filepath.Join(dir, ".git/objects-away"), filepath.Join(dir, ".git/objects")))
	if _, err := h.s.Delete(t.Context(), h.actor, w.ID); err != nil {
		t.Error(err)
	}
}

func TestHiddenChangesAreKept(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID})
	git(t, w.Path, "update-index", "--assume-unchanged", "a.txt")
	git(t, w.Path, "update-index", "--skip-worktree", "dir/b.txt")
	write(t, w.Path, "a.txt", "hidden 1\n")
	write(t, w.Path, "dir/b.txt", "hidden 2\n")
	_, err := h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	w, err = h.s.Restore(t.Context(), h.actor, w.ID)
	must(t, err)
	if read(t, w.Path, "a.txt") != "hidden 1\n" || read(t, w.Path, "dir/b.txt") != "hidden 2\n" {
		t.Error("changes git was told not to see are lost")
	}
}

func TestSpecialFilesDoNotHangForEver(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t, func(c *workspaces.Config) { c.BoxTimeout, c.GitTimeout = 5*time.Second, time.Minute })
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID})
	write(t, w.Path, "precious", "x")
	must(t, os.Mkdir(filepath.Join(w.Path, "trap"), 0o755))
	fifo := filepath.Join(w.Path, "trap/.gitignore")
	must(t, syscall.Mkfifo(fifo, 0o600))
	_, err := h.s.Delete(t.Context(), h.actor, w.ID)
	wantCode(t, err, "worktree_timeout")
	_, err = h.s.Loss(t.Context(), w.ID)
	wantCode(t, err, "worktree_timeout")
	_, err = h.s.Commit(t.Context(), h.actor, w.ID, workspaces.CommitRequest{Message: "m"})
	wantCode(t, err, "worktree_timeout")
	must(t, os.Remove(fifo))
	if _, err := h.s.Delete(t.Context(), h.actor, w.ID); err != nil {
		t.Error(err)
	}
}

func TestDeleteWhenTheRepositoryIsGone(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "precious", "x")
	waitFor(t, "the creation's mark to be dropped", func() bool { return git(t, p.GitDir, "for-each-ref", "refs/parawork/creating") == "" })
	for os.RemoveAll(dir) != nil { // git may still be at it
		runtime.Gosched()
	}
	w, err := h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	if w.DeletedAt == 0 || w.Snapshot != nil || read(t, h.data, "kept/"+w.ID+"/fix-it/precious") != "x" {
		t.Errorf("%+v", w)
	}
	must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
}

func TestNoNewPlaceWhileLeaving(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID})
	if spec, kind, err := h.s.Spec(t.Context(), w.ID); err != nil || spec.Root != w.Path || kind != "local" || len(spec.GitDirs) != 1 {
		t.Errorf("%+v %q %v", spec, kind, err)
	}
	h.box.onDestroy = func() {
		_, _, err := h.s.Spec(context.Background(), w.ID)
		wantCode(t, err, "workspace_not_active")
	}
	_, err := h.s.Archive(t.Context(), h.actor, w.ID)
	must(t, err)
	h.box.onDestroy = nil
	_, err = h.s.Restore(t.Context(), h.actor, w.ID)
	must(t, err)
	if _, _, err = h.s.Spec(t.Context(), w.ID); err != nil {
		t.Error(err)
	}
}
