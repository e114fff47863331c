package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// stay takes back that a workspace goes, after putting it away failed before anything was removed. Where its folder is gone already, the next
// attempt or the next start ends it.
func (s *Service) stay(ctx context.Context, w workspaces.Workspace) {
	if w.Snapshot == nil || w.Snapshot.Going == nil || !git.FolderExists(w.Path) {
		return
	}
	// Also where putting it away ran out of time: else a later start would go on with it over work that was done since.
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

// toEndWith is the room, in bytes, that ending sessions and storing that a workspace is put away takes at most, with much to spare.
const toEndWith = 4 << 20

// fits refuses to put a workspace away whose files could not be kept, while its sessions still run: a full disk would refuse it only after they
// had ended. What it keeps is what the snapshot after their end finds there already.
func (s *Service) fits(ctx context.Context, sessions workspaces.Sessions, p workspaces.Project, w workspaces.Workspace) error {
	n, err := sessions.Running(ctx, w.ID)
	if err != nil || n == 0 || !git.FolderExists(p.GitDir) {
		return err
	}
	if _, _, err := s.snapshots.Snapshot(ctx, p, w); err != nil {
		return err
	}
	for _, dir := range []string{p.GitDir, s.cfg.DataDir} {
		if free, ok := git.FreeBytes(dir); ok && free < toEndWith {
			return fault.New(fault.DiskFull, "disk_full", "The server's disk is nearly full, so nothing was ended or removed. Make room, then try again.")
		}
	}
	return nil
}

// recoverGoing ends archives and deletions that a server did not live to end, or undoes those that had removed nothing.
func (s *Service) recoverGoing(ctx context.Context) error {
	all, err := s.store.WorkspacesIn(ctx, workspaces.Ready, workspaces.Paused)
	if err != nil {
		return fmt.Errorf("listing cut deletions: %w", err)
	}
	for _, w := range all {
		if w.Snapshot == nil || w.Snapshot.Going == nil {
			continue
		}
		if err := s.endGoing(ctx, w); err != nil { // it is tried again by the next start, or by who asks for it again
			s.cfg.Log.ErrorContext(ctx, "a cut archive or deletion could not be ended", "workspace_id", w.ID, "error", err)
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
	// Files that are not on this machine went with their sandbox: the snapshot alone has them.
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
