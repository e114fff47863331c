package daemon

import (
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
)

// portsEvery is the least time between two searches for listening ports: each reads every open file.
const portsEvery = 2 * time.Second

// portCache holds the ports found last.
type portCache struct {
	mu    sync.Mutex
	at    time.Time
	ports []int
}

// stats are the sandbox's current statistics. Reading them also refreshes the tree's knowledge of who belongs to whom.
func (d *Daemon) stats() guest.Stats {
	members := d.tree.members()
	s := guest.Stats{LastOutput: d.lastOutput.Load(), Ports: []int{}}
	if self, err := readProc(d.tree.self); err == nil {
		s.CPUMs, s.RSSBytes = self.cpu.Milliseconds(), self.rss
	}
	d.mu.Lock()
	procs := d.list()
	d.mu.Unlock()
	helpers := map[string]bool{}
	for _, p := range procs {
		helpers[p.id] = p.isHelper()
	}
	for _, m := range members {
		s.CPUMs += m.cpu.Milliseconds()
		s.RSSBytes += m.rss
		if !helpers[m.owner] {
			s.Processes++
		}
	}
	for _, p := range procs {
		for _, l := range p.outputs() {
			s.LogBytes += l.DiskBytes()
		}
	}
	s.Ports = append(s.Ports, d.ports.look(members)...)
	return s
}

func (c *portCache) look(members map[int]member) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.at.IsZero() || now.Sub(c.at) >= portsEvery {
		c.ports, c.at = listening(members), now
	}
	return c.ports
}
