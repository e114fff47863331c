package sandboxes

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

// Sandbox is a sandbox without a repository. Times are ms UTC, 0 = not yet.
type Sandbox struct {
	ID, TeamID, UserID string
	Key                string // by which its user finds it again; "" = by its id alone
	Purpose            executors.Purpose
	WorkspaceID        string
	Executor           string         // as asked for; "" = the default
	Image              images.Choice  // what it is made from; zero = the executor's own
	Network            network.Policy // it takes away from what the team's sandboxes reach; zero = nothing
	IdleMs             int64          // it ends when nobody used it for so long
	SessionID          string         // it ends with this session
	CreatedAt, UsedAt  int64
	CheckedAt          int64 // when it was last found healthy
	EndsAt, EndedAt    int64
	EndsBy             int64 // it ends then at the latest, used or not; 0 = only when nobody uses it
	Cleaned            bool  // it has ended, and nothing of it is left
}

// endsAt lets a sandbox live until a time, as far as it may.
func (sb *Sandbox) endsAt(at int64) {
	sb.EndsAt = max(sb.EndsAt, at)
	if sb.EndsBy != 0 {
		sb.EndsAt = min(sb.EndsAt, sb.EndsBy)
	}
}

// Request asks for a sandbox.
type Request struct {
	Key       string
	Purpose   executors.Purpose
	Executor  executors.Kind
	Idle      time.Duration   // 0 = as usual for the purpose
	SessionID string          // it ends with this session
	Image     string          // name of the image it is made from; "" = any: the executor's own for a new one
	Network   *network.Policy // what it reaches; nil = any: what the team's sandboxes reach for a new one
	Life      time.Duration   // it ends after so long, used or not; 0 = only when nobody uses it
	Most      int             // live sandboxes of the user in the team; 0 = MaxOpen
	Replace   bool            // one with this key that has another image or network ends, and a new one is made
}

// Store is what the package needs of the storage.
type Store interface {
	// InsertSandbox stores a sandbox unless its user has most live ones in the team: a fault "sandbox_limit". Another fault.Conflict means that
	// one of them has its key and purpose.
	InsertSandbox(ctx context.Context, s Sandbox, most int) error
	// EditSandbox changes a sandbox in one transaction; an error of fn rolls it back.
	EditSandbox(ctx context.Context, id string, fn func(*Sandbox) error) (Sandbox, error)
	Sandbox(ctx context.Context, id string) (Sandbox, error)
	// SandboxByKey returns the live sandbox of a user with this key and purpose.
	SandboxByKey(ctx context.Context, teamID, userID, key string, p executors.Purpose) (Sandbox, error)
	// Sandboxes returns a page of a team's live sandboxes, the newest first; of one user unless userID is "".
	Sandboxes(ctx context.Context, teamID, userID string, pg page.Page) ([]Sandbox, string, error)
	// OpenSandboxes returns those of ctx's teams of which something is left.
	OpenSandboxes(ctx context.Context) ([]Sandbox, error)
	// ForgetSandboxes deletes the rows of sandboxes that ended before a time and are cleaned up.
	ForgetSandboxes(ctx context.Context, before int64) error
}

// Workspaces makes and removes the workspaces that sandboxes are.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error)
	RetryCreate(ctx context.Context, workspaceID string) (workspaces.Workspace, error)
	Delete(ctx context.Context, actor accounts.Actor, workspaceID string) (workspaces.Workspace, error)
	// Purge removes a deleted workspace for good.
	Purge(ctx context.Context, workspaceID string) error
	// Sandboxes returns the team's hidden project, and makes it when there is none.
	Sandboxes(ctx context.Context, teamID, userID string) (workspaces.Project, error)
}

// Places are the running sandboxes: the Manager's.
type Places interface {
	EnsureFor(ctx context.Context, workspaceID string, p executors.Purpose, userID string) (*executors.Place, error)
	Live(workspaceID string) (*executors.Place, bool)
	// Check asks the workspace's sandbox whether it is well.
	Check(ctx context.Context, workspaceID string) error
}

// Sessions says what runs in workspaces.
type Sessions interface {
	Running(ctx context.Context, workspaceID string) (int, error)
	// Ended reports whether a session of the team has ended; one that is not known has.
	Ended(ctx context.Context, teamID, sessionID string) (bool, error)
}

// Limits of requests.
const (
	MaxKey  = 200                // bytes of a key
	MaxOpen = 100                // live sandboxes of a user in a team
	maxIdle = 7 * 24 * time.Hour // also the longest extension
	minIdle = 10 * time.Second
)

// idleOf is how long a sandbox may be unused when its user does not say.
func idleOf(p executors.Purpose) time.Duration {
	switch p {
	case executors.ForExecution:
		return 10 * time.Minute
	case executors.ForDesktop:
		return 15 * time.Minute
	}
	return 30 * time.Minute
}

func errEnded() error {
	return fault.New(fault.NotFound, "sandbox_not_found", "There is no such sandbox, or it has ended. Ask for one with POST /teams/{team}/sandboxes.")
}

// hasEnded reports whether err is errEnded's.
func hasEnded(err error) bool { return fault.CodeOf(err) == "sandbox_not_found" }
