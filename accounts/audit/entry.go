// Package audit records who did what. Entries are only added, never changed, and the seal of each covers the seal of the one before it.
package audit

import "context"

// Result says how what somebody did ended.
type Result string

// The results.
const (
	Done    Result = "done"
	Refused Result = "refused" // they may not, or it was asked wrongly
	Failed  Result = "failed"
)

// Instance is the chain of what concerns no one team: signing in, users, settings of the server.
const Instance = "instance"

// Kinds of actors.
const (
	ByUser        = "user"
	ByToken       = "token"
	ByLink        = "link" // somebody with a link and no login
	ByCommandLine = "command_line"
	BySystem      = "system"
	ByNobody      = "nobody" // not signed in, or not known
)

// Source says who acts and from where. The server puts it into a request's context, the command line and Parawork's own loops into theirs.
type Source struct {
	Kind       string // ByUser, ...
	ActorID    string
	ActorName  string
	Credential string // id of the login session, token or link; never its value
	IP         string
	RequestID  string
	Client     string // what the calling program calls itself, "" = unknown; it goes into the entry's data
}

// Entry is one thing that was done. Who did it comes from the context.
type Entry struct {
	Chain      string // a team's id, or Instance
	Action     string // a stable word such as member.role_changed
	TargetKind string // user, team, workspace, ...
	TargetID   string
	TargetName string
	Result     Result // "" = Done
	Code       string // of the error
	Data       map[string]string
}

// Appender adds entries. An Append made inside a transaction is part of it, so that nothing is done without its entry. A package that adds
// entries declares this interface, or a Config field of it; nil is allowed there and means that nothing is recorded.
type Appender interface {
	Append(ctx context.Context, e Entry) error
}

type sourceKey struct{}

// By returns a context in which s acts.
func By(ctx context.Context, s Source) context.Context {
	return context.WithValue(ctx, sourceKey{}, s)
}

// SourceOf returns who acts in ctx; Parawork itself where nobody does.
func SourceOf(ctx context.Context) Source {
	if s, ok := ctx.Value(sourceKey{}).(Source); ok {
		return s
	}
	return itself
}

// itself is Parawork, which acts where nobody does.
var itself = Source{Kind: BySystem, ActorName: "Parawork"}
