package workspaces

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// Chooser is an optional ability of Places: it knows which places there are. Without it every workspace gets Config.DefaultExecutor.
type Chooser interface {
	// Choose says where a new workspace lives: the first wish that is not "", else what team and instance say.
	Choose(ctx context.Context, teamID string, wishes ...executors.Kind) (executors.Kind, error)
	// CheckWish refuses a place that a project cannot name.
	CheckWish(ctx context.Context, teamID string, kind executors.Kind) error
	// Place says what a place can do now; false when there is no such place any more.
	Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool)
	// Lost reports whether the workspace's sandbox is in a place that cannot be reached.
	Lost(ctx context.Context, workspaceID string) bool
	// Leave ends the workspace's sandbox for good, and leaves it behind where its place cannot be reached.
	Leave(ctx context.Context, workspaceID string) error
}

// LocalChooser is an optional ability of a Chooser: the strongest place on this server.
type LocalChooser interface {
	ChooseHere(ctx context.Context, teamID string) (executors.Kind, error)
}

// OnRemoteDisk reports whether a place is another machine.
func OnRemoteDisk(ctx context.Context, c Chooser, kind string) bool {
	caps, ok := c.Place(ctx, executors.Kind(kind))
	return ok && caps.OwnDisk
}

// Personal reports whether a place is a member's own machine: work that is there for its files and its hardware goes nowhere else by itself.
func Personal(kind string) bool { return executors.Kind(kind).Base() == executors.Runner }

// RemoteSandboxes is an optional ability of Places that have places with a disk of their own.
type RemoteSandboxes interface {
	// Awake reports whether the workspace's sandbox lives and can answer.
	Awake(workspaceID string) bool
	// Stands reports whether this sandbox of the workspace has not ended, whether it can be reached or not.
	Stands(ctx context.Context, workspaceID, sandboxID string) (bool, error)
	// At returns the place of a live sandbox.
	At(workspaceID string) (*executors.Place, bool)
}
