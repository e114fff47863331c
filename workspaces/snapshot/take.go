package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// A snapshot is all files of a workspace at a moment: a commit under hidden refs of the project's repository, and a row. Those of kind
// poll follow each other within a day, so that a day goes with one ref; the others have a chain of their own for each day, so that they
// outlive the polls around them; a pinned one has a ref of its own.

// Kinds of snapshots.
const (
	SnapPoll   = "poll"   // files changed
	SnapTurn   = "turn"   // an agent's turn ended
	SnapCommit = "commit" // the branch has new commits
	SnapKept   = "kept"   // before something that changes or removes files
	SnapManual = "manual" // somebody asked for it
)

var snapKinds = []string{SnapPoll, SnapTurn, SnapCommit, SnapKept, SnapManual}

// Snap is one snapshot.
type Snap struct {
	ID          string
	TeamID      string
	WorkspaceID string
	Kind        string
	Reason      string // of kept: stop (whoever ends the sandbox), archive, delete, discard, update, move, restore, edit, take
	Title       string // a commit's subject, the beginning of a turn's prompt, what a person wrote
	ActorID     string // "" = Parawork itself
	SessionID   string // of a turn
	Commit      string // the hidden commit
	Tree        string
	Head        string // where the branch was
	BaseCommit  string
	At          int64 // ms UTC; grows strictly within a workspace
	ExpiresAt   int64 // ms UTC; 0 = with the workspace
	Files       int   // that differ from the snapshot before
	Additions   int
	Deletions   int
	Missing     []workspaces.Missing
	Ignored     string // the commit of the ignored files it holds beside Tree; "" = none
	IgnoredN    int    // how many these are
	Pinned      bool   // kept until a person lets go
}

// Request says what a snapshot is taken for.
type Request struct {
	Kind      string // "" = kept
	Reason    string
	Title     string
	ActorID   string
	SessionID string
	Changed   bool // take none where the files are as in the newest one

	Ignored *RemoteIgnored // of a sandbox with a disk of its own
	ahead   *ahead         // what was compared while the sandbox was looked at; nil = nothing
}

// Seen is what differs from a commit in a workspace's files.
type Seen struct {
	Base  string   // the commit
	Paths []string // raw bytes; everything else is as Base has it
	Tree  string   // all files, where somebody else has collected them just now; "" = nobody has
	After string   // the tree of the newest snapshot when the look began, where it is known; noTree = there was none
	Stale string   // why files may have changed since, in words; "" = they were looked at now
	All   bool     // nobody knows what else differs: this server compares all files it has, Paths among them

	Missing []workspaces.Missing // what Tree does not hold

	// Kept is told, once, whether a snapshot of it was taken: who looked takes none then. nil = nobody asks.
	Kept func(ok bool)
}

// noTree stands for the tree of no snapshot.
const noTree = "none"

// Watcher knows what differs in a workspace's files without the host's reading them all.
type Watcher interface {
	// Look looks at the workspace's files where its sandbox runs, and waits until they are on this server. It makes and wakes none. ok is
	// false where nobody is there to look: then this server reads the worktree itself.
	Look(ctx context.Context, workspaceID string) (s Seen, ok bool, err error)
}

// lookTime bounds how long a snapshot waits for a sandbox.
const lookTime = 2 * time.Minute

// keeps is what the room knows of snapshots while it runs.
type keeps struct {
	mu        sync.Mutex
	watcher   Watcher
	sandboxed Sandboxed
	reviewed  func(ctx context.Context, workspaceID, userID string) (rev string, err error)
	hooks     []func(workspaceID string, s Snap)
	last      map[string]Snap // by workspace id: the newest; a zero one = there is none
	sure      map[string]bool // by workspace id: a snapshot was compared with all files since the server started
	trees     git.CommitTrees
	roots     git.CommitTrees // their times are not known
	sizes     map[string]keptSize
	loose     map[string]int // by git dir: snapshots taken since its objects were put together
	queue     queue
}

func newKeeps() *keeps {
	return &keeps{last: make(map[string]Snap), sure: make(map[string]bool), trees: git.NewCommitTrees(), roots: git.NewCommitTrees(), loose: make(map[string]int), sizes: make(map[string]keptSize), queue: queue{wake: make(chan struct{}, 1)}}
}

// ForgetSnapshots forgets what is remembered of a workspace's snapshots: the workspace is purged.
func (s *Service) ForgetSnapshots(workspaceID string) {
	s.keeps.mu.Lock()
	defer s.keeps.mu.Unlock()
	delete(s.keeps.last, workspaceID)
	delete(s.keeps.sure, workspaceID)
	delete(s.keeps.sizes, workspaceID)
}

// Watch gives the room who knows what differs in workspaces' files. Called once, before Run.
func (s *Service) Watch(w Watcher) {
	s.keeps.mu.Lock()
	defer s.keeps.mu.Unlock()
	s.keeps.watcher = w
}

// ConnectSandboxed gives the room who writes files in sandboxes with a disk of their own. Called once, before Run.
func (s *Service) ConnectSandboxed(b Sandboxed) {
	s.keeps.mu.Lock()
	defer s.keeps.mu.Unlock()
	s.keeps.sandboxed = b
}

// OnSnapshot has fn called after each new snapshot, in the order they are taken. It must not block, nor ask for a snapshot of the same
// workspace before it returns. Called before Run.
func (s *Service) OnSnapshot(fn func(workspaceID string, s Snap)) {
	s.keeps.mu.Lock()
	defer s.keeps.mu.Unlock()
	s.keeps.hooks = append(s.keeps.hooks, fn)
}

// Take takes a snapshot of everything a workspace has on disk now: whoever is about to change or remove files calls it first, and goes no
// further when it fails. A workspace that has no files now, because it is put away or was never made, answers its newest snapshot, or
// the zero Snap.
func (s *Service) Take(ctx context.Context, workspaceID string, f Request) (Snap, error) {
	f.Kind = cmp.Or(f.Kind, SnapKept)
	if !slices.Contains(snapKinds, f.Kind) {
		return Snap{}, fmt.Errorf("workspaces: %q is no kind of snapshot", f.Kind)
	}
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return Snap{}, err
	}
	if !s.HasFiles(w) {
		sn, err := s.newestSnap(ctx, workspaceID)
		if fault.Is(err, fault.NotFound) {
			return Snap{}, nil
		}
		return sn, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return Snap{}, err
	}
	if !s.sandboxes.Remote(w.ID) { // there much may come home before
		f.ahead = s.compareAhead(ctx, p, w)
		defer f.ahead.wait()
	}
	seen, err := s.lookAround(ctx, w) // whoever looked has to be told by Kept from here on
	if err != nil {
		return Snap{}, err
	}
	if f.Ignored == nil {
		f.Ignored = s.AskIgnored(ctx, p, w, f.Kind)
	}
	sn, _, err := s.capture(ctx, w, f, seen)
	if seen != nil && seen.Kept != nil {
		seen.Kept(err == nil)
	}
	return sn, err
}

// HasFiles reports whether the workspace has a worktree now.
func (s *Service) HasFiles(w workspaces.Workspace) bool {
	return w.DeletedAt == 0 && (w.State == workspaces.Ready || w.State == workspaces.Paused || w.State == workspaces.SettingUp) && w.Path != "" && git.FolderExists(w.Path)
}

// lookAround finds out what differs, before the snapshot's lock is taken: files on their way here are snapshots themselves.
func (s *Service) lookAround(ctx context.Context, w workspaces.Workspace) (*Seen, error) {
	s.keeps.mu.Lock()
	watcher := s.keeps.watcher
	s.keeps.mu.Unlock()
	if watcher == nil {
		return nil, nil
	}
	after := noTree
	if sn, err := s.newestSnap(ctx, w.ID); err == nil {
		after = sn.Tree
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	seen, ok, err := watcher.Look(look, w.ID)
	if ctx.Err() != nil {
		if seen.Kept != nil {
			seen.Kept(false)
		}
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil && s.sandboxes.Remote(w.ID):
		s.cfg.Log.WarnContext(ctx, "a sandbox could not be looked at for a snapshot", "workspace_id", w.ID, "error", err)
		return &Seen{Stale: "The sandbox could not be asked: what changed in it lately is not in this snapshot. " + git.Reason(err)}, nil
	case err != nil:
		s.cfg.Log.WarnContext(ctx, "a sandbox could not be looked at for a snapshot, the host reads its files", "workspace_id", w.ID, "error", err)
		return nil, nil
	case !ok:
		return nil, nil
	}
	seen.After = after
	return &seen, nil
}

// Polled is told of files that differ from what they were when a workspace was looked at last, and takes a snapshot when they do. It
// returns when that is stored. whole says that paths are all that differ from base; without a base, that nobody knows what else differs, so
// that all files on this server are compared.
func (s *Service) Polled(ctx context.Context, workspaceID, base string, paths []string, whole bool) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil || !s.HasFiles(w) {
		return err
	}
	seen := &Seen{Base: base, Paths: paths}
	if !whole {
		seen.Base = ""
	}
	seen.All = whole && base == ""
	_, _, err = s.capture(ctx, w, Request{Kind: SnapPoll}, seen)
	return err
}

// SnapshotByID returns one snapshot; fault.NotFound when there is none.
func (s *Service) SnapshotByID(ctx context.Context, id string) (Snap, error) {
	return s.store.Snapshot(ctx, id)
}

// Snap returns one snapshot of a workspace.
func (s *Service) Snap(ctx context.Context, workspaceID, id string) (Snap, error) {
	sn, err := s.store.Snapshot(ctx, id)
	if err == nil && sn.WorkspaceID != workspaceID || fault.Is(err, fault.NotFound) {
		return Snap{}, fault.New(fault.NotFound, "snapshot_not_found", "There is no such snapshot, or it is no longer kept.")
	}
	return sn, err
}

// newestSnap returns the newest snapshot of a workspace.
func (s *Service) newestSnap(ctx context.Context, workspaceID string) (Snap, error) {
	s.keeps.mu.Lock()
	sn, ok := s.keeps.last[workspaceID]
	s.keeps.mu.Unlock()
	if ok && sn.ID != "" {
		return sn, nil
	}
	return s.store.SnapshotBefore(ctx, workspaceID, 0)
}

func (s *Service) publishSnap(ctx context.Context, sn Snap, version int64) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "snapshots.updated", ID: sn.WorkspaceID, WorkspaceID: sn.WorkspaceID, TeamID: sn.TeamID, Version: version})
	}
}

// reportedSnap publishes a new snapshot.
func (s *Service) reportedSnap(ctx context.Context, sn Snap) {
	s.publishSnap(ctx, sn, sn.At)
	s.keeps.mu.Lock()
	hooks := s.keeps.hooks
	s.keeps.mu.Unlock()
	for _, fn := range hooks {
		fn(sn.WorkspaceID, sn)
	}
}

// ErrNoHead says that a worktree is at no commit yet.
var ErrNoHead = errors.New("the worktree is at no commit")
