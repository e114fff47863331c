package sessions

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
)

// clearHere removes files that nobody uses any more and whose place is gone: on this machine worktree and home outlive a place that dies,
// and would show the values to everybody who reads files there. What was elsewhere went with its place.
func (s *Service) clearHere(ctx context.Context, p placement, files []placed) {
	if len(files) == 0 {
		return
	}
	id := p.place.WorkspaceID
	lock := s.placing(treeKey(id))
	lock.Lock()
	defer lock.Unlock()
	w, err := s.cfg.Workspaces.Workspace(tenant.All(ctx, "the files of an ended session"), id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		s.cfg.Log.Warn("files of secrets were not removed", "workspace_id", id, "error", err)
	}
	for _, f := range files {
		root := w.Path
		if f.Home {
			root = s.cfg.Agents.BoxHere(id)
		}
		if root == "" || s.holds(id, func(o placed) bool { return o.Home == f.Home && o.Path == f.Path }) { // the next session has it by now
			continue
		}
		if err := removeHere(root, f); err != nil && !isNotThere(err) {
			s.cfg.Log.Warn("a file of a secret was not removed", "workspace_id", id, "error", err)
		}
	}
}

// removeHere removes a file below root unless somebody changed it.
func removeHere(root string, f placed) error {
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

// HoldsSecret reports whether a file of a workspace's worktree is that of a secret now: by its name, or by what is in it (sha256 hex, "" =
// not known), whatever link or copy leads there.
func (s *Service) HoldsSecret(workspaceID, name, hash string) bool {
	return s.holds(workspaceID, func(f placed) bool { return !f.Home && f.Path == name || hash != "" && f.Sum == hash })
}

// SecretFiles names the files of secrets in a workspace's worktree, and what is in them, whatever file has it.
func (s *Service) SecretFiles(workspaceID string) workspaces.SecretFiles {
	f := workspaces.SecretFiles{Paths: map[string]bool{}, Blobs: map[string]bool{}}
	s.holds(workspaceID, func(p placed) bool {
		if !p.Home {
			f.Paths[p.Path] = true
		}
		for _, blob := range [...]string{p.Blob, p.Blob256} {
			if blob != "" {
				f.Blobs[blob] = true
			}
		}
		return false
	})
	return f
}

// holds reports whether a session that runs in a workspace was given such a file.
func (s *Service) holds(workspaceID string, fits func(placed) bool) bool {
	found := false
	for _, l := range s.withRef(func(l *live) bool { return l.workspaceID == workspaceID }) {
		found = found || !l.ended() && slices.ContainsFunc(l.files, fits)
		s.release(l)
	}
	return found
}
