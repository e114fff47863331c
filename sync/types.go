// Package filesync follows the live sandboxes of workspaces and stores the set of files that differ from each workspace's base.
// It also reads, writes and diffs files through the sandbox's guest, and syncs the files of sandboxes with their own disk to the
// server.
//
// It checks everything a guest reports before storing it (check.go). The last known set stays readable when the sandbox is gone.
//
// Goroutines: one per followed sandbox and one that publishes, all owned by Run, which waits for them.
package filesync

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
)

// MaxFiles is the largest number of changes stored for one workspace.
const MaxFiles = 200_000

// Set is the set of changes of one workspace as last seen.
type Set struct {
	Version    int64 // grows with each difference, across sandboxes
	BaseCommit string
	HeadCommit string
	Branch     string // "" when HEAD is detached
	Items      []guest.Change
	SyncedAt   int64  // ms UTC of the last look; 0 = never looked
	Error      string // why the last look failed, in git's own words; Items are then the last known ones
}

// Summary is a Set in numbers.
type Summary struct {
	Files, Additions, Deletions int
	Version                     int64
}

// Header is the part of a delta that describes the whole set.
type Header struct {
	BaseCommit, HeadCommit, Branch, Error string
	SyncedAt                              int64
}

// Delta is one write. With Reset, Upserts is the complete set: everything else is removed.
type Delta struct {
	WorkspaceID, TeamID string
	Header
	Reset   bool
	Upserts []guest.Change
	Removes []string // paths in wire form
}

// Store stores sets of changes. Paths are in the wire form of package guest; the store holds the raw bytes.
type Store interface {
	// Changes returns the set of a workspace; the zero Set when it was never looked at.
	Changes(ctx context.Context, workspaceID string) (Set, error)
	// Change returns the change of one path; an error of kind fault.NotFound when it does not differ.
	Change(ctx context.Context, workspaceID, path string) (guest.Change, error)
	// ApplyChanges writes a delta in one transaction. The version grows by one when anything but SyncedAt differs. It returns an
	// error of kind fault.TooLarge, and writes nothing, when the set would hold more than MaxFiles.
	ApplyChanges(ctx context.Context, d Delta) (version int64, changed bool, err error)
	// ChangeSummaries returns the summary of every workspace of a team that was looked at.
	ChangeSummaries(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Summary, error)
	MirrorStore
}

// Places finds and creates the sandbox of a workspace. *manager.Manager implements it.
type Places interface {
	// Ensure returns the live sandbox, creating one when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	// Live returns the live sandbox, if there is one.
	Live(workspaceID string) (*executors.Place, bool)
	// RemoteDisk reports whether the workspace runs in a sandbox with its own disk, and the state of its sandbox, "" = it has
	// none. It creates and wakes nothing.
	RemoteDisk(ctx context.Context, workspaceID string) (remote bool, state executors.State, err error)
}

// Workspaces knows what a workspace is compared with.
type Workspaces interface {
	// BaseCommit is the full id of the commit the workspace's changes are counted from.
	BaseCommit(ctx context.Context, workspaceID string) (string, error)
}
