package workspaces_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// A file ignored in somebody's folder is in no snapshot: a merge does not overwrite it.
func TestMergeKeepsIgnoredFilesOfTheFolder(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := wstest.Parted(t, h, dir, p)
	wstest.Write(t, w.Path, "local.cfg", "the agent's\n")
	wstest.CommitAll(t, w.Path, "a config file")
	base := wstest.Git(t, dir, "rev-parse", "main")
	wstest.Write(t, dir, ".git/info/exclude", "local.cfg\n")
	wstest.Write(t, dir, "local.cfg", "password of mine\n")
	_, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "base_dirty")
	if wstest.Git(t, dir, "rev-parse", "main") != base || wstest.Read(t, dir, "local.cfg") != "password of mine\n" {
		t.Errorf("the file has %q", wstest.Read(t, dir, "local.cfg"))
	}
}

// Neither does a merge or rebase that is started in a worktree to resolve its conflicts.
func TestResolveKeepsIgnoredFiles(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := wstest.Parted(t, h, dir, p)
	wstest.Write(t, dir, "a.txt", "zero\n")
	wstest.Write(t, dir, "local.cfg", "the base's\n")
	wstest.Write(t, dir, "cache/one", "the base's\n")
	wstest.CommitAll(t, dir, "in conflict, and more files")
	wstest.Write(t, dir, ".git/info/exclude", "local.cfg\ncache/\n")
	wstest.Write(t, w.Path, "local.cfg", "password of mine\n")
	wstest.Write(t, w.Path, "cache/one", "of mine\n")
	wstest.Write(t, w.Path, "cache/two", "in nobody's way\n")
	for _, strategy := range []string{"merge", "rebase"} {
		_, err := h.S.Conflicts.BeginResolve(t.Context(), h.Actor, w.ID, strategy)
		wstest.WantCode(t, err, "files_in_the_way")
		if wstest.Read(t, w.Path, "local.cfg") != "password of mine\n" || wstest.Read(t, w.Path, "cache/one") != "of mine\n" {
			t.Fatalf("%s: the files have %q and %q", strategy, wstest.Read(t, w.Path, "local.cfg"), wstest.Read(t, w.Path, "cache/one"))
		}
	}
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "local.cfg")))
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "cache/one")))
	left, err := h.S.Conflicts.BeginResolve(t.Context(), h.Actor, w.ID, "merge")
	wstest.Must(t, err)
	if len(left.Files) != 1 || wstest.Read(t, w.Path, "cache/two") != "in nobody's way\n" {
		t.Errorf("%+v", left)
	}
}
