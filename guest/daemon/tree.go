package daemon

import (
	"maps"
	"os"
	"sync"
	"syscall"
	"time"
)

// proc is one line of the process table.
type proc struct {
	pid, ppid, session int
	group, foreground  int    // its process group, and the one its terminal belongs to
	start              uint64 // with the pid it identifies a process: pids are reused
	comm               string // its name, where the table has it
	zombie             bool
	cpu                time.Duration // its own and that of the children it has waited for
	rss                int64         // bytes
}

// key identifies a process among all that ever were.
type key struct {
	pid   int
	start uint64
}

func (p proc) key() key { return key{p.pid, p.start} }

// member is a live process of the sandbox and the process of ours it belongs to, "" when that is unknown.
type member struct {
	proc
	owner string
}

// tree finds the processes of the sandbox. A process that was seen to belong to one of ours stays known: it may leave its parent,
// its session and its environment behind, but not its pid and start time.
type tree struct {
	self    int
	session int // the guest's own: git runs in it
	sandbox string
	reap    bool // orphans become our children: exactly our descendants are ours

	mu      sync.Mutex
	leaders map[int]leader // by pid, which is also the session's, while any of its processes remain
	seen    map[key]string // owner, "" = looked at and unknown
}

// leader is the first program of a process of ours.
type leader struct {
	id    string
	start uint64 // as in proc
	ended bool
}

func newTree(sandbox string, reap bool) *tree {
	self, _ := readProc(os.Getpid())
	return &tree{self: os.Getpid(), session: self.session, sandbox: sandbox, reap: reap, leaders: make(map[int]leader), seen: make(map[key]string)}
}

// lead records that pid is the first program of process id.
func (t *tree) lead(pid int, id string) {
	p, _ := readProc(pid) // 0 where it cannot be read: as if it had always existed
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaders[pid] = leader{id: id, start: p.start}
}

// led records that it has ended and was waited for.
func (t *tree) led(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.leaders[pid]; ok {
		l.ended = true
		t.leaders[pid] = l
	}
}

// leads reports whether pid is a child for whose end one of our goroutines waits.
func (t *tree) leads(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.leaders[pid]
	return ok && !l.ended
}

// members reads the process table and returns the live processes of the sandbox, without the guest itself.
func (t *tree) members() map[int]member {
	table := processTable()
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[int]member)
	known := make(map[key]string, len(table))
	for _, p := range table {
		if p.zombie || p.pid == t.self || p.pid <= 1 {
			continue
		}
		if t.reap && !t.below(table, p) {
			continue
		}
		owner := t.owner(table, p, 0)
		if owner != "" || t.reap {
			out[p.pid] = member{p, owner}
		}
		known[p.key()] = owner
	}
	t.seen = known
	for pid, l := range t.leaders {
		if l.ended && !owned(out, l.id) {
			delete(t.leaders, pid)
		}
	}
	return out
}

func owned(ms map[int]member, id string) bool {
	for _, m := range ms {
		if m.owner == id {
			return true
		}
	}
	return false
}

// maxDepth bounds a walk upwards, against a table read while it changes.
const maxDepth = 1000

// below reports whether p is a descendant of the guest.
func (t *tree) below(table map[int]proc, p proc) bool {
	for range maxDepth {
		if p.ppid == t.self {
			return true
		}
		parent, ok := table[p.ppid]
		if !ok || p.ppid <= 1 {
			return false
		}
		p = parent
	}
	return false
}

// owner returns the process of ours to which p belongs: as its first program, by earlier observation, by its parents, by its
// session, by its mark, or because there is only one.
func (t *tree) owner(table map[int]proc, p proc, depth int) string {
	if l, ok := t.leaders[p.pid]; ok && !l.ended {
		return l.id
	}
	if id := t.seen[p.key()]; id != "" {
		return id
	}
	if parent, ok := table[p.ppid]; ok && p.ppid != t.self && p.ppid > 1 && depth < maxDepth {
		if id := t.owner(table, parent, depth+1); id != "" {
			return id
		}
	}
	if l, ok := t.leaders[p.session]; ok {
		return l.id
	}
	if _, looked := t.seen[p.key()]; looked {
		return ""
	}
	sandbox, id := environMarks(p.pid)
	for _, l := range t.leaders {
		if sandbox == t.sandbox && l.id == id {
			return id
		}
	}
	if t.reap && id == "" && p.session != t.session {
		return t.only(p)
	}
	return ""
}

// only returns the process to which an orphan of the sandbox belongs that has also dropped its environment: the one that could
// have started it, if there is just one. Otherwise it lives until the sandbox ends.
func (t *tree) only(p proc) (id string) {
	for _, l := range t.leaders {
		if l.start > p.start || l.id == id {
			continue
		}
		if id != "" {
			return ""
		}
		id = l.id
	}
	return id
}

const (
	// lookEvery is how often to check whether signalled processes have ended: the kernel reports only children. A table that
	// takes long to read is read less often.
	lookEvery = 20 * time.Millisecond
	// killFor is how long to keep killing a tree that forks faster than it dies, or that the kernel is slow to end.
	killFor = 10 * time.Second
	// hangUpEvery is how often to tell a shell to hang up. A shell that is about to wait for input only notes the signal, and then
	// waits for the input all the same.
	hangUpEvery = time.Second
)

// end ends the members that match: TERM, grace, KILL until none is left. It returns false when some cannot be ended.
func (t *tree) end(match func(member) bool, grace time.Duration) bool {
	left := t.matching(match)
	if len(left) == 0 {
		return true
	}
	if grace > 0 {
		for _, m := range left {
			terminate(m.proc)
		}
		last := time.Now()
		again := func(left map[int]member) {
			if time.Since(last) < hangUpEvery {
				return
			}
			last = time.Now()
			for _, m := range left {
				hangUp(m.proc)
			}
		}
		if t.watch(match, grace, again) {
			return true
		}
	}
	kill := func(left map[int]member) {
		for _, m := range left {
			deliver(m.proc, syscall.SIGKILL)
		}
	}
	kill(t.matching(match))
	return t.watch(match, killFor, kill)
}

// watch checks repeatedly, for as long as d, whether any member that matches is left; it calls each with those that are.
func (t *tree) watch(match func(member) bool, d time.Duration, each func(left map[int]member)) bool {
	deadline := time.Now().Add(d)
	for wait := time.Millisecond; ; wait = min(2*wait, lookEvery) {
		time.Sleep(min(wait, time.Until(deadline)))
		begin := time.Now()
		left := t.matching(match)
		if len(left) == 0 {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
		each(left)
		wait = max(wait, 2*time.Since(begin))
	}
}

func (t *tree) matching(match func(member) bool) map[int]member {
	ms := t.members()
	maps.DeleteFunc(ms, func(_ int, m member) bool { return !match(m) })
	return ms
}

// signalAll sends sig to the members that match, and returns how many there were.
func (t *tree) signalAll(match func(member) bool, sig syscall.Signal) int {
	ms := t.matching(match)
	for _, m := range ms {
		deliver(m.proc, sig)
	}
	return len(ms)
}

// terminate asks a process to end. A shell at a terminal ignores TERM and ends on HUP; a stopped process receives neither until
// it is continued.
func terminate(p proc) {
	deliver(p, syscall.SIGTERM)
	hangUp(p)
	deliver(p, syscall.SIGCONT)
}

// hangUp sends HUP to a process that ignores TERM.
func hangUp(p proc) {
	if ignores(p.pid, syscall.SIGTERM) {
		deliver(p, syscall.SIGHUP)
	}
}

// deliver sends sig to exactly this process: it takes the handle first and checks the start time afterwards, so that a reused pid
// is never hit.
func deliver(p proc, sig syscall.Signal) {
	h, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer func() { _ = h.Release() }()
	if now, err := readProc(p.pid); err != nil || now.start != p.start {
		return
	}
	_ = h.Signal(sig) // it may have just ended
}
