package wstest

import (
	"context"

	"github.com/parawork/parawork/workspaces"
)

// Keeping has a project select ignored files for snapshots.
func (h *Env) Keeping(w workspaces.Workspace, patterns ...string) workspaces.Project {
	h.T.Helper()
	p, err := h.S.Projects.UpdateProject(context.Background(), w.ProjectID, workspaces.ProjectPatch{KeepIgnored: &patterns})
	Must(h.T, err)
	return p
}
