package daemon

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
)

// workOf reports what the process and its descendants do now.
func (d *Daemon) workOf(id string) guest.Work {
	w := guest.Work{Programs: []guest.Program{}}
	first := d.tree.leader(id)
	var others []member
	foreground := 0
	for _, m := range d.tree.members() {
		if m.owner != id {
			continue
		}
		w.Processes++
		w.CPUMs += m.cpu.Milliseconds()
		w.RSSBytes += m.rss
		if m.pid == first {
			foreground = m.foreground
			continue
		}
		others = append(others, m)
	}
	if foreground > 0 && foreground != first {
		for _, m := range others {
			if m.pid == foreground {
				w.Foreground = nameOf(m)
			}
		}
	}
	slices.SortFunc(others, func(a, b member) int {
		return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(b.pid, a.pid))
	})
	for _, m := range others[:min(len(others), guest.MaxPrograms)] {
		w.Programs = append(w.Programs, guest.Program{Pid: m.pid, Name: nameOf(m), AgeMs: m.age().Milliseconds(), CPUMs: m.cpu.Milliseconds()})
	}
	return w
}

func nameOf(m member) string { return strings.ToValidUTF8(m.name(), "?") }

// leader returns the pid of the first program of a process, 0 when it is unknown.
func (t *tree) leader(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, l := range t.leaders {
		if l.id == id && !l.ended {
			return pid
		}
	}
	return 0
}

func (d *Daemon) serveWork(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, d.workOf(p.id))
	return nil
}
