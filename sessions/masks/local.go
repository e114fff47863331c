package masks

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/workspaces"
)

// clearHere removes files that no session uses any more and whose sandbox is gone: on this server worktree and home outlive a
// sandbox that dies, and anybody who reads files there could see the values. Files on other machines disappear with their
// sandbox.
func (m *Masks) clearHere(ctx context.Context, p Placement, files []Placed) {
	if len(files) == 0 {
		return
	}
	id := p.place.WorkspaceID
	defer m.placers.Lock(treeKey(id))()
	w, err := m.cfg.Workspace(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		m.cfg.Log.Warn("files of secrets could not be removed", "workspace_id", id, "error", err)
	}
	for _, f := range files {
		root := w.Path
		if f.Home {
			root = m.cfg.Homes.HostHome(id)
		}
		if root == "" || m.holds(id, func(o Placed) bool { return o.Home == f.Home && o.Path == f.Path }) { // the next session has it by now
			continue
		}
		if err := removeHere(root, f); err != nil && !isNotThere(err) {
			m.cfg.Log.Warn("a file of a secret could not be removed", "workspace_id", id, "error", err)
		}
	}
}

// removeHere removes a file below root unless somebody changed it.
func removeHere(root string, f Placed) error {
	d, err := homedir.Open(filepath.Clean(root))
	if err != nil {
		return err
	}
	defer d.Close()
	b, err := d.ReadFile(f.Path)
	if err != nil {
		return err
	}
	if sumOf(b) != f.Sum {
		return nil
	}
	return d.Remove(f.Path)
}

// SecretFiles returns everything a workspace was ever given of secrets: the files in its worktree, their contents (in whatever
// file), and values.
func (m *Masks) SecretFiles(ctx context.Context, workspaceID string) (workspaces.SecretFiles, error) {
	f := workspaces.SecretFiles{Paths: map[string]bool{}, Blobs: map[string]bool{}, Sums: map[string]bool{}}
	if m.cfg.Secrets == nil {
		return f, nil
	}
	known, err := m.cfg.Secrets.Known(ctx, workspaceID)
	if err != nil {
		return f, err
	}
	f.Values, f.Masker = known.Find, known.Masker
	for _, k := range known.Files {
		if k.Path != "" {
			f.Paths[k.Path] = true
		}
		if k.Blob != "" { // all empty files have the same hash
			f.Blobs[k.Blob], f.Blobs[k.Blob256], f.Sums[k.Sum] = true, true, true
		}
	}
	return f, nil
}

// SecretsPass records for a workspace what another was given.
func (m *Masks) SecretsPass(ctx context.Context, from, to workspaces.Workspace) error {
	if m.cfg.Secrets == nil {
		return nil
	}
	return m.cfg.Secrets.Pass(ctx, to.TeamID, from.ID, to.ID)
}

// holds reports whether a running session of a workspace was given such a file.
func (m *Masks) holds(workspaceID string, fits func(Placed) bool) bool {
	return slices.ContainsFunc(m.of(workspaceID), func(s *Session) bool { return !s.host.Ended() && slices.ContainsFunc(s.given.Files, fits) })
}
