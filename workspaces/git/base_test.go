package git_test

import (
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
)

// A base is read by a branch's name and by its full name, which is how people choose between a local branch and the remote's.
func TestLookUpBase(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	local := wstest.Git(t, dir, "rev-parse", "HEAD")
	remote := wstest.Git(t, dir, "commit-tree", "-m", "of the remote", "HEAD^{tree}")
	wstest.Git(t, dir, "update-ref", "refs/remotes/origin/main", remote)
	wstest.Git(t, dir, "update-ref", "refs/remotes/origin/theirs", remote)
	p := h.PathProject(dir)
	for base, want := range map[string]string{"main": local, "refs/heads/main": local, "refs/remotes/origin/main": remote, "origin/main": remote, "theirs": remote} {
		if got, err := h.S.Repo.LookUpBase(t.Context(), p, base); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", base, got, err, want)
		}
	}
	for _, base := range []string{"none", "refs/heads/none", "refs/heads/theirs"} {
		if got, err := h.S.Repo.LookUpBase(t.Context(), p, base); fault.CodeOf(err) != "base_missing" {
			t.Errorf("%s: %q, %v", base, got, err)
		}
	}
}
