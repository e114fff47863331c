package filesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
)

// follower keeps the stored set of one workspace equal to what the guest of one sandbox reports.
type follower struct {
	s           *Service
	box         box
	workspaceID string
	teamID      string
	sandboxID   string
	log         *slog.Logger
	gone        <-chan struct{}    // closed when the sandbox begins to end
	cancel      context.CancelFunc // ends follow; guarded by Service.mu
	homes       *homes             // of a sandbox with its own disk; copies agents' homes
	mirror      *mirror            // nil where the worktree itself is on the host

	mu      sync.Mutex // also orders writes to the store
	base    string
	at      string        // commit and branch the worktree was last seen at
	version uint64        // the guest's version up to which everything is stored; 0 = nothing of this base
	applied chan struct{} // closed at the next change of version
	restart context.CancelFunc
	kept    bool              // everything seen so far is in a snapshot
	unkept  int               // how often a snapshot of something seen failed
	owed    chan struct{}     // a snapshot failed: look at the files again
	keeping chan struct{}     // held from storing a set until its snapshot is taken, so that snapshots follow the order of the sets
	from    map[string]string // old names of files reported as moved, by new name, in wire form
}

// Pauses between two attempts to follow a sandbox.
const (
	retryFirst  = 500 * time.Millisecond
	retryMax    = 30 * time.Second
	pausedRetry = 2 * time.Second
	cutAfter    = 4 * time.Second // from this pause on the sandbox counts as unreachable
	baseCheck   = 5 * time.Second // how often to look up the base again
)

// follow streams changes until ctx ends.
func (f *follower) follow(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.keepAgain(ctx) })
	pause := retryFirst
	for {
		begin := time.Now()
		err := f.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errBaseMoved) {
			continue
		}
		if fault.CodeOf(err) == codeNoBase {
			pause = retryFirst // the sandbox is being created
		} else if fault.CodeOf(err) == "workspace_paused" {
			pause = min(pause, pausedRetry) // nothing changes in a suspended sandbox
		} else if err != nil && !f.over() {
			f.log.Warn("following changes failed", "error", err)
		}
		if f.mirror != nil && pause >= cutAfter && err != nil && !f.over() && fault.CodeOf(err) != codeNoBase && fault.CodeOf(err) != "workspace_paused" {
			f.mirror.unreachable()
		}
		if errors.Is(err, errLie) {
			f.notify(ctx, "The sandbox reported changes that cannot be true. The list shows the last valid report.")
		} else if time.Since(begin) > retryMax {
			pause = retryFirst
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, retryMax)
	}
}

// over reports whether the sandbox has begun to end: then its guest is expected not to answer.
func (f *follower) over() bool {
	select {
	case <-f.gone:
		return true
	default:
		return false
	}
}

// errBaseMoved ends a stream so that the next one asks for the new base.
var errBaseMoved = errors.New("the base moved")

// stream watches the guest against the current base, and stores what it reports.
func (f *follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	base, err := f.s.base(ctx, f.workspaceID)
	if err != nil {
		return fmt.Errorf("finding the base: %w", err)
	}
	since := f.begin(base, func() { cancel(errBaseMoved) })
	stop := f.watchBase(ctx, base)
	defer stop()

	w, err := f.box.watch(ctx, base, since)
	if err != nil {
		return f.cause(ctx, err)
	}
	defer w.Close()
	for {
		set, err := collect(w, base)
		if err != nil {
			return f.cause(ctx, err)
		}
		if err := f.apply(ctx, set, since); err != nil {
			return f.cause(ctx, err)
		}
		since = set.Version
	}
}

// cause returns why the stream was ended in preference to the error that this produced.
func (f *follower) cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// watchBase ends the stream when the workspace's base changes. The caller waits for it with the returned function.
func (f *follower) watchBase(ctx context.Context, base string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(baseCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if now, err := f.s.base(ctx, f.workspaceID); err == nil && now != base {
				f.rebase(now)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// begin notes the base of a stream and returns the version it continues from.
func (f *follower) begin(base string, restart func()) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setBase(base)
	f.restart = restart
	return f.version
}

// rebase makes the follower compare with another base from now on.
func (f *follower) rebase(base string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.setBase(base) && f.restart != nil {
		f.restart()
		f.restart = nil
	}
}

func (f *follower) setBase(base string) (moved bool) {
	if f.base == base {
		return false
	}
	f.base, f.version = base, 0
	return true
}

// collect reads the records of one set and joins them.
func collect(w stream, base string) (guest.ChangeSet, error) {
	var whole guest.ChangeSet
	for first := true; ; first = false {
		set, err := w.Next()
		if err != nil {
			return whole, err
		}
		if err := checkSet(&set, base); err != nil {
			return whole, err
		}
		if first {
			whole = set
		} else {
			if set.Version != whole.Version || set.Reset {
				return whole, fmt.Errorf("%w: records that do not belong together", errLie)
			}
			whole.Upserts = append(whole.Upserts, set.Upserts...)
			whole.Removes = append(whole.Removes, set.Removes...)
		}
		if len(whole.Upserts)+len(whole.Removes) > 2*MaxFiles {
			return whole, fmt.Errorf("%w: too many", errLie)
		}
		if !set.More {
			return whole, nil
		}
	}
}

// apply stores a whole set, unless a newer one is stored, and takes a snapshot of what is new in it. since is the version the set
// was requested for.
func (f *follower) apply(ctx context.Context, set guest.ChangeSet, since uint64) error {
	return f.applyFor(ctx, set, since, nil)
}

// held is what a look leaves to its caller: to take a snapshot of what is new, and to report whether that succeeded.
type held struct {
	due    bool
	unkept int // the follower's counter at that time
}

// applyFor is apply; where h is not nil it leaves the snapshot to the caller.
func (f *follower) applyFor(ctx context.Context, set guest.ChangeSet, since uint64, h *held) error {
	select {
	case f.keeping <- struct{}{}:
		defer func() { <-f.keeping }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d, again, changed, err := f.store(ctx, set, since)
	if err != nil || f.mirror != nil || set.Error != "" { // a mirror notifies once the files are on this server
		return err
	}
	f.mu.Lock()
	due := changed
	if !f.kept && set.Reset && d.BaseCommit != "" { // a snapshot of everything, whether it was stored before or not
		due, d.Reset, d.Upserts, d.Removes = true, true, set.Upserts, nil
	}
	if h != nil {
		*h = held{due: due, unkept: f.unkept}
	}
	f.mu.Unlock()
	if !due || h != nil {
		return nil
	}
	kept := f.s.polled(ctx, f.workspaceID, d.BaseCommit, d, again, f.log)
	f.mu.Lock()
	f.kept = kept && (f.kept || d.Reset)
	if !kept {
		f.unkept++
	}
	due = !f.kept
	f.mu.Unlock()
	if due {
		f.lookSoon()
	}
	return nil
}

// settled takes the caller's report on whether it took a snapshot of everything the look left to it.
func (f *follower) settled(h held, kept bool) {
	if !h.due {
		return
	}
	f.mu.Lock()
	if !kept {
		f.kept = false
		f.unkept++
	} else if f.unkept == h.unkept {
		f.kept = true
	}
	due := !f.kept
	f.mu.Unlock()
	if due {
		f.lookSoon()
	}
}

// lookSoon has the files looked at again: something seen is in no snapshot.
func (f *follower) lookSoon() {
	tasks.Wake(f.owed)
}

// keepAgain looks at the files again while something seen is in no snapshot, until ctx is done: that look covers everything.
func (f *follower) keepAgain(ctx context.Context) {
	pause := retryFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.owed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		f.mu.Lock()
		kept, base := f.kept, f.base
		f.mu.Unlock()
		if kept || f.over() {
			pause = retryFirst
			continue
		}
		pause = min(2*pause, retryMax)
		if err := f.look(ctx, base); err != nil { // the stream gets the same error, and reports it
			f.lookSoon()
		}
	}
}

func (f *follower) store(ctx context.Context, set guest.ChangeSet, since uint64) (d Delta, again []string, news bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if set.Base != f.base {
		return Delta{}, nil, false, nil // requested before the base moved
	}
	if set.Reset && set.Version < since {
		f.version = 0 // another guest, whose count starts anew
	}
	d = Delta{WorkspaceID: f.workspaceID, TeamID: f.teamID, Reset: set.Reset, Upserts: set.Upserts, Removes: set.Removes, Header: Header{
		BaseCommit: set.Base, HeadCommit: set.Head, Branch: set.Branch, Error: set.Error, SyncedAt: f.s.cfg.Now().UnixMilli()}}
	switch {
	case f.version == 0 && !set.Reset:
		return Delta{}, nil, false, fmt.Errorf("%w: a difference from a version never reported", errLie)
	case f.version != 0 && set.Version < f.version:
		return Delta{}, nil, false, nil
	case f.version != 0 && set.Version == f.version:
		d.Reset, d.Upserts, d.Removes = false, nil, nil // record only that somebody looked again
	}
	if err := unique(d.Upserts); err != nil {
		return Delta{}, nil, false, err
	}
	reported := guest.ChangeSet{Base: set.Base, Version: set.Version, Reset: d.Reset, Upserts: d.Upserts, Removes: d.Removes}
	d.Upserts = unstamped(d.Upserts)
	version, changed, err := f.s.cfg.Store.ApplyChanges(ctx, d)
	if err != nil {
		if fault.Is(err, fault.TooLarge) {
			return Delta{}, nil, false, errors.Join(errLie, err)
		}
		return Delta{}, nil, false, err
	}
	f.version = set.Version
	again = f.unmoved(d)
	if f.mirror != nil {
		f.mirror.note(reported)
		f.mirror.doubt(set.Error)
	}
	if at := set.Head + " " + set.Branch; at != f.at {
		f.at = at
		if f.s.cfg.Moved != nil {
			f.s.cfg.Moved(f.workspaceID)
		}
	}
	close(f.applied)
	f.applied = make(chan struct{})
	if changed {
		f.s.changed(f.workspaceID, f.teamID, version)
		if !set.Reset { // a whole set does not say when a file changed
			f.s.touched(f.workspaceID, d)
		}
	}
	return d, again, changed && (d.Reset || len(d.Upserts)+len(d.Removes) > 0), nil
}

// unstamped leaves out what only a reader of file contents needs.
func unstamped(changes []guest.Change) []guest.Change {
	var out []guest.Change
	for i := range changes {
		if changes[i].Stamp == "" {
			continue
		}
		if out == nil {
			out = slices.Clone(changes)
		}
		out[i].Stamp = ""
	}
	if out == nil {
		return changes
	}
	return out
}

// settle waits until everything reported is on the host.
func (f *follower) settle(ctx context.Context) error {
	f.mu.Lock()
	version := f.version
	f.mu.Unlock()
	return f.mirror.settle(ctx, version)
}

// unique rejects a set that names a path twice.
func unique(changes []guest.Change) error {
	seen := make(map[string]bool, len(changes))
	for _, c := range changes {
		if seen[c.Path] {
			return fmt.Errorf("%w: a path reported twice", errLie)
		}
		seen[c.Path] = true
	}
	return nil
}

// notify records in the set why it is not up to date.
func (f *follower) notify(ctx context.Context, words string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set, err := f.s.cfg.Store.Changes(ctx, f.workspaceID)
	if err != nil {
		return
	}
	// With the base as stored: the items still belong to that base.
	version, changed, err := f.s.cfg.Store.ApplyChanges(ctx, Delta{WorkspaceID: f.workspaceID, TeamID: f.teamID, Header: Header{
		BaseCommit: set.BaseCommit, HeadCommit: set.HeadCommit, Branch: set.Branch, Error: words, SyncedAt: set.SyncedAt}})
	if err == nil && changed {
		f.s.changed(f.workspaceID, f.teamID, version)
	}
	f.version = 0 // the next stream sends everything
}

// look polls the guest at once and stores what it reports.
func (f *follower) look(ctx context.Context, base string) error { return f.lookFor(ctx, base, nil) }

// lookFor is look; where h is not nil it leaves the snapshot to the caller.
func (f *follower) lookFor(ctx context.Context, base string, h *held) error {
	f.rebase(base)
	set, err := f.box.pollNow(ctx, base)
	if err != nil {
		return err
	}
	if err := checkSet(&set, base); err != nil {
		return err
	}
	if !set.Reset {
		return fmt.Errorf("%w: not the whole set", errLie)
	}
	if !set.More {
		return f.applyFor(ctx, set, 0, h)
	}
	// Too long for one answer: the stream delivers it.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		f.mu.Lock()
		done, applied := f.base != base || f.version >= set.Version, f.applied
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-applied:
		case <-ctx.Done():
			return fault.New(fault.Timeout, "sync_timeout", "The sandbox's list of changes did not arrive in time. Try again.")
		}
	}
}
