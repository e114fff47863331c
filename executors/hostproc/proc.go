//go:build linux || darwin

package hostproc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"
)

// Identity distinguishes one process from every other there ever was on this machine: pids are reused, but not with the same start time in
// the same boot.
type Identity struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start"` // clock ticks since boot; on macOS microseconds since 1970
	BootID string `json:"boot_id"`
}

// Proc is one process as listed in the process table.
type Proc struct {
	pid, ppid int
	start     uint64
	zombie    bool
}

// Identify returns the Identity of a live process.
func Identify(pid int) (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	p, err := readProc(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Pid: pid, Start: p.start, BootID: boot}, nil
}

// Alive reports whether exactly this process still runs. A zombie has ended.
func (id Identity) Alive() bool {
	alive, err := id.alive()
	return err == nil && alive
}

func (id Identity) alive() (bool, error) {
	if id.Pid <= 1 {
		return false, nil
	}
	boot, err := bootID()
	if err != nil || boot != id.BootID {
		return false, err
	}
	p, err := readProc(id.Pid)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && p.start == id.Start && !p.zombie, err
}

// GuestOf reports whether exactly this process still runs and is the guest of a sandbox: a record that names an unrelated process, by
// accident or tampering, must not get that process killed.
func (id Identity) GuestOf(sandboxID string) bool {
	runs, err := id.Runs(sandboxID)
	return err == nil && runs
}

// Runs is GuestOf, but distinguishes a guest that has ended from one that cannot be looked up now.
func (id Identity) Runs(sandboxID string) (bool, error) {
	if alive, err := id.alive(); err != nil || !alive {
		return false, err
	}
	args, err := arguments(id.Pid)
	if alive, aerr := id.alive(); err != nil && aerr == nil && !alive { // it ended meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	at := slices.Index(args, "--sandbox")
	return at >= 0 && at+1 < len(args) && args[at+1] == sandboxID, nil
}

// Mark is the environment entry every process of a sandbox inherits from its guest.
const Mark = "PARAWORK_SANDBOX_ID"

// Members finds the live processes of a sandbox: the guest, its descendants in any session, and processes with the sandbox's mark, which are
// found even after the guest has died.
func Members(id string, guest Identity) map[int]Proc {
	all := table()
	self := os.Getpid()
	in := make(map[int]bool)
	if guest.GuestOf(id) {
		in[guest.Pid] = true
	}
	want := Mark + "=" + id
	for pid := range all {
		if pid != self && marked(pid, want) {
			in[pid] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for pid, p := range all {
			if !in[pid] && in[p.ppid] && pid != self {
				in[pid], grew = true, true
			}
		}
	}
	out := make(map[int]Proc)
	for pid := range in {
		if p, ok := all[pid]; ok && !p.zombie && pid > 1 && pid != self {
			out[pid] = p
		}
	}
	return out
}

func marked(pid int, want string) bool {
	env, err := environ(pid)
	return err == nil && slices.Contains(env, want)
}

// signal sends sig to exactly this process: it opens the handle first and checks the start time afterwards, so it never hits a process that
// reuses the pid.
func (p Proc) signal(sig syscall.Signal) {
	h, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer func() { _ = h.Release() }()
	if now, err := readProc(p.pid); err != nil || now.start != p.start {
		return
	}
	_ = h.Signal(sig) // it may have ended this moment
}

// live reports whether this process still runs.
func (p Proc) live() bool {
	now, err := readProc(p.pid)
	return err == nil && now.start == p.start && !now.zombie
}

// killRounds limits how often End lists a tree that keeps forking.
const killRounds = 50

// End ends every member of the sandbox and those listed before, the guest first: SIGTERM, a grace period, then SIGKILL until none is left.
func End(ctx context.Context, id string, known map[int]Proc, guest Identity, grace time.Duration) error {
	// A process stays listed once it was seen: one that lost its parent and its mark still belongs to the sandbox.
	seen := maps.Clone(known)
	if seen == nil {
		seen = make(map[int]Proc)
	}
	find := func() map[int]Proc {
		maps.Copy(seen, Members(id, guest))
		maps.DeleteFunc(seen, func(_ int, p Proc) bool { return !p.live() })
		return maps.Clone(seen)
	}
	found := find()
	for _, p := range found {
		p.signal(syscall.SIGTERM)
	}
	if len(found) > 0 {
		WaitGone(ctx, grace, func() bool { return len(find()) == 0 })
	}
	for range killRounds {
		found = find()
		if len(found) == 0 {
			return nil
		}
		for _, p := range found {
			p.signal(syscall.SIGKILL)
		}
		WaitGone(ctx, 100*time.Millisecond, func() bool {
			for _, p := range found {
				if p.live() {
					return false
				}
			}
			return true
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%d processes of sandbox %s do not end", len(found), id)
}

// WaitGone polls until gone returns true, d has passed or ctx is done: the kernel notifies only parents of a process's end.
func WaitGone(ctx context.Context, d time.Duration, gone func() bool) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if gone() {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return gone()
		case <-ctx.Done():
			return false
		}
	}
}
