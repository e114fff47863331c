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
	defer s.placers.Lock(treeKey(id))()
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

// SecretFiles is what a workspace was ever given of secrets: the files in its worktree, what is in them, whatever file has it, and values.
func (s *Service) SecretFiles(ctx context.Context, workspaceID string) (workspaces.SecretFiles, error) {
	f := workspaces.SecretFiles{Paths: map[string]bool{}, Blobs: map[string]bool{}, Sums: map[string]bool{}}
	if s.cfg.Secrets == nil {
		return f, nil
	}
	known, err := s.cfg.Secrets.Known(ctx, workspaceID)
	if err != nil {
		return f, err
	}
	f.Values, f.Masker = known.Find, known.Masker
	for _, k := range known.Files {
		if k.Path != "" {
			f.Paths[k.Path] = true
		}
		if k.Blob != "" { // every empty file is as that one
			f.Blobs[k.Blob], f.Blobs[k.Blob256], f.Sums[k.Sum] = true, true, true
		}
	}
	return f, nil
}

// SecretsPass has a workspace know what another was given.
func (s *Service) SecretsPass(ctx context.Context, from, to workspaces.Workspace) error {
	if s.cfg.Secrets == nil {
		return nil
	}
	return s.cfg.Secrets.Pass(ctx, to.TeamID, from.ID, to.ID)
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
