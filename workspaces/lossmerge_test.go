package workspaces_test

import (
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
