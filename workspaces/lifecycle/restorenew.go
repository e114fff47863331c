package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// restoreNew makes a new workspace of a snapshot: as if it had been archived with it and were restored. With the ID of one that an earlier
// server stored but may not have given its secrets or files, it does what is missing.
func (s *Service) restoreNew(ctx context.Context, actor accounts.Actor, sn snapshot.Snap, r snapshot.RestoreRequest) (snapshot.Restored, error) {
	of, err := s.store.Workspace(ctx, sn.WorkspaceID)
	if err != nil {
		return snapshot.Restored{}, err
	}
	p, err := s.repo.UsableProject(ctx, of.ProjectID)
	if err != nil {
		return snapshot.Restored{}, err
	}
	if r.Name == "" {
		r.Name = of.Name + " (restored)"
	}
	name, err := git.CheckName(r.Name, "workspace")
	if err != nil {
		return snapshot.Restored{}, err
	}
	c, err := s.repo.Compare(ctx, of.ID, git.Tree{Tree: sn.BaseCommit}, sn.AsTree("", ""), git.CompareOptions{})
	if err != nil {
		return snapshot.Restored{}, err
	}
	out := snapshot.Restored{Workspace: of, Changed: []string{}, Conflicts: []string{}}
	for _, f := range c.Files {
		out.Changed = append(out.Changed, f.Path)
	}
	if r.Ignored && sn.Ignored != "" {
		files, err := s.snapshots.IgnoredFiles(ctx, p, of.ID, sn.Ignored)
		if err != nil {
			return snapshot.Restored{}, err
		}
		for _, f := range files {
			out.Ignored = append(out.Ignored, f.Path)
		}
	}
	if r.DryRun {
		return out, nil
	}
	if r.ID != "" {
		if w, err := s.store.Workspace(ctx, r.ID); err == nil {
			return s.fillNew(ctx, actor, of, w, out)
		} else if !fault.Is(err, fault.NotFound) {
			return snapshot.Restored{}, err
		}
	}
	now := s.records.Millis()
	w := workspaces.Workspace{ID: cmp.Or(r.ID, id.New("ws")), TeamID: of.TeamID, ProjectID: of.ProjectID, Name: name, Base: of.Base, BaseCommit: sn.BaseCommit, Executor: of.Executor, Limits: of.Limits,
		FallbackOK: of.FallbackOK, Private: of.Private, State: workspaces.Archived, ArchivedAt: now, Steps: []workspaces.Step{}, CreatedBy: actor.User.ID, CreatedAt: now, UpdatedAt: now}
	w.Path = filepath.Join(s.repo.WorkspaceDir(w.ID), workspaces.PathSlug(name))
	w.Snapshot = &workspaces.Snapshot{Ref: git.TrashTree(w.ID), Commit: sn.Commit, HeadRef: git.TrashHead(w.ID), Head: sn.Head, TakenAt: sn.At}
	edits := []git.RefEdit{git.RefSet(git.TrashTree(w.ID), sn.Commit), git.RefSet(git.TrashHead(w.ID), sn.Head), git.RefSet(git.BaseRef(w.ID), sn.BaseCommit)}
	if len(out.Ignored) > 0 {
		edits = append(edits, git.RefSet(snapshot.TrashIgnored(w.ID), sn.Ignored))
	}
	named := w.ID
	if err := s.noteNew(named, p.GitDir); err != nil {
		return snapshot.Restored{}, err
	}
	if err := s.repo.UpdateRefs(ctx, p.GitDir, "snapshot for "+named, edits...); err != nil {
		s.dropNew(context.WithoutCancel(ctx), named, p.GitDir)
		return snapshot.Restored{}, git.GitFault(err, fault.Conflict, "snapshot_gone", "Finding the snapshot")
	}
	if w, err = s.reserve(ctx, p, w, nil); err != nil {
		s.dropNew(context.WithoutCancel(ctx), named, p.GitDir)
		return snapshot.Restored{}, err
	}
	s.forgetNew(ctx, named)
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.created",
		Text: fmt.Sprintf("Made from a snapshot of %s; the setup script was not run", of.Key()), Data: map[string]any{"snapshot": sn.ID, "workspace": of.ID}})
	s.records.PublishWorkspace(ctx, w)
	return s.fillNew(ctx, actor, of, w, out)
}

// fillNew gives a new workspace the files of the snapshot, once it knows the secrets in them.
func (s *Service) fillNew(ctx context.Context, actor accounts.Actor, of, w workspaces.Workspace, out snapshot.Restored) (snapshot.Restored, error) {
	_, ss, err := s.records.Connected()
	if err == nil {
		err = ss.SecretsPass(ctx, of, w)
	}
	if err != nil { // it has no files yet
		return snapshot.Restored{}, err
	}
	out.Workspace, err = s.Restore(ctx, actor, w.ID)
	return out, err
}

// Restoring into a new workspace makes refs before the row, because a row without them could not be restored. Until the row exists, a file
// named after the workspace, which names the repository, has the next server remove refs that nothing else knows of.

func (s *Service) newsDir() string { return filepath.Join(s.cfg.DataDir, "restoring") }

func (s *Service) noteNew(workspaceID, gitDir string) error {
	err := git.MakeFolders(s.newsDir())
	if err == nil {
		err = os.WriteFile(filepath.Join(s.newsDir(), workspaceID), []byte(gitDir), 0o600)
	}
	return git.DiskFault(err, "Noting the restore")
}

func (s *Service) forgetNew(ctx context.Context, workspaceID string) {
	if err := os.Remove(filepath.Join(s.newsDir(), workspaceID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Log.WarnContext(ctx, "the note of a restore could not be removed", "workspace_id", workspaceID, "error", err)
	}
}

// dropNew removes the refs of a workspace that has no row. What it cannot remove is left to the next server.
func (s *Service) dropNew(ctx context.Context, workspaceID, gitDir string) {
	if git.FolderExists(gitDir) {
		if err := s.repo.DropRefsOf(ctx, gitDir, workspaceID); err != nil {
			s.cfg.Log.WarnContext(ctx, "the refs of a restore whose workspace was not created could not be removed", "workspace_id", workspaceID, "error", err)
			return
		}
	}
	s.forgetNew(ctx, workspaceID)
}

// recoverNew removes the refs of restores into a new workspace that were interrupted before the row was stored.
func (s *Service) recoverNew(ctx context.Context) error {
	notes, err := os.ReadDir(s.newsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for interrupted restores: %w", err)
	}
	for _, n := range notes {
		gitDir, err := os.ReadFile(filepath.Join(s.newsDir(), n.Name()))
		if err != nil {
			return fmt.Errorf("reading the note of a restore: %w", err)
		}
		switch _, err := s.store.Workspace(ctx, n.Name()); {
		case err == nil:
			s.forgetNew(ctx, n.Name())
		case fault.Is(err, fault.NotFound):
			s.dropNew(ctx, n.Name(), string(gitDir))
		default:
			return fmt.Errorf("reading the workspace of a restore: %w", err)
		}
	}
	return nil
}
