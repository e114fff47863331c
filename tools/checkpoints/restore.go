package checkpoints

import (
	"context"
	"io"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Bounds of a comparison.
const (
	maxDiffFiles = 500
	maxPatch     = 256 << 10 // bytes
)

// AgainstNow names what a checkpoint is compared with besides another checkpoint.
const AgainstNow = "now"

// Difference is what changed from a checkpoint to another state.
type Difference struct {
	Files                []git.ChangedFile // sorted by path; at most maxDiffFiles
	Total                int               // files that differ
	Additions, Deletions int
	Patch                string // unified; cut after whole lines
	Truncated            bool   // of Files or Patch something is left out
}

// DiffRequest says what to compare.
type DiffRequest struct {
	Against string   // another checkpoint's id; "" or now = the workspace's newest files
	Paths   []string // raw bytes: only these files; empty = all
	Fresh   bool     // look at the files first: the newest known ones may be some seconds old
	Bytes   int      // the longest patch; 0 = maxPatch
}

// Diff compares a checkpoint with another state of its workspace: additions are what came after it.
func (s *Service) Diff(ctx context.Context, c Checkpoint, r DiffRequest) (Difference, error) {
	from, err := s.cfg.Snapshots.Snap(ctx, c.WorkspaceID, c.SnapshotID)
	if err != nil {
		return Difference{}, err
	}
	var to snapshot.Snap
	switch {
	case r.Against != "" && r.Against != AgainstNow:
		other, err := s.in(ctx, c.WorkspaceID, r.Against)
		if err != nil {
			return Difference{}, err
		}
		to, err = s.cfg.Snapshots.Snap(ctx, c.WorkspaceID, other.SnapshotID)
		if err != nil {
			return Difference{}, err
		}
	case r.Fresh:
		if to, err = s.cfg.Snapshots.Take(ctx, c.WorkspaceID, snapshot.Request{Kind: snapshot.SnapPoll}); err != nil {
			return Difference{}, err
		}
	default:
		if to, err = s.cfg.Snapshots.Now(ctx, c.WorkspaceID); err != nil {
			return Difference{}, err
		}
	}
	a, b := from.AsTree("", ""), to.AsTree("", "")
	all, err := s.cfg.Trees.Compare(ctx, c.WorkspaceID, a, b, git.CompareOptions{Renames: true})
	if err != nil {
		return Difference{}, err
	}
	var out Difference
	for _, f := range all.Files {
		if !snapshot.Wanted(f.Path, r.Paths) {
			continue
		}
		out.Total++
		out.Additions += f.Additions
		out.Deletions += f.Deletions
		if len(out.Files) < maxDiffFiles {
			out.Files = append(out.Files, f)
		}
	}
	out.Truncated = out.Total > len(out.Files) || all.Truncated
	if out.Total == 0 {
		return out, nil
	}
	limit := maxPatch
	if r.Bytes > 0 {
		limit = min(limit, r.Bytes)
	}
	var names []string
	if len(r.Paths) > 0 {
		for _, f := range out.Files {
			names = append(names, f.Path)
		}
		if n := git.PatchFits(names); n < len(names) {
			names, out.Truncated = names[:n], true
		}
	}
	text, err := s.cfg.Snapshots.Patch(ctx, c.WorkspaceID, a, b, names, 3, false)
	if err != nil {
		return Difference{}, err
	}
	defer text.Close()
	patch, err := io.ReadAll(io.LimitReader(text, int64(limit)+1))
	if err != nil {
		return Difference{}, err
	}
	if len(patch) > limit {
		patch, out.Truncated = wholeLines(patch[:limit]), true
	}
	out.Patch = string(patch)
	return out, nil
}

// wholeLines drops a last line that is not complete.
func wholeLines(b []byte) []byte {
	for i := len(b); i > 0; i-- {
		if b[i-1] == '\n' {
			return b[:i]
		}
	}
	return nil
}

// RestoreRequest says what to restore of a checkpoint.
type RestoreRequest struct {
	Paths            []string // raw bytes: only these files, and those below these folders; empty = all
	SessionID        string   // the session whose agent asks: it knows that its files change
	EvenWhileWorking bool     // even if an agent is working
}

// Restore sets the workspace's files to a checkpoint's, and removes those that did not exist then. It takes a snapshot of everything
// first, so that a restore can be undone.
func (s *Service) Restore(ctx context.Context, actor accounts.Actor, c Checkpoint, r RestoreRequest) (snapshot.Restored, error) {
	sn, err := s.cfg.Snapshots.Snap(ctx, c.WorkspaceID, c.SnapshotID)
	if err != nil {
		return snapshot.Restored{}, err
	}
	if r.SessionID != "" && !r.EvenWhileWorking {
		if r.EvenWhileWorking, err = s.worksAlone(ctx, c.WorkspaceID, r.SessionID); err != nil {
			return snapshot.Restored{}, err
		}
	}
	return s.cfg.Restorer.RestoreSnapshot(ctx, actor, sn, snapshot.RestoreRequest{Paths: r.Paths, EvenWhileWorking: r.EvenWhileWorking})
}

// worksAlone reports whether no agent works in the workspace but this session's.
func (s *Service) worksAlone(ctx context.Context, workspaceID, sessionID string) (bool, error) {
	all, err := s.cfg.Sessions.List(ctx, workspaceID)
	for _, row := range all {
		if row.ID != sessionID && row.State == state.Working {
			return false, nil
		}
	}
	return err == nil, err
}
