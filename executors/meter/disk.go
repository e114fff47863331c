package meter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors"
)

// Bounds of one look at a disk.
const (
	diskEntries  = 2_000_000        // entries, over all folders of a sandbox
	diskTime     = 30 * time.Second // of the clock
	diskDepth    = 256              // folders inside each other
	diskShare    = 25               // a look may take 1/25 of the time between two
	leastEntry   = 4 << 10          // what a file of nothing counts: a name and an inode are room too
	batch        = 512              // entries read at once
	wakeHeadroom = 64 << 20         // what may be written after a wake although the disk is full: room to tidy up
	freeDrop     = 1 << 30          // so much less free space makes every sandbox that works be looked at at once
)

// diskMeter is what is known of one sandbox's disk.
type diskMeter struct {
	bytes   int64 // -1 = not looked at yet
	partial bool  // the look was cut at its bounds: there is at least so much
	nextAt  time.Time
	cpuMs   int64 // the sandbox's CPU time at the last look: who did nothing has written nothing
	near    bool  // people were warned
	allowed int64 // bytes that are let be, after a wake; 0 = the limit alone
	stopped bool
}

// lookAtDisks looks at the disks that are due.
func (mt *Meters) lookAtDisks(ctx context.Context) {
	hurry := false
	for _, p := range mt.cfg.Places.All() {
		if ctx.Err() != nil {
			return
		}
		folders := mt.cfg.Folders(p.Record)
		if len(folders) == 0 {
			continue
		}
		if !hurry {
			hurry = mt.fellFast(folders[0])
		}
		mt.lookAtDisk(ctx, p, folders, hurry)
	}
}

// fellFast reports whether much was written on the disk since it was last asked.
func (mt *Meters) fellFast(dir string) bool {
	free, err := mt.cfg.Free(dir)
	if err != nil {
		return false
	}
	mt.mu.Lock()
	defer mt.mu.Unlock()
	if mt.free == 0 || free > mt.free {
		mt.free = free
	}
	if mt.free-free < freeDrop {
		return false
	}
	mt.free = free
	return true
}

func (mt *Meters) lookAtDisk(ctx context.Context, p Sandbox, folders []string, hurry bool) {
	t := mt.meter(p.SandboxID)
	_, paused := mt.cfg.Places.Paused(p.WorkspaceID)
	f, counted := FiguresOf(p.Sandbox())
	now := mt.cfg.Now()
	t.mu.Lock()
	d, limit := t.disk, t.limits.DiskMB<<20
	t.mu.Unlock()
	idle := counted && d.bytes >= 0 && f.CPUMs == d.cpuMs
	if d.bytes >= 0 && (paused || idle) || now.Before(d.nextAt) && !hurry {
		return
	}
	began := time.Now()
	u := measure(ctx, folders, began.Add(diskTime))
	if ctx.Err() != nil {
		return
	}
	next := max(mt.cfg.DiskEvery, time.Since(began)*diskShare)
	t.mu.Lock()
	d = t.disk
	d.bytes, d.partial, d.cpuMs, d.nextAt = u.bytes, u.cut, f.CPUMs, now.Add(next)
	if d.stopped && !paused { // somebody woke it: it gets room to tidy up
		d.stopped, d.allowed = false, u.bytes+wakeHeadroom
	}
	if u.bytes <= limit {
		d.allowed = 0
	}
	over := limit > 0 && u.bytes >= max(limit, d.allowed)
	warn := limit > 0 && !over && !d.near && u.bytes >= limit/10*9
	if over || warn {
		d.near = true
	} else if u.bytes < limit/10*8 {
		d.near = false
	}
	if over {
		d.stopped = true
	}
	t.disk = d
	t.mu.Unlock()
	switch {
	case over && !paused:
		mt.stopForDisk(ctx, p, limit)
	case warn:
		mt.cfg.Notify(ctx, executors.Note{WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Kind: "limit.disk_near",
			Text: "The disk is nearly full: " + executors.MemoryWords(u.bytes>>20) + " of " + executors.MemoryWords(limit>>20) + " are used. At the limit the sandbox is paused; nothing is deleted."})
	}
}

// StoppedByLimit begins the reason of a sandbox that was paused because it reached a limit, not by a person.
const StoppedByLimit = "It was stopped"

// stopForDisk makes a sandbox stand still that has written too much; one that cannot stand still is ended.
func (mt *Meters) stopForDisk(ctx context.Context, p Sandbox, limit int64) {
	words := "stopped: the disk limit of " + executors.MemoryWords(limit>>20) + " is reached; nothing was deleted"
	mt.cfg.Notify(ctx, executors.Note{WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Kind: "limit.disk",
		Text: "The sandbox was " + words + ". Raise the limit, or wake it to tidy up."})
	err := mt.cfg.Places.Pause(ctx, p.WorkspaceID, StoppedByLimit+strings.TrimPrefix(words, "stopped")+".")
	if err == nil {
		return
	}
	mt.cfg.Log.Warn("sandbox over its disk limit cannot be paused and is ended", "sandbox_id", p.SandboxID, "error", err)
	if err := mt.cfg.Places.Stop(ctx, p.WorkspaceID, p.SandboxID, words); err != nil {
		mt.cfg.Log.Error("sandbox over its disk limit could not be stopped", "sandbox_id", p.SandboxID, "error", err)
	}
}

// usage is what folders hold.
type usage struct {
	bytes   int64
	entries int
	cut     bool
}

// inode tells a file with several names.
type inode struct{ dev, ino uint64 }

// walker counts below folders an agent may change meanwhile: it opens nothing but folders, follows no link, and stops at its bounds.
type walker struct {
	ctx   context.Context
	until time.Time
	u     usage
	seen  map[inode]bool // files with several names, once each
}

// measure counts what the folders hold: allocated room, so that holes are not counted, and at least leastEntry for each entry.
func measure(ctx context.Context, folders []string, until time.Time) usage {
	w := &walker{ctx: ctx, until: until, seen: make(map[inode]bool)}
	for _, dir := range folders {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue // it is not there (yet, or any more)
		}
		w.folder(root, 0)
		_ = root.Close()
	}
	return w.u
}

// folder counts one folder. Each is opened from its parent's descriptor, so that a path that is bent meanwhile leads nowhere else.
func (w *walker) folder(root *os.Root, depth int) {
	d, err := root.Open(".")
	if err != nil {
		return
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(batch)
		for _, e := range entries {
			if w.full() {
				return
			}
			w.entry(root, e, depth)
		}
		if err != nil {
			return
		}
	}
}

func (w *walker) full() bool {
	if w.u.cut {
		return true
	}
	w.u.cut = w.u.entries >= diskEntries || w.u.entries%batch == 0 && (w.ctx.Err() != nil || time.Now().After(w.until))
	return w.u.cut
}

func (w *walker) entry(root *os.Root, e fs.DirEntry, depth int) {
	w.u.entries++
	info, err := root.Lstat(e.Name())
	if err != nil {
		return // gone meanwhile
	}
	w.u.bytes += w.size(info)
	if !info.IsDir() || depth >= diskDepth {
		return
	}
	sub, err := root.OpenRoot(e.Name())
	if errors.Is(err, fs.ErrPermission) {
		return
	}
	if err != nil {
		return
	}
	w.folder(sub, depth+1)
	_ = sub.Close()
}

// size is the room an entry takes on the disk.
func (w *walker) size(info fs.FileInfo) int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return max(leastEntry, info.Size())
	}
	if st.Nlink > 1 && !info.IsDir() {
		key := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between systems
		if w.seen[key] {
			return leastEntry
		}
		w.seen[key] = true
	}
	return max(leastEntry, st.Blocks*512)
}

func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
