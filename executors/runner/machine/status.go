package machine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/parawork/parawork/executors/runner/wire"
)

// Standing is a sandbox as its owner sees it on the machine.
type Standing struct {
	wire.Sandbox
	Key      string   // the workspace's, such as PW-142
	State    string   // making, running, paused, stopped
	Programs []string // started in it, as far as this program knows; Look asks the guests
}

// Standings returns the existing sandboxes, the oldest first.
func (m *Machine) Standings() []Standing {
	var out []Standing
	for _, b := range m.all() {
		p := b.get()
		if p.State == gone || p.State == ending {
			continue
		}
		s := Standing{Sandbox: b.status(), Key: p.Key, State: p.State}
		s.Token = ""
		b.mu.Lock()
		s.Programs = slices.Compact(slices.Sorted(maps.Values(b.names)))
		b.mu.Unlock()
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Standing) int { return cmp.Or(cmp.Compare(a.MadeAt, b.MadeAt), cmp.Compare(a.ID, b.ID)) })
	return out
}
