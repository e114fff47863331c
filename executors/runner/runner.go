// Package runner offers members' own machines as executors: each connected machine is an executor of its own, of the kind
// "runner:<id>". The machine does, on requests over its link, what other executors do themselves. Whatever changes something there is
// a command, signed for that machine alone, which the machine checks against its owner's rules before it obeys.
//
// What a machine says is trusted only about itself: lengths, names, paths and states are validated, and a machine is
// asked only for its own sandboxes. Sandboxes live on while a machine is unreachable: that never counts as their end.
//
// The package starts nothing that outlives a call.
package runner

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Machine is a member's own machine as it is known now. Times are ms UTC.
type Machine struct {
	ID            string
	TeamID        string
	UserID        string // whose it is
	UserName      string
	Name          string
	Hello         wire.Hello // its latest description of itself
	Online        bool
	Leaving       bool   // it has its sandboxes synced and ended, then goes offline
	OfflineAt     int64  // since when it is offline
	OfflineReason string // in words
}

// Link is the connection to a machine. Safe for concurrent use.
type Link interface {
	// RoundTrip sends a request to the machine.
	RoundTrip(*http.Request) (*http.Response, error)
	// Stream opens a stream of bytes to a path of the machine. The context bounds only the opening.
	Stream(ctx context.Context, path string, header http.Header) (net.Conn, error)
	// Done is closed when the link has ended; Reason then says why, in words.
	Done() <-chan struct{}
	Reason() string
}

// Machines returns the machines of all teams. It answers from memory.
type Machines interface {
	// Machines returns those of a team that were not revoked; "" = of all teams.
	Machines(ctx context.Context, teamID string) []Machine
	Machine(ctx context.Context, id string) (Machine, bool)
	// Link returns the machine's connection, while it has one to this server.
	Link(id string) (Link, bool)
	// Sign signs a request as a command for the machine. body is its body: nil for one that streams.
	Sign(ctx context.Context, id string, req *http.Request, body []byte) error
	// UserName returns a user's display name, "" when it is unknown.
	UserName(ctx context.Context, userID string) string
}

// Config configures a Family. Machines is required.
type Config struct {
	Machines Machines
	Now      func() time.Time // default time.Now
}

// Family is the family of all machines. Safe for concurrent use.
type Family struct{ cfg Config }

var _ executors.Family = (*Family)(nil)

// New makes a Family. It panics without Machines.
func New(cfg Config) *Family {
	if cfg.Machines == nil {
		panic(errors.New("executors/runner: a Family needs Machines"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Family{cfg}
}

// Base is the kind of all machines together.
func (f *Family) Base() executors.Kind { return executors.Runner }

// Members returns the machines of a team.
func (f *Family) Members(ctx context.Context, teamID string) []executors.Executor {
	var out []executors.Executor
	for _, m := range f.cfg.Machines.Machines(ctx, teamID) {
		out = append(out, &member{f, m})
	}
	return out
}

// Member finds a machine.
func (f *Family) Member(ctx context.Context, k executors.Kind) (executors.Executor, bool) {
	if k.Base() != executors.Runner || k.Member() == "" {
		return nil, false
	}
	m, ok := f.cfg.Machines.Machine(ctx, k.Member())
	if !ok {
		return nil, false
	}
	return &member{f, m}, true
}

// member is one machine in its state at the time of the lookup.
type member struct {
	f *Family
	m Machine
}

var (
	_ executors.Executor = (*member)(nil)
	_ executors.Owned    = (*member)(nil)
	_ executors.Remover  = (*member)(nil)
)

// Kind is the machine's own.
func (e *member) Kind() executors.Kind { return executors.Runner.Of(e.m.ID) }

// Owner returns the member whose machine it is.
func (e *member) Owner() executors.Owner {
	return executors.Owner{TeamID: e.m.TeamID, UserID: e.m.UserID, Name: clean(e.m.UserName, maxName), Shared: e.m.Hello.Share == "team"}
}

// away returns why the machine cannot be reached right now; nil = it can.
func (e *member) away() error {
	if _, ok := e.f.cfg.Machines.Link(e.m.ID); ok {
		return nil
	}
	m, ok := e.f.cfg.Machines.Machine(context.Background(), e.m.ID)
	if !ok {
		return fault.New(fault.NotFound, "runner_not_found", "%s is no longer connected to this team.", e.name())
	}
	return e.offline(m)
}

// offline says that a machine has no connection.
func (e *member) offline(m Machine) error {
	at := m.OfflineAt
	return fault.New(fault.Unavailable, wire.CodeOffline, "%s is %s. What runs there goes on, and is shown again once it is back.", e.name(), since(at, e.f.cfg.Now())).
		With("runner_id", m.ID).With("offline_since", at).With("reason", clean(m.OfflineReason, maxWords))
}

// name returns the machine's display name.
func (e *member) name() string {
	if n := clean(e.m.Name, maxName); n != "" {
		return n
	}
	return "The machine"
}

// List returns every sandbox of this server that the machine has.
func (e *member) List(ctx context.Context) ([]executors.Handle, error) {
	var got struct {
		Items []wire.Sandbox `json:"items"`
	}
	if err := e.ask(ctx, http.MethodGet, "/v1/sandboxes", nil, &got); err != nil {
		return nil, err
	}
	var out []executors.Handle
	for _, s := range got.Items {
		if checkID(s.ID) == nil && len(out) < maxSandboxes {
			out = append(out, e.handle(s.ID))
		}
	}
	return out, nil
}

func (e *member) handle(id string) executors.Handle {
	return executors.Handle{Kind: e.Kind(), ID: id, Version: 1, State: []byte("{}")}
}

// Recover finds a sandbox again, and resumes a suspended one. ErrGone only when the machine itself says that it does not have the sandbox.
func (e *member) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if err := checkID(h.ID); err != nil {
		return nil, err
	}
	var got wire.Sandbox
	if err := e.ask(ctx, http.MethodGet, "/v1/sandboxes/"+h.ID, nil, &got); err != nil {
		return nil, gone(err)
	}
	sb, err := e.sandbox(h.ID, got)
	if err != nil {
		return nil, err
	}
	if got.State == wire.Paused {
		return sb, sb.Resume(ctx)
	}
	return sb, nil
}

// Remove destroys a sandbox that was not recovered.
func (e *member) Remove(ctx context.Context, h executors.Handle) error {
	if err := checkID(h.ID); err != nil {
		return err
	}
	err := e.ask(ctx, http.MethodDelete, "/v1/sandboxes/"+h.ID, none{}, nil)
	if errors.Is(gone(err), executors.ErrGone) {
		return nil
	}
	return err
}

// gone returns ErrGone where the machine says that it does not know the sandbox.
func gone(err error) error {
	if (fault.Is(err, fault.NotFound) || fault.Is(err, fault.Gone)) && fault.CodeOf(err) != "runner_not_found" {
		return executors.GoneBecause("The machine no longer has it: it was ended there.")
	}
	return err
}
