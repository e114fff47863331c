// Package tending brings pull requests to their merge: it follows a pull request's checks and reviews, gives what failed and what reviewers
// with write access asked for to the workspace's agent, one prompt a round, pushes what the agent did, answers the reviewers, brings a base
// that moved in, and merges by the Git host's rules if somebody wants that. It stops, and says why, at a limit of rounds or money and wherever a
// person has to decide.
//
// What is done next follows from facts alone (decide.go), so that what Parawork itself pushed or said starts nothing. Each step of a round is
// stored before the next begins, and each can be repeated: prompts and sessions have IDs that are chosen before, a push that arrived is up to
// date, and a reply is looked for before it is written. A killed server loses no round, pushes nothing twice and says nothing twice.
//
// Goroutines: Run has one, which looks at what is due, and a few that look at one pull request each.
package tending

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
)

// State is what becomes of a pull request.
type State string

// The states.
const (
	Watching State = "watching" // it waits for what Because says
	Working  State = "working"  // a round goes on
	NeedsYou State = "needs_you"
	Ended    State = "ended" // it was merged or closed
)

// Called is what needs a person, by name, where that is an agent otherwise.
const Called = "The pull request"

// Limits bound what is done for a pull request.
type Limits struct {
	Rounds int   `json:"rounds"`         // of the agent
	Nano   int64 `json:"nano,omitempty"` // of models, nano-USD; 0 = none
}

// Limits of the package.
const (
	DefRounds = 5
	MaxRounds = 50
)

// Tending is a workspace whose pull request is brought to its merge. Times are ms UTC.
type Tending struct {
	WorkspaceID, TeamID string
	CreatedBy           string // in whose name it is done
	Limits              Limits
	Merge               string // how it is merged when the Git host's rules allow: workspaces.Strategy*; "" = people merge it
	Agent               string // what is started where the workspace has no session of an agent

	State     State
	Code      string // why it waits or needs a person: a stable code
	Because   string // likewise, in a sentence
	Since     int64  // of Code
	Rounds    int    // since it was switched on
	SpentNano int64
	Others    []Said // unresolved comments of people who may not write: shown, and never given to an agent

	PushedAt int64 // by Parawork

	NextAt  int64 // when it is looked at again; 0 = never
	Tries   int   // looks that failed in a row
	Version int64

	CreatedAt, UpdatedAt int64
}

// Said is a comment of a reviewer. Its text is untrusted.
type Said struct {
	Mark      string `json:"mark,omitempty"` // by which the agent names it, such as C1
	ThreadID  string `json:"thread_id"`
	CommentID string `json:"comment_id"`
	Author    string `json:"author"`
	Path      string `json:"path,omitempty"`
	Line      int    `json:"line,omitempty"`
	Text      string `json:"text"`
	URL       string `json:"url,omitempty"`

	Answer string `json:"answer,omitempty"` // what the agent said about it
	Done   bool   `json:"done,omitempty"`   // the agent says it did what was asked
}

// Broken is a failed check.
type Broken struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
}

// Step is how far a round has come.
type Step string

// The steps.
const (
	Asking    Step = "asking"    // the prompt is stored, and perhaps sent
	Turning   Step = "working"   // the agent has it
	Pushing   Step = "pushing"   // the agent is done
	Answering Step = "answering" // what it did is pushed
	Over      Step = "over"
	Dropped   Step = "dropped" // somebody switched it off, or continued it anew, in the middle
)

// Round is one prompt to the agent and what became of it.
type Round struct {
	ID, WorkspaceID, TeamID string
	N                       int
	Step                    Step
	Detail
	CostNano           int64
	StartedAt, EndedAt int64
}

// Detail is what a round is about and did.
type Detail struct {
	Head     string   `json:"head"` // of the pull request when it began
	Checks   []Broken `json:"checks,omitempty"`
	Comments []Said   `json:"comments,omitempty"`
	Changes  []string `json:"changes,omitempty"` // who asked for changes
	Conflict bool     `json:"conflict,omitempty"`
	Failure  string   `json:"failure,omitempty"` // tells a failure that stays from another one

	Prompt      string `json:"prompt"`
	PromptID    string `json:"prompt_id"`
	SessionID   string `json:"session_id"`
	SpentBefore int64  `json:"spent_before,omitempty"` // by the session
	Answer      string `json:"answer,omitempty"`
	Pushed      string `json:"pushed,omitempty"`
	Code        string `json:"code,omitempty"` // why it came to nothing
	Error       string `json:"error,omitempty"`
}

// Store is the storage that the package needs. Errors: fault.NotFound where there is none.
type Store interface {
	RoundStore
	Tending(ctx context.Context, workspaceID string) (Tending, error)
	// PutTending stores one, in place of an earlier one of the workspace.
	PutTending(ctx context.Context, t Tending) error
	// EditTending lets fn change one in one transaction, and returns it as stored.
	EditTending(ctx context.Context, workspaceID string, fn func(*Tending)) (Tending, error)
	DropTending(ctx context.Context, workspaceID string) error
	// Needing returns those of a team that need a person.
	Needing(ctx context.Context, teamID string) ([]Tending, error)
	// Due returns workspaces whose time has come, the oldest first.
	Due(ctx context.Context, now int64, limit int) ([]string, error)
	// Hurry makes them due at a time where they would be later and no look failed: one workspace, or all of a project.
	Hurry(ctx context.Context, workspaceID, projectID string, at int64) error
}

// RoundStore stores the rounds of tendings.
type RoundStore interface {
	// Rounds returns those of a workspace, the newest first.
	Rounds(ctx context.Context, workspaceID string, limit int) ([]Round, error)
	// BeginRound stores a round and what it makes of its tending.
	BeginRound(ctx context.Context, r Round, fn func(*Tending)) error
	// EditRound stores a round, and in the same transaction what fn makes of its tending; nil = nothing.
	EditRound(ctx context.Context, r Round, fn func(*Tending)) error
}

// Forge is what the package needs of the Git host.
type Forge interface {
	Of(ctx context.Context, workspaceID string) (forge.PullRequest, bool, error)
	Attend(ctx context.Context, actor accounts.Actor, workspaceID string) (forge.Attended, error)
	Failures(ctx context.Context, actor accounts.Actor, pr forge.PullRequest) ([]forge.Failure, error)
	Reply(ctx context.Context, actor accounts.Actor, pr forge.PullRequest, replies ...forge.Reply) error
	AskAgain(ctx context.Context, actor accounts.Actor, pr forge.PullRequest, who []string) error
	Merge(ctx context.Context, actor accounts.Actor, workspaceID string, m forge.MergeAsk) (forge.PullRequest, error)
	Enqueue(ctx context.Context, actor accounts.Actor, workspaceID string, m forge.MergeAsk) error
}

// Branch is what the package needs of a workspace's branch.
type Branch interface {
	Push(ctx context.Context, actor accounts.Actor, workspaceID string) (commit string, err error)
	// Update brings the base, as the Git host has it now, into the branch.
	Update(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.UpdateRequest) (workspaces.UpdateResult, error)
	BeginResolve(ctx context.Context, actor accounts.Actor, workspaceID, strategy string) (workspaces.Resolve, error)
	FinishResolve(ctx context.Context, actor accounts.Actor, workspaceID string) (op string, left []string, err error)
}

// Sessions is what the package needs of sessions.
type Sessions interface {
	Get(ctx context.Context, id string) (sessions.Session, error)
	List(ctx context.Context, workspaceID string) ([]sessions.Session, error)
	CheckAgent(ctx context.Context, name string) error
	Start(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest) (sessions.Session, error)
	Interrupt(ctx context.Context, actor accounts.Actor, id string, force bool) (sessions.Interruption, error)
	Conversation(ctx context.Context, id string, q conversation.Query) (sessions.Conversation, error)
}

// Prompts is the queue of prompts.
type Prompts interface {
	AddPrompt(ctx context.Context, actor accounts.Actor, sessionID string, n prompt.Request) (prompt.Prompt, error)
	Prompt(ctx context.Context, id string) (prompt.Prompt, error)
}

// Workspaces are the rows of workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}
