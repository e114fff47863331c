package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// stay undoes the start of an archive or a deletion that failed before it removed anything. If the workspace's folder is already gone, the
// next attempt or the next start finishes it.
func (s *Service) stay(ctx context.Context, w workspaces.Workspace) {
	if w.Snapshot == nil || w.Snapshot.Going == nil || !git.FolderExists(w.Path) {
		return
	}
	// Also after a timeout: else a later start would continue it and remove work done since.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stayTime)
	defer cancel()
	_, err := s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error {
		if w.Snapshot != nil && w.Snapshot.Commit == "" {
			w.Snapshot = nil
		} else if w.Snapshot != nil {
			w.Snapshot.Going = nil
		}
		return nil
	})
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "that a workspace stays could not be stored", "workspace_id", w.ID, "error", err)
	}
}

// stayTime bounds storing that a workspace stays.
const stayTime = 30 * time.Second

// endReserve is the disk space, in bytes, that ending sessions and storing an archive takes at most, with a large margin.
const endReserve = 4 << 20

// fits rejects archiving or deleting a workspace whose files would not fit into a snapshot, while its sessions still run: otherwise a full
// disk would make it fail only after they had ended. The snapshot after their end then reuses the objects stored here.
func (s *Service) fits(ctx context.Context, sessions workspaces.Sessions, p workspaces.Project, w workspaces.Workspace) error {
	n, err := sessions.Running(ctx, w.ID)
	if err != nil || n == 0 || !git.FolderExists(p.GitDir) {
		return err
	}
	if _, _, err := s.snapshots.Snapshot(ctx, p, w); err != nil {
		return err
	}
	for _, dir := range []string{p.GitDir, s.cfg.DataDir} {
		if free, ok := git.FreeBytes(dir); ok && free < endReserve {
			return fault.New(fault.DiskFull, "disk_full", "The server's disk is nearly full, so nothing was ended or removed. Free some space, then try again.")
		}
	}
	return nil
}

// recoverRemovals finishes archives and deletions that an earlier server did not complete, or undoes those that had removed nothing.
func (s *Service) recoverRemovals(ctx context.Context) error {
	all, err := s.store.WorkspacesIn(ctx, workspaces.Ready, workspaces.Paused)
	if err != nil {
		return fmt.Errorf("listing interrupted deletions: %w", err)
	}
	for _, w := range all {
		if w.Snapshot == nil || w.Snapshot.Going == nil {
			continue
		}
		if err := s.endGoing(ctx, w); err != nil { // the next start tries again, or the user
			s.cfg.Log.ErrorContext(ctx, "an interrupted archive or deletion could not be finished", "workspace_id", w.ID, "error", err)
		}
	}
	return nil
}

func (s *Service) endGoing(ctx context.Context, w workspaces.Workspace) error {
	going := w.Snapshot.Going
	places, _, err := s.records.Connected()
	if err != nil {
		return err
	}
	// Files on a remote disk went with their sandbox: only the snapshot has them.
	if git.FolderExists(w.Path) && (!s.sandboxes.Remote(w.ID) || places.Live(w.ID)) {
		s.stay(ctx, w)
		what := "archived"
		if going.Delete {
			what = "deleted"
		}
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: going.By, Kind: "workspace.stayed",
			Text: "The server ended while this was being " + what + ": sessions have ended, nothing was removed"})
		return nil
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if fault.Is(err, fault.NotFound) {
		p, err = workspaces.Project{}, nil
	}
	if err != nil {
		return err
	}
	doomed := ""
	if w.Snapshot.Commit != "" {
		if doomed, err = s.takeAway(ctx, places, p, w); err != nil {
			return err
		}
	}
	_, err = s.putAwayRest(ctx, going.By, p, w, doomed, going.Delete)
	return err
}
