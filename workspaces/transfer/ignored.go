package transfer

import (
	"context"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// RebuildIgnored restores the ignored files of an archived or deleted workspace into its recreated folder.
func (s *Service) RebuildIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	commit, err := s.repo.CommitOf(ctx, p.GitDir, snapshot.TrashIgnored(w.ID))
	if err != nil || commit == "" {
		return err
	}
	files, err := s.snapshots.IgnoredFiles(ctx, p, w.ID, commit)
	if err != nil {
		return err
	}
	_, err = s.putIgnored(ctx, p, w, files, nil)
	return err
}
