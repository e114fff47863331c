// Package jobs does work that scripts ask for: a prompt for an agent in a workspace of a project or in a sandbox without a repository, with
// an output, artifacts and an end that a program can wait for. Create stores a job and returns; Run lets it wait for its turn, makes its
// workspace, starts its session, follows it, collects what it made and reports its end.
//
// Each step is stored before it is taken and looks for its result first, so that a job goes on where it was when the server is killed. A
// job asks nobody: its agent is started without questions, where the place allows that.
//
// Goroutines: Run has one that receives events and ticks, and one for each job that is looked at, of which few work at a time. The mutex
// guards which jobs are followed; nothing waits under it.
package jobs

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/workspaces"
)

// Status is how far a job has come, for whoever asked for it.
type Status string

// The statuses.
const (
	Queued    Status = "queued" // it waits for its turn, or its workspace is being made
	Running   Status = "running"
	Completed Status = "completed" // the agent reached the end of its work
	Failed    Status = "failed"
	Timeout   Status = "timeout"
	Cancelled Status = "cancelled"
)

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s != Queued && s != Running }

// Step is what is to be done next for a job.
type Step string

// The steps, in order.
const (
	Waiting  Step = "waiting"  // for its turn
	Making   Step = "making"   // its workspace is made, then its session started
	Working  Step = "working"  // its agent works
	Ending   Step = "ending"   // how it ends is known; its session is stopped and its artifacts are collected
	Cleaning Step = "cleaning" // it has ended; its sandbox is to be removed
	Removing Step = "removing" // it has ended and was deleted: its artifacts and its row are to be removed
	Done     Step = "done"
)

// Limits of jobs.
const (
	MaxPrompt    = 1 << 20 // bytes
	MaxOutput    = 64 << 10
	MaxPatterns  = 20
	MaxArtifacts = 200
	MaxQueued    = 500 // waiting ones of a team
	AtOnce       = 16  // of a team that do not wait
	MinTimeout   = 1000
	DefTimeout   = 5 * 60 * 1000       // ms
	MaxTimeout   = 24 * 60 * 60 * 1000 // ms
)

// Request is what somebody asks for.
type Request struct {
	Prompt    string   `json:"prompt"`
	Agent     string   `json:"agent"`
	Argv      []string `json:"argv,omitempty"` // of the agent command: the program; for others extra arguments
	Model     string   `json:"model,omitempty"`
	AccountID string   `json:"account,omitempty"` // "" = the default

	ProjectID string         `json:"project_id,omitempty"`
	SandboxID string         `json:"sandbox_id,omitempty"` // neither: in a sandbox of its own
	Executor  executors.Kind `json:"executor,omitempty"`   // "" = as usual
	Base      string         `json:"base,omitempty"`       // with a project
	Branch    string         `json:"branch,omitempty"`     // with a project: the name of the new branch

	TimeoutMs         int64    `json:"timeout_ms"`
	Artifacts         []string `json:"artifacts,omitempty"` // names and patterns of files of the worktree
	Keep              bool     `json:"keep,omitempty"`      // its own sandbox stays
	ConfirmNoBoundary bool     `json:"confirm_no_boundary,omitempty"`

	Webhook *Webhook `json:"-"`
}

// Webhook is where the end of a job is reported.
type Webhook struct{ URL, Secret string }

// Artifact is a file that a job left.
type Artifact struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
	MIME string `json:"mime"`
}

// Job is the stored record of a job. Times are ms UTC, 0 = not yet.
type Job struct {
	ID, TeamID, CreatedBy string
	Key, Hash             string // the Idempotency-Key it was asked for with, "" = none; and what was asked for
	Request               Request
	HookURL, HookSecretID string // where its end is reported, without what is secret; and the secret's ID

	SandboxID   string // once it is known
	WorkspaceID string // reserved before it is made
	SessionID   string // reserved before it is started

	Status   Status
	Step     Step
	Outcome  Status // how it ends, from the step Ending on
	Retried  bool   // a crash cut its start short, and it was started again
	Refusals int64  // how often in a row there was no place for it
	Reason   string // why it is queued, as text
	Code     string // why it did not complete
	Error    string // likewise, for people
	Output   string
	Warnings []string // what was asked for and not done
	Files    []Artifact
	CostNano *int64 // what it spent on models; nil = unknown

	Version   int64 // grows with every change
	CreatedAt int64
	StartedAt int64 // its session
	Deadline  int64
	RetryAt   int64 // with Waiting: not before
	EndedAt   int64 // its agent, from the step Ending on
	RemovedAt int64 // somebody deleted it
	UpdatedAt int64
}

// Own reports whether the job has a sandbox of its own.
func (j Job) Own() bool { return j.Request.ProjectID == "" && j.Request.SandboxID == "" }

// Private reports whether only its user sees the job: as the sandbox it works in.
func (j Job) Private() bool { return j.Request.ProjectID == "" }

// Filter selects jobs of a team.
type Filter struct {
	Viewer string // leaves out what this user may not see
	Status Status // "" = any
}

// Store is what the package needs of the storage. Errors: fault.NotFound for an unknown ID.
type Store interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	// InsertJob stores a job, unless the team has most that have not ended: then a fault "jobs_queue_full". Another fault.Conflict means
	// that its user has one with its key in the team.
	InsertJob(ctx context.Context, j Job, most int) error
	Job(ctx context.Context, id string) (Job, error)
	// JobByKey returns the job of a user in a team with an Idempotency-Key.
	JobByKey(ctx context.Context, teamID, userID, key string) (Job, error)
	// Jobs returns a page of a team's jobs that nobody deleted, newest first, without their outputs.
	Jobs(ctx context.Context, teamID string, f Filter, pg page.Page) ([]Job, string, error)
	// LiveJobs returns those of all teams for which something is to be done.
	LiveJobs(ctx context.Context) ([]Job, error)
	// EditJob lets fn change a job in one transaction, and returns it as stored.
	EditJob(ctx context.Context, id string, fn func(*Job) error) (Job, error)
	// DeleteJob deletes one.
	DeleteJob(ctx context.Context, id string) error
	// ForgetJobs deletes those that were done before a time.
	ForgetJobs(ctx context.Context, before int64) error
}

// Sessions is what the package needs of sessions.
type Sessions interface {
	Get(ctx context.Context, id string) (sessions.Session, error)
	CheckAgent(ctx context.Context, name string) error
	Start(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest) (sessions.Session, error)
	Interrupt(ctx context.Context, actor accounts.Actor, id string, force bool) (sessions.Interruption, error)
	End(ctx context.Context, id, reason string) (sessions.Session, error)
	Conversation(ctx context.Context, id string, q conversation.Query) (sessions.Conversation, error)
}

// Terminals show what sessions printed.
type Terminals interface {
	Screen(ctx context.Context, id string, tail int) (text screen.Text, last []string, err error)
	Output(ctx context.Context, id string, from int64, limit int) (b []byte, offset, end int64, err error)
}

// Workspaces makes workspaces of projects.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error)
	RetryCreate(ctx context.Context, workspaceID string) (workspaces.Workspace, error)
}

// Sandboxes gives out sandboxes without a repository.
type Sandboxes interface {
	Obtain(ctx context.Context, actor accounts.Actor, teamID string, r sandboxes.Request) (sb sandboxes.Sandbox, made bool, err error)
	Get(ctx context.Context, sandboxID string) (sandboxes.Sandbox, error)
	End(ctx context.Context, sandboxID string) error
}

// Places says where work runs.
type Places interface {
	// Choose returns where a team's new workspace of a user would be: in the first of wishes that is not "", else as usual.
	Choose(ctx context.Context, teamID, userID string, wishes ...executors.Kind) (executors.Kind, error)
	// Isolates reports whether a kind of place keeps an agent in.
	Isolates(ctx context.Context, kind executors.Kind) bool
	// Find returns the files of a workspace that match a pattern, at most limit.
	Find(ctx context.Context, workspaceID, userID, pattern string, limit int) (paths []string, err error)
}

// Artifacts keeps files.
type Artifacts interface {
	Collect(ctx context.Context, teamID, workspaceID string, final bool) error
	Save(ctx context.Context, m artifacts.Maker, req artifacts.SaveRequest) (artifacts.Artifact, error)
	List(ctx context.Context, f artifacts.Filter, pg page.Page) ([]artifacts.Artifact, string, error)
	Get(ctx context.Context, id string) (artifacts.Artifact, error)
	Delete(ctx context.Context, a artifacts.Artifact) error
}

// Hooks reports the ends of jobs.
type Hooks interface {
	// KeepAddress keeps where messages about something go, until DropAddress or the last message has arrived. Errors: those of an address.
	KeepAddress(ctx context.Context, teamID, about, by string, a notify.Address) (shown, secretID string, err error)
	DropAddress(ctx context.Context, teamID, secretID string) error
	// Post has a message sent soon. It is stored in ctx's transaction.
	Post(ctx context.Context, p notify.Post) error
	// Sent returns the messages about something, newest first.
	Sent(ctx context.Context, about string) ([]notify.Delivery, error)
}
