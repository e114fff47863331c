// Package calllog keeps a row for every call of a tool: who called it with what, how it ended and why. People read the rows in the
// conversation, in the workspace's list and in an export.
package calllog

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/tools"
)

// Call is one call of a tool. Times are ms UTC.
type Call struct {
	ID, TeamID  string
	WorkspaceID string // "" outside a workspace
	SessionID   string // the session whose agent called; "" = a person or a script
	UserID      string
	Agent       string
	Client      string
	Tool        string
	Arguments   string // this and the next two: the beginning, with the team's secrets masked
	Result      string
	Cause       string // why it did not succeed
	Outcome     tools.Outcome
	Code        string // of the error
	ResultBytes int64
	Truncated   bool
	StartedAt   int64
	DurationMs  int64
}

// Success reports whether the call did what it was asked for.
func (c Call) Success() bool { return c.Outcome == tools.Done }

// Query selects calls of a workspace. Empty fields select all.
type Query struct {
	WorkspaceID string
	SessionID   string
	Tool        string
	Outcome     tools.Outcome
	OldestFirst bool
	After       *page.Key // in the order asked for
	Limit       int
}

// Store stores calls.
type Store interface {
	// SaveToolCalls adds calls, or replaces the rows that have their ids.
	SaveToolCalls(ctx context.Context, calls []Call) error
	ToolCalls(ctx context.Context, q Query) ([]Call, error)
	// CloseToolCalls sets the outcome of all calls that are running.
	CloseToolCalls(ctx context.Context, outcome tools.Outcome, cause string) error
	// TrimToolCalls deletes all calls of a workspace but the newest keep; of the team's calls outside workspaces where it is "".
	TrimToolCalls(ctx context.Context, teamID, workspaceID string, keep int) error
	// DropToolCalls deletes a bounded number of calls that began before a time, and reports whether there may be more.
	DropToolCalls(ctx context.Context, before int64) (more bool, err error)
}

// callOf is the row of a record.
func callOf(r tools.Record) Call {
	c := r.Caller
	return Call{ID: r.ID, TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, SessionID: c.SessionID, UserID: c.UserID, Agent: c.Agent, Client: c.Client, Tool: r.Tool, Arguments: r.Arguments,
		Result: r.Result, Cause: r.Cause, Outcome: r.Outcome, Code: r.Code, ResultBytes: int64(r.ResultBytes), Truncated: r.Truncated, StartedAt: r.StartedAt.UnixMilli(),
		DurationMs: max(r.Duration, 0).Milliseconds()}
}

// Bounds of what is kept.
const (
	KeepCalls = 10_000 // of one workspace
	KeepFor   = 90 * 24 * time.Hour
)
