// Package filesync follows the live places of workspaces and keeps, in the store, the set of files that differ from each
// workspace's base; and it reads, writes and diffs files through the place's guest.
//
// Whatever a guest says is checked before it is kept (check.go). The last known set stays readable when the place is gone.
//
// Goroutines: one per followed place and one that publishes, all owned by Run, which waits for them.
package filesync

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
)

// MaxFiles is the largest number of changes kept of one workspace.
const MaxFiles = 200_000

// Set is the set of changes of one workspace as last seen.
type Set struct {
	Version    int64 // grows with each difference, across sandboxes
	BaseCommit string
	HeadCommit string
	Branch     string // "" when HEAD is detached
	Items      []guest.Change
	SyncedAt   int64  // ms UTC of the last look; 0 = never looked
	Error      string // why the last look failed, in git's own words; Items are then the last known
}

// Summary is a Set in figures.
type Summary struct {
	Files, Additions, Deletions int
	Version                     int64
}

// Header is what a delta says of the whole set.
type Header struct {
	BaseCommit, HeadCommit, Branch, Error string
	SyncedAt                              int64
}

// Delta is what is written at once. With Reset, Upserts is the whole truth: everything else is removed.
type Delta struct {
	WorkspaceID, TeamID string
	Header
	Reset   bool
	Upserts []guest.Change
	Removes []string // paths in wire form
}

// Store keeps sets of changes. Paths are in the wire form of package guest; the store keeps the raw bytes.
type Store interface {
	// Changes returns the set of a workspace; the zero Set when it was never looked at.
	Changes(ctx context.Context, workspaceID string) (Set, error)
	// Change returns the change of one path; an error of kind fault.NotFound when it does not differ.
	Change(ctx context.Context, workspaceID, path string) (guest.Change, error)
	// ApplyChanges writes a delta in one transaction. The version grows by one when anything but SyncedAt differs. An error
	// of kind fault.TooLarge, and nothing written, when the set would hold more than MaxFiles.
	ApplyChanges(ctx context.Context, d Delta) (version int64, changed bool, err error)
	// ChangeSummaries returns the figures of every workspace of a team that was looked at.
	ChangeSummaries(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Summary, error)
	MirrorStore
}

// Places finds and makes the place of a workspace. *manager.Manager is one.
type Places interface {
	// Ensure returns the live place, making one when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	// Live returns the live place, if there is one.
	Live(workspaceID string) (*executors.Place, bool)
	// RemoteDisk reports whether the workspace lives in a place with a disk of its own, and the state of its sandbox, "" = it has none.
	// It makes and wakes nothing.
	RemoteDisk(ctx context.Context, workspaceID string) (remote bool, state executors.State, err error)
}

// Workspaces knows what a workspace is compared with.
type Workspaces interface {
	// BaseCommit is the full id of the commit the workspace's changes are counted from.
	BaseCommit(ctx context.Context, workspaceID string) (string, error)
}
