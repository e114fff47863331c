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

// Config joins a Service to the rest of the harness. All but Now and Log are required.
type Config struct {
	Store      Store
	Places     Places
	Workspaces Workspaces
	Events     events.Publisher
	// Touched is told of files that changed just now: some of their paths, and how many more. It must not block. nil: nobody.
	Touched func(workspaceID string, paths []string, more int)
	// Moved is told when a worktree is at another commit or branch than before. It must not block. nil: nobody.
	Moved func(workspaceID string)

	// Polled is told of files that differ from what was seen before, once they are on this server: raw paths, and with whole all that differ
	// from base; where base is "" then, nobody knows what else differs, and all files are to be compared. What is followed goes on when it returns. nil: nobody.
	Polled func(ctx context.Context, workspaceID, base string, paths []string, whole bool) error

	// For places with a disk of their own. Without Trees nothing of them is brought home.
	Trees    Trees
	DataDir  string // absolute; files are put together below it
	MaxFile  int64  // bytes of one file that is brought home; default 100 MiB
	MaxTotal int64  // bytes of all changed files of a workspace; default 2 GiB
	// HomeDir is where the copy of a workspace's agents' home lies on this server, absolute; nil: none is kept. HomeRoots are the names
	// in it that are kept, HomeSkip those below them that are not.
	HomeDir             func(workspaceID string) string
	HomeRoots, HomeSkip []string
	// Lag is told how long changed files of a kind of place took to come home. It must not block. nil: nobody.
	Lag func(kind string, took time.Duration)

	Now func() time.Time
	Log *slog.Logger
}

// Service keeps sets of changes. All methods are safe for concurrent use.
type Service struct {
	cfg Config

	mu        sync.Mutex
	run       context.Context // of Run, nil while it does not run
	followers map[string]*follower
	work      sync.WaitGroup
	pending   map[string]events.Event // not yet published, by type and workspace
	wake      chan struct{}           // something is pending
	crash     func(at string) error   // of tests: the server dies where it returns an error
}

// New makes a Service. It starts nothing.
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
	return &Service{cfg: cfg, followers: make(map[string]*follower), pending: make(map[string]events.Event), wake: make(chan struct{}, 1)}
}

// Run follows places and publishes what changed until ctx ends, and returns when its goroutines have. It runs once.
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

// Follow starts following a live place until it is gone. It never blocks, and may be called before Run.
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

// follow returns the follower of a place, making one when the workspace has none or one of another sandbox.
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

// start runs a follower until its place is gone. Only with s.mu.
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

// place returns the workspace's live place, making one when there is none, and its follower.
func (s *Service) place(ctx context.Context, workspaceID string) (*executors.Place, *follower, error) {
	p, err := s.cfg.Places.Ensure(ctx, workspaceID)
	if err != nil {
		return nil, nil, err
	}
	return p, s.followPlace(p), nil
}

const codeNoBase = "workspace_not_ready"

// base is the commit a workspace's changes are counted from.
func (s *Service) base(ctx context.Context, workspaceID string) (string, error) {
	base, err := s.cfg.Workspaces.BaseCommit(ctx, workspaceID)
	if err == nil && !commitID.MatchString(base) {
		err = fault.New(fault.Conflict, codeNoBase, "The workspace is not ready yet: it has no base to compare with. Wait until it is created.")
	}
	return base, err
}

// Changes returns the set of a workspace as last seen. It does not look.
func (s *Service) Changes(ctx context.Context, workspaceID string) (Set, error) {
	return s.cfg.Store.Changes(ctx, workspaceID)
}

// Summaries returns the figures of every workspace of a team that was looked at, or of those that are named.
func (s *Service) Summaries(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Summary, error) {
	return s.cfg.Store.ChangeSummaries(ctx, teamID, workspaceIDs...)
}

// SyncNow looks at once, making a place when there is none, and returns what it saw. What git could not do is told by the
// set's Error. Of a place with a disk of its own every changed file is on this server then; one that stands still or is gone has
// brought everything home, so that none is made or woken for that.
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

// syncTimeout bounds how long somebody waits for files to come home. They go on coming after that.
const syncTimeout = 2 * time.Minute

// reach is where tests have the server die.
func (s *Service) reach(at string) error {
	if s.crash == nil {
		return nil
	}
	return s.crash(at)
}

// lieAsFault gives a guest's lie words for the person who waits for an answer.
func lieAsFault(err error) error {
	if errors.Is(err, errLie) {
		return fault.Wrap(err, fault.Unavailable, "sandbox_untrusted",
			"The sandbox gave an answer that cannot be true. Destroy the sandbox and try again.")
	}
	return err
}

// maxDiff bounds a diff: what an honest guest sends, and a little more.
const maxDiff = 17 << 20

// Diff returns the unified diff of one path against the base. lines is the number of lines around a hunk. The caller closes it.
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

// limited reads at most a number of bytes of what it closes.
type limited struct {
	io.Reader
	io.Closer
}

// wirePath checks a path a person sent and brings it into the one wire form of its bytes.
func wirePath(path string) (string, error) {
	if err := guest.CheckPath(path); err != nil {
		return "", err
	}
	return guest.EncodePath(guest.DecodePath(path)), nil
}
