// Package checks runs a project's checks, the commands that say whether work is good, in the sandboxes of its workspaces, and brings
// workspaces home one after the other: the merge queue checks each merged result before it lands.
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
	RunLost      RunState = "lost" // nobody knows how it ended
)

// Ended reports whether s is final.
func (s RunState) Ended() bool { return s != RunWaiting && s != RunRunning }

// Run is one run of a check. Times are ms UTC, 0 = not yet.
type Run struct {
	ID, TeamID, WorkspaceID, ProjectID string

	BatchID   string // runs that were begun together
	QueueID   string // the entry of the merge queue it is for; "" = it runs on the workspace's own files
	CheckID   string
	Name      string
	Command   string
	Required  bool
	Tree      string // the files it ran on; "" = they changed while it ran
	Commit    string // the commit that has these files; "" = none has
	State     RunState
	Reason    string
	ExitCode  *int64
	Output    string // its end, at most MaxOutput bytes, secrets masked; left out of lists
	Truncated bool
	CommandID string // in the sandbox
	StartedBy string // "" = Parawork itself
	CreatedAt int64
	StartedAt int64
	EndedAt   int64
}

// MaxOutput is how many bytes of a run's output are kept: its end.
const MaxOutput = 256 << 10

// setupID is the check_id of a project's setup script, which runs before the checks on a merged result.
const setupID = "setup"

// State is how a check, or all of a workspace's, stands.
type State string

// How checks stand for certain files.
const (
	None    State = "none" // there are none, or they never ran
	Waiting State = "waiting"
	Running State = "running"
	Passed  State = "passed"
	Failed  State = "failed"
	Stale   State = "stale" // they ran, but on other files, or nobody knows how they ended
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

	Base       string // the branch it is merged into, as people name it
	Strategy   string
	Message    string
	State      EntryState
	Reason     string
	Head       string // of the branch, as it was asked for
	BaseCommit string // what the result is computed on
	Commit     string // the merged result
	Position   int64  // grows with each entry of the project
	AddedBy    string
	CreatedAt  int64
	UpdatedAt  int64
	EndedAt    int64
}

// Now is what the store knows of a workspace's files without asking anybody: the newest snapshot's.
type Now struct{ Tree, Head string }

// Store is what the room needs of the storage. Errors: fault.NotFound for an id that is not there.
type Store interface {
	RunStore
	QueueStore
}

// RunStore keeps runs of checks and the files they ran on.
type RunStore interface {
	InsertCheckRuns(ctx context.Context, runs []Run) error
	// EditCheckRun changes a run in one transaction, output included; an error of fn changes nothing.
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
	// DropCheckRuns forgets all ended runs of a workspace but the newest keep.
	DropCheckRuns(ctx context.Context, workspaceID string, keep int) error
	// FilesNow returns the newest snapshot of workspaces of a team; of one workspace, where it is named.
	FilesNow(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Now, error)
}

// QueueStore keeps the entries of merge queues.
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

// Sandboxes says what a workspace's files and branch are now, and puts commits where commands can run over them.
type Sandboxes interface {
	// FilesNow says what the files in the workspace's sandbox are.
	FilesNow(ctx context.Context, workspaceID string) (ingest.FilesNow, error)
	// BranchNow says where the workspace's branch is: its commit and that one's tree.
	BranchNow(ctx context.Context, workspaceID string) (commit, tree string, err error)
	// CheckOut puts a commit of the project into a folder of its own in the workspace's sandbox.
	CheckOut(ctx context.Context, workspaceID, commit, branch string) (dir string, err error)
	// DropCheckOut removes it.
	DropCheckOut(ctx context.Context, workspaceID string) error
	// CheckEnv is the environment of a check.
	CheckEnv(ctx context.Context, workspaceID string) (map[string]string, error)
}

// Merges merges workspaces' branches into their bases.
type Merges interface {
	// MergedTree computes what merging the workspace's branch into its base would land, and keeps it. With conflicts commit is "".
	MergedTree(ctx context.Context, actor accounts.Actor, workspaceID, strategy, message string) (commit, base string, conflicts []workspaces.Conflict, err error)
	// LandMerged makes it the base, if that is still what it was: else base_moved. Asked again after it landed it says so.
	LandMerged(ctx context.Context, actor accounts.Actor, workspaceID, commit, expectedBase string) (workspaces.MergeResult, error)
}

// Commands is what the room needs of the commands in sandboxes.
type Commands interface {
	Exec(ctx context.Context, req command.Request) (command.Command, error)
	Wait(ctx context.Context, commandID string) (command.Command, error)
	Command(ctx context.Context, commandID string) (command.Command, error)
	Cancel(ctx context.Context, commandID string) (command.Command, error)
}

// Accounts is what the room needs of users.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}
