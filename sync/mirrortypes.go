package filesync

import (
	"context"

	"github.com/parawork/parawork/guest"
)

// States of a mirrored workspace, as in the API.
const (
	Synced  = "synced"  // everything is on the server
	Syncing = "syncing" // files are on their way
	Behind  = "behind"  // something prevents the sync: see the reason
)

// States of a mirrored file, as in the API.
const (
	FileSynced   = "synced"
	FileTooLarge = "too_large"
	FileRefused  = "refused" // it is of a kind that is not copied
	FileFailed   = "failed"  // copying failed, and is tried again
)

// File describes what the host worktree holds of one file of a sandbox with its own disk.
type File struct {
	Path   string // raw bytes
	Hash   string // sha256 of the bytes, or of a link's target; "" = the host has none
	Mode   string // as git writes it: 100644, 100755, 120000; "" = the host has none
	Size   int64  // bytes; of the sandbox's version where that was not copied
	State  string
	Reason string // why it was not copied
	At     int64  // ms UTC
}

// Conflict is a file that changed on both sides. Both versions are kept.
type Conflict struct {
	ID, TeamID, WorkspaceID string
	Path                    string // raw; where the sandbox's version is
	Kept                    string // raw; where the server's version is
	FoundAt                 int64  // ms UTC
	SettledAt               int64  // when somebody marked it as resolved; 0 = not yet
}

// MirrorState sums up how far a workspace's files are synced.
type MirrorState struct {
	SandboxID  string
	BaseCommit string // the commit the host worktree is built on
	State      string
	Pending    int64
	Reason     string
	SyncedAt   int64 // ms UTC when everything was last synced; 0 = never
}

// MirrorDelta is one write.
type MirrorDelta struct {
	WorkspaceID, TeamID string
	State               MirrorState
	Upserts             []File
	Removes             []string // raw paths whose file is that of the base again
	Conflicts           []Conflict
}

// MirrorStore stores what host worktrees hold of the files of sandboxes with their own disk. Paths are raw bytes.
type MirrorStore interface {
	// MirrorState returns the zero value for a workspace that was never mirrored.
	MirrorState(ctx context.Context, workspaceID string) (MirrorState, error)
	// MirrorFiles returns every file the store knows of a workspace, ordered by path.
	MirrorFiles(ctx context.Context, workspaceID string) ([]File, error)
	// NotSynced returns at most limit files that are not synced, ordered by path.
	NotSynced(ctx context.Context, workspaceID string, limit int) ([]File, error)
	// ApplyMirror writes a delta in one transaction.
	ApplyMirror(ctx context.Context, d MirrorDelta) error
	// OpenConflicts returns at most limit unresolved conflicts, the oldest first.
	OpenConflicts(ctx context.Context, workspaceID string, limit int) ([]Conflict, error)
	// Conflict returns one conflict; fault.NotFound when there is none.
	Conflict(ctx context.Context, id string) (Conflict, error)
	// SettleConflict marks a conflict as resolved. Idempotent.
	SettleConflict(ctx context.Context, id string, at int64) error
}

// Home reports how far the files of a workspace are synced.
type Home struct {
	State     string
	SyncedAt  int64 // ms UTC; 0 = never
	Pending   int64
	Reason    string
	NotSynced []File
	Conflicts []Conflict
}

// shownFiles bounds the files and conflicts in a Home.
const shownFiles = 500

// Home reports how far the files of a workspace are synced. A worktree that is itself on this server always is.
func (s *Service) Home(ctx context.Context, workspaceID string) (Home, error) {
	st, err := s.cfg.Store.MirrorState(ctx, workspaceID)
	if err != nil {
		return Home{}, err
	}
	out := Home{State: st.State, SyncedAt: st.SyncedAt, Pending: st.Pending, Reason: st.Reason}
	if m := s.mirrorOf(workspaceID); m != nil {
		out = m.now()
	} else if st.State == Syncing {
		out.State, out.Reason = Behind, "Files were being synced when the server last reached the sandbox. The sync continues once the sandbox is reached again."
	}
	if out.State == "" {
		set, err := s.cfg.Store.Changes(ctx, workspaceID)
		if err != nil {
			return Home{}, err
		}
		out.State, out.SyncedAt = Synced, set.SyncedAt
	}
	if out.NotSynced, err = s.cfg.Store.NotSynced(ctx, workspaceID, shownFiles); err != nil {
		return Home{}, err
	}
	if h := s.homesNow(workspaceID); h != nil {
		out.NotSynced = append(out.NotSynced, h.notKept()...)
		out.NotSynced = out.NotSynced[:min(len(out.NotSynced), shownFiles)]
	}
	out.Conflicts, err = s.cfg.Store.OpenConflicts(ctx, workspaceID, shownFiles)
	return out, err
}

// mirrorOf returns the mirror that currently works for a workspace, or nil.
func (s *Service) mirrorOf(workspaceID string) *mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.followers[workspaceID]; f != nil {
		return f.mirror
	}
	return nil
}

// homesNow returns the homes of the workspace's current sandbox, or nil.
func (s *Service) homesNow(workspaceID string) *homes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.followers[workspaceID]; f != nil {
		return f.homes
	}
	return nil
}

// Conflict returns a conflict; fault.NotFound when there is none with this ID.
func (s *Service) Conflict(ctx context.Context, id string) (Conflict, error) {
	return s.cfg.Store.Conflict(ctx, id)
}

// SettleConflict marks a conflict as resolved. Both files stay as they are. Idempotent.
func (s *Service) SettleConflict(ctx context.Context, id string) error {
	c, err := s.cfg.Store.Conflict(ctx, id)
	if err != nil || c.SettledAt != 0 {
		return err
	}
	if err := s.cfg.Store.SettleConflict(ctx, id, s.cfg.Now().UnixMilli()); err != nil {
		return err
	}
	s.homeChanged(c.WorkspaceID, c.TeamID)
	return nil
}

// WirePath is a file's path as the API writes it.
func (f File) WirePath() string { return guest.EncodePath(f.Path) }
