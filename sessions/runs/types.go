// Package runs gives one prompt to several agents at once, each in its own workspace, so that people can compare the results and
// choose one.
package runs

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces"
)

// State of an attempt until its session has started; from then on the session's own state applies.
type State string

// States of an attempt.
const (
	Making   State = "making"   // its workspace is being created
	Starting State = "starting" // its session is about to start
	Started  State = "started"
	Failed   State = "failed" // it never started; Code and Reason say why
)

// Run is one prompt in several workspaces.
type Run struct {
	ID, TeamID, ProjectID string
	Name, Prompt          string
	Kept                  string // ID of the chosen attempt
	CreatedBy             string
	CreatedAt             int64
	Attempts              []Attempt
}

// Attempt is one agent's part of a run.
type Attempt struct {
	ID, RunID    string
	Num          int
	Name         string // of the workspace
	Agent        string
	AccountID    string
	Args         []string // additional arguments of the agent, such as its model
	Base         string
	Executor     string
	WorkspaceID  string
	Made         bool // the workspace was created for it
	SessionID    string
	State        State
	Code, Reason string
	StateAt      int64
}

// Request requests a run. Either Attempts create workspaces, or WorkspaceIDs name existing ones, in each of which Agent gets the
// prompt.
type Request struct {
	ProjectID string
	Name      string // "" = from the prompt
	Prompt    string
	Attempts  []AttemptRequest
}

// AttemptRequest requests one attempt.
type AttemptRequest struct {
	Agent       string
	AccountID   string
	Args        []string
	Base        string
	Executor    string
	Name        string // "" = of the run and the agent
	WorkspaceID string // an existing workspace; "" = create one
}

// Store is what the package needs of the storage. Errors: fault.NotFound for an unknown ID.
type Store interface {
	InsertRun(ctx context.Context, r Run) error
	Run(ctx context.Context, id string) (Run, error)
	// Runs returns a team's runs with their attempts, newest first.
	Runs(ctx context.Context, teamID string, pg page.Page) (items []Run, next string, err error)
	// OpenRuns returns every run with an attempt that is being created or started.
	OpenRuns(ctx context.Context) ([]Run, error)
	// RunsByWorkspace returns, for every workspace that is part of a run of the team, the newest such run.
	RunsByWorkspace(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]string, error)
	UpdateAttempt(ctx context.Context, a Attempt) error
	KeepAttempt(ctx context.Context, runID, attemptID string) error
}

// Records gives access to the rows of workspaces and projects.
type Records interface {
	Project(ctx context.Context, id string) (workspaces.Project, error)
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	List(ctx context.Context, teamID string, f workspaces.Filter, pg page.Page) ([]workspaces.Workspace, string, error)
}

// Workspaces creates and archives workspaces.
type Workspaces interface {
	Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error)
	RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error)
	Archive(ctx context.Context, actor accounts.Actor, id string) (workspaces.Workspace, error)
}

// Sessions is what the package needs of sessions.
type Sessions interface {
	CheckAgent(ctx context.Context, name string) error
	AgentName(name string) string
	Start(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest) (sessions.Session, error)
	List(ctx context.Context, workspaceID string) ([]sessions.Session, error)
}

// Accounts is what the package needs of users.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}
