package wstest

import (
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// Parted makes a workspace with two commits whose base has diverged.
func Parted(t *testing.T, h *Env, dir string, p workspaces.Project) workspaces.Workspace {
	t.Helper()
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Work"})
	Write(t, w.Path, "a.txt", "one\ntwo\nthree\nfour\n")
	h.Commit(w, "Add four")
	Write(t, w.Path, "new.txt", "new\n")
	h.Commit(w, "Add new")
	Write(t, dir, "base.txt", "base\n")
	CommitAll(t, dir, "base moves on")
	return w
}
