package filesync

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
)

// Config connects a Service to the rest of the server. All but Now and Log are required.
type Config struct {
	Store      Store
	Places     Places
	Workspaces Workspaces
	Events     events.Publisher
	// Touched is called with files that changed just now: some of their paths, and how many more. It must not block. May be nil.
	Touched func(workspaceID string, paths []string, more int)
	// Moved is called when a worktree is at another commit or branch than before. It must not block. May be nil.
	Moved func(workspaceID string)

	// Polled is called with files that differ from what was seen before, once they are on this server: raw paths, and with whole
	// all paths that differ from base. Where base is "" then, what else differs is unknown, and all files are to be compared. The
	// follower waits until it returns. May be nil.
	Polled func(ctx context.Context, workspaceID, base string, paths []string, whole bool) error

	// For sandboxes with their own disk. Without Trees their files are not synced.
	Trees    Trees
	DataDir  string // absolute; files are assembled below it
	MaxFile  int64  // bytes of one synced file; default 100 MiB
	MaxTotal int64  // bytes of all changed files of a workspace; default 2 GiB
	// HomeDir returns where the copy of a workspace's agents' home is on this server, absolute; nil: homes are not copied.
	// HomeRoots are the names in it that are copied, HomeSkip those below them that are not.
	HomeDir             func(workspaceID string) string
	HomeRoots, HomeSkip []string
	// Lag is called with the time changed files of a kind of executor took to sync. It must not block. May be nil.
	Lag func(kind string, took time.Duration)

	Now func() time.Time
	Log *slog.Logger
}

// Service maintains sets of changes. All methods are safe for concurrent use.
type Service struct {
	cfg Config

	mu        sync.Mutex
	run       context.Context // the context of Run, nil while it does not run
	followers map[string]*follower
	lists     map[string]*pathList // by workspace: of all paths
	work      sync.WaitGroup
	pending   map[string]events.Event // not yet published, by type and workspace
	wake      chan struct{}           // signals that something is pending
	crash     func(at string) error   // for tests: simulates a crash of the server where it returns an error
}

// New returns a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.MaxFile <= 0 {
		cfg.MaxFile = 100 << 20
	}
	if cfg.MaxTotal <= 0 {
		cfg.MaxTotal = 2 << 30
	}
	return &Service{cfg: cfg, followers: make(map[string]*follower), lists: make(map[string]*pathList), pending: make(map[string]events.Event), wake: make(chan struct{}, 1)}
}

// Run follows sandboxes and publishes what changed until ctx ends, and returns when its goroutines have ended. Call it once.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.run = ctx
	for _, f := range s.followers {
		s.start(f)
	}
	s.mu.Unlock()
	s.publish(ctx)
	s.mu.Lock()
	s.run = nil
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// Follow starts following a live sandbox until it is gone. It never blocks, and may be called before Run.
func (s *Service) Follow(p *executors.Place) {
	s.followPlace(p)
}

func (s *Service) followPlace(p *executors.Place) *follower {
	b := realBox{p.Guest}
	if !p.OwnDisk || s.cfg.Trees == nil {
		return s.follow(p.WorkspaceID, p.TeamID, p.SandboxID, b, p.Ending(), nil)
	}
	return s.follow(p.WorkspaceID, p.TeamID, p.SandboxID, b, p.Ending(), func(f *follower) *mirror {
		f.homes = s.homesOf(p)
		return newMirror(s, b, f, string(p.Kind))
	})
}

// follow returns the follower of a sandbox, creating one when the workspace has none or one of another sandbox.
func (s *Service) follow(workspaceID, teamID, sandboxID string, b box, gone <-chan struct{}, mirrored func(*follower) *mirror) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.followers[workspaceID]; old != nil {
		if old.sandboxID == sandboxID {
			return old
		}
		old.cancel()
	}
	f := &follower{
		s: s, box: b, workspaceID: workspaceID, teamID: teamID, sandboxID: sandboxID, gone: gone, cancel: func() {},
		applied: make(chan struct{}), owed: make(chan struct{}, 1), keeping: make(chan struct{}, 1), log: s.cfg.Log.With("workspace_id", workspaceID, "sandbox_id", sandboxID),
	}
	if mirrored != nil {
		f.mirror = mirrored(f)
	}
	s.followers[workspaceID] = f
	if s.run != nil && s.run.Err() == nil {
		s.start(f)
	}
	return f
}

// start runs a follower until its sandbox is gone. The caller holds s.mu.
func (s *Service) start(f *follower) {
	ctx, cancel := context.WithCancel(s.run)
	f.cancel = cancel
	var mirroring sync.WaitGroup
	if f.mirror != nil {
		mirroring.Go(func() { f.mirror.run(ctx) })
	}
	if f.homes != nil {
		mirroring.Go(func() { f.homes.run(ctx) })
	}
	s.work.Go(func() {
		defer cancel()
		f.follow(ctx)
		mirroring.Wait()
		if f.mirror != nil && f.over() {
			f.mirror.ended()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.followers[f.workspaceID] == f {
			delete(s.followers, f.workspaceID)
		}
	})
	s.work.Go(func() {
		select {
		case <-f.gone:
			cancel()
		case <-ctx.Done():
		}
	})
}

// place returns the workspace's live sandbox, creating one when there is none, and its follower.
func (s *Service) place(ctx context.Context, workspaceID string) (*executors.Place, *follower, error) {
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return nil, nil, err
	}
	return p, s.followPlace(p), nil
}

const codeNoBase = "workspace_not_ready"

// base is the commit a workspace's changes are compared with.
func (s *Service) base(ctx context.Context, workspaceID string) (string, error) {
	base, err := s.cfg.Workspaces.BaseCommit(ctx, workspaceID)
	if err == nil && !commitID.MatchString(base) {
		err = fault.New(fault.Conflict, codeNoBase, "The workspace is not ready yet: it has no base to compare with. Wait until it is created.")
	}
	return base, err
}

// Changes returns the set of a workspace as last seen, without looking again.
func (s *Service) Changes(ctx context.Context, workspaceID string) (Set, error) {
	return s.cfg.Store.Changes(ctx, workspaceID)
}

// Summaries returns the summary of every workspace of a team that was looked at, or of the named ones.
func (s *Service) Summaries(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Summary, error) {
	return s.cfg.Store.ChangeSummaries(ctx, teamID, workspaceIDs...)
}

// SyncNow looks at once, creating a sandbox when there is none, and returns what it saw. The set's Error holds what git could not
// do. For a sandbox with its own disk every changed file is on this server afterwards; one that is suspended or gone was synced
// before that, so that none is created or woken for it.
func (s *Service) SyncNow(ctx context.Context, workspaceID string) (Set, error) {
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return Set{}, err
	} else if here {
		return s.Changes(ctx, workspaceID)
	}
	base, err := s.base(ctx, workspaceID)
	if err != nil {
		return Set{}, err
	}
	_, f, err := s.place(ctx, workspaceID)
	if err != nil {
		return Set{}, err
	}
	if err := f.look(ctx, base); err != nil {
		return Set{}, lieAsFault(err)
	}
	if f.mirror != nil {
		ctx, cancel := context.WithTimeout(ctx, syncTimeout)
		defer cancel()
		if err := f.settle(ctx); err != nil {
			return Set{}, err
		}
	}
	return s.Changes(ctx, workspaceID)
}

// syncTimeout bounds how long a caller waits for files to sync. The sync continues after that.
const syncTimeout = 2 * time.Minute

// reach is a failpoint at which tests simulate a crash.
func (s *Service) reach(at string) error {
	if s.crash == nil {
		return nil
	}
	return s.crash(at)
}

// lieAsFault words a guest's false report for the person who waits for an answer.
func lieAsFault(err error) error {
	if errors.Is(err, errLie) {
		return fault.Wrap(err, fault.Unavailable, "sandbox_untrusted",
			"The sandbox gave an answer that cannot be true. Destroy the sandbox and try again.")
	}
	return err
}

// maxDiff bounds a diff: what an honest guest sends, and a little more.
const maxDiff = 17 << 20

// Diff returns the unified diff of one path against the base, with lines lines around each hunk. The caller closes it.
func (s *Service) Diff(ctx context.Context, workspaceID, path string, lines int) (io.ReadCloser, error) {
	path, err := wirePath(path)
	if err != nil {
		return nil, err
	}
	base, err := s.base(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	req := guest.DiffRequest{Base: base, Path: path, Context: max(lines, 0)}
	if c, err := s.cfg.Store.Change(ctx, workspaceID, path); err == nil {
		req.OldPath = c.OldPath
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if here, _, err := s.here(ctx, workspaceID); err != nil {
		return nil, err
	} else if here {
		return s.diffHere(ctx, workspaceID, base, path, req.OldPath, req.Context)
	}
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	r, err := p.Guest.Diff(ctx, req)
	if err != nil {
		return nil, err
	}
	return limited{io.LimitReader(r, maxDiff), r}, nil
}

// limited reads at most a number of bytes, and closes the underlying reader.
type limited struct {
	io.Reader
	io.Closer
}

// wirePath checks a path a person sent and returns its canonical wire form.
func wirePath(path string) (string, error) {
	if err := guest.CheckPath(path); err != nil {
		return "", err
	}
	return guest.EncodePath(guest.DecodePath(path)), nil
}
