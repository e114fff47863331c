package workspaces

import (
	"fmt"

	"github.com/parawork/parawork/executors"
)

// Key is the human id of the workspace, such as PW-142.
func (w Workspace) Key() string { return fmt.Sprintf("PW-%d", w.Num) }

// Kinds of a project's source.
const (
	SourceURL    = "url"
	SourcePath   = "path"
	SourceSample = "sample"
	SourceRunner = "runner" // a folder of a member's own machine
)

// NewProject asks for a project.
type NewProject struct {
	Name          string // "" = the last part of the source
	Kind          string // url, path, sample, runner
	URL           string // https, ssh or git; credentials in it are kept apart, 0600, and never shown
	Path          string // a folder below an allowed root; of kind runner: one its machine's owner allows
	RunnerID      string // of kind runner: the machine
	DefaultBranch string // "" = what the repository says
}

// ProjectPatch changes a project's settings; nil leaves as it is.
type ProjectPatch struct {
	Name          *string
	DefaultBranch *string
	SetupScript   *string
	CopyIgnored   *[]string
	Limits        *executors.Limits
	Executor      *string // "" = the team's
	NoCaches      *bool
	Checks        *[]Check
	Merging       *Merging
	KeepIgnored   *[]string
}

// Branches of a project. FetchError holds git's own words when a wanted fetch failed: the items are then as of FetchedAt.
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
	Truncated   bool // more entries exist than are shown
}

// NewWorkspace asks for a workspace.
type NewWorkspace struct {
	ProjectID string
	Name      string
	Base      string // "" = the project's default branch; "origin/x" = the remote's; "refs/heads/x" = exactly that, without fetching
	Branch    string // "" = prefix + slug of the name; one that exists is refused
	Executor  string // "" = the project's place, else the team's, else the instance's
	Folder    string // on a member's machine: the folder there whose repository it borrows; "" = the project's own, where it is there
	Limits    executors.Limits

	FallbackOK bool // it may work on this server when its place cannot serve
	Private    bool // only who makes it sees it
}

// Show says which workspaces a list holds.
type Show string

// What a list shows.
const (
	ShowActive   Show = "active" // neither archived nor deleted
	ShowArchived Show = "archived"
	ShowTrash    Show = "trash" // deleted, restorable
	ShowAll      Show = "all"   // active and archived
)

// Filter narrows a list of workspaces.
type Filter struct {
	ProjectID string
	IDs       []string // of these alone; none = whatever else the filter says
	State     State    // "" = any
	Show      Show     // "" = active
	Brief     bool     // only IDs, Num, Name, Executor, State, StateReason, CreatedBy, CreatedAt, UpdatedAt and Private are read of each

	For     string // the user who looks: others' private workspaces are left out; "" = all
	Orphans bool   // not those whose owner is no member any more
}

// Loss is what archiving or deleting would take away. All of it is kept in a snapshot when Restorable.
type Loss struct {
	Uncommitted      []string // paths, raw bytes, at most 100
	UncommittedCount int
	UnmergedCommits  int
	RunningSessions  int
	Restorable       bool
}

// Commit is one commit.
type Commit struct {
	Commit  string
	Parents []string
	Subject string
	Body    string
	Author  string
	Email   string
	At      int64 // ms UTC, author's time
	Files   int   // files it changed against its first parent
}

// Strategies of a merge.
const (
	StrategyMerge  = "merge"
	StrategySquash = "squash"
	StrategyRebase = "rebase"
)

// MergeRequest asks to bring the branch into its base.
type MergeRequest struct {
	Strategy string // merge, squash, rebase
	Message  string // "" = made from branch and commits; not used by rebase
	DryRun   bool
	// What was shown to who asks: base_moved or head_moved when it is no longer so. "" = whatever it is.
	ExpectedBase, ExpectedHead string
}

// Conflict is one path that could not be merged.
type Conflict struct {
	Path string // raw bytes
	Kind string // content, modify/delete, rename/rename, ...
	// What each side did with it, in a word: changed, added, deleted. "" where that cannot be said.
	Ours, Theirs string
	Hunks        []ConflictHunk // where that is looked at: the places where the two differ, the first of them
	MoreHunks    int
}

// MergeResult says what a merge did, or in a dry run would do. Conflicts are an answer, not an error; nothing is ever half
// merged.
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
	Commits     int  // of the branch that the base has not
	Files       int  // that differ between BaseCommit and Commit
	Conflicts   []Conflict
	Warnings    []string
	Blocked     string // in a dry run: why it must not be merged now
}

// Activity is one line of a workspace's timeline.
type Activity struct {
	ID          string
	TeamID      string
	WorkspaceID string
	At          int64  // ms UTC; 0 = now
	ActorID     string // "" = Parawork itself
	Kind        string // workspace.created, session.started, commit, merge, ...
	Text        string
	Data        map[string]any
}
