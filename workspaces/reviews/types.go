// Package reviews knows what people say of a workspace's changes: comments on lines, kept as drafts until they are sent to an
// agent as one review, found again when the code moves, and verdicts bound to the files they were given for.
package reviews

// State is what became of a review.
type State string

// States of a review, as in the API.
const (
	Draft     State = "draft"     // only its author sees it
	Queued    State = "queued"    // it waits for the agent
	Sent      State = "sent"      // the agent has it; or it was for people alone
	Failed    State = "failed"    // the agent could not be given it
	Cancelled State = "cancelled" // it was taken out of the agent's queue, or thrown away before it was sent
)

// Verdict is what a review comes to.
type Verdict string

// Verdicts, as in the API; "" while a draft has none.
const (
	Comments Verdict = "comment"
	Changes  Verdict = "changes"
	Approve  Verdict = "approve"
)

// Side is which of two compared trees lines are of.
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

// Review is what one person says of a workspace's changes. Times are ms UTC.
type Review struct {
	ID, TeamID, WorkspaceID, AuthorID string
	State                             State
	Verdict                           Verdict
	Body                              string
	From                              string // the commit that was compared with
	Revision                          string // what was read: a snapshot's id, or a commit
	Tree                              string // git's name of the files that were read
	SessionID                         string // the agent it was sent to; "" = it was for people alone
	PromptID                          string
	Reason                            string // why it failed
	CreatedAt, UpdatedAt              int64
	SentAt                            int64 // 0 = it was never sent

	Comments []Comment // oldest first

	Waits string // why the agent does not have it yet; not stored
	Since int    // files that changed since a verdict was given, -1 = not known; not stored
}

// Comment is about some lines of a file, or about the whole file. Paths are in the wire form of guest.EncodePath.
type Comment struct {
	ID, TeamID, WorkspaceID, ReviewID string
	ReplyTo                           string // the comment it answers
	AuthorID                          string
	Path                              string
	Side                              Side
	Line, EndLine                     int // the first is 1; 0 = the whole file
	Quoted                            string
	Around                            Around
	Commit                            string // whose lines they are: a commit, or a snapshot's
	NowPath                           string // where they are now, "" = nowhere
	NowLine                           int    // their first line, or the nearest place when Outdated
	Outdated                          bool   // they are no longer there as they were
	AnchoredTree                      string // of when that was worked out
	Body                              string
	State                             CommentState
	AnsweredCommit                    string // the first commit or snapshot without the lines, after the comment was sent
	AnsweredAt                        int64
	ResolvedBy                        string
	CreatedAt, UpdatedAt              int64

	Answer *Answer // what AnsweredCommit is; not stored
}

// Around are the lines beside those a comment is about, to find the place again.
type Around struct {
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Answer is what changed the lines of a comment after it was sent.
type Answer struct {
	Kind       string // commit, turn, or snapshot: between the two
	Commit     string // of the branch; "" when Kind is another
	SnapshotID string // "" when it is not kept any more
	Title      string
	At         int64
}

// Snapshot is what the room reads of a workspace's timeline.
type Snapshot struct {
	ID, Kind, Title, SessionID string
	Commit, Tree, Head         string
	At                         int64
}

// Tree is all files of a workspace at a moment.
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

// Summary is what there is to say of a workspace's reviews in a line.
type Summary struct {
	State        string // "", approved, stale (approved, and changed since), changes
	By           string // whose verdict that is
	At           int64
	OpenComments int // sent and not resolved
	Drafts       int // of who asks
}

// Standing words of a Summary.
const (
	StandsApproved = "approved"
	StandsStale    = "stale"
	StandsChanges  = "changes"
)

// NewComment asks for a comment.
type NewComment struct {
	Path          string
	Side          Side
	Line, EndLine int
	Revision      string // of the shown side
	Body          string
	ReplyTo       string
}

// CommentEdit changes a comment; nil leaves as it is.
type CommentEdit struct {
	Body  *string
	State *CommentState
}

// SendRequest says what a review comes to and who gets it.
type SendRequest struct {
	Verdict   Verdict
	Body      *string // nil = the draft's
	SessionID string  // "" = no agent
	From      string  // revision that was compared with; "" = base
	Revision  string  // that was read; "" = now
}
