package rest

import (
	"context"
	"net/http"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Call is what is known of one request. The guard fills it in before a handler runs; it belongs to the request's goroutine.
type Call struct {
	ID     string // request id
	Op     string // operation, "" until the guard has let the request in
	Status int    // for the log, where it is not the answer's own

	Cred  Credential
	Begun string         // the cookie of the login session that the call began
	Actor accounts.Actor // the zero Actor on public operations of people who are not signed in

	// What the path names; the guard has read it to find the team, so that nobody reads it again.
	Object     accounts.Object
	Team       accounts.Team
	Project    workspaces.Project
	Workspace  workspaces.Workspace
	Session    sessions.Session
	Snapshot   snapshot.Snap
	Checkpoint checkpoints.Checkpoint
	Command    command.Command
	CodeRun    code.Run
	Sandbox    sandboxes.Sandbox
	Automation triggers.Automation
	Job        jobs.Job
	Machine    machines.Machine
	Link       watch.Link

	Request *http.Request
	Writer  http.ResponseWriter
}

type callKey struct{}

// WithCall returns a context that belongs to the call.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the call ctx belongs to. Outside a request it is an empty one.
func CallOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}

// Can decides about a further right that depends on what was asked, beyond the operation's own.
func (c *Call) Can(action accounts.Action) error {
	return accounts.Can(c.Actor, action, c.Object)
}

// NamesTeam remembers for the audit which team a call concerned, where one of its members was refused: what an outsider tried stays
// out of a team's own chain.
func (c *Call) NamesTeam(err error, object accounts.Object) {
	if fault.Is(err, fault.Forbidden) {
		c.Object = object
	}
}

// Manages says whether the caller may rename and revoke the machine: its owner may, and who manages the team.
func (c *Call) Manages() error {
	if c.Machine.UserID == c.Actor.User.ID {
		return nil
	}
	return c.Can(accounts.ManageTeam)
}

// What calls are refused with before anybody looks at what they ask for.
var (
	ErrSignedOut = fault.New(fault.Unauthorized, "signed_out", "You are not signed in, or your session has ended. Sign in again.")
	ErrNotFound  = fault.New(fault.NotFound, "not_found", "It does not exist, or you do not have access to it.")
	ErrStarting  = fault.New(fault.Unavailable, "starting", "The server is starting. Try again in a moment.")
	ErrStopping  = fault.New(fault.Unavailable, "stopping", "The server is stopping. Try again in a moment.")
)

// Credential is how a request says who asks.
type Credential struct {
	Cookie string
	Bearer string
	IP     string // where it came from
}

// None reports whether nothing says who asks.
func (c Credential) None() bool { return c.Cookie == "" && c.Bearer == "" }

// Authenticate says whose credential it is; fault.Unauthorized when it is nobody's.
func Authenticate(ctx context.Context, from *signin.Service, c Credential) (accounts.Actor, error) {
	var actor accounts.Actor
	var err error
	switch {
	case c.Bearer != "":
		actor, err = from.AuthenticateTokenFrom(ctx, c.Bearer, c.IP)
	case c.Cookie != "":
		actor, err = from.Authenticate(ctx, c.Cookie)
	default:
		return accounts.Actor{}, ErrSignedOut
	}
	if fault.Is(err, fault.NotFound) { // the user is gone
		return accounts.Actor{}, ErrSignedOut
	}
	return actor, err
}
