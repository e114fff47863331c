package workspaces_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// A file a person's folder ignores is kept by nobody: a merge does not write over it.
func TestMergeKeepsIgnoredFilesOfTheFolder(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := parted(t, h, dir, p)
	write(t, w.Path, "local.cfg", "the agent's\n")
	commitAll(t, w.Path, "a config file")
	base := git(t, dir, "rev-parse", "main")
	write(t, dir, ".git/info/exclude", "local.cfg\n")
	write(t, dir, "local.cfg", "password of mine\n")
	_, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
	wantCode(t, err, "base_dirty")
	if git(t, dir, "rev-parse", "main") != base || read(t, dir, "local.cfg") != "password of mine\n" {
		t.Errorf("the file has %q", read(t, dir, "local.cfg"))
	}
}

// Nor does the merge or rebase that is begun in a worktree for its conflicts to be resolved.
func TestResolveKeepsIgnoredFiles(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := parted(t, h, dir, p)
	write(t, dir, "a.txt", "zero\n")
	write(t, dir, "local.cfg", "the base's\n")
	write(t, dir, "cache/one", "the base's\n")
	commitAll(t, dir, "in conflict, and more files")
	write(t, dir, ".git/info/exclude", "local.cfg\ncache/\n")
	write(t, w.Path, "local.cfg", "password of mine\n")
	write(t, w.Path, "cache/one", "of mine\n")
	write(t, w.Path, "cache/two", "in nobody's way\n")
	for _, strategy := range []string{"merge", "rebase"} {
		_, err := h.s.BeginResolve(t.Context(), h.actor, w.ID, strategy)
		wantCode(t, err, "files_in_the_way")
		if read(t, w.Path, "local.cfg") != "password of mine\n" || read(t, w.Path, "cache/one") != "of mine\n" {
			t.Fatalf("%s: the files have %q and %q", strategy, read(t, w.Path, "local.cfg"), read(t, w.Path, "cache/one"))
		}
	}
	must(t, os.Remove(filepath.Join(w.Path, "local.cfg")))
	must(t, os.Remove(filepath.Join(w.Path, "cache/one")))
	left, err := h.s.BeginResolve(t.Context(), h.actor, w.ID, "merge")
	must(t, err)
	if len(left.Files) != 1 || read(t, w.Path, "cache/two") != "in nobody's way\n" {
		t.Errorf("%+v", left)
	}
}
