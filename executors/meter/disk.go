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

// Limits of one scan of a disk.
const (
	diskEntries  = 2_000_000        // entries, over all folders of a sandbox
	diskTime     = 30 * time.Second // of the clock
	diskDepth    = 256              // nesting of folders
	diskShare    = 25               // a scan may take 1/25 of the time between two
	leastEntry   = 4 << 10          // what an empty file counts: a name and an inode take space too
	batch        = 512              // entries read at once
	wakeHeadroom = 64 << 20         // what may be written after a wake although the disk is full: space to tidy up
	freeDrop     = 1 << 30          // when free space falls by this much, every working sandbox is scanned at once
)

// diskMeter is the disk state of one sandbox.
type diskMeter struct {
	bytes   int64 // -1 = not measured yet
	partial bool  // the scan stopped at its limits: at least this much is used
	nextAt  time.Time
	cpuMs   int64 // the sandbox's CPU time at the last scan: without CPU time nothing was written
	near    bool  // people were warned
	allowed int64 // bytes tolerated after a wake; 0 = only the limit counts
	stopped bool
}

// lookAtDisks scans the disks that are due.
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

// fellFast reports whether free space fell fast since the last call.
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
	if d.stopped && !paused { // somebody woke it: allow some space to tidy up
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

// stopForDisk suspends a sandbox that has written too much; it ends one that cannot be suspended.
func (mt *Meters) stopForDisk(ctx context.Context, p Sandbox, limit int64) {
	words := "stopped: the disk limit of " + executors.MemoryWords(limit>>20) + " is reached; nothing was deleted"
	mt.cfg.Notify(ctx, executors.Note{WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Kind: "limit.disk",
		Text: "The sandbox was " + words + ". Raise the limit, or wake it to tidy up."})
	err := mt.cfg.Places.Pause(ctx, p.WorkspaceID, StoppedByLimit+strings.TrimPrefix(words, "stopped")+".")
	if err == nil {
		return
	}
	mt.cfg.Log.Warn("a sandbox over its disk limit cannot be paused and is ended", "sandbox_id", p.SandboxID, "error", err)
	if err := mt.cfg.Places.Stop(ctx, p.WorkspaceID, p.SandboxID, words); err != nil {
		mt.cfg.Log.Error("a sandbox over its disk limit could not be stopped", "sandbox_id", p.SandboxID, "error", err)
	}
}

// usage is the size of the contents of folders.
type usage struct {
	bytes   int64
	entries int
	cut     bool
}

// inode identifies a file with several names.
type inode struct{ dev, ino uint64 }

// walker scans folders that an agent may change meanwhile: it opens only folders, follows no link, and stops at its limits.
type walker struct {
	ctx   context.Context
	until time.Time
	u     usage
	seen  map[inode]bool // files with several names, counted once
}

// measure measures what the folders contain: allocated space, so that holes do not count, and at least leastEntry for each entry.
func measure(ctx context.Context, folders []string, until time.Time) usage {
	w := &walker{ctx: ctx, until: until, seen: make(map[inode]bool)}
	for _, dir := range folders {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue // it does not exist (yet, or any more)
		}
		w.folder(root, 0)
		_ = root.Close()
	}
	return w.u
}

// folder scans one folder. Each is opened from its parent's descriptor, so that a path that is redirected meanwhile leads nowhere else.
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

// size returns the space an entry takes on the disk.
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
