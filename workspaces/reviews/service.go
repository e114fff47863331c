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

// Store stores reviews. A missing row is fault.NotFound.
type Store interface {
	ReviewStore
	CommentStore
	SnapshotStore
	ViewedStore
}

// ReviewStore stores reviews.
type ReviewStore interface {
	// Review returns a review with its comments.
	Review(ctx context.Context, id string) (Review, error)
	// Reviews returns the newest reviews of a workspace with their comments, oldest first; drafts and discarded drafts only of userID.
	Reviews(ctx context.Context, workspaceID, userID string, most int) ([]Review, error)
	// Draft returns a user's draft with its comments.
	Draft(ctx context.Context, workspaceID, userID string) (Review, error)
	// OpenDraft returns a user's draft; r becomes it when there is none.
	OpenDraft(ctx context.Context, r Review) (Review, error)
	// EditReview changes a review, not its comments, in one transaction; an error of fn rolls it back.
	EditReview(ctx context.Context, id string, fn func(*Review) error) (Review, error)
	// DropReview deletes a review with its comments.
	DropReview(ctx context.Context, id string) error
	// QueuedReviews returns the reviews that wait for an agent, without comments: of one session, or of all with "".
	QueuedReviews(ctx context.Context, sessionID string) ([]Review, error)
	// ReviewSummaries returns a line for every workspace of a team that has reviews.
	ReviewSummaries(ctx context.Context, teamID, userID string, workspaceIDs ...string) (map[string]Summary, error)
	// AnsweredReviews returns the reviews of a team's people that agents have worked on: the newest of each person in a workspace, where a
	// turn of the agent has ended since and a comment is open.
	AnsweredReviews(ctx context.Context, teamID string) ([]Answered, error)
}

// CommentStore stores comments and their positions.
type CommentStore interface {
	// AddComment stores a comment; fault.Conflict when its review already has most, or is no longer a draft.
	AddComment(ctx context.Context, c Comment, most int) error
	Comment(ctx context.Context, id string) (Comment, error)
	// Comments returns those of the comments that exist, in no order.
	Comments(ctx context.Context, ids []string) ([]Comment, error)
	EditComment(ctx context.Context, id string, fn func(*Comment) error) (Comment, error)
	DropComment(ctx context.Context, id string) error
	// MoveComments moves the comments of a review to another.
	MoveComments(ctx context.Context, from, to string) error
	// OpenComments returns the unresolved comments of a workspace, including drafts.
	OpenComments(ctx context.Context, workspaceID string) ([]Comment, error)
	// CommentedWorkspaces returns the workspaces that have such comments, with their teams.
	CommentedWorkspaces(ctx context.Context) (map[string]string, error)
	// Anchor stores where a comment is now and what answered it, unless its position was reset meanwhile.
	Anchor(ctx context.Context, c Comment) error
}

// SnapshotStore reads the snapshots that answer a comment.
type SnapshotStore interface {
	// Snapshots returns the newest snapshot of a workspace, and before it those of turns and commits after since, oldest first.
	Snapshots(ctx context.Context, workspaceID string, since int64, most int) ([]Snapshot, error)
	// SnapshotsOf returns the snapshots whose commit, or whose head where they are of kind commit, is one of these.
	SnapshotsOf(ctx context.Context, workspaceID string, commits []string) ([]Snapshot, error)
}

// ViewedStore stores which files a user has viewed.
type ViewedStore interface {
	// Viewed returns what a user has viewed: marks by path.
	Viewed(ctx context.Context, workspaceID, userID string) (map[string]string, error)
	// SetViewed records that a user has viewed a file with this mark, or with mark "" that they have not; fault.Conflict beyond most.
	SetViewed(ctx context.Context, v ViewedFile, most int) error
}

// ViewedFile is a file a user has viewed, as it was then.
type ViewedFile struct {
	TeamID, WorkspaceID, UserID, Path, Mark string
	At                                      int64
}

// Trees reads a workspace's files over time.
type Trees interface {
	// Resolve resolves the name of a tree: base, head, now, review, a snapshot's id, a commit of the workspace's history.
	Resolve(ctx context.Context, w workspaces.Workspace, rev, userID string) (Tree, error)
	// Hold calls fn while nothing removes a workspace's snapshot.
	Hold(ctx context.Context, workspaceID, snapshotID string, fn func() error) error
	// Changed lists the differences between two trees, with renames detected.
	Changed(ctx context.Context, workspaceID string, from, to Tree) ([]File, error)
	// Patch is the unified diff of some paths, without context.
	Patch(ctx context.Context, workspaceID string, from, to Tree, paths []string) (io.ReadCloser, error)
	// FileAt returns a file of a tree and its size; fault.NotFound when there is none.
	FileAt(ctx context.Context, workspaceID string, t Tree, path string) (io.ReadCloser, int64, error)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Recipient is a session that can receive a review.
type Recipient struct {
	WorkspaceID, Agent string
}

// PromptState is the state of the prompt a review was sent as.
type PromptState string

// The states of a prompt.
const (
	PromptQueued    PromptState = "queued"
	PromptSending   PromptState = "sending" // being given to the agent
	PromptSent      PromptState = "sent"    // accepted by the agent
	PromptFailed    PromptState = "failed"
	PromptCancelled PromptState = "cancelled"
)

// Prompt is a review in the queue of its agent.
type Prompt struct {
	ID, SessionID string
	State         PromptState
	Waits         string // why a queued prompt was not sent yet
	Reason        string // why it failed
	SentAt        int64  // when it was sent, in ms
}

// Sessions gives prompts to agents. An error of kind fault.NotFound says that a session or a prompt does not exist.
type Sessions interface {
	Recipient(ctx context.Context, sessionID string) (Recipient, error)
	// Queue adds a prompt with the given id; it resumes an ended session, so the result may name another one.
	Queue(ctx context.Context, actor accounts.Actor, sessionID, promptID, text string) (Prompt, error)
	Prompt(ctx context.Context, promptID string) (Prompt, error)
	// Prompts returns the prompts of a session in the order of its queue.
	Prompts(ctx context.Context, sessionID string) ([]Prompt, error)
	// Cancel removes an unsent prompt.
	Cancel(ctx context.Context, promptID string) error
}

// Accounts knows users.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Config configures a Service. All but Now and Log are required.
type Config struct {
	Store      Store
	Trees      Trees
	Workspaces Workspaces
	Sessions   Sessions
	Accounts   Accounts
	Bus        *events.Bus      // source of events of snapshots and prompts
	Events     events.Publisher // receiver of this package's events
	Now        func() time.Time
	Log        *slog.Logger
}

// Service manages the reviews of workspaces. Safe for concurrent use.
type Service struct {
	cfg Config

	mu     sync.Mutex
	behind map[string]string // workspaces whose comments have to be searched for, and their teams
	held   map[string]int    // reviews that are being sent or taken back
	turns  map[string]string // by workspace: the newest turn that was published
	wake   chan struct{}
}

// New makes a Service. It starts nothing; it panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Trees == nil || cfg.Workspaces == nil || cfg.Sessions == nil || cfg.Accounts == nil || cfg.Bus == nil || cfg.Events == nil {
		panic("reviews: a dependency is missing")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, behind: map[string]string{}, held: map[string]int{}, turns: map[string]string{}, wake: make(chan struct{}, 1)}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// notify publishes that a workspace's reviews changed.
func (s *Service) notify(ctx context.Context, workspaceID, teamID string) {
	s.cfg.Events.Publish(ctx, events.Event{Type: "reviews.updated", ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: s.now()})
}
