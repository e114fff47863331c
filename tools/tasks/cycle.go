package tasks

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// acyclic rejects that t depends on other when other, through others, depends on t already.
func (s *Service) acyclic(ctx context.Context, t, other Task, as Relation) error {
	if t.UID == other.UID {
		return cycleError([]string{t.ID, t.ID})
	}
	if as == Related { // it has no direction
		return nil
	}
	cycle, err := s.cfg.Store.Reaches(ctx, other.UID, t.UID, as)
	if err != nil || !cycle {
		return err
	}
	path, err := s.way(ctx, other, t, as)
	if err != nil {
		return err
	}
	return cycleError(append([]string{t.ID}, path...))
}

// maxWay is how many tasks of a cycle are looked up for its error.
const maxWay = 50

// way names the tasks from one to another along what they depend on. It walks level by level; of a long way it names the ends.
func (s *Service) way(ctx context.Context, from, to Task, as Relation) ([]string, error) {
	before, names := map[string]string{from.UID: ""}, map[string]string{from.UID: from.ID, to.UID: to.ID}
	level := []string{from.UID}
	for range maxWay {
		next, err := s.above(ctx, level, as)
		if err != nil {
			return nil, err
		}
		level = nil
		for _, d := range next {
			if _, seen := before[d.DependsOn]; seen {
				continue
			}
			before[d.DependsOn], names[d.DependsOn] = d.TaskID, d.Other.ID
			level = append(level, d.DependsOn)
			if d.DependsOn != to.UID {
				continue
			}
			path := []string{}
			for at := to.UID; at != ""; at = before[at] {
				path = append(path, names[at])
			}
			slices.Reverse(path)
			return path, nil
		}
	}
	return []string{from.ID, "...", to.ID}, nil
}

// above are the direct dependencies of one kind of some tasks.
func (s *Service) above(ctx context.Context, uids []string, as Relation) ([]Dependency, error) {
	var out []Dependency
	for part := range slices.Chunk(uids, 500) {
		deps, err := s.cfg.Store.Dependencies(ctx, part)
		if as == ParentChild {
			deps, err = s.cfg.Store.Parents(ctx, part)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(deps, func(d Dependency) bool { return d.Type != as })...)
	}
	return out, nil
}

// cycleError names a cycle: each task depends on the next.
func cycleError(path []string) error {
	return fault.New(fault.Conflict, "task_cycle", "That would be a cycle, in which no task could begin: %s.", strings.Join(path, " -> ")).With("cycle", path)
}

// findCycle returns tasks of which each depends on the next and the last on the first; nil when there are none.
func findCycle(edges map[string][]string) []string {
	const (
		under = 1 // on the way from where the walk began
		done  = 2
	)
	state := map[string]int{}
	for start := range edges {
		if state[start] != 0 {
			continue
		}
		way, next := []string{start}, []int{0} // the walk, and which edge each of its tasks takes next
		state[start] = under
		for len(way) > 0 {
			last := len(way) - 1
			at := way[last]
			if next[last] == len(edges[at]) {
				state[at] = done
				way, next = way[:last], next[:last]
				continue
			}
			to := edges[at][next[last]]
			next[last]++
			switch state[to] {
			case under:
				return way[slices.Index(way, to):]
			case 0:
				state[to] = under
				way, next = append(way, to), append(next, 0)
			}
		}
	}
	return nil
}

// acyclicProject rejects what a transaction has made of a project if there is a cycle in it, and returns the tasks of the cycle.
func (s *Service) acyclicProject(ctx context.Context, projectID string) (uids []string, err error) {
	all, err := s.cfg.Store.ProjectDependencies(ctx, projectID)
	if err != nil {
		return nil, err
	}
	edges, names := map[Relation]map[string][]string{}, map[string]string{}
	for _, d := range all {
		if d.Type == Related {
			continue
		}
		if edges[d.Type] == nil {
			edges[d.Type] = map[string][]string{}
		}
		edges[d.Type][d.TaskID] = append(edges[d.Type][d.TaskID], d.DependsOn)
		names[d.TaskID] = d.Other.ID
	}
	for _, as := range Relations {
		cycle := findCycle(edges[as])
		if cycle == nil {
			continue
		}
		path := make([]string, 0, maxWay+1)
		for _, uid := range cycle[:min(len(cycle), maxWay)] {
			path = append(path, names[uid])
		}
		if len(cycle) > maxWay {
			path = append(path, "...")
		}
		return cycle, cycleError(append(path, names[cycle[0]]))
	}
	return nil, nil
}
