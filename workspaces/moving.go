package workspaces

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// A workspace moves while its agents still work: the server takes a snapshot and tests the target. Then it stops the agents, syncs files
// and commits to the server, destroys the old sandbox, stores the new executor in the row, and resumes the agents there with their
// conversations. Until the new sandbox runs, any failure or cancellation resumes the workspace where it was. The move's row is stored
// first, so that after a crash the next server continues or rolls back.

// States of a move.
const (
	MoveRunning   = "running"
	MoveDone      = "done"
	MoveFailed    = "failed"    // rolled back: the workspace is where it was
	MoveCancelled = "cancelled" // likewise
)

// What happens to a session in a move.
const (
	MoveResumes  = "resumes"  // it resumes its conversation
	MoveRestarts = "restarts" // the agent starts over: its transcript stays behind
	MoveEnds     = "ends"     // a shell or command: it ends
	MoveWaits    = "waits"    // the target lacks the agent's program: people resume it once it is installed
)

// MovedSession is a session that ran when its workspace moved.
type MovedSession struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	Name   string `json:"name"` // display name of the agent
	Title  string `json:"title,omitempty"`
	How    string `json:"how"`
	Busy   bool   `json:"busy,omitempty"` // it was busy: the server prompts it to continue
	State  string `json:"state"`          // running, stopped, resumed, ended, failed
	Next   string `json:"next,omitempty"` // the session that continues it
	Reason string `json:"reason,omitempty"`

	Program string `json:"-"` // program the target must have, if the target has to be asked; "" = already known
	Lacking string `json:"-"` // message if the program is missing
}

// Moving is one move of a workspace.
type Moving struct {
	ID, TeamID, WorkspaceID string
	From, To                string // executors
	Folder, FromFolder      string // machine ids of the target and of the source, for members' machines
	State                   string
	Reason                  string // why it failed, or what did not resume, for people
	Steps                   []Step
	Sessions                []MovedSession
	ActorID                 string
	CreatedAt, EndedAt      int64 // ms UTC; EndedAt 0 = in progress
}

// Trier is an optional ability of Places: it tests that an executor works for a workspace, in a folder other than its worktree, while the
// workspace keeps running in its own sandbox.
type Trier interface {
	// lacks are the required programs that are missing.
	Try(ctx context.Context, workspaceID string, kind executors.Kind, root string, programs []string) (lacks []string, err error)
}

// Movers is an optional ability of Sessions. Without it, running sessions prevent a move.
type Movers interface {
	// MovePlan returns what will happen to each running session, oldest first.
	MovePlan(ctx context.Context, workspaceID string, from, to executors.Capabilities) ([]MovedSession, error)
	// Halt ends a session so that it can be resumed, and waits until it has ended.
	Halt(ctx context.Context, sessionID, reason string) error
	// Halted waits for the end of a session that an earlier server was stopping when it died.
	Halted(ctx context.Context, sessionID string) error
	// GoOn resumes a halted session as the user who started it, and sends it words if it was busy. It is idempotent.
	GoOn(ctx context.Context, m MovedSession, words string) (nextID string, err error)
}

func (m Moving) Clone() Moving {
	m.Steps, m.Sessions = append([]Step{}, m.Steps...), append([]MovedSession{}, m.Sessions...)
	return m
}
