package executors

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/parawork/parawork/internal/fault"
)

// Registry finds executors by kind: the server's own, to which only regions are added and taken away while the process lives, and the members of
// families, which come and go. It is safe for concurrent use.
type Registry struct {
	families map[Kind]Family

	mu     sync.RWMutex
	own    []Executor
	byKind map[Kind]Executor
}

// NewRegistry makes a Registry of a server's own executors, in this order, and of families.
func NewRegistry(own []Executor, families ...Family) *Registry {
	r := &Registry{own: slices.Clone(own), byKind: make(map[Kind]Executor), families: make(map[Kind]Family)}
	for _, e := range own {
		r.byKind[e.Kind()] = e
	}
	for _, f := range families {
		r.families[f.Base()] = f
	}
	return r
}

// Add adds an executor of the server's own: a region that an operator has just described. One that is there already stays.
func (r *Registry) Add(e Executor) (added bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKind[e.Kind()] != nil {
		return false
	}
	r.own = append(slices.Clip(r.own), e)
	r.byKind[e.Kind()] = e
	return true
}

// Remove forgets a region and returns its executor; nil when there is none. Other kinds stay.
func (r *Registry) Remove(region Kind) Executor {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKind[region]
	if e == nil || region.Region() == "" {
		return nil
	}
	delete(r.byKind, region)
	r.own = slices.DeleteFunc(slices.Clone(r.own), func(e Executor) bool { return e.Kind() == region })
	return e
}

// Find returns the executor of a kind: one of the server's own, or a member of a family.
func (r *Registry) Find(ctx context.Context, k Kind) (Executor, bool) {
	if e, ok := r.OwnOf(k); ok {
		return e, true
	}
	if f, ok := r.families[k.Base()]; ok && k.Member() != "" {
		return f.Member(ctx, k)
	}
	return nil, false
}

// Own returns the server's own executors, in the order in which they were given.
func (r *Registry) Own() []Executor {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.own)
}

// OwnOf returns the server's own executor of a kind.
func (r *Registry) OwnOf(k Kind) (Executor, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.byKind[k]
	return e, ok
}

// All returns every executor that exists now, by kind: the server's own and the members of every family.
func (r *Registry) All(ctx context.Context) map[Kind]Executor {
	r.mu.RLock()
	out := maps.Clone(r.byKind)
	r.mu.RUnlock()
	for _, f := range r.families {
		for _, e := range f.Members(ctx, "") {
			out[e.Kind()] = e
		}
	}
	return out
}

// Members returns the executors of a team that are members of a family, family by family.
func (r *Registry) Members(ctx context.Context, teamID string) []Executor {
	var out []Executor
	for _, base := range slices.Sorted(maps.Keys(r.families)) {
		out = append(out, r.families[base].Members(ctx, teamID)...)
	}
	return out
}

// Regions returns the kinds of a place's regions, its own first; none where it has only one.
func (r *Registry) Regions(k Kind) []Kind {
	var out []Kind
	for _, e := range r.Own() {
		if e.Kind().Provider() == k.Provider() {
			out = append(out, e.Kind())
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// OfFamily reports whether k is a family of this server, or one of its members.
func (r *Registry) OfFamily(k Kind) bool { return r.families[k.Base()] != nil }

// Kinds returns the kinds of this server's own executors, and its families.
func (r *Registry) Kinds() []Kind {
	own := r.Own()
	out := make([]Kind, 0, len(own)+len(r.families))
	for _, e := range own {
		out = append(out, e.Kind())
	}
	return slices.AppendSeq(out, maps.Keys(r.families))
}

// OwnerOf returns the owner of the executor of a kind; false when there is no such executor.
func (r *Registry) OwnerOf(ctx context.Context, k Kind) (Owner, bool) {
	e, ok := r.Find(ctx, k)
	if !ok {
		return Owner{}, false
	}
	return OwnerOf(e), true
}

// ErrNoMember says that the team has no such member of a family: it never existed, was revoked, or belongs to another team.
func ErrNoMember() error {
	return fault.New(fault.NotFound, "runner_not_found", "This team has no such machine: it was never connected, or it was revoked. Choose another place.").With("field", "executor")
}

// ErrNoExecutor says that a sandbox's executor is not, or no longer, one of this server's.
func ErrNoExecutor(k Kind) error {
	if k.Member() != "" {
		return ErrNoMember()
	}
	return fault.New(fault.Unavailable, "executor_unavailable", "The place %q is not configured.", k)
}
