package lifecycle

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// RestoreSnapshot sets files back to a snapshot. The branch stays where it is: differences show as changes. It takes a snapshot first, so
// that a restore can be undone.
func (s *Service) RestoreSnapshot(ctx context.Context, actor accounts.Actor, sn snapshot.Snap, r snapshot.RestoreRequest) (snapshot.Restored, error) {
	if r.New {
		if len(r.Paths) > 0 {
			return snapshot.Restored{}, fault.New(fault.Invalid, "paths_into_new", "A new workspace gets all files of the snapshot. Leave out the paths, or restore them into the same workspace.").With("field", "paths")
		}
		return s.restoreNew(ctx, actor, sn, r)
	}
	w, p, release, err := s.sandboxes.Begin(ctx, sn.WorkspaceID)
	if err != nil {
		return snapshot.Restored{}, err
	}
	defer release()
	if !s.snapshots.HasFiles(w) {
		return snapshot.Restored{}, fault.New(fault.Conflict, "workspace_not_active", "%s has no files now. Restore the workspace first, or restore the snapshot into a new one.", w.Key())
	}
	if !r.DryRun && !r.EvenWhileWorking {
		if err := s.noAgentWorks(ctx, w, "restore"); err != nil {
			return snapshot.Restored{}, err
		}
	}
	out := snapshot.Restored{Workspace: w, Changed: []string{}, Conflicts: []string{}}
	var now snapshot.Snap
	if r.DryRun {
		if now, err = s.snapshots.Now(ctx, w.ID); err != nil {
			return snapshot.Restored{}, err
		}
	} else {
		if now, err = s.snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "restore", ActorID: actor.User.ID}); err != nil {
			return snapshot.Restored{}, err
		}
		out.Kept = now
	}
	c, err := s.repo.Compare(ctx, w.ID, now.AsTree("", ""), sn.AsTree("", ""), git.CompareOptions{})
	if err != nil {
		return snapshot.Restored{}, err
	}
	if c.Truncated {
		return snapshot.Restored{}, fault.New(fault.TooLarge, "too_many_changes", "More than %d files differ. Restore the snapshot into a new workspace.", git.MaxCompared)
	}
	var files []git.ChangedFile
	for _, f := range c.Files {
		if snapshot.Wanted(f.Path, r.Paths) && f.Mode != "160000" && f.OldMode != "160000" {
			files = append(files, f)
		}
	}
	if r.DryRun {
		for _, f := range files {
			out.Changed = append(out.Changed, f.Path)
		}
		if r.Ignored && sn.Ignored != "" {
			err = s.snapshots.RestoreIgnored(ctx, p, w, sn.Ignored, true, &out)
		}
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	if err := s.snapshots.Apply(ctx, p, w, files, &out); err != nil {
		return snapshot.Restored{}, err
	}
	if r.Ignored && sn.Ignored != "" {
		if err := s.snapshots.RestoreIgnored(ctx, p, w, sn.Ignored, false, &out); err != nil {
			return snapshot.Restored{}, err
		}
	}
	text := fmt.Sprintf("Restored %s from a snapshot (%s)", git.Plural(len(out.Changed), "file", "files"), snapshot.SnapLabel(sn))
	if n := len(out.Ignored); n > 0 {
		text += fmt.Sprintf(", with %s", git.Plural(n, "ignored file", "ignored files"))
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "snapshot.restored",
		Text: text, Data: map[string]any{"snapshot": sn.ID, "kept": out.Kept.ID}})
	if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll}); err != nil { // so that the restored files show at once
		s.cfg.Log.WarnContext(ctx, "restored files could not be kept", "workspace_id", w.ID, "error", err)
	}
	s.records.PublishWorkspace(ctx, w)
	return out, nil
}
