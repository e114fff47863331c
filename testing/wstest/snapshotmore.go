package wstest

import (
	"context"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func (h *Env) Snaps(w workspaces.Workspace) []snapshot.Snap {
	h.T.Helper()
	items, _, err := h.S.Snapshots.Snapshots(context.Background(), w.ID, nil, page.Page{Limit: page.MaxLimit})
	Must(h.T, err)
	return items
}

// SecretSessions are sessions with files of secrets.
type SecretSessions struct {
	*Setups
	Files workspaces.SecretFiles
}

func (s SecretSessions) SecretFiles(context.Context, string) (workspaces.SecretFiles, error) {
	return s.Files, nil
}

func ProjectOf(h *Env, w workspaces.Workspace) workspaces.Project {
	h.T.Helper()
	p, err := h.S.Records.Project(context.Background(), w.ProjectID)
	Must(h.T, err)
	return p
}
