package workspaces

// UpdateRequest asks to bring the base into a workspace's branch.
type UpdateRequest struct {
	Strategy     string // merge, rebase
	DryRun       bool
	ExpectedBase string // commit the base was at when somebody looked; "" = whichever it is
}

// FileStatus is one file that a step changes.
type FileStatus struct {
	Path   string // raw bytes
	Status string // added, modified, deleted
}

// UpdateResult says what an update did, or in a dry run would do. Conflicts and files that stand in the way are answers, not errors:
// then nothing was changed.
type UpdateResult struct {
	Updated     bool
	DryRun      bool
	UpToDate    bool // the branch has everything of the base
	FastForward bool
	Strategy    string
	Base        string
	BaseCommit  string
	Head        string // the branch before
	Commit      string // the branch after; "" with conflicts
	Commits     int    // of the base that the branch has not
	Files       []FileStatus
	MoreFiles   int // files beyond those listed
	Conflicts   []Conflict
	Dirty       []string // raw bytes: files with uncommitted changes that stand in the way
	Carried     []string // raw bytes: files whose uncommitted changes are kept on top
	SnapshotID  string   // of the workspace as it was before
	Warnings    []string
}

// ConflictHunk is one place of a file where both sides differ.
type ConflictHunk struct {
	Line         int // of the file with both sides in it, from 1
	Ours, Theirs string
}

// PushRequest asks to send a branch to the project's remote.
type PushRequest struct {
	Base   bool   // the base branch as it is here, instead of the workspace's branch
	Branch string // its name there; "" = as here
	Force  bool   // replace what is there, if it is what was seen there last
}

// PushResult says what is where now.
type PushResult struct {
	Remote   string // its URL, without credentials
	Branch   string
	Commit   string
	URL      string // of a page the remote offered, such as one to open a pull request; "" = none
	Created  bool
	UpToDate bool
	Forced   bool
	Words    string // what the remote said

	Notes        int    // reports that went along, as notes on commits
	NotesProblem string // why they did not; the branch is there nevertheless
}

// Pushed is where a workspace's branch is on the remote, as it was seen last.
type Pushed struct {
	Branch, Commit string
	Ahead, Behind  int // commits that only the branch here, only the remote's has
}

// BranchStatus is how a workspace's branch and its base stand to each other.
type BranchStatus struct {
	Base       string
	BaseCommit string
	Head       string
	Ahead      int // commits of the branch that the base has not
	Behind     int // commits of the base that the branch has not
	UpToDate   bool
	Merged     bool       // everything of the branch is in the base
	Conflicts  []Conflict // of bringing the base into the branch
	UnderWay   string     // merge, rebase, ... that was begun in the worktree and not ended, as far as this server can see
	Remote     string     // of the project, without credentials; "" = none
	Pushed     *Pushed
	BaseAhead  int   // commits of the base here that the remote has not
	BaseBehind int   // commits of the base on the remote that are not here
	FetchedAt  int64 // ms UTC; 0 = never
}

// Resolve says how a resolving of conflicts was begun.
type Resolve struct {
	Base, BaseCommit string
	Strategy         string
	Files            []string // raw bytes: with conflicts in the worktree
	Prompt           string   // for an agent
	SnapshotID       string
}
