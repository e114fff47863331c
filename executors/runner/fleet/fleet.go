// Package fleet connects the service of members' machines with the executor that makes sandboxes on them; the two do not know each other. It
// starts no goroutine; its lock guards the cache of users' names.
package fleet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/tunnel"
)

// People returns users' names.
type People interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Fleet presents the service of machines to their executor. Safe for concurrent use.
type Fleet struct {
	machines *machines.Service
	people   People

	mu    sync.Mutex
	names map[string]callName // of users: they are needed all the time
}

// callName is a user's display name, as read a while ago.
type callName struct {
	name string
	at   time.Time
}

// nameFresh is how long a name is cached.
const nameFresh = time.Minute

var _ runner.Machines = (*Fleet)(nil)

// New makes a Fleet.
func New(m *machines.Service, people People) *Fleet { return &Fleet{machines: m, people: people} }

func (f *Fleet) show(ctx context.Context, m machines.Machine) runner.Machine {
	return runner.Machine{ID: m.ID, TeamID: m.TeamID, UserID: m.UserID, UserName: f.UserName(ctx, m.UserID), Name: m.Name, Hello: m.Hello, Online: m.Online, Leaving: m.Leaving,
		OfflineAt: m.OfflineAt, OfflineReason: m.OfflineReason}
}

// Machines returns those of a team that were not revoked; "" = of all teams.
func (f *Fleet) Machines(ctx context.Context, teamID string) []runner.Machine {
	var out []runner.Machine
	for _, m := range f.machines.Machines(ctx, teamID) {
		out = append(out, f.show(ctx, m))
	}
	return out
}

// Machine returns one, false when it does not exist.
func (f *Fleet) Machine(ctx context.Context, id string) (runner.Machine, bool) {
	m, ok := f.machines.Machine(ctx, id)
	if !ok {
		return runner.Machine{}, false
	}
	return f.show(ctx, m), true
}

// Link returns the machine's connection, while it has one to this server.
func (f *Fleet) Link(id string) (runner.Link, bool) {
	l, ok := f.machines.Link(id)
	if !ok {
		return nil, false
	}
	return link{l}, true
}

// Sign signs a request as a command for the machine.
func (f *Fleet) Sign(ctx context.Context, id string, r *http.Request, body []byte) error {
	return f.machines.Sign(ctx, id, r.WithContext(ctx), body)
}

// UserName returns a user's display name, "" when it is unknown.
func (f *Fleet) UserName(ctx context.Context, userID string) string {
	now := time.Now()
	f.mu.Lock()
	kept, ok := f.names[userID]
	f.mu.Unlock()
	if ok && now.Sub(kept.at) < nameFresh {
		return kept.name
	}
	a, err := f.people.Actor(context.WithoutCancel(ctx), userID)
	if err != nil {
		return kept.name
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names == nil || len(f.names) > 10_000 {
		f.names = make(map[string]callName)
	}
	f.names[userID] = callName{a.User.Name, now}
	return a.User.Name
}

// link presents a tunnel to the executor of machines.
type link struct{ *tunnel.Link }

// Stream opens a stream to the machine.
func (l link) Stream(ctx context.Context, path string, header http.Header) (net.Conn, error) {
	return l.Link.Stream(ctx, path, header)
}
