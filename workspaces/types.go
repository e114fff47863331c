package workspaces

import (
	"github.com/parawork/parawork/executors"
)

// Missing is a file that existed but that a snapshot does not contain.
type Missing struct {
	Path   string `json:"path"` // wire form; "" = the whole worktree
	Reason string `json:"reason"`
	Size   int64  `json:"size,omitempty"`
}

// ProjectState is cloning, ready or failed.
type ProjectState string

// States of a project.
const (
	Cloning       ProjectState = "cloning"
	ProjectReady  ProjectState = "ready"
	ProjectFailed ProjectState = "failed"
)

// Project is a git repository a team works on.
type Project struct {
	ID, TeamID, Name string
	SourceKind       string // url, path, sample, runner
	Source           string // URL without credentials, or the folder
	RunnerID         string // for kind runner: the member's machine that has the folder
	GitDir           string // common git dir on the host
	DefaultBranch    string
	State            ProjectState
	StateReason      string // git's own message when it failed
	SetupScript      string
	CopyIgnored      []string // patterns of ignored files to copy into each workspace
	Executor         string   // default executor of its workspaces; "" = the team's
	NoCaches         bool     // its workspaces do not share the team's caches
	Limits           executors.Limits
	Network          executors.Network
	Checks           []Check
	Merging          Merging
	KeepIgnored      []string // patterns of ignored files that snapshots include
	AllowedCommands  []string // programs that commands may start on the server itself, besides those of config.json; see executors/allowlist
	FetchedAt        int64    // ms UTC; 0 = never
	CreatedBy        string
	CreatedAt        int64
	Progress         string // while cloning: git's last progress line; not stored
}

// State of a workspace.
type State string

// States of a workspace, as in the API.
const (
	Creating  State = "creating"
	SettingUp State = "setting_up"
	Ready     State = "ready"
	Paused    State = "paused"
	Failed    State = "failed"
	Archived  State = "archived"
)

// Step is one named step of creating a workspace. State: pending, running, done, failed, cancelled, skipped.
type Step struct {
	Name      string `json:"name"` // fetch, worktree, copy_files, sandbox, setup
	Title     string `json:"title"`
	State     string `json:"state"`
	Detail    string `json:"detail,omitempty"` // output or reason
	StartedAt int64  `json:"started_at,omitempty"`
	EndedAt   int64  `json:"ended_at,omitempty"`
	SessionID string `json:"session_id,omitempty"` // the terminal that shows the step (setup script)
}

// Snapshot is the restorable snapshot of an archive or a deletion.
type Snapshot struct {
	Ref         string `json:"ref"`    // hidden ref of the whole tree, untracked files included
	Commit      string `json:"commit"` // its commit; parent is Head
	HeadRef     string `json:"head_ref"`
	Head        string `json:"head"`
	Uncommitted int    `json:"uncommitted"`
	Unmerged    int    `json:"unmerged"` // commits that the base lacks
	TakenAt     int64  `json:"taken_at"`

	Missing []Missing `json:"missing,omitempty"` // files it lacks

	// Going is set while the workspace is being archived or deleted: a server that takes over finishes or undoes that.
	Going *Going `json:"going,omitempty"`
}

// Going is an archive or a deletion in progress.
type Going struct {
	Delete bool   `json:"delete,omitempty"`
	By     string `json:"by"` // user who requested it
}

// Workspace is one piece of work: one branch in one git worktree of a project.
type Workspace struct {
	ID, TeamID, ProjectID string
	Private               bool // only its creator sees it
	Num                   int64
	Name                  string
	Branch                string
	Base                  string // the base branch as people write it
	BaseCommit            string
	Executor              string
	State                 State
	StateReason           string
	Path                  string
	Steps                 []Step
	MergedAt              int64
	MergedCommit          string
	Snapshot              *Snapshot
	Limits                executors.Limits // in addition to the project's
	AllowedHosts          []string         // host names its sandbox may reach in addition to the project's
	CreatedBy             string
	CreatedAt, UpdatedAt  int64
	ArchivedAt, DeletedAt int64
	DeletedBy             string // who deleted it
	FallbackOK            bool   // it may fall back to this server when its executor is unavailable
	Folder                string // on a member's machine: the folder there whose objects it shares; "" = it has a full copy
}

// CheckedOutElsewhere means that a branch is checked out in a folder that is not a workspace's.
const CheckedOutElsewhere = "another folder"

// Branch is a branch of a project as the new-workspace form shows it.
type Branch struct {
	Name       string // "main", "origin/feature"
	Commit     string
	Subject    string
	CommitAt   int64 // ms UTC
	Remote     bool
	Default    bool
	CheckedOut string // key of the workspace where it is checked out, or CheckedOutElsewhere; "" = nowhere
	Behind     int    // commits its upstream has and it lacks
	Ahead      int
	Upstream   string
}
