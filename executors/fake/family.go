package fake

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/parawork/parawork/executors"
)

// Family is a family whose members are Machines of one World. Safe for concurrent use.
type Family struct {
	w *World

	mu  sync.Mutex
	all []*Machine
}

// Machine is an executor like a member's own machine: it belongs to somebody, and its sandboxes have a disk of their own.
type Machine struct {
	*Executor
	kind  executors.Kind
	owner executors.Owner
}

var (
	_ executors.Family   = (*Family)(nil)
	_ executors.Executor = (*Machine)(nil)
	_ executors.Owned    = (*Machine)(nil)
)

// NewFamily makes a family without members over w.
func NewFamily(w *World) *Family { return &Family{w: w} }

// Base returns the base kind of members' own machines.
func (f *Family) Base() executors.Kind { return executors.Runner }

// Add adds a member. An existing one gets another owner.
func (f *Family) Add(name string, owner executors.Owner) *Machine {
	m := &Machine{New(f.w), executors.Runner.Of(name), owner}
	m.Set(Knobs{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(slices.DeleteFunc(f.all, func(o *Machine) bool { return o.kind == m.kind }), m)
	return m
}

// Remove removes a member.
func (f *Family) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(m *Machine) bool { return m.kind == executors.Runner.Of(name) })
}

// Members returns those of a team; "" = all.
func (f *Family) Members(_ context.Context, teamID string) []executors.Executor {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []executors.Executor
	for _, m := range f.all {
		if teamID == "" || m.owner.TeamID == teamID {
			out = append(out, m)
		}
	}
	return out
}

// Member finds one.
func (f *Family) Member(_ context.Context, k executors.Kind) (executors.Executor, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.all {
		if m.kind == k {
			return m, true
		}
	}
	return nil, false
}

// Owner returns whom the machine belongs to.
func (m *Machine) Owner() executors.Owner { return m.owner }

// Set turns the knobs.
func (m *Machine) Set(k Knobs) {
	k.Kind, k.OwnDisk = m.kind, true
	k.Boundary = cmp.Or(k.Boundary, executors.ContainerBoundary)
	m.Executor.Set(k)
}

// List returns the machine's own sandboxes.
func (m *Machine) List(ctx context.Context) ([]executors.Handle, error) {
	all, err := m.Executor.List(ctx)
	return slices.DeleteFunc(all, func(h executors.Handle) bool { return h.Kind != m.kind }), err
}

// GoAway makes the machine unreachable, as without network: its sandboxes live on.
func (m *Machine) GoAway(reason string) {
	gone := errors.New("there is no way to the machine")
	k := m.get()
	k.Away, k.Unavailable, k.DialErr, k.RecoverErr, k.ListErr, k.DestroyErr, k.CreateErr = true, reason, gone, gone, gone, gone, gone
	m.Set(k)
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, b := range m.w.boxes {
		if b.handle.Kind == m.kind {
			b.listen.cut()
		}
	}
}

// ComeBack ends GoAway.
func (m *Machine) ComeBack() {
	k := m.get()
	k.Away, k.Unavailable, k.DialErr, k.RecoverErr, k.ListErr, k.DestroyErr, k.CreateErr = false, "", nil, nil, nil, nil, nil
	m.Set(k)
}
