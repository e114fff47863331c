package workspaces

// UpdateRequest asks to bring the base into a workspace's branch.
type UpdateRequest struct {
	Strategy     string // merge, rebase
	DryRun       bool
	ExpectedBase string // expected commit of the base; "" = any
}

// JoinRequest requests that the branch of another workspace of the project is merged into a workspace.
type JoinRequest struct {
	From      string // the other workspace
	Began     string // the commit of the files with which the other one began, uncommitted ones of this one included; "" = unknown
	BeganHead string // the head of the branch then
}

// FileStatus is one file changed by an operation.
type FileStatus struct {
	Path   string // raw bytes
	Status string // added, modified, deleted
}

// UpdateResult is what an update did, or would do in a dry run. Conflicts and files in the way are results, not errors: nothing was changed
// then.
type UpdateResult struct {
	Updated     bool
	DryRun      bool
	UpToDate    bool // the branch already has everything of the base
	FastForward bool
	Strategy    string
	Base        string
	BaseCommit  string
	Head        string // the branch before the update
	Commit      string // the branch after the update; "" with conflicts
	Commits     int    // commits of the base that the branch lacks
	Files       []FileStatus
	MoreFiles   int // number of files beyond those listed
	Conflicts   []Conflict
	Dirty       []string // raw bytes: files with uncommitted changes that stand in the way
	Carried     []string // raw bytes: files whose uncommitted changes are reapplied on top
	SnapshotID  string   // of the workspace before the update
	Warnings    []string
}

// ConflictHunk is one range of a file in which both sides differ.
type ConflictHunk struct {
	Line         int // line in the file with conflict markers, from 1
	Ours, Theirs string
}

// PushRequest asks to send a branch to the project's remote.
type PushRequest struct {
	Base   bool   // push the local base branch instead of the workspace's branch
	Branch string // its name on the remote; "" = the local name
	Force  bool   // overwrite the remote branch if it is still at the commit last seen
}

// PushResult describes a push: which commit is now where.
type PushResult struct {
	Remote   string // its URL, without credentials
	Branch   string
	Commit   string
	URL      string // of a page the remote offered, for example to open a pull request; "" = none
	Created  bool
	UpToDate bool
	Forced   bool
	Words    string // the remote's messages

	Notes        int    // number of reports sent along as git notes
	NotesProblem string // why the reports were not sent; the branch was pushed nevertheless
}

// Pushed is the state of a workspace's branch on the remote when last seen.
type Pushed struct {
	Branch, Commit string
	Ahead, Behind  int // commits only in the local branch, only in the remote's
}

// BranchStatus compares a workspace's branch with its base.
type BranchStatus struct {
	Base       string
	BaseCommit string
	Head       string
	Ahead      int // commits of the branch that the base lacks
	Behind     int // commits of the base that the branch lacks
	UpToDate   bool
	Merged     bool       // the base contains everything of the branch
	Conflicts  []Conflict // conflicts of merging the base into the branch
	UnderWay   string     // unfinished merge, rebase, ... in the worktree, as far as this server can see
	Remote     string     // URL of the project's remote without credentials; "" = none
	Pushed     *Pushed
	BaseAhead  int   // commits of the local base that the remote lacks
	BaseBehind int   // commits of the remote's base missing locally
	FetchedAt  int64 // ms UTC; 0 = never
}

// Resolve describes how a conflict resolution began.
type Resolve struct {
	Base, BaseCommit string
	Strategy         string
	Files            []string // raw bytes: files with conflicts in the worktree
	Prompt           string   // prompt for an agent
	SnapshotID       string
}
