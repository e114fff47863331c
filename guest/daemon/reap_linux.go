package daemon

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapEvery is the least time between two collections of orphans.
const reapEvery = 200 * time.Millisecond

// BecomeReaper makes this program the parent of its descendants' orphans, so that none can leave its tree. It affects the whole
// program, so the program itself must call it.
func BecomeReaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// Conceal keeps programs of the same user out of this program's memory and environment, where secrets pass through.
func Conceal() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// reap collects orphans that have ended, until ctx ends.
func (d *Daemon) reap(ctx context.Context) {
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, syscall.SIGCHLD)
	defer signal.Stop(sigs)
	for {
		select {
		case <-sigs:
		case <-ctx.Done():
			return
		}
		d.collect()
		select { // one walk for many ends at once
		case <-time.After(reapEvery):
		case <-ctx.Done():
			return
		}
	}
}

// collect waits for ended children that nobody else waits for. Our own processes have a goroutine that waits for them, and
// whoever runs git waits for it; all those are registered or in our own session. An orphan is neither: it comes from one of our
// processes, and each of these begins a new session.
func (d *Daemon) collect() {
	d.spawn.Lock()
	defer d.spawn.Unlock()
	session, err := unix.Getsid(0)
	if err != nil {
		return
	}
	for _, pid := range children(d.tree.self) {
		p, err := readProc(pid)
		if err != nil || !p.zombie || p.ppid != d.tree.self || p.session == session || d.tree.leads(pid) {
			continue
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// children returns the pids of a process's children.
func children(pid int) []int {
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil || len(lists) == 0 { // a kernel without these lists
		var out []int
		for _, p := range processTable() {
			if p.ppid == pid {
				out = append(out, p.pid)
			}
		}
		return out
	}
	var out []int
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
