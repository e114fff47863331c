// Package checks runs a project's checks, the commands that verify work, in the sandboxes of its workspaces, and merges workspaces one
// after the other: the merge queue checks each merged result before it lands.
package checks

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/ingest"
)

// RunState is the state of one run of a check.
type RunState string

// States of a run.
const (
	RunWaiting   RunState = "waiting"
	RunRunning   RunState = "running"
	RunPassed    RunState = "passed"
	RunFailed    RunState = "failed"
	RunTimedOut  RunState = "timed_out"
	RunCancelled RunState = "cancelled"
	RunLost      RunState = "lost" // how it ended is unknown
)

// Ended reports whether s is final.
func (s RunState) Ended() bool { return s != RunWaiting && s != RunRunning }

// Run is one run of a check. Times are ms UTC, 0 = not yet.
type Run struct {
	ID, TeamID, WorkspaceID, ProjectID string

	BatchID   string // shared by runs that were started together
	QueueID   string // the entry of the merge queue it is for, or Baseline; "" = it runs on the workspace's own files
	CheckID   string
	Name      string
	Command   string
	Required  bool
	Tree      string // the files it ran on; "" = they changed while it ran
	Commit    string // the commit with these files; "" = none
	State     RunState
	Reason    string
	ExitCode  *int64
	Output    string // its end, at most MaxOutput bytes, secrets masked; omitted in lists
	Truncated bool
	CommandID string // in the sandbox
	StartedBy string // "" = Parawork
	CreatedAt int64
	StartedAt int64
	EndedAt   int64
}

// MaxOutput is how many bytes of a run's output are stored: its end.
const MaxOutput = 256 << 10

// Baseline is the QueueID of a run on the commit that the workspace is based on: it says what failed before the work began.
const Baseline = "baseline"

// setupID is the check_id of a project's setup script, which runs before the checks on a merged result.
const setupID = "setup"

// State is the state of a check, or of all checks of a workspace.
type State string

// States of checks for a given set of files.
const (
	None    State = "none" // there are none, or they never ran
	Waiting State = "waiting"
	Running State = "running"
	Passed  State = "passed"
	Failed  State = "failed"
	Stale   State = "stale" // they ran on other files, or how they ended is unknown
)

// EntryState is the state of an entry of the merge queue.
type EntryState string

// States of an entry.
const (
	EntryWaiting   EntryState = "waiting"
	EntryChecking  EntryState = "checking"
	EntryMerging   EntryState = "merging"
	EntryMerged    EntryState = "merged"
	EntryFailed    EntryState = "failed"
	EntryCancelled EntryState = "cancelled"
)

// Entry is a workspace in the merge queue of its project.
type Entry struct {
	ID, TeamID, ProjectID, WorkspaceID string

	Base       string // name of the branch it is merged into
	Strategy   string
	Message    string
	State      EntryState
	Reason     string
	Head       string // of the branch when it was enqueued
	BaseCommit string // commit the result is computed on
	Commit     string // the merged result
	Position   int64  // grows with each entry of the project
	AddedBy    string
	CreatedAt  int64
	UpdatedAt  int64
	EndedAt    int64
}

// Now is the state of a workspace's files that the store knows without asking a sandbox: the newest snapshot's.
type Now struct{ Tree, Head string }

// Store stores runs and queue entries. Errors: fault.NotFound for an unknown id.
type Store interface {
	RunStore
	QueueStore
}

// RunStore stores runs of checks and the files they ran on.
type RunStore interface {
	InsertCheckRuns(ctx context.Context, runs []Run) error
	// EditCheckRun changes a run in one transaction, output included; an error of fn rolls it back.
	EditCheckRun(ctx context.Context, id string, fn func(*Run) error) (Run, error)
	// CheckRun returns a run with its output.
	CheckRun(ctx context.Context, id string) (Run, error)
	// CheckRuns returns a workspace's newest runs, those of the merge queue included, without outputs.
	CheckRuns(ctx context.Context, workspaceID string, limit int) ([]Run, error)
	// QueueRuns returns the runs for entries of the merge queue, oldest first, without outputs.
	QueueRuns(ctx context.Context, queueIDs []string) ([]Run, error)
	// LatestRuns returns the newest run of each check of the team's workspaces, those of the merge queue left out, without outputs.
	LatestRuns(ctx context.Context, teamID string, workspaceIDs ...string) ([]Run, error)
	// OpenCheckRuns returns every run that has not ended, oldest first.
	OpenCheckRuns(ctx context.Context) ([]Run, error)
	// DropCheckRuns deletes all ended runs of a workspace except the newest keep.
	DropCheckRuns(ctx context.Context, workspaceID string, keep int) error
	// FilesNow returns the newest snapshot of workspaces of a team; of one workspace if one is named.
	FilesNow(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Now, error)
}

// QueueStore stores the entries of merge queues.
type QueueStore interface {
	// InsertEntry gives the entry the project's next position; fault.Conflict with the code merge_queued when the workspace has an open one.
	InsertEntry(ctx context.Context, e Entry) (Entry, error)
	EditEntry(ctx context.Context, id string, fn func(*Entry) error) (Entry, error)
	// OpenEntries returns entries that have not ended, in order; of all projects with "".
	OpenEntries(ctx context.Context, projectID string) ([]Entry, error)
	// TeamEntries returns a team's entries that have not ended, in order.
	TeamEntries(ctx context.Context, teamID string) ([]Entry, error)
	// EndedEntries returns the last entries of a project that have ended, newest first.
	EndedEntries(ctx context.Context, projectID string, limit int) ([]Entry, error)
	// NewestEntry returns a workspace's newest entry, nil when there is none.
	NewestEntry(ctx context.Context, workspaceID string) (*Entry, error)
}

// Records are the rows of workspaces and projects, and their timelines.
type Records interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	Record(ctx context.Context, a workspaces.Activity) error
}

// Sandboxes reads a workspace's current files and branch, and checks out commits for commands.
type Sandboxes interface {
	// FilesNow returns the state of the files in the workspace's sandbox.
	FilesNow(ctx context.Context, workspaceID string) (ingest.FilesNow, error)
	// BranchNow returns the workspace's branch: its commit and that commit's tree.
	BranchNow(ctx context.Context, workspaceID string) (commit, tree string, err error)
	// CheckOut checks a commit of the project out into a separate folder in the workspace's sandbox.
	CheckOut(ctx context.Context, workspaceID, commit, branch string) (dir string, err error)
	// DropCheckOut removes that folder.
	DropCheckOut(ctx context.Context, workspaceID string) error
	// CheckEnv is the environment of a check.
	CheckEnv(ctx context.Context, workspaceID string) (map[string]string, error)
}

// Merges merges workspaces' branches into their bases.
type Merges interface {
	// MergedTree computes the result of merging the workspace's branch into its base, and stores it. With conflicts commit is "".
	MergedTree(ctx context.Context, actor accounts.Actor, workspaceID, strategy, message string) (commit, base string, conflicts []workspaces.Conflict, err error)
	// LandMerged makes it the base if that has not moved, else it returns base_moved. It is idempotent.
	LandMerged(ctx context.Context, actor accounts.Actor, workspaceID, commit, expectedBase string) (workspaces.MergeResult, error)
}

// Commands runs commands in sandboxes.
type Commands interface {
	Exec(ctx context.Context, req command.Request) (command.Command, error)
	Wait(ctx context.Context, commandID string) (command.Command, error)
	Command(ctx context.Context, commandID string) (command.Command, error)
	Cancel(ctx context.Context, commandID string) (command.Command, error)
}

// Accounts knows users.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}
