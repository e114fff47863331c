// Package firststart starts the first session of a workspace that was created with one, as soon as the workspace is ready. What is to be
// started is stored in the transaction that stores the workspace, and the session's ID with it: however often the server dies in between, the
// session is started once. What could not be started stays with its reason until somebody starts it again or forgets it.
package firststart

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces"
)

// State of a first session until it is there; from then on its own state applies.
type State string

// States of a first session.
const (
	Waiting  State = "waiting"  // for its workspace
	Starting State = "starting" // it is about to start
	Handed   State = "handed"   // it is there; its agent has not taken the files of its prompt yet
	Failed   State = "failed"   // it did not start; Code and Reason say why
)

// Bounds of the files of a prompt.
const (
	MaxFiles     = 10
	MaxFile      = 10 << 20 // bytes of one
	maxFileBytes = 20 << 20 // of all
	maxFileName  = 300      // bytes
)

// File goes to an agent with its first prompt.
type File struct {
	Name string
	Data []byte
}

// Request says which session is started.
type Request struct {
	Agent             string   `json:"agent"`
	Prompt            string   `json:"prompt,omitempty"`
	Argv              []string `json:"argv,omitempty"`
	AccountID         string   `json:"account_id,omitempty"`
	Permissions       string   `json:"permissions,omitempty"`
	ConfirmNoBoundary bool     `json:"confirm_no_boundary,omitempty"`
	Cols              uint16   `json:"cols,omitempty"` // 0 = the usual size
	Rows              uint16   `json:"rows,omitempty"`
	Files             []File   `json:"-"`
}

// Start is the first session of a workspace.
type Start struct {
	WorkspaceID, TeamID string
	SessionID           string // chosen before it is started
	Request             Request
	State               State
	Code, Reason        string
	Retried             bool // the server died while it started, and it was begun once more under another ID
	CreatedBy           string
	CreatedAt, StateAt  int64
}

// Store is what the package needs of the storage. Errors: fault.NotFound for an unknown workspace.
type Store interface {
	// InsertStart stores a first session with its files. It is called inside the transaction that stores the workspace.
	InsertStart(ctx context.Context, s Start) error
	// FirstStart returns that of a workspace, without its files.
	FirstStart(ctx context.Context, workspaceID string) (Start, error)
	// FirstStarts returns those of a team, or of the named workspaces, that are not handed.
	FirstStarts(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Start, error)
	// OpenStarts returns the workspaces of those that wait or are starting.
	OpenStarts(ctx context.Context) ([]Start, error)
	// MoveStart writes state, reason, session ID and who starts it, if it is in one of the states from; false = it is not.
	MoveStart(ctx context.Context, s Start, from ...State) (bool, error)
	DeleteStart(ctx context.Context, workspaceID string) error
	StartFiles(ctx context.Context, workspaceID string) ([]File, error)
	// FilesOf returns the files that the first prompt of a session comes with, and TakenFrom forgets them.
	FilesOf(ctx context.Context, sessionID string) ([]File, error)
	TakenFrom(ctx context.Context, sessionID string) error
}

// Records gives access to the rows of workspaces.
type Records interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	PublishWorkspace(ctx context.Context, w workspaces.Workspace)
}

// Workspaces begins failed creations again.
type Workspaces interface {
	RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Sessions is what the package needs of sessions.
type Sessions interface {
	CheckAgent(ctx context.Context, name string) error
	Get(ctx context.Context, id string) (sessions.Session, error)
	Start(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest) (sessions.Session, error)
}

// Bus tells when a workspace has changed.
type Bus interface {
	Subscribe(teamID string, since int64) *events.Sub
}
