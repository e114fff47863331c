package server

import (
	"context"
	"net/http"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces"
)

// call is what is known of one request. The guard fills it in before a handler runs; it belongs to the request's goroutine.
type call struct {
	id     string // request id
	op     string // operation, "" until the guard has let the request in
	status int    // for the log, where it is not the answer's own

	cred  credential
	begun string         // the cookie of the login session that the call began
	actor accounts.Actor // the zero Actor on public operations of people who are not signed in

	// What the path names; the guard has read it to find the team, so that nobody reads it again.
	object    accounts.Object
	team      accounts.Team
	project   workspaces.Project
	workspace workspaces.Workspace
	session   sessions.Session
	snapshot  workspaces.Snap
	command   executors.Command
	machine   machines.Machine
	link      watch.Link

	request *http.Request
	writer  http.ResponseWriter
}

type callKey struct{}

// callOf returns the call ctx belongs to. Outside a request it is an empty one.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// can decides about a further right that depends on what was asked, beyond the operation's own.
func (c *call) can(action accounts.Action) error {
	return accounts.Can(c.actor, action, c.object)
}

var (
	errSignedOut = fault.New(fault.Unauthorized, "signed_out", "You are not signed in, or your session has ended. Sign in again.")
	errNotFound  = fault.New(fault.NotFound, "not_found", "There is no such thing, or it is not yours to see.")
	errStarting  = fault.New(fault.Unavailable, "starting", "The server is starting. Try again in a moment.")
	errStopping  = fault.New(fault.Unavailable, "stopping", "The server is stopping. Try again in a moment.")
)

// credential is how a request says who asks.
type credential struct {
	cookie string
	bearer string
	ip     string // where it came from
}

func (c credential) none() bool { return c.cookie == "" && c.bearer == "" }

// authenticate says whose credential it is; fault.Unauthorized when it is nobody's.
func authenticate(ctx context.Context, from *accounts.Service, c credential) (accounts.Actor, error) {
	var actor accounts.Actor
	var err error
	switch {
	case c.bearer != "":
		actor, err = from.AuthenticateTokenFrom(ctx, c.bearer, c.ip)
	case c.cookie != "":
		actor, err = from.Authenticate(ctx, c.cookie)
	default:
		return accounts.Actor{}, errSignedOut
	}
	if fault.Is(err, fault.NotFound) { // the user is gone
		return accounts.Actor{}, errSignedOut
	}
	return actor, err
}
