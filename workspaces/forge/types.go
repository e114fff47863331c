// Package forge knows the places where projects' repositories have their pull requests: GitHub, GitLab, Gitea and Forgejo. It opens
// pull requests for workspaces' branches, follows their checks, reviews and state by asking, merges them there, and brings what was merged
// home. What a forge answers is input to be checked: it is bounded, cleaned and never trusted with a place to go to.
package forge

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/origin"
)

// Kind says which program a forge is.
type Kind string

// The kinds. Forgejo speaks Gitea's API; it has a name of its own where people read.
const (
	GitHub  Kind = "github"
	GitLab  Kind = "gitlab"
	Gitea   Kind = "gitea"
	Forgejo Kind = "forgejo"
	None    Kind = "none" // a project's setting: it has no forge
)

// Kinds are those a project may be set to.
var Kinds = []Kind{GitHub, GitLab, Gitea, Forgejo, None}

// Name is what people call it.
func (k Kind) Name() string {
	switch k {
	case GitHub:
		return "GitHub"
	case GitLab:
		return "GitLab"
	case Gitea:
		return "Gitea"
	case Forgejo:
		return "Forgejo"
	}
	return "the forge"
}

// Request is what people there call a pull request.
func (k Kind) Request() string {
	if k == GitLab {
		return "merge request"
	}
	return "pull request"
}

// Settings are what a project says of its forge where the remote's address does not say it. Empty = as the address says.
type Settings struct {
	Kind       Kind   `json:"kind,omitempty"`
	APIURL     string `json:"api_url,omitempty"`
	Repository string `json:"repository,omitempty"`
}

// Place is one repository on one forge.
type Place struct {
	Kind       Kind
	Host       string // as people see it: of its pages
	APIURL     string
	Repository string // owner/name; GitLab's may have more parts
}

// State of a pull request.
type State string

// The states.
const (
	Draft  State = "draft"
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed"
)

// The states of checks. Pending holds for what has not begun, too.
const (
	Pending = "pending"
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped" // of one check: it says neither
)

// Check is one check or status there.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"`
	URL   string `json:"url,omitempty"`
	Text  string `json:"text,omitempty"`
}

// Review is what somebody there said last of the pull request.
type Review struct {
	Who   string `json:"who"`
	State string `json:"state"` // approved, changes, comment, waiting
}

// Seen is what a forge says of a pull request. Times are ms UTC.
type Seen struct {
	Number       int64
	URL          string
	Title        string
	State        State
	Head         string // branch
	HeadCommit   string
	Base         string
	Mergeable    string // yes, no, "" = it does not know yet
	Blocked      string // why it cannot be merged, in words
	ChecksState  string
	Checks       []Check
	Reviews      []Review
	MergedAt     int64
	MergedCommit string // what the base got: with a rebase, the last of its commits

	Untold string // what the token was not allowed to see, in words; not stored as such
	nodeID string // GitHub's own name of it
}

// PullRequest is a pull request of a workspace's branch, as its forge said last.
type PullRequest struct {
	ID, TeamID, WorkspaceID, ProjectID string
	Forge                              Kind
	Host, Repository                   string
	Seen
	OpenedBy string
	OpenedAt int64
	SyncedAt int64
	Error    string // why the last look failed, or what was not told
}

// Ask asks for a pull request.
type Ask struct {
	Title, Body string // "" = made from the workspace
	Draft       bool
	Base        string // "" = the workspace's base
	Push        bool   // the branch, first
}

// NewRequest is what a forge is told of a new pull request.
type NewRequest struct {
	Title, Body, Head, Base string
	Draft                   bool
}

// MergeAsk asks a forge to merge. Head is the commit the reader saw: another one there is refused.
type MergeAsk struct {
	Strategy string // workspaces.Strategy*
	Head     string
}

// Client speaks to one repository on one forge with one token. Errors are of the stable codes forge_*.
type Client interface {
	// Open makes a pull request. An open one of the same branches is found instead.
	Open(ctx context.Context, n NewRequest) (number int64, err error)
	// Find returns the pull request of two branches: an open one, else the newest that was merged; 0 where there is neither.
	Find(ctx context.Context, head, base string) (number int64, err error)
	// Read returns a pull request with its checks and reviews.
	Read(ctx context.Context, number int64) (Seen, error)
	Merge(ctx context.Context, number int64, m MergeAsk) error
	// Ready makes a draft one that may be merged.
	Ready(ctx context.Context, number int64) error
	Close(ctx context.Context, number int64) error
}

// Store keeps pull requests and projects' settings.
type Store interface {
	ProjectForge(ctx context.Context, projectID string) (Settings, error)
	SetProjectForge(ctx context.Context, projectID string, s Settings) error
	// PullRequest returns the newest one of a workspace, an open one before others; fault.NotFound when there is none.
	PullRequest(ctx context.Context, workspaceID string) (PullRequest, error)
	// PullRequests returns that of each workspace of a team that has one.
	PullRequests(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]PullRequest, error)
	// PullRequestAt returns the workspace's one of that number; fault.NotFound when there is none.
	PullRequestAt(ctx context.Context, workspaceID, host, repository string, number int64) (PullRequest, error)
	// OpenPullRequests returns what is to be looked at again: all that are open or asked for, and those whose merge is not home yet, of workspaces
	// that are not deleted.
	OpenPullRequests(ctx context.Context) ([]PullRequest, error)
	InsertPullRequest(ctx context.Context, p PullRequest) error
	// DropAskedPullRequest removes the row of one that was asked for and has no number; fault.NotFound when there is none.
	DropAskedPullRequest(ctx context.Context, id string) error
	// SavePullRequest stores what was seen of one.
	SavePullRequest(ctx context.Context, p PullRequest) error
}

// Workspaces is what the room needs of the work itself.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	Record(ctx context.Context, a workspaces.Activity) error
}

// Origin knows where the repositories of projects came from.
type Origin interface {
	// Origin is where a project's repository came from, without credentials; "" for nowhere another server could know.
	Origin(ctx context.Context, projectID string) (string, error)
	// Ahead is what the workspace's branch has that its base has not.
	Ahead(ctx context.Context, workspaceID string) (origin.Ahead, error)
	// MergedThere brings home what was merged elsewhere. It may be told again.
	MergedThere(ctx context.Context, workspaceID string, m origin.MergedThere) error
}

// Pushed says what of a branch a remote has now.
type Pushed struct{ Branch, Commit string }

// Credentials opens tokens.
type Credentials interface {
	// CredentialFor returns the one for exactly this host that counts most for a person in a project; false when there is none.
	CredentialFor(ctx context.Context, userID, teamID, projectID, host string) (secrets.Credential, bool, error)
}

// People knows who is who.
type People interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}
