package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
)

// fleet is the room of machines as the executor of machines needs it.
type fleet struct {
	h *house

	mu    sync.Mutex
	names map[string]callName // of users: places are asked for all the time
}

// callName is what people call a user, as read a while ago.
type callName struct {
	name string
	at   time.Time
}

// nameFresh is how long a name is good for.
const nameFresh = time.Minute

var _ runner.Machines = (*fleet)(nil)

func (f *fleet) show(ctx context.Context, m machines.Machine) runner.Machine {
	return runner.Machine{ID: m.ID, TeamID: m.TeamID, UserID: m.UserID, UserName: f.UserName(ctx, m.UserID), Name: m.Name, Hello: m.Hello, Online: m.Online, Leaving: m.Leaving,
		OfflineAt: m.OfflineAt, OfflineReason: m.OfflineReason}
}

func (f *fleet) Machines(ctx context.Context, teamID string) []runner.Machine {
	var out []runner.Machine
	for _, m := range f.h.machines.Machines(ctx, teamID) {
		out = append(out, f.show(ctx, m))
	}
	return out
}

func (f *fleet) Machine(ctx context.Context, id string) (runner.Machine, bool) {
	m, ok := f.h.machines.Machine(ctx, id)
	if !ok {
		return runner.Machine{}, false
	}
	return f.show(ctx, m), true
}

func (f *fleet) Link(id string) (runner.Link, bool) {
	l, ok := f.h.machines.Link(id)
	if !ok {
		return nil, false
	}
	return link{l}, true
}

func (f *fleet) Sign(ctx context.Context, id string, r *http.Request, body []byte) error {
	return f.h.machines.Sign(ctx, id, r.WithContext(ctx), body)
}

func (f *fleet) UserName(ctx context.Context, userID string) string {
	now := time.Now()
	f.mu.Lock()
	kept, ok := f.names[userID]
	f.mu.Unlock()
	if ok && now.Sub(kept.at) < nameFresh {
		return kept.name
	}
	a, err := f.h.directory.Actor(context.WithoutCancel(ctx), userID)
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

// link is a tunnel as the executor of machines needs it.
type link struct{ *tunnel.Link }

func (l link) Stream(ctx context.Context, path string, header http.Header) (net.Conn, error) {
	return l.Link.Stream(ctx, path, header)
}

// families are the places that come and go.
func (h *house) families() []executors.Family {
	return []executors.Family{runner.New(runner.Config{Machines: &fleet{h: h}})}
}

// watchMachines has the sandboxes on machines be looked at whenever one of them comes, goes, or says that something changed there.
func (h *house) watchMachines() {
	kind := func(m machines.Machine) executors.Kind { return executors.Runner.Of(m.ID) }
	h.machines.OnChange(func(m machines.Machine) { h.places.Look(kind(m)) })
	h.machines.OnEvent(func(m machines.Machine, e wire.Event) {
		if e.Type == wire.EventLeaving && e.Remove {
			h.places.EvictSoon(kind(m))
			return
		}
		h.places.Look(kind(m))
	})
}
