// Package subagents starts agents for parts of another agent's work: a session of its own in the caller's workspace, or in a sibling
// workspace that begins with the caller's files. Spawn stores what is to be started and returns; Run starts it, follows its session,
// and stores the result, which survives restarts.
//
// Goroutines: Run has one that receives events and ticks, and one for each subagent that changed, of which few work at a time. The
// mutex guards which subagents are followed; nothing waits under it.
package subagents

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Status is the state of a subagent's task.
type Status string

// The statuses.
const (
	Spawned   Status = "spawned"  // stored; a sibling workspace is being made
	Starting  Status = "starting" // its session is about to start
	Working   Status = "working"
	Waiting   Status = "waiting" // it asks a person
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Busy reports whether the task has not ended.
func (s Status) Busy() bool {
	return s == Spawned || s == Starting || s == Working || s == Waiting
}

// Where a subagent works.
const (
	Same    = "same"    // in the caller's workspace: they share files
	Sibling = "sibling" // in a workspace of its own, which begins with the caller's files
)

// Limits of subagents.
const (
	MaxDepth   = 2  // a session that no subagent started has depth 0
	MaxAtOnce  = 8  // busy ones below one session that is no subagent
	MaxTotal   = 64 // of all statuses, likewise
	MaxName    = 100
	MaxTask    = 100 << 10 // bytes
	MaxResult  = 64 << 10  // bytes
	MaxTools   = 40
	MaxTimeout = 24 * 60 * 60 * 1000 // ms
	DefTimeout = 30 * 60 * 1000      // ms
)

// Subagent is the stored record of a subagent.
type Subagent struct {
	ID, TeamID, ProjectID string
	FromWorkspaceID       string // where it was asked for
	ParentSessionID       string // the session that asked for it; "" = a person outside a session
	Root                  string // the session at the top of its tree; of one without a parent, the workspace
	Depth                 int    // of its own session; 1 = started by a session that is no subagent
	Name, Task            string
	Agent, Model          string
	Mode                  string   // of Parawork's own agent: build, plan, ask or review; "" = its default
	Tools                 []string // the only groups and tools it may use; nil = all that its project has
	Where                 string   // Same or Sibling
	WorkspaceID           string   // where it works; reserved before it is made
	Branch                string   // of that workspace, once it is known
	SessionID             string   // its session; reserved before it is started
	SnapshotID            string   // the caller's files that a sibling begins with; "" = not taken yet

	Status    Status
	Live      bool   // its session may still run, or is still to be started
	Stop      bool   // its session is to be stopped
	Worked    bool   // it was seen working on its first prompt
	Retried   bool   // a crash cut its start short, and it was started again
	PromptID  string // the latest message to it; "" = it has its task alone
	Result    string
	Files     []string // paths that it changed by its own account
	MoreFiles int      // how many more there are
	ToReturn  bool     // its caller, Parawork's own agent, is to be given the result as a message, or will be
	Code      string   // why it failed or was cancelled
	Error     string   // likewise, for people

	Kept        bool  // it survives its caller
	MaxCostNano int64 // what it and its own subagents may spend on models, 0 = as much as the team's budget allows
	TimeoutMs   int64
	DeadlineAt  int64 // ms UTC; as long as it is busy
	CreatedBy   string

	CreatedAt, StartedAt, EndedAt, UpdatedAt int64

	Question string // what it asks while it is waiting; not stored
	CostNano *int64 // what it has spent on models; nil = unknown; not stored
}

// Adopter passes on what a session started to the session that goes on with its conversation.
type Adopter interface {
	AdoptSubagents(ctx context.Context, from, to string) error
}

// Store is what the package needs of the storage. Errors: fault.NotFound for an unknown ID.
type Store interface {
	Adopter
	// InsertSubagent stores a new one, unless its tree has atOnce busy ones or total ones already: then fault.Conflict.
	InsertSubagent(ctx context.Context, a Subagent, atOnce, total int) error
	Subagent(ctx context.Context, id string) (Subagent, error)
	// SubagentOfSession returns the one whose session this is.
	SubagentOfSession(ctx context.Context, sessionID string) (Subagent, error)
	// Parents returns the sessions that started these sessions as subagents, by session.
	Parents(ctx context.Context, sessionIDs ...string) (map[string]string, error)
	// SubagentsOfRoot returns a whole tree, oldest first.
	SubagentsOfRoot(ctx context.Context, root string) ([]Subagent, error)
	// SubagentsOfWorkspace returns those that were asked for in a workspace or work in it, newest first.
	SubagentsOfWorkspace(ctx context.Context, workspaceID string, pg page.Page) (items []Subagent, next string, err error)
	// OpenSubagents returns, oldest first, those whose result a session is to be given (ToReturn); with "", those of all teams that are
	// Live or ToReturn.
	OpenSubagents(ctx context.Context, callerID string) ([]Subagent, error)
	// EditSubagent lets fn change one in one transaction, and returns it as stored.
	EditSubagent(ctx context.Context, id string, fn func(*Subagent) error) (Subagent, error)
	// WorkOnSubagent is EditSubagent for one that is about to be busy again: fault.Conflict as with InsertSubagent.
	WorkOnSubagent(ctx context.Context, id string, atOnce int, fn func(*Subagent) error) (Subagent, error)
}

// Sessions is what the package needs of sessions.
type Sessions interface {
	Get(ctx context.Context, id string) (sessions.Session, error)
	List(ctx context.Context, workspaceID string) ([]sessions.Session, error)
	CheckAgent(ctx context.Context, name string) error
	Start(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest) (sessions.Session, error)
	Interrupt(ctx context.Context, actor accounts.Actor, id string, force bool) (sessions.Interruption, error)
	End(ctx context.Context, id, reason string) (sessions.Session, error)
	Conversation(ctx context.Context, id string, q conversation.Query) (sessions.Conversation, error)
}

// Prompts is the queue of prompts.
type Prompts interface {
	AddPrompt(ctx context.Context, actor accounts.Actor, sessionID string, n prompt.Request) (prompt.Prompt, error)
	Prompt(ctx context.Context, id string) (prompt.Prompt, error)
}

// Screens show what terminals of sessions show.
type Screens interface {
	Screen(ctx context.Context, id string, tail int) (text screen.Text, last []string, err error)
}

// Workspaces are the rows of workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Snapshots take the files that a sibling begins with.
type Snapshots interface {
	Take(ctx context.Context, workspaceID string, r snapshot.Request) (snapshot.Snap, error)
	SnapshotByID(ctx context.Context, id string) (snapshot.Snap, error)
}

// Siblings makes workspaces. Making one of a chosen ID again continues where an earlier server was cut short.
type Siblings interface {
	RestoreSnapshot(ctx context.Context, actor accounts.Actor, sn snapshot.Snap, r snapshot.RestoreRequest) (snapshot.Restored, error)
}

// Accounts is what the package needs of users.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}
