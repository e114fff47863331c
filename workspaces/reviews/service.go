package reviews

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/workspaces"
)

// Store is what the room needs of the storage. What is not there is fault.NotFound.
type Store interface {
	ReviewStore
	CommentStore
	SnapshotStore
	ViewedStore
}

// ReviewStore keeps reviews.
type ReviewStore interface {
	// Review returns a review with its comments.
	Review(ctx context.Context, id string) (Review, error)
	// Reviews returns the newest reviews of a workspace with their comments, oldest first; drafts and what was thrown away
	// before it was sent only of userID.
	Reviews(ctx context.Context, workspaceID, userID string, most int) ([]Review, error)
	// Draft returns a person's draft with its comments.
	Draft(ctx context.Context, workspaceID, userID string) (Review, error)
	// OpenDraft returns a person's draft; r becomes it when there is none.
	OpenDraft(ctx context.Context, r Review) (Review, error)
	// EditReview changes a review, not its comments, in one transaction; an error of fn changes nothing.
	EditReview(ctx context.Context, id string, fn func(*Review) error) (Review, error)
	// DropReview removes a review with its comments.
	DropReview(ctx context.Context, id string) error
	// QueuedReviews returns the reviews that wait for an agent, without comments: of one session, or of all with "".
	QueuedReviews(ctx context.Context, sessionID string) ([]Review, error)
	// ReviewSummaries returns a line for every workspace of a team that has reviews.
	ReviewSummaries(ctx context.Context, teamID, userID string, workspaceIDs ...string) (map[string]Summary, error)
	// AnsweredReviews returns the reviews of a team's people that agents have worked on: the newest of each person in a
	// workspace, where a turn of the agent has ended since and a comment is open.
	AnsweredReviews(ctx context.Context, teamID string) ([]Answered, error)
}

// CommentStore keeps comments and where they are anchored.
type CommentStore interface {
	// AddComment stores a comment; fault.Conflict when its review has most already or is no draft any more.
	AddComment(ctx context.Context, c Comment, most int) error
	Comment(ctx context.Context, id string) (Comment, error)
	// Comments returns those of some comments that are there, in no order.
	Comments(ctx context.Context, ids []string) ([]Comment, error)
	EditComment(ctx context.Context, id string, fn func(*Comment) error) (Comment, error)
	DropComment(ctx context.Context, id string) error
	// MoveComments gives the comments of a review to another.
	MoveComments(ctx context.Context, from, to string) error
	// OpenComments returns the comments of a workspace that are not resolved, drafts too.
	OpenComments(ctx context.Context, workspaceID string) ([]Comment, error)
	// CommentedWorkspaces returns the workspaces that have such comments, with their teams.
	CommentedWorkspaces(ctx context.Context) (map[string]string, error)
	// Anchor stores where a comment is now and what answered it, unless it was made anew meanwhile.
	Anchor(ctx context.Context, c Comment) error
}

// SnapshotStore reads the snapshots that answer a comment.
type SnapshotStore interface {
	// Snapshots returns the newest snapshot of a workspace, and before it those of turns and commits after since, oldest first.
	Snapshots(ctx context.Context, workspaceID string, since int64, most int) ([]Snapshot, error)
	// SnapshotsOf returns the snapshots whose commit, or whose head where they are of kind commit, is one of these.
	SnapshotsOf(ctx context.Context, workspaceID string, commits []string) ([]Snapshot, error)
}

// ViewedStore keeps which files somebody has viewed.
type ViewedStore interface {
	// Viewed returns what a person has looked at: marks by path.
	Viewed(ctx context.Context, workspaceID, userID string) (map[string]string, error)
	// SetViewed notes that a person has looked at a file as it was, or no longer has with mark ""; fault.Conflict beyond most.
	SetViewed(ctx context.Context, v ViewedFile, most int) error
}

// ViewedFile is a file somebody has looked at, as it was then.
type ViewedFile struct {
	TeamID, WorkspaceID, UserID, Path, Mark string
	At                                      int64
}

// Trees is what the room needs of a workspace's files over time.
type Trees interface {
	// Resolve names a tree: base, head, now, review, a snapshot's id, a commit of the workspace's history.
	Resolve(ctx context.Context, w workspaces.Workspace, rev, userID string) (Tree, error)
	// Changed lists what differs between two trees, renames found.
	Changed(ctx context.Context, workspaceID string, from, to Tree) ([]File, error)
	// Patch is the unified diff, without context, of some paths.
	Patch(ctx context.Context, workspaceID string, from, to Tree, paths []string) (io.ReadCloser, error)
	// FileAt is a file of a tree and its size; fault.NotFound when there is none.
	FileAt(ctx context.Context, workspaceID string, t Tree, path string) (io.ReadCloser, int64, error)
}

// Workspaces is what the room needs of them.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Recipient is a session a review may be sent to.
type Recipient struct {
	WorkspaceID, Agent string
}

// PromptState is what became of the prompt a review was sent as.
type PromptState string

// The states of a prompt.
const (
	PromptQueued    PromptState = "queued"
	PromptSending   PromptState = "sending" // the agent is being given it
	PromptSent      PromptState = "sent"    // the agent took it up
	PromptFailed    PromptState = "failed"
	PromptCancelled PromptState = "cancelled"
)

// Prompt is a review in the queue of its agent.
type Prompt struct {
	ID, SessionID string
	State         PromptState
	Waits         string // why a queued prompt is not sent yet
	Reason        string // why it failed
	SentAt        int64  // when it was sent, in ms
}

// Sessions gives prompts to agents. An error of kind fault.NotFound says that a session or a prompt does not exist.
type Sessions interface {
	Recipient(ctx context.Context, sessionID string) (Recipient, error)
	// Queue adds a prompt with the given id; a session that ended is resumed, so that the answer may name another one.
	Queue(ctx context.Context, actor accounts.Actor, sessionID, promptID, text string) (Prompt, error)
	Prompt(ctx context.Context, promptID string) (Prompt, error)
	// Prompts returns the prompts of a session in the order of its queue.
	Prompts(ctx context.Context, sessionID string) ([]Prompt, error)
	// Cancel takes a prompt back that was not sent.
	Cancel(ctx context.Context, promptID string) error
}

// Accounts is what the room needs of people.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Config is what a Service is made of. All but Now and Log are needed.
type Config struct {
	Store      Store
	Trees      Trees
	Workspaces Workspaces
	Sessions   Sessions
	Accounts   Accounts
	Bus        *events.Bus      // whose events of snapshots and prompts are heard
	Events     events.Publisher // where the room tells its own
	Now        func() time.Time
	Log        *slog.Logger
}

// Service is the room. Safe for concurrent use.
type Service struct {
	cfg Config

	mu     sync.Mutex
	behind map[string]string // workspaces whose comments are to be looked for, and their teams
	held   map[string]int    // reviews that are being sent or taken back
	turns  map[string]string // by workspace: the newest turn that was told of
	wake   chan struct{}
}

// New makes a Service. It starts nothing; it panics without a room it needs.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Trees == nil || cfg.Workspaces == nil || cfg.Sessions == nil || cfg.Accounts == nil || cfg.Bus == nil || cfg.Events == nil {
		panic("reviews: every room is needed")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, behind: map[string]string{}, held: map[string]int{}, turns: map[string]string{}, wake: make(chan struct{}, 1)}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// tell says that something of a workspace's reviews changed.
func (s *Service) notify(ctx context.Context, workspaceID, teamID string) {
	s.cfg.Events.Publish(ctx, events.Event{Type: "reviews.updated", ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: s.now()})
}
