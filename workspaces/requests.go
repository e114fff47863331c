package workspaces

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors"
)

// Key is the human id of the workspace, such as PW-142.
func (w Workspace) Key() string { return fmt.Sprintf("PW-%d", w.Num) }

// ParseKey returns the number in a key such as PW-12; false for what is no key.
func ParseKey(key string) (int64, bool) {
	digits, ok := strings.CutPrefix(strings.ToUpper(key), "PW-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n > 0
}

// Kinds of a project's source.
const (
	SourceURL    = "url"
	SourcePath   = "path"
	SourceSample = "sample"
	SourceRunner = "runner" // a folder of a member's own machine
	// SourceSandboxes is the team's hidden project: its workspaces are sandboxes without a repository of a user. It is in no list.
	SourceSandboxes = "sandboxes"
	// SandboxesProject begins the id of that project, which the id of the team ends. Lists of work leave its workspaces out by it.
	SandboxesProject = "prj_sandboxes_"
)

// NewProject is a request to add a project.
type NewProject struct {
	Name          string // "" = the last part of the source
	Kind          string // url, path, sample, runner
	URL           string // https, ssh or git; credentials in it are stored separately, mode 0600, and never shown
	Path          string // a folder below an allowed root; for kind runner: one the machine's owner allows
	RunnerID      string // for kind runner: the machine
	DefaultBranch string // "" = the repository's default
}

// ProjectPatch changes a project's settings; nil leaves a setting unchanged.
type ProjectPatch struct {
	Name            *string
	DefaultBranch   *string
	SetupScript     *string
	CopyIgnored     *[]string
	Limits          *executors.Limits
	Executor        *string // "" = the team's
	NoCaches        *bool
	Checks          *[]Check
	Merging         *Merging
	KeepIgnored     *[]string
	AllowedCommands *[]string
}

// Branches of a project. FetchError holds git's own message when a requested fetch failed: the items are then as of FetchedAt.
type Branches struct {
	Items      []Branch
	FetchedAt  int64 // ms UTC; 0 = never
	FetchError string
}

// Entry is one folder in the directory browser.
type Entry struct {
	Name string
	Path string
	Git  bool // a git repository
}

// Listing is one folder of the directory browser. With Path "" the entries are the allowed roots.
type Listing struct {
	Path        string
	Git         bool
	Parent      string // "" at a root
	Breadcrumbs []Entry
	Entries     []Entry
	Roots       []string
	Truncated   bool // there are more entries than shown
}

// NewWorkspace is a request for a workspace.
type NewWorkspace struct {
	ID        string // for a caller who stored it before; "" = a new one
	ProjectID string
	Name      string
	Base      string // "" = the project's default branch; "origin/x" = the remote's; "refs/heads/x" = exactly that, without fetching
	Branch    string // "" = prefix + slug of the name; an existing one is an error
	Executor  string // executor; "" = the project's, else the team's, else the instance's
	Folder    string // on a member's machine: the folder there whose objects it shares; "" = the project's own, if it is there
	Limits    executors.Limits

	FallbackOK bool // it may fall back to this server when its executor is unavailable
	Private    bool // only its creator sees it

	// Also stores what belongs to the workspace in the transaction that stores it. It may be called more than once. Nil: nothing does.
	Also func(ctx context.Context, w Workspace) error
}

// Show says which workspaces a list includes.
type Show string

// What a list includes.
const (
	ShowActive   Show = "active" // neither archived nor deleted
	ShowArchived Show = "archived"
	ShowTrash    Show = "trash" // deleted, restorable
	ShowAll      Show = "all"   // active and archived
)

// Filter narrows a list of workspaces.
type Filter struct {
	ProjectID string
	IDs       []string // only these ids; none = as the rest of the filter says, and no sandboxes without a repository
	Work      bool     // leave out sandboxes without a repository, those of IDs too
	Num       int64    // only the one with this number; 0 = any
	State     State    // "" = any
	Show      Show     // "" = active
	Brief     bool     // read only IDs, Num, Name, Executor, State, StateReason, MergedAt, CreatedBy, CreatedAt, UpdatedAt and Private of each

	For     string // the viewer: private workspaces of others are left out; "" = all
	Orphans bool   // leave out those whose owner is no longer a member
}

// Loss is what archiving or deleting removes. When Restorable, a snapshot holds all of it.
type Loss struct {
	Uncommitted      []string // paths, raw bytes, at most 100
	UncommittedCount int
	UnmergedCommits  int
	RunningSessions  int
	Restorable       bool
}

// Commit is one git commit.
type Commit struct {
	Commit  string
	Parents []string
	Subject string
	Body    string
	Author  string
	Email   string
	At      int64 // ms UTC, author time
	Files   int   // files changed against its first parent
}

// Strategies of a merge.
const (
	StrategyMerge  = "merge"
	StrategySquash = "squash"
	StrategyRebase = "rebase"
)

// MergeRequest is a request to merge the branch into its base.
type MergeRequest struct {
	Strategy string // merge, squash, rebase
	Message  string // "" = generated from branch and commits; not used by rebase
	DryRun   bool
	// The commits the user saw: a difference is the error base_moved or head_moved. "" = any.
	ExpectedBase, ExpectedHead string
	Artifacts                  []AttachedArtifact // for the record of the merge; the commit does not name them
}

// AttachedArtifact identifies an artifact that a person attached to a merge or a pull request. The record of a merge keeps it: it tells what
// was attached when the artifact itself is gone.
type AttachedArtifact struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
}

// Attach adds artifacts to the data of an activity, unless there are none.
func Attach(data map[string]any, artifacts []AttachedArtifact) map[string]any {
	if len(artifacts) > 0 {
		data["artifacts"] = artifacts
	}
	return data
}

// Conflict is one path that could not be merged.
type Conflict struct {
	Path string // raw bytes
	Kind string // content, modify/delete, rename/rename, ...
	// What each side did, in a word: changed, added, deleted. "" if unknown.
	Ours, Theirs string
	Hunks        []ConflictHunk // filled in on request: the first ranges in which the two differ
	MoreHunks    int
}

// MergeResult is what a merge did, or would do in a dry run. Conflicts are a result, not an error; no merge is ever left half done.
type MergeResult struct {
	Merged      bool
	DryRun      bool
	Strategy    string
	Base        string
	BaseCommit  string // the base before the merge
	Head        string // the branch that was merged
	Commit      string // the base after the merge; "" with conflicts
	FastForward bool
	UpToDate    bool // nothing to merge
	Commits     int  // commits of the branch that the base lacks
	Files       int  // files that differ between BaseCommit and Commit
	Conflicts   []Conflict
	Warnings    []string
	Blocked     string // in a dry run: why merging is not allowed now
}

// Activity is one line of a workspace's timeline.
type Activity struct {
	ID          string
	TeamID      string
	WorkspaceID string
	At          int64  // ms UTC; 0 = now
	ActorID     string // "" = Parawork
	Kind        string // workspace.created, session.started, commit, merge, ...
	Text        string
	Data        map[string]any
}
