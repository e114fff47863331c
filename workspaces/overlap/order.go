package overlap

import (
	"cmp"
	"slices"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/workspaces"
)

// maxFiles is how many files of one overlap are stored.
const maxFiles = 200

// filesOf converts the conflicts of a merge to an overlap's files.
func filesOf(list []workspaces.Conflict) []File {
	var out []File
	for _, c := range list[:min(len(list), maxFiles)] {
		out = append(out, File{Path: guest.EncodePath(c.Path), Kind: c.Kind})
	}
	slices.SortFunc(out, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(out, func(a, b File) bool { return a.Path == b.Path })
}

// Placed is a workspace's position in a merge order.
type Placed struct {
	WorkspaceID string
	Overlaps    int // conflicts with how many of those before it: 0 = it merges as it is
}

// exact is the largest number of connected workspaces for which the optimal order is computed; beyond that, a good one.
const exact = 20

// Order returns a merge order in which the fewest workspaces get a conflict: a largest set without conflicts comes first, the others after
// it. Ties keep the order of rank.
func Order(list []Overlap, rank func(workspaceID string) int) []Placed {
	meets := map[string]map[string]bool{}
	for _, o := range list {
		for _, pair := range [...][2]string{{o.FirstID, o.SecondID}, {o.SecondID, o.FirstID}} {
			if meets[pair[0]] == nil {
				meets[pair[0]] = map[string]bool{}
			}
			meets[pair[0]][pair[1]] = true
		}
	}
	left := make([]string, 0, len(meets))
	for id := range meets {
		left = append(left, id)
	}
	by := func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) }
	slices.SortFunc(left, by)
	var out []Placed
	for len(left) > 0 {
		var free []string
		for _, part := range parts(left, meets) {
			free = append(free, apart(part, meets, by)...)
		}
		slices.SortFunc(free, by)
		for _, id := range free {
			n := 0
			for _, p := range out {
				if meets[id][p.WorkspaceID] {
					n++
				}
			}
			out = append(out, Placed{id, n})
		}
		left = slices.DeleteFunc(left, func(id string) bool { return slices.Contains(free, id) })
	}
	return out
}

// parts are the connected components of the overlaps.
func parts(ids []string, meets map[string]map[string]bool) [][]string {
	var out [][]string
	done := map[string]bool{}
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		part := []string{id}
		for i := 0; i < len(part); i++ {
			for _, o := range ids {
				if !done[o] && meets[part[i]][o] {
					done[o] = true
					part = append(part, o)
				}
			}
		}
		out = append(out, part)
	}
	return out
}

// apart is a large subset of ids of which no two overlap.
func apart(ids []string, meets map[string]map[string]bool, by func(a, b string) int) []string {
	slices.SortFunc(ids, by)
	if len(ids) <= exact {
		near := make([]uint32, len(ids))
		for i, a := range ids {
			for j, b := range ids {
				if meets[a][b] {
					near[i] |= 1 << j
				}
			}
		}
		chosen := largest(1<<len(ids)-1, near, map[uint32]uint32{})
		var out []string
		for i, id := range ids {
			if chosen&(1<<i) != 0 {
				out = append(out, id)
			}
		}
		return out
	}
	var out []string
	for left := slices.Clone(ids); len(left) > 0; { // repeatedly take the one with the fewest overlaps
		degree := func(id string) (n int) {
			for _, o := range left {
				if meets[id][o] {
					n++
				}
			}
			return n
		}
		best := slices.MinFunc(left, func(a, b string) int { return cmp.Or(cmp.Compare(degree(a), degree(b)), by(a, b)) })
		out = append(out, best)
		left = slices.DeleteFunc(left, func(id string) bool { return id == best || meets[best][id] })
	}
	return out
}

// largest is a largest subset of left without neighbours; early ones are preferred.
func largest(left uint32, near []uint32, known map[uint32]uint32) uint32 {
	if left == 0 {
		return 0
	}
	if r, ok := known[left]; ok {
		return r
	}
	i := 0
	for left&(1<<i) == 0 {
		i++
	}
	best := 1<<i | largest(left&^(1<<i|near[i]), near, known)
	if near[i]&left != 0 { // else there is no reason to leave it out
		if without := largest(left&^(1<<i), near, known); count(without) > count(best) {
			best = without
		}
	}
	known[left] = best
	return best
}

func count(set uint32) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}
