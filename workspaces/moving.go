package workspaces

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// A workspace moves live: while its agents still work a snapshot is kept and the other place is tried; then they are asked to stop, files
// and commits come home, the old sandbox ends, the row names the new place, and the agents go on there with their conversations. Until
// the new sandbox runs whatever fails, or whoever cancels, has it go on where it was. The row of the move is stored first, so that the
// next server goes on, or back, where one was killed.

// States of a move.
const (
	MoveRunning   = "running"
	MoveDone      = "done"
	MoveFailed    = "failed"    // the workspace is where it was
	MoveCancelled = "cancelled" // likewise
)

// What becomes of a session in a move.
const (
	MoveResumes  = "resumes"  // it goes on with its conversation
	MoveRestarts = "restarts" // the agent is started again and begins anew: its record stays behind
	MoveEnds     = "ends"     // a shell, or a command
	MoveWaits    = "waits"    // the place lacks the agent's program: it is resumed by hand once that is there
)

// MovedSession is a session that ran when its workspace was moved.
type MovedSession struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	Name   string `json:"name"` // of the agent, for people
	Title  string `json:"title,omitempty"`
	How    string `json:"how"`
	Busy   bool   `json:"busy,omitempty"` // it was at work: it is told to go on
	State  string `json:"state"`          // running, stopped, resumed, ended, failed
	Next   string `json:"next,omitempty"` // the session it goes on in
	Reason string `json:"reason,omitempty"`

	Program string `json:"-"` // what the place has to have for it, where the place is to be asked; "" = it is known
	Lacking string `json:"-"` // what is said when it has not
}

// Moving is one move of a workspace.
type Moving struct {
	ID, TeamID, WorkspaceID string
	From, To                string // kinds of places
	Folder, FromFolder      string // on a member's machine, there and where it was
	State                   string
	Reason                  string // why it failed, or what did not go on, in words
	Steps                   []Step
	Sessions                []MovedSession
	ActorID                 string
	CreatedAt, EndedAt      int64 // ms UTC; EndedAt 0 = it goes on
}

// Trier is an optional ability of Places: it sees that a place works for a workspace, over a folder that is not its worktree, while the
// workspace goes on in its own place.
type Trier interface {
	// lacks are those of programs that are not there.
	Try(ctx context.Context, workspaceID string, kind executors.Kind, root string, programs []string) (lacks []string, err error)
}

// Movers is an optional ability of Sessions, without which those that run keep a workspace from moving.
type Movers interface {
	// MovePlan says of each session that runs what becomes of it, the oldest first.
	MovePlan(ctx context.Context, workspaceID string, from, to executors.Capabilities) ([]MovedSession, error)
	// Halt ends a session so that it can go on, and waits for its end.
	Halt(ctx context.Context, sessionID, reason string) error
	// Halted waits for the end of one that a server died over stopping.
	Halted(ctx context.Context, sessionID string) error
	// GoOn resumes one that has ended, as who started it, and tells it words when it was at work. Doing it again does nothing more.
	GoOn(ctx context.Context, m MovedSession, words string) (nextID string, err error)
}

func (m Moving) Clone() Moving {
	m.Steps, m.Sessions = append([]Step{}, m.Steps...), append([]MovedSession{}, m.Sessions...)
	return m
}
