//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// identity tells one process from every other there ever was on this machine: pids are used again, but not with the same
// start time in the same boot.
type identity struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start"` // clock ticks since boot
	BootID string `json:"boot_id"`
}

// proc is one line of the process table.
type proc struct {
	pid, ppid int
	start     uint64
	zombie    bool
}

// readProc reads one process; os.ErrNotExist when there is none.
func readProc(pid int) (proc, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(err, syscall.ESRCH) {
			err = os.ErrNotExist
		}
		return proc{}, err
	}
	// The name in parentheses may contain anything, parentheses too: fields are counted from the last one.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 20 {
		return proc{}, fmt.Errorf("unexpected /proc/%d/stat", pid)
	}
	p := proc{pid: pid, zombie: f[0] == "Z" || f[0] == "X"}
	if p.ppid, err = strconv.Atoi(f[1]); err != nil {
		return proc{}, fmt.Errorf("unexpected parent in /proc/%d/stat: %w", pid, err)
	}
	if p.start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return proc{}, fmt.Errorf("unexpected start time in /proc/%d/stat: %w", pid, err)
	}
	return p, nil
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// identify returns the identity of a live process.
func identify(pid int) (identity, error) {
	boot, err := bootID()
	if err != nil {
		return identity{}, err
	}
	p, err := readProc(pid)
	if err != nil {
		return identity{}, err
	}
	return identity{Pid: pid, Start: p.start, BootID: boot}, nil
}

// alive reports whether exactly this process still runs. A zombie has ended.
func (id identity) alive() bool {
	if id.Pid <= 1 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != id.BootID {
		return false
	}
	p, err := readProc(id.Pid)
	return err == nil && p.start == id.Start && !p.zombie
}

// guestOf reports whether exactly this process still runs and is the guest of a sandbox: a record that names a stranger, by
// accident or by an agent's hand, must not get the stranger ended.
func (id identity) guestOf(sandboxID string) bool {
	if !id.alive() {
		return false
	}
	args, err := os.ReadFile("/proc/" + strconv.Itoa(id.Pid) + "/cmdline")
	return err == nil && bytes.Contains(args, []byte("\x00--sandbox\x00"+sandboxID+"\x00"))
}

// table reads the whole process table.
func table() map[int]proc {
	out := make(map[int]proc)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return out
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil {
			out[pid] = p
		}
	}
	return out
}

// marker is the environment entry every process of a sandbox inherits from its guest.
const marker = "PARAWORK_SANDBOX_ID"

// members finds the live processes of a sandbox: the guest, its descendants in whatever session they are, and those that
// carry the sandbox's mark, which finds them also when the guest that kept them together has died.
func members(id string, guest identity) map[int]proc {
	all := table()
	self := os.Getpid()
	in := make(map[int]bool)
	if guest.guestOf(id) {
		in[guest.Pid] = true
	}
	want := []byte(marker + "=" + id)
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
	out := make(map[int]proc)
	for pid := range in {
		if p, ok := all[pid]; ok && !p.zombie && pid > 1 && pid != self {
			out[pid] = p
		}
	}
	return out
}

func marked(pid int, want []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(entry, want) {
			return true
		}
	}
	return false
}

// signal sends sig to exactly this process: the handle is taken first and the start time checked after, so a pid that was
// used again is never hit.
func (p proc) signal(sig syscall.Signal) {
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
func (p proc) live() bool {
	now, err := readProc(p.pid)
	return err == nil && now.start == p.start && !now.zombie
}

// killRounds bounds how often a tree that forks against its end is walked.
const killRounds = 50

// end ends every member of the sandbox: TERM, a grace, KILL until none is left.
func end(ctx context.Context, id string, known map[int]proc, guest identity, grace time.Duration) error {
	// Whoever was seen once stays known: a process that lost its parent and its mark is still one of ours.
	seen := maps.Clone(known)
	if seen == nil {
		seen = make(map[int]proc)
	}
	find := func() map[int]proc {
		maps.Copy(seen, members(id, guest))
		maps.DeleteFunc(seen, func(_ int, p proc) bool { return !p.live() })
		return maps.Clone(seen)
	}
	found := find()
	for _, p := range found {
		p.signal(syscall.SIGTERM)
	}
	if len(found) > 0 {
		waitGone(ctx, grace, func() bool { return len(find()) == 0 })
	}
	for range killRounds {
		found = find()
		if len(found) == 0 {
			return nil
		}
		for _, p := range found {
			p.signal(syscall.SIGKILL)
		}
		waitGone(ctx, 100*time.Millisecond, func() bool {
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

// waitGone polls until gone answers true, d has passed or ctx is done: the kernel tells only parents of a process's end.
func waitGone(ctx context.Context, d time.Duration, gone func() bool) bool {
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
