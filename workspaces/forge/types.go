// Package forge knows the forges of projects' repositories: GitHub, GitLab, Gitea and Forgejo. It opens pull requests for workspaces'
// branches, polls their checks, reviews and state, merges them there, and fetches what was merged. A forge's answer is untrusted input: it
// is bounded, cleaned, and never decides which host is contacted.
package forge

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/origin"
)

// Kind is the software of a forge.
type Kind string

// The kinds. Forgejo speaks Gitea's API; it has its own name in texts.
const (
	GitHub  Kind = "github"
	GitLab  Kind = "gitlab"
	Gitea   Kind = "gitea"
	Forgejo Kind = "forgejo"
	None    Kind = "none" // a project's setting: it has no forge
)

// Kinds are those a project may be set to.
var Kinds = []Kind{GitHub, GitLab, Gitea, Forgejo, None}

// Name is the display name of the software.
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
	return "the Git host"
}

// Request is what people there call a pull request.
func (k Kind) Request() string {
	if k == GitLab {
		return "merge request"
	}
	return "pull request"
}

// Settings are a project's forge settings, for what the remote's address does not say. Empty = derived from the address.
type Settings struct {
	Kind       Kind   `json:"kind,omitempty"`
	APIURL     string `json:"api_url,omitempty"`
	Repository string `json:"repository,omitempty"`
}

// Place is one repository on one forge.
type Place struct {
	Kind       Kind
	Host       string // host of its web pages
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

// The states of checks. Pending includes what has not started.
const (
	Pending = "pending"
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped" // of one check: neither passed nor failed
)

// Check is one check or status on the forge.
type Check struct {
	ID    string `json:"id,omitempty"` // by which the forge knows its log; "" = it has none
	Name  string `json:"name"`
	State string `json:"state"`
	URL   string `json:"url,omitempty"`
	Text  string `json:"text,omitempty"`
}

// Review is somebody's last verdict on the pull request.
type Review struct {
	Who   string `json:"who"`
	State string `json:"state"` // approved, changes, comment, waiting
}

// Seen is the state of a pull request on its forge. Times are ms UTC.
type Seen struct {
	Number       int64
	URL          string
	Title        string
	State        State
	Head         string // branch
	HeadCommit   string
	Base         string
	Mergeable    string // yes, no, "" = the forge does not know yet
	Blocked      string // why it cannot be merged, for people
	ChecksState  string
	Checks       []Check
	Reviews      []Review
	MergedAt     int64
	MergedCommit string // the commit on the base; with a rebase, the last one

	Standing
	Hidden string // what the token was not allowed to see, for people; not stored as such
	nodeID string // GitHub's own id of it
}

// PullRequest is a pull request of a workspace's branch, as last read from its forge.
type PullRequest struct {
	ID, TeamID, WorkspaceID, ProjectID string
	Forge                              Kind
	Host, Repository                   string
	Seen
	OpenedBy string
	OpenedAt int64
	SyncedAt int64
	Error    string // why the last poll failed, or what it could not see
}

// Ask is a request to open a pull request.
type Ask struct {
	Title, Body string // "" = made from the workspace
	Draft       bool
	Base        string // "" = the workspace's base
	Push        bool   // push the branch first
	Artifacts   []Attachment
}

// Attachment is an artifact that a pull request's description lists.
type Attachment struct {
	workspaces.AttachedArtifact
	URL       string // a link with which anyone downloads it; "" = none
	ExpiresAt int64  // of the link, ms UTC
}

// NewRequest is a new pull request as sent to a forge.
type NewRequest struct {
	Title, Body, Head, Base string
	Draft                   bool
}

// MergeAsk is a merge request to a forge. Head is the commit the user saw: the forge rejects another one.
type MergeAsk struct {
	Strategy string // workspaces.Strategy*
	Head     string

	Artifacts []workspaces.AttachedArtifact // for Parawork's record of the merge; the forge does not learn of them
}

// Client speaks to one repository on one forge with one token. Errors have the stable codes forge_*.
type Client interface {
	// Open opens a pull request, or finds an open one of the same branches.
	Open(ctx context.Context, n NewRequest) (number int64, err error)
	// Find returns the pull request of two branches: an open one, else the newest that was merged; 0 where there is neither.
	Find(ctx context.Context, head, base string) (number int64, err error)
	// Read returns a pull request with its checks and reviews.
	Read(ctx context.Context, number int64) (Seen, error)
	Merge(ctx context.Context, number int64, m MergeAsk) error
	// Describe replaces a pull request's description by what edit makes of it.
	Describe(ctx context.Context, number int64, edit func(body string) string) error
	// Ready marks a draft as ready.
	Ready(ctx context.Context, number int64) error
	Close(ctx context.Context, number int64) error
}

// Store stores pull requests and projects' settings.
type Store interface {
	ProjectForge(ctx context.Context, projectID string) (Settings, error)
	SetProjectForge(ctx context.Context, projectID string, s Settings) error
	// PullRequest returns the newest one of a workspace, an open one before others; fault.NotFound when there is none.
	PullRequest(ctx context.Context, workspaceID string) (PullRequest, error)
	// PullRequests returns the pull request of each workspace of a team that has one.
	PullRequests(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]PullRequest, error)
	// PullRequestAt returns the workspace's pull request of that number; fault.NotFound when there is none.
	PullRequestAt(ctx context.Context, workspaceID, host, repository string, number int64) (PullRequest, error)
	// OpenPullRequests returns the pull requests to poll: all that are open or requested, and those whose merge is not fetched yet, of
	// workspaces that are not deleted.
	OpenPullRequests(ctx context.Context) ([]PullRequest, error)
	InsertPullRequest(ctx context.Context, p PullRequest) error
	// DropAskedPullRequest deletes the row of a requested pull request that has no number; fault.NotFound when there is none.
	DropAskedPullRequest(ctx context.Context, id string) error
	// SavePullRequest stores a pull request as it was read.
	SavePullRequest(ctx context.Context, p PullRequest) error
}

// Workspaces knows workspaces and their projects.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	Record(ctx context.Context, a workspaces.Activity) error
}

// Origin knows where the repositories of projects came from.
type Origin interface {
	// Origin is the URL a project's repository came from, without credentials; "" if there is none another server could reach.
	Origin(ctx context.Context, projectID string) (string, error)
	// Ahead is what the workspace's branch has and its base lacks.
	Ahead(ctx context.Context, workspaceID string) (origin.Ahead, error)
	// MergedThere fetches what was merged on the forge. It is idempotent.
	MergedThere(ctx context.Context, workspaceID string, m origin.MergedThere) error
}

// Pushed is the state of a branch on a remote.
type Pushed struct{ Branch, Commit string }

// Credentials opens tokens.
type Credentials interface {
	// CredentialFor returns a user's preferred credential for exactly this host in a project; false when there is none.
	CredentialFor(ctx context.Context, userID, teamID, projectID, host string) (secrets.Credential, bool, error)
}

// People knows users.
type People interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}
