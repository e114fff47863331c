package manager

import (
	"context"
	"maps"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// executor finds a place by its kind: one of the server's own, or a member of a family.
func (m *Manager) executor(ctx context.Context, k executors.Kind) (executors.Executor, bool) {
	if e, ok := m.byKind[k]; ok {
		return e, true
	}
	if f, ok := m.families[k.Base()]; ok && k.Member() != "" {
		return f.Member(ctx, k)
	}
	return nil, false
}

// known are all places there are now: the server's own and every family's members.
func (m *Manager) known(ctx context.Context) map[executors.Kind]executors.Executor {
	out := maps.Clone(m.byKind)
	for _, f := range m.families {
		for _, e := range f.Members(ctx, "") {
			out[e.Kind()] = e
		}
	}
	return out
}

// members are the places of a team that are members of a family.
func (m *Manager) members(ctx context.Context, teamID string) []executors.Executor {
	var out []executors.Executor
	for _, base := range slices.Sorted(maps.Keys(m.families)) {
		out = append(out, m.families[base].Members(ctx, teamID)...)
	}
	return out
}

// probeOf is what is kept of what a place says of itself. A member of a family is asked each time: it answers from memory, and comes and
// goes at any moment.
func (m *Manager) probeOf(k executors.Kind) *probe {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.probes[k]
	if p == nil {
		p = &probe{}
		m.probes[k] = p
	}
	return p
}

// forgetGone drops what is kept of members that are no more.
func (m *Manager) forgetGone(known map[executors.Kind]executors.Executor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.probes, func(k executors.Kind, _ *probe) bool { return k.Member() != "" && known[k] == nil })
}

// ownerOf says whose a place is.
func ownerOf(e executors.Executor) executors.Owner {
	if o, ok := e.(executors.Owned); ok {
		return o.Owner()
	}
	return executors.Owner{}
}

// OwnerOf says whose the place of a kind is; false when there is no such place.
func (m *Manager) OwnerOf(ctx context.Context, k executors.Kind) (executors.Owner, bool) {
	e, ok := m.executor(ctx, k)
	if !ok {
		return executors.Owner{}, false
	}
	return ownerOf(e), true
}

// Admit refuses to have work of a user done in a place that is somebody else's. userID "" is the server, which goes on with what its
// people began.
func (m *Manager) Admit(ctx context.Context, k executors.Kind, userID string) error {
	if k.Member() == "" || userID == "" {
		return nil
	}
	e, ok := m.executor(ctx, k)
	if !ok {
		return nil // it is gone: whoever needs it is told so
	}
	return m.admit(ctx, e, userID)
}

func (m *Manager) admit(ctx context.Context, e executors.Executor, userID string) error {
	if o := ownerOf(e); o.TeamID != "" && !o.Admits(userID) {
		return fault.New(fault.Forbidden, "runner_not_yours", "%s is %s's own machine, and not shared with the team. Move the workspace to another place, or ask %s to share the machine.",
			m.capabilities(ctx, e).Name, or(o.Name, "somebody else"), or(o.Name, "its owner")).With("field", "executor")
	}
	return nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// noSuchMember says that there is no such member of a family in the team: never was, was revoked, or is another team's.
func noSuchMember() error {
	return fault.New(fault.NotFound, "runner_not_found", "This team has no such machine: it was never connected, or it was revoked. Choose another place.").With("field", "executor")
}

// errNoPlace says that a sandbox's place is not, or no longer, one of this server's.
func errNoPlace(k executors.Kind) error {
	if k.Member() != "" {
		return noSuchMember()
	}
	return fault.New(fault.Unavailable, "executor_unavailable", "The place %q is not configured.", k)
}
