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

// A snapshot is all files of a workspace at one time: a commit under hidden refs of the project's repository, and a row. Those of kind poll
// form a chain per day, so that a day is deleted with one ref; the others have a separate chain per day, so that they outlive the polls
// around them; a pinned one has its own ref.

// Kinds of snapshots.
const (
	SnapPoll   = "poll"   // files changed
	SnapTurn   = "turn"   // an agent's turn ended
	SnapCommit = "commit" // the branch has new commits
	SnapKept   = "kept"   // before an operation that changes or removes files
	SnapManual = "manual" // requested by a user
)

var snapKinds = []string{SnapPoll, SnapTurn, SnapCommit, SnapKept, SnapManual}

// Snap is one snapshot.
type Snap struct {
	ID          string
	TeamID      string
	WorkspaceID string
	Kind        string
	Reason      string // for kind kept: stop (the sandbox ends), archive, delete, discard, update, move, restore, edit, take, undo
	Title       string // a commit's subject, the start of a turn's prompt, a user's text
	ActorID     string // "" = Parawork
	SessionID   string // of a turn
	Commit      string // the hidden commit
	Tree        string
	Head        string // head of the branch
	BaseCommit  string
	At          int64 // ms UTC; grows strictly within a workspace
	ExpiresAt   int64 // ms UTC; 0 = expires with the workspace
	Files       int   // files changed since the previous snapshot
	Additions   int
	Deletions   int
	Missing     []workspaces.Missing
	Ignored     string // the commit of its ignored files besides Tree; "" = none
	IgnoredN    int    // their number
	Pinned      bool   // stored until a user deletes it
}

// Request says why a snapshot is taken.
type Request struct {
	Kind      string // "" = kept
	Reason    string
	Title     string
	ActorID   string
	SessionID string
	Changed   bool // take none if the files are as in the newest one

	Ignored *RemoteIgnored // of a sandbox with its own disk
	ahead   *ahead         // comparison made while the sandbox looked at its files; nil = none
}

// Seen are the differences of a workspace's files from a commit.
type Seen struct {
	Base  string   // the commit
	Paths []string // raw bytes; everything else is as in Base
	Tree  string   // all files, if the caller has just collected them; "" = unknown
	After string   // the tree of the newest snapshot when the look started, if known; noTree = there was none
	Stale string   // why files may have changed since, for people; "" = they were just looked at
	All   bool     // other differences are unknown: this server compares all its files, including Paths

	Missing []workspaces.Missing // files that Tree lacks

	// Kept is called once with whether a snapshot of it was taken: if so, the watcher takes none. nil = nobody needs to know.
	Kept func(ok bool)
}

// noTree stands for the tree of no snapshot.
const noTree = "none"

// Watcher knows which of a workspace's files differ without the host reading all of them.
type Watcher interface {
	// Look looks at the workspace's files where its sandbox runs, and waits until they are synced to this server. It neither creates nor
	// wakes one. ok is false if no sandbox can look: then this server reads the worktree itself.
	Look(ctx context.Context, workspaceID string) (s Seen, ok bool, err error)
}

// lookTime bounds how long a snapshot waits for a sandbox.
const lookTime = 2 * time.Minute

// captureState is the package's state of snapshots while it runs.
type captureState struct {
	mu        sync.Mutex
	watcher   Watcher
	sandboxed Sandboxed
	reviewed  func(ctx context.Context, workspaceID, userID string) (rev string, err error)
	hooks     []func(workspaceID string, s Snap)
	last      map[string]Snap // by workspace id: the newest; a zero one = none
	sure      map[string]bool // by workspace id: a snapshot was compared with all files since the server started
	trees     git.CommitTrees
	roots     git.CommitTrees // their expiry is unknown
	sizes     map[string]keptSize
	loose     map[string]int // by git dir: snapshots taken since its objects were packed
	queue     queue
}

func newCaptureState() *captureState {
	return &captureState{last: make(map[string]Snap), sure: make(map[string]bool), trees: git.NewCommitTrees(), roots: git.NewCommitTrees(), loose: make(map[string]int), sizes: make(map[string]keptSize), queue: queue{wake: make(chan struct{}, 1)}}
}

// ForgetSnapshots drops the cached state of a workspace that was purged.
func (s *Service) ForgetSnapshots(workspaceID string) {
	s.captureState.mu.Lock()
	defer s.captureState.mu.Unlock()
	delete(s.captureState.last, workspaceID)
	delete(s.captureState.sure, workspaceID)
	delete(s.captureState.sizes, workspaceID)
}

// Watch sets the Watcher. It is called once, before Run.
func (s *Service) Watch(w Watcher) {
	s.captureState.mu.Lock()
	defer s.captureState.mu.Unlock()
	s.captureState.watcher = w
}

// ConnectSandboxed sets the writer of files in sandboxes with their own disk. It is called once, before Run.
func (s *Service) ConnectSandboxed(b Sandboxed) {
	s.captureState.mu.Lock()
	defer s.captureState.mu.Unlock()
	s.captureState.sandboxed = b
}

// OnSnapshot has fn called after each new snapshot, in the order they are taken. fn must not block, nor request a snapshot of the same
// workspace before it returns. OnSnapshot is called before Run.
func (s *Service) OnSnapshot(fn func(workspaceID string, s Snap)) {
	s.captureState.mu.Lock()
	defer s.captureState.mu.Unlock()
	s.captureState.hooks = append(s.captureState.hooks, fn)
}

// Take takes a snapshot of everything a workspace has on disk now. Callers that change or remove files call it first, and stop if it fails.
// For a workspace without files, because it is archived or deleted or was never created, it returns its newest snapshot, or the zero Snap.
func (s *Service) Take(ctx context.Context, workspaceID string, f Request) (Snap, error) {
	f.Kind = cmp.Or(f.Kind, SnapKept)
	if !slices.Contains(snapKinds, f.Kind) {
		return Snap{}, fmt.Errorf("snapshot: %q is not a kind of snapshot", f.Kind)
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
	if !s.sandboxes.Remote(w.ID) { // syncing from there may bring many changes first
		f.ahead = s.compareAhead(ctx, p, w)
		defer f.ahead.wait()
	}
	seen, err := s.lookAround(ctx, w) // from here on the watcher's Kept must be called
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

// lookAround finds the differences, before the snapshot's lock is taken: syncing files takes snapshots itself.
func (s *Service) lookAround(ctx context.Context, w workspaces.Workspace) (*Seen, error) {
	s.captureState.mu.Lock()
	watcher := s.captureState.watcher
	s.captureState.mu.Unlock()
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
		return &Seen{Stale: "The sandbox could not be asked: its latest changes are not in this snapshot. " + git.Reason(err)}, nil
	case err != nil:
		s.cfg.Log.WarnContext(ctx, "a sandbox could not be looked at for a snapshot, the host reads its files", "workspace_id", w.ID, "error", err)
		return nil, nil
	case !ok:
		return nil, nil
	}
	seen.After = after
	return &seen, nil
}

// Polled receives the files that differ since a workspace was last looked at, and takes a snapshot if they do. It returns when that is
// stored. whole means that paths are all differences from base; without a base, that other differences are unknown, so that all files on
// this server are compared.
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
		return Snap{}, fault.New(fault.NotFound, "snapshot_not_found", "There is no such snapshot, or it is no longer stored.")
	}
	return sn, err
}

// newestSnap returns the newest snapshot of a workspace.
func (s *Service) newestSnap(ctx context.Context, workspaceID string) (Snap, error) {
	s.captureState.mu.Lock()
	sn, ok := s.captureState.last[workspaceID]
	s.captureState.mu.Unlock()
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
	s.captureState.mu.Lock()
	hooks := s.captureState.hooks
	s.captureState.mu.Unlock()
	for _, fn := range hooks {
		fn(sn.WorkspaceID, sn)
	}
}

// ErrNoHead means that a worktree has no commit yet.
var ErrNoHead = errors.New("the worktree is at no commit")
