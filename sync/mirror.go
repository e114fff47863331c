package filesync

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
)

// A mirror copies every changed file of one sandbox with its own disk into the workspace's worktree on the host.
//
// The worktree is to hold the base's tree with the guest's set of changes applied to it. The store (File) and, for the rest, the
// commit it was built on say what it holds now. The mirror requests what differs from the guest, assembles it outside the
// worktree, and moves it in; it stores what it moved in with one transaction per step. A journal names what a step moves, so that
// after a crash at any instant the next server can tell its own files from those of people.
//
// A host file that is neither what was last synced nor what the sandbox has now is renamed, and sent to the sandbox.
type mirror struct {
	s      *Service
	source source
	id     string // of the workspace
	teamID string
	sbxID  string
	kind   string
	log    *slog.Logger

	mu       sync.Mutex
	base     string                  // the set's base
	set      map[string]guest.Change // by raw path
	from     map[string]int          // how many files were renamed from a raw path
	dirty    map[string]int          // raw paths to look at: how often that was tried and must be repeated
	fresh    bool                    // nothing was reported yet
	version  uint64                  // the guest's version, as reported
	reported time.Time               // when the oldest of dirty was reported
	done     uint64                  // version up to which everything is synced
	busy     bool
	sending  bool // files kept in both versions are on their way to the sandbox
	left     int  // paths of the current step that are not synced yet
	status   Home
	trouble  string // why the last reported set is incomplete, "" = it is complete
	cut      bool   // the guest cannot be reached
	step     chan struct{}
	wake     chan struct{}

	// Only the worker uses these.
	loaded  bool
	files   map[string]File
	known   map[string][]string // hashes that unstored steps may have moved in, by path
	marks   map[string]fileMark // of files as the mirror left them
	stamps  map[string]string   // of large files, which have no hash
	builtOn string
	total   int64 // bytes of all files
	planned int64 // likewise, after the current step
	stored  MirrorState
	send    map[string]string // files kept in both versions that the sandbox does not have yet, with the reason, as logged
	asides  int               // unresolved conflicts
	parts   map[string]*part
	owed    map[string]bool // raw paths that were synced and are in no snapshot yet
	unsure  bool            // other synced files may be in no snapshot: an earlier mirror may have died before it took one
	counter int
}

// source is the guest's side of a mirror.
type source interface {
	contents(ctx context.Context, req guest.ContentsRequest) (contentStream, error)
	writeFile(ctx context.Context, path string, r io.Reader, mode uint32) error
}

type contentStream interface {
	Next() (guest.Content, io.Reader, error)
	Close() error
}

func (b realBox) contents(ctx context.Context, req guest.ContentsRequest) (contentStream, error) {
	return b.c.Contents(ctx, req)
}

func (b realBox) writeFile(ctx context.Context, path string, r io.Reader, mode uint32) error {
	_, err := b.c.WriteFile(ctx, path, r, client.WriteOptions{Mode: mode})
	return err
}

func newMirror(s *Service, src source, f *follower, kind string) *mirror {
	return &mirror{s: s, source: src, id: f.workspaceID, teamID: f.teamID, sbxID: f.sandboxID, kind: kind, log: f.log, fresh: true,
		set: map[string]guest.Change{}, from: map[string]int{}, dirty: map[string]int{}, step: make(chan struct{}), wake: make(chan struct{}, 1),
		files: map[string]File{}, known: map[string][]string{}, marks: map[string]fileMark{}, stamps: map[string]string{}, send: map[string]string{}, parts: map[string]*part{}, owed: map[string]bool{}}
}

// note takes in what the guest reports as different. It never blocks for long.
func (m *mirror) note(set guest.ChangeSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if set.Reset || set.Base != m.base {
		for p := range m.set {
			m.mark(p)
		}
		for p := range m.from {
			m.mark(p)
		}
		m.set, m.from, m.base, m.fresh = make(map[string]guest.Change, len(set.Upserts)), map[string]int{}, set.Base, true
	}
	for _, wire := range set.Removes {
		m.drop(guest.DecodePath(wire))
	}
	for _, c := range set.Upserts {
		p := guest.DecodePath(c.Path)
		m.drop(p)
		m.set[p] = c
		if c.Status == "renamed" && c.OldPath != "" {
			old := guest.DecodePath(c.OldPath)
			m.from[old]++
			m.mark(old)
		}
	}
	if set.Version < m.version {
		m.done = 0 // another guest, whose count starts anew
	}
	m.version, m.cut = set.Version, false
	if m.reported.IsZero() {
		m.reported = m.s.cfg.Now()
	}
	m.poke()
}

// drop forgets what was reported about a path, and has the path looked at then.
func (m *mirror) drop(p string) {
	if c, ok := m.set[p]; ok && c.Status == "renamed" && c.OldPath != "" {
		old := guest.DecodePath(c.OldPath)
		if m.from[old]--; m.from[old] <= 0 {
			delete(m.from, old)
		}
		m.mark(old)
	}
	delete(m.set, p)
	m.mark(p)
}

func (m *mirror) mark(p string) { m.dirty[p] = 0 }

func (m *mirror) poke() {
	tasks.Wake(m.wake)
}

// unreachable records that the guest has not answered for a while.
func (m *mirror) unreachable() {
	m.mu.Lock()
	m.cut = true
	m.mu.Unlock()
	m.show(Behind, "The sandbox cannot be reached now. Its changes are synced once it can be reached again.")
}

// Pauses between two attempts after a failure.
const (
	mirrorRetryFirst = 300 * time.Millisecond
	mirrorRetryMax   = 20 * time.Second
)

// run syncs files until ctx ends.
func (m *mirror) run(ctx context.Context) {
	pause := mirrorRetryFirst
	for {
		again, err := m.work(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.log.Warn("files of a sandbox could not be synced", "error", err)
			m.show(Behind, behindReason(err))
			m.persist(ctx)
		}
		var timer <-chan time.Time
		if again || err != nil {
			timer, pause = time.After(pause), min(2*pause, mirrorRetryMax)
		} else {
			pause = mirrorRetryFirst
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
			if err != nil { // new changes do not shorten the wait for a full disk
				select {
				case <-ctx.Done():
					return
				case <-timer:
				}
			} else {
				pause = mirrorRetryFirst
			}
		case <-timer:
		}
	}
}

// behindReason explains to people why files are not synced.
func behindReason(err error) string {
	switch {
	case diskFull(err):
		return "The server's disk is full. Free space: the files are then synced automatically."
	case fault.CodeOf(err) == "workspace_paused":
		return "The sandbox is paused. Its files are synced when it wakes."
	case errors.Is(err, errNoWorktree):
		return "The workspace has no folder on the server now."
	case fault.KindOf(err) == fault.Unavailable:
		return "The sandbox cannot be reached now. Its changes are synced once it can be reached again."
	}
	return "Files could not be copied from the sandbox. The server tries again; its log gives the cause."
}

var errNoWorktree = errors.New("no worktree on the host")

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || fault.Is(err, fault.DiskFull)
}

// task describes the work of one pass.
type task struct {
	base     string
	paths    map[string]int
	version  uint64
	fresh    bool
	reported time.Time
}

// work syncs what is to be looked at. again reports that some of it must be tried once more, soon.
func (m *mirror) work(ctx context.Context) (again bool, err error) {
	if !m.loaded {
		if err := m.load(ctx); err != nil {
			return false, err
		}
	}
	m.keepHere(ctx, MirrorDelta{}) // the rest of the last attempt
	t, any := m.take()
	if !any {
		if h := m.now(); h.State != Synced && t.base != "" {
			m.home() // the sandbox was unreachable, and nothing has changed meanwhile
			m.persist(ctx)
		}
		again = t.base != "" && m.sendKept(ctx) // not before the server knows what the sandbox has
		m.rest()
		return again || m.owes(), nil
	}
	defer m.rest()
	left, err := m.pass(ctx, t)
	m.mu.Lock()
	m.busy, m.left, m.sending = false, 0, err == nil && len(m.send) > 0
	if err != nil {
		for p, n := range t.paths {
			if _, newer := m.dirty[p]; !newer {
				m.dirty[p] = n
			}
		}
		m.fresh = m.fresh || t.fresh
	}
	for p, n := range left {
		if _, newer := m.dirty[p]; !newer {
			m.dirty[p] = n
		}
	}
	clean := err == nil && len(m.dirty) == 0
	if clean && !m.fresh {
		m.done = t.version
	}
	if len(m.dirty) > 0 && m.reported.IsZero() {
		m.reported = t.reported
	}
	m.mu.Unlock()
	if err != nil {
		return false, err
	}
	if clean {
		m.lag(t.reported)
	}
	unsent := m.sendKept(ctx)
	for _, n := range left {
		if n >= maxMoves {
			m.show(Behind, "Some files could not be copied yet. The server tries again.")
			m.persist(ctx)
			break
		}
	}
	return !clean || unsent || m.owes(), nil
}

// rest ends a pass and wakes those who wait for it and for what is sent after it.
func (m *mirror) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sending = false
	close(m.step)
	m.step = make(chan struct{})
}

// lag reports how long files took to sync.
func (m *mirror) lag(reported time.Time) {
	if m.s.cfg.Lag != nil && !reported.IsZero() {
		m.s.cfg.Lag(m.kind, m.s.cfg.Now().Sub(reported))
	}
}

// take takes what is to be looked at.
func (m *mirror) take() (task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base == "" || len(m.dirty) == 0 && !m.fresh {
		if m.base != "" {
			m.done, m.sending = m.version, len(m.send) > 0
		}
		m.reported = time.Time{}
		return task{base: m.base}, false
	}
	t := task{base: m.base, paths: m.dirty, version: m.version, fresh: m.fresh, reported: m.reported}
	m.dirty, m.reported = map[string]int{}, time.Time{}
	if m.fresh {
		for p := range m.files {
			if _, ok := t.paths[p]; !ok {
				t.paths[p] = 0
			}
		}
		for p := range m.known { // an interrupted step moved it in: only this records it
			if _, ok := t.paths[p]; !ok {
				t.paths[p] = 0
			}
		}
		m.fresh = false
	}
	m.busy, m.left = true, len(t.paths)
	return t, true
}

// temp is the folder in which files are assembled.
func (m *mirror) temp() string { return filepath.Join(m.s.cfg.DataDir, "sync", m.id) }
