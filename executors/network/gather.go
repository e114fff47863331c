package network

import "github.com/parawork/parawork/internal/tasks"

// maxPending limits what is gathered for all workspaces.
const maxPending = 20 * maxRefused

// hostKey is the key by which connections are counted.
type hostKey struct {
	workspaceID, host string
	port              int
}

// gathered collects connections that are written together, one entry for each host of a workspace.
type gathered[T any] struct {
	all   map[hostKey]*T
	count map[string]int // of all, by workspace
	most  int            // of a workspace
}

func gather[T any](most int) gathered[T] {
	return gathered[T]{all: make(map[hostKey]*T), count: make(map[string]int), most: most}
}

// of returns the entry of a host, which begins as first; nil where too many are pending.
func (g *gathered[T]) of(k hostKey, first T) *T {
	p := g.all[k]
	if p == nil && g.count[k.workspaceID] < g.most && len(g.all) < maxPending {
		p = &first
		g.all[k] = p
		g.count[k.workspaceID]++
	}
	return p
}

// take returns the gathered entries, and starts empty again.
func (g *gathered[T]) take() []T {
	out := make([]T, 0, len(g.all))
	for _, p := range g.all {
		out = append(out, *p)
	}
	clear(g.all)
	clear(g.count)
	return out
}

// soon makes Run write what was gathered.
func (s *Service) soon() {
	tasks.Wake(s.wake)
}
