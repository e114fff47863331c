package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Recover cleans up after a crash: it marks unfinished clones and creations as failed with a reason, and removes what they left. It is
// called once at start, before Run.
func (s *Service) Recover(ctx context.Context) error {
	s.git.Sweep(ctx)
	s.projects.WarnOfSharedFolders(ctx)
	if err := s.KeepNumbers(ctx); err != nil { // rows older than the numbers file
		s.cfg.Log.WarnContext(ctx, "the highest numbers of workspaces could not be stored outside the database", "error", err)
	}
	if err := s.repo.MoveCredentials(ctx); err != nil {
		return fmt.Errorf("looking for credentials of projects: %w", err)
	}
	projects, err := s.store.ProjectsIn(ctx, workspaces.Cloning)
	if err != nil {
		return fmt.Errorf("listing interrupted clones: %w", err)
	}
	for _, p := range projects {
		s.projects.FailClone(ctx, p, "The server was stopped while it cloned. Remove the project and add it again.")
	}
	cut, err := s.store.WorkspacesIn(ctx, workspaces.Creating, workspaces.SettingUp)
	if err != nil {
		return fmt.Errorf("listing interrupted creations: %w", err)
	}
	for _, w := range cut {
		s.failCreate(ctx, w.ID, workspaces.ErrShutdown)
	}
	if err := s.recoverRemovals(ctx); err != nil { // before the sweep: it leaves folders to remove
		return err
	}
	s.sweep(ctx)
	return s.recoverNew(ctx)
}

// Leftovers are patterns of folders below the data folder that nothing needs any more.
var Leftovers = [...]string{"*/" + git.DoomedPrefix + "*", "boxes/*/" + git.DoomedPrefix + "*", "boxes/*/new-git-*", "boxes/*/new-home-*"}

// sweep removes folders that deletions left behind, and unused scratch repositories.
func (s *Service) sweep(ctx context.Context) {
	_ = os.RemoveAll(s.records.TmpDir())
	var doomed []string
	for _, pattern := range Leftovers {
		found, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), pattern))
		doomed = append(doomed, found...)
	}
	for _, d := range doomed {
		if err := git.RemoveTree(d); err != nil {
			s.cfg.Log.WarnContext(ctx, "folder could not be removed", "path", d, "error", err)
		}
	}
}
