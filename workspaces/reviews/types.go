// Package reviews manages people's reviews of a workspace's changes: comments on lines, stored as drafts until they are sent to an agent as
// one review, found again when the code moves, and verdicts bound to the files they were given for.
package reviews

// State is the state of a review.
type State string

// States of a review, as in the API.
const (
	Draft     State = "draft"     // only its author sees it
	Queued    State = "queued"    // it waits for the agent
	Sent      State = "sent"      // the agent has it, or it was for people only
	Failed    State = "failed"    // it could not be given to the agent
	Cancelled State = "cancelled" // removed from the agent's queue, or discarded before it was sent
)

// Verdict is the conclusion of a review.
type Verdict string

// Verdicts, as in the API; "" while a draft has none.
const (
	Comments Verdict = "comment"
	Changes  Verdict = "changes"
	Approve  Verdict = "approve"
)

// Side is the compared tree that lines belong to.
type Side string

// Sides, as in the API.
const (
	OldSide Side = "old"
	NewSide Side = "new"
)

// CommentState is open or resolved.
type CommentState string

// States of a comment, as in the API.
const (
	Open     CommentState = "open"
	Resolved CommentState = "resolved"
)

// Review is one person's review of a workspace's changes. Times are ms UTC.
type Review struct {
	ID, TeamID, WorkspaceID, AuthorID string
	State                             State
	Verdict                           Verdict
	Body                              string
	From                              string // the commit compared with
	Revision                          string // what was read: a snapshot's id, or a commit
	Tree                              string // git tree of the files that were read
	SessionID                         string // the agent it was sent to; "" = for people only
	PromptID                          string
	Reason                            string // why it failed
	CreatedAt, UpdatedAt              int64
	SentAt                            int64 // 0 = never sent

	Comments []Comment // oldest first

	Waits string // why the agent does not have it yet; not stored
	Since int    // files that changed since a verdict was given, -1 = unknown; not stored
}

// Comment is about some lines of a file, or about the whole file. Paths are in the wire form of guest.EncodePath.
type Comment struct {
	ID, TeamID, WorkspaceID, ReviewID string
	ReplyTo                           string // the comment it replies to
	AuthorID                          string
	Path                              string
	Side                              Side
	Line, EndLine                     int // the first is 1; 0 = the whole file
	Quoted                            string
	Around                            Around
	Commit                            string // tree of the lines: a commit, or a snapshot's
	NowPath                           string // where they are now, "" = nowhere
	NowLine                           int    // their first line, or the nearest one when Outdated
	Outdated                          bool   // they are no longer there unchanged
	AnchoredTree                      string // time of that position
	Body                              string
	State                             CommentState
	AnsweredCommit                    string // the first commit or snapshot without the lines after the comment was sent
	AnsweredAt                        int64
	ResolvedBy                        string
	CreatedAt, UpdatedAt              int64

	Answer *Answer // details of AnsweredCommit; not stored
}

// Around are the lines around those a comment is about, to find the place again.
type Around struct {
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Answer is what changed the lines of a comment after it was sent.
type Answer struct {
	Kind       string // commit, turn, or snapshot (between the two)
	Commit     string // of the branch; "" for other kinds
	SnapshotID string // "" when it is no longer stored
	Title      string
	At         int64
}

// Snapshot is an entry of a workspace's timeline.
type Snapshot struct {
	ID, Kind, Title, SessionID string
	Commit, Tree, Head         string
	At                         int64
}

// Tree is all files of a workspace at one time.
type Tree struct {
	Commit     string // a commit of the branch, or a snapshot's
	Tree       string
	SnapshotID string // "" when it is a commit
}

// File is one that differs between two trees. Paths are in wire form.
type File struct {
	Path, OldPath string // OldPath "" = the same
	Status        string // added, modified, deleted, renamed, ...
}

// Summary is a one-line summary of a workspace's reviews.
type Summary struct {
	State        string // "", approved, stale (approved, and changed since), changes
	By           string // whose verdict that is
	At           int64
	OpenComments int // sent and unresolved
	Drafts       int // of the asking user
}

// Values of a Summary's verdict.
const (
	StandsApproved = "approved"
	StandsStale    = "stale"
	StandsChanges  = "changes"
)

// NewComment is a request to add a comment.
type NewComment struct {
	Path          string
	Side          Side
	Line, EndLine int
	Revision      string // of the shown side
	Body          string
	ReplyTo       string
}

// CommentEdit changes a comment; nil leaves a field unchanged.
type CommentEdit struct {
	Body  *string
	State *CommentState
}

// SendRequest is the verdict and the recipient of a review.
type SendRequest struct {
	Verdict   Verdict
	Body      *string // nil = the draft's
	SessionID string  // "" = no agent
	From      string  // revision compared with; "" = base
	Revision  string  // revision that was read; "" = now
}
