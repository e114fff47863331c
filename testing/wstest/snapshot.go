package wstest

import (
	"context"
	"io"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Keep takes a snapshot of kind kept.
func (h *Env) Keep(id string, f snapshot.Request) snapshot.Snap {
	h.T.Helper()
	sn, err := h.S.Snapshots.Take(context.Background(), id, f)
	Must(h.T, err)
	return sn
}

// FileOf reads a file of a tree, "-" when there is none.
func (h *Env) FileOf(w workspaces.Workspace, rev, path string) string {
	h.T.Helper()
	t, err := h.S.Snapshots.Resolve(context.Background(), w, rev, h.Actor.User.ID)
	Must(h.T, err)
	r, _, err := h.S.Snapshots.FileAt(context.Background(), w.ID, t, path)
	if err != nil {
		WantCode(h.T, err, "file_not_found")
		return "-"
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	Must(h.T, err)
	return string(b)
}

// Workspace makes a project and a workspace of it.
func (h *Env) Workspace() workspaces.Workspace {
	h.T.Helper()
	p := h.PathProject(h.Repo("app"))
	return h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Work"})
}
