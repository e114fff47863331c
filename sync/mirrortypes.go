package filesync

import (
	"context"

	"github.com/parawork/parawork/guest"
)

// States of a mirrored workspace, as in the API.
const (
	Synced  = "synced"  // everything is home
	Syncing = "syncing" // files are on their way
	Behind  = "behind"  // something keeps them from coming: see the reason
)

// States of a mirrored file, as in the API.
const (
	FileSynced   = "synced"
	FileTooLarge = "too_large"
	FileRefused  = "refused" // it is nothing that can be taken
	FileFailed   = "failed"  // it could not be taken, and is tried again
)

// File is what the host worktree holds of one file of a place with a disk of its own.
type File struct {
	Path   string // raw bytes
	Hash   string // sha256 of the bytes, or of a link's target; "" = the host has none
	Mode   string // as git writes it: 100644, 100755, 120000; "" = the host has none
	Size   int64  // bytes; of the sandbox's version where that did not come
	State  string
	Reason string // why it did not come
	At     int64  // ms UTC
}

// Conflict is a file that had changed on both sides. Both versions are kept.
type Conflict struct {
	ID, TeamID, WorkspaceID string
	Path                    string // raw; where the sandbox's version is
	Kept                    string // raw; where the server's version is
	FoundAt                 int64  // ms UTC
	SettledAt               int64  // when somebody said that it is dealt with; 0 = not yet
}

// MirrorState sums up how far a workspace's files have come home.
type MirrorState struct {
	SandboxID  string
	BaseCommit string // what the host worktree is built on
	State      string
	Pending    int64
	Reason     string
	SyncedAt   int64 // ms UTC when everything was last home; 0 = never
}

// MirrorDelta is what is written at once.
type MirrorDelta struct {
	WorkspaceID, TeamID string
	State               MirrorState
	Upserts             []File
	Removes             []string // raw paths whose file is that of the base again
	Conflicts           []Conflict
}

// MirrorStore keeps what host worktrees hold of places with a disk of their own. Paths are raw bytes.
type MirrorStore interface {
	// MirrorState returns the zero value for a workspace that was never mirrored.
	MirrorState(ctx context.Context, workspaceID string) (MirrorState, error)
	// MirrorFiles returns every file the store knows of a workspace, in order of paths.
	MirrorFiles(ctx context.Context, workspaceID string) ([]File, error)
	// NotSynced returns at most limit files that did not come, in order of paths.
	NotSynced(ctx context.Context, workspaceID string, limit int) ([]File, error)
	// ApplyMirror writes a delta in one transaction.
	ApplyMirror(ctx context.Context, d MirrorDelta) error
	// OpenConflicts returns at most limit conflicts nobody has settled, the oldest first.
	OpenConflicts(ctx context.Context, workspaceID string, limit int) ([]Conflict, error)
	// Conflict returns one; fault.NotFound.
	Conflict(ctx context.Context, id string) (Conflict, error)
	// SettleConflict notes that a conflict is dealt with. Idempotent.
	SettleConflict(ctx context.Context, id string, at int64) error
}

// Home tells how far the files of a workspace have come home.
type Home struct {
	State     string
	SyncedAt  int64 // ms UTC; 0 = never
	Pending   int64
	Reason    string
	NotSynced []File
	Conflicts []Conflict
}

// shownFiles bounds the files and conflicts a Home tells of.
const shownFiles = 500

// Home tells how far the files of a workspace have come home. Where the worktree itself lies on this server they are always.
func (s *Service) Home(ctx context.Context, workspaceID string) (Home, error) {
	st, err := s.cfg.Store.MirrorState(ctx, workspaceID)
	if err != nil {
		return Home{}, err
	}
	out := Home{State: st.State, SyncedAt: st.SyncedAt, Pending: st.Pending, Reason: st.Reason}
	if m := s.mirrorOf(workspaceID); m != nil {
		out = m.now()
	} else if st.State == Syncing {
		out.State, out.Reason = Behind, "Files were on their way when their sandbox was seen last. They come when it is reached again."
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

// mirrorOf is the mirror that works for a workspace now, or nil.
func (s *Service) mirrorOf(workspaceID string) *mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.followers[workspaceID]; f != nil {
		return f.mirror
	}
	return nil
}

// homesNow copies the home of the workspace's place now, or is nil.
func (s *Service) homesNow(workspaceID string) *homes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.followers[workspaceID]; f != nil {
		return f.homes
	}
	return nil
}

// Conflict returns a conflict; fault.NotFound when there is none such.
func (s *Service) Conflict(ctx context.Context, id string) (Conflict, error) {
	return s.cfg.Store.Conflict(ctx, id)
}

// SettleConflict notes that somebody has dealt with a conflict. Both files stay as they are. Idempotent.
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
