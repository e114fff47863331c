package workspaces

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// Chooser is an optional ability of Places: it knows which executors there are. Without it every workspace gets Config.DefaultExecutor.
type Chooser interface {
	// Choose returns the executor of a new workspace: the first wish that is not "", else the default of the team or the instance.
	Choose(ctx context.Context, teamID string, wishes ...executors.Kind) (executors.Kind, error)
	// CheckWish rejects an executor that a project cannot use.
	CheckWish(ctx context.Context, teamID string, kind executors.Kind) error
	// Place returns what an executor can do now; false when it no longer exists.
	Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool)
	// Lost reports whether the workspace's sandbox is in an executor that cannot be reached.
	Lost(ctx context.Context, workspaceID string) bool
	// Leave destroys the workspace's sandbox, or abandons it if its executor cannot be reached.
	Leave(ctx context.Context, workspaceID string) error
}

// LocalChooser is an optional ability of a Chooser: it returns the most isolated executor on this server.
type LocalChooser interface {
	ChooseHere(ctx context.Context, teamID string) (executors.Kind, error)
}

// AwayChooser is an optional ability of a Chooser: it returns where a person agreed that their work goes while their machine is away, "" for
// nowhere.
type AwayChooser interface {
	ChooseAway(ctx context.Context, teamID, userID string, from executors.Kind) (executors.Kind, error)
}

// Explainer is an optional ability of a Chooser: it keeps why a new workspace lives where it does, whoever made it. chosen is what Choose
// answered to those wishes.
type Explainer interface {
	KeepWhy(ctx context.Context, teamID, workspaceID string, chosen executors.Kind, wishes ...executors.Kind)
}

// OnRemoteDisk reports whether an executor has its own disk, on another machine.
func OnRemoteDisk(ctx context.Context, c Chooser, kind string) bool {
	caps, ok := c.Place(ctx, executors.Kind(kind))
	return ok && caps.OwnDisk
}

// Personal reports whether an executor is a member's own machine. Work on it depends on its files and hardware, so the server moves it
// elsewhere on its own only where its owner agreed; see AwayChooser.
func Personal(kind string) bool { return executors.Kind(kind).Base() == executors.Runner }

// RemoteSandboxes is an optional ability of Places whose executors have their own disk.
type RemoteSandboxes interface {
	// Awake reports whether the workspace's sandbox is running and can answer.
	Awake(workspaceID string) bool
	// Stands reports whether this sandbox of the workspace still exists, reachable or not.
	Stands(ctx context.Context, workspaceID, sandboxID string) (bool, error)
	// At returns the executor of a live sandbox.
	At(workspaceID string) (*executors.Place, bool)
}
