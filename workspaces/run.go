package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/jobs"
)

// Causes with which work under way is cancelled.
var (
	ErrCancelled = errors.New("cancelled by a person")
	ErrShutdown  = errors.New("the server was stopped")
)

// Service is the room's door. Safe for concurrent use.
//
// Order of a start: New, Connect, Recover, Run. Clones and creations go on in goroutines Run owns; everything else runs in
// the caller's.
type Service struct {
	cfg         Config
	git         *hostgit.Git
	store       Store
	jobs        *jobs.Jobs
	locks       *Locks
	moved       moved
	packs       *packs
	works       *works
	keeps       *keeps
	comparisons compared
	opens       opens // which secrets' values bases show
	bases       *bases
	progress    *progress
	gate        atomic.Pointer[Gate] // of merges; nil = none
	files       atomic.Pointer[Files]
	numbers     numbers

	mu       sync.Mutex
	places   Places
	sessions Sessions
	leaving  map[string]bool // by workspace id: its snapshot is taken, its place is being removed
}

// New makes a Service. It starts nothing and panics on a Config that Validate refuses.
func New(cfg Config) *Service {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Service{
		cfg: cfg,
		git: hostgit.New(hostgit.Config{Path: cfg.GitPath, StateDir: filepath.Join(cfg.DataDir, "ssh"),
			Protocols: cfg.Protocols, Env: cfg.Env, Timeout: cfg.GitTimeout, Outgoing: cfg.Outgoing, Connector: cfg.Connector, Log: cfg.Log}),
		store: cfg.Store, jobs: cfg.Jobs, locks: cfg.Locks, moved: newMoved(), packs: newPacks(), works: newWorks(), keeps: newKeeps(), comparisons: newCompared(),
		places: cfg.Places, sessions: cfg.Sessions, numbers: numbers{path: filepath.Join(cfg.DataDir, "numbers.json")},
		bases: newBases(), progress: newProgress(), leaving: make(map[string]bool),
	}
}

// Connect gives the Service the rooms that themselves need it. Called once, before Recover and Run.
func (s *Service) Connect(p Places, ss Sessions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places, s.sessions = p, ss
}

// Peers are what workspaces use that is itself made of workspaces.
type Peers struct {
	Places    Places
	Sessions  Sessions
	Files     Files
	Watcher   Watcher
	Sandboxed Sandboxed
	Gate      Gate
	// Reviewed says what a reader's last review of a workspace saw: a snapshot's id or a commit, "" when there is none.
	Reviewed func(ctx context.Context, workspaceID, userID string) (rev string, err error)
	// Snapped is called after each new snapshot, as OnSnapshot's fn is.
	Snapped func(workspaceID string, s Snap)
}

// Join gives the service its peers: once, before Recover and Run.
func (s *Service) Join(p Peers) {
	s.Connect(p.Places, p.Sessions)
	s.ConnectFiles(p.Files)
	s.Watch(p.Watcher)
	s.ConnectSandboxed(p.Sandboxed)
	s.GateBy(p.Gate)
	s.OnSnapshot(p.Snapped)
	s.keeps.mu.Lock()
	defer s.keeps.mu.Unlock()
	s.keeps.reviewed = p.Reviewed
}

// Run lets clones and creations go on, and brings commits of sandboxes home, until ctx is done; then it cancels them and waits until
// they have cleaned up.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.follow(ctx) })
	wg.Go(func() { s.retain(ctx) })
	wg.Go(func() { s.keepOn(ctx) })
	s.jobs.Run(ctx)
	s.packs.close()
	s.works.close()
	wg.Wait()
	return nil
}

// Recover cleans up what a crash cut: half-made clones and creations become failed with a reason, their remains are removed.
// Called once at start, before Run.
func (s *Service) Recover(ctx context.Context) error {
	s.git.Sweep(ctx)
	s.warnOfSharedFolders(ctx)
	if err := s.KeepNumbers(ctx); err != nil { // what is older than the file of them
		s.cfg.Log.WarnContext(ctx, "the highest numbers of workspaces could not be noted beside the database", "error", err)
	}
	if err := s.moveCredentials(ctx); err != nil {
		return fmt.Errorf("looking for credentials of projects: %w", err)
	}
	projects, err := s.store.ProjectsIn(ctx, Cloning)
	if err != nil {
		return fmt.Errorf("listing cut clones: %w", err)
	}
	for _, p := range projects {
		s.failClone(ctx, p, "The server was stopped while it cloned. Remove the project and add it again.")
	}
	cut, err := s.store.WorkspacesIn(ctx, Creating, SettingUp)
	if err != nil {
		return fmt.Errorf("listing cut creations: %w", err)
	}
	for _, w := range cut {
		s.failCreate(ctx, w.ID, ErrShutdown)
	}
	if err := s.recoverGoing(ctx); err != nil { // before the sweep: it leaves folders to remove
		return err
	}
	s.sweep(ctx)
	return s.recoverNew(ctx)
}

// leftovers are patterns of folders below the data folder that nothing needs any more.
var leftovers = [...]string{"*/" + doomedPrefix + "*", "boxes/*/" + doomedPrefix + "*", "boxes/*/new-git-*", "boxes/*/new-home-*"}

// sweep removes folders that deletions left behind and desks nobody works at.
func (s *Service) sweep(ctx context.Context) {
	_ = os.RemoveAll(s.TmpDir())
	var doomed []string
	for _, pattern := range leftovers {
		found, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), pattern))
		doomed = append(doomed, found...)
	}
	for _, d := range doomed {
		if err := removeTree(d); err != nil {
			s.cfg.Log.WarnContext(ctx, "folder could not be removed", "path", d, "error", err)
		}
	}
}

// Spec says what place the workspace needs and of which kind; it is how the executors' Manager asks.
func (s *Service) Spec(ctx context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return executors.Spec{}, "", err
	}
	s.mu.Lock()
	leaving := s.leaving[workspaceID]
	s.mu.Unlock()
	if leaving || w.DeletedAt != 0 || w.State == Archived || w.State == Failed {
		return executors.Spec{}, "", fault.New(fault.Conflict, "workspace_not_active",
			"%s is put away or failed: it has no place to work. Restore it first.", w.Key())
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return executors.Spec{}, "", err
	}
	return executors.Spec{TeamID: w.TeamID, WorkspaceID: w.ID, UserID: w.CreatedBy, Key: w.Key(), Root: w.Path, Inside: insideFolder(p), Folder: w.Folder, GitDirs: []string{p.GitDir}},
		executors.Kind(w.Executor), nil
}

// insideFolder is where the worktree lies in a place with a disk of its own.
func insideFolder(p Project) string { return "/work/" + pathSlug(p.Name) }

func stateWord(w Workspace) string {
	if w.DeletedAt != 0 {
		return "deleted"
	}
	return string(w.State)
}

// HostGit is the git of this server, through which everything that works on workspaces runs it.
func (s *Service) HostGit() *hostgit.Git { return s.git }

// Millis is the time, in ms UTC.
func (s *Service) Millis() int64 { return s.cfg.Now().UnixMilli() }

func (s *Service) TmpDir() string { return filepath.Join(s.cfg.DataDir, "tmp", "git") }

func (s *Service) Rooms() (Places, Sessions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil || s.sessions == nil {
		return nil, nil, fault.New(fault.Unavailable, "starting", "The server is still starting. Try again in a moment.")
	}
	return s.places, s.sessions, nil
}

func (s *Service) PublishWorkspace(ctx context.Context, w Workspace) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "workspace.updated", ID: w.ID, WorkspaceID: w.ID, TeamID: w.TeamID, Version: s.Millis()})
	}
}

func (s *Service) PublishProject(ctx context.Context, p Project) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "project.updated", ID: p.ID, TeamID: p.TeamID, Version: s.Millis()})
	}
}

// pathSlug is a folder's name: ASCII only, because not every tool an agent runs copes with more.
func pathSlug(name string) string {
	keep := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, slug(name))
	if keep = strings.Trim(keep, "-"); keep == "" {
		return "work"
	}
	return keep
}

// PutAwayTime bounds an archive, a deletion or a restore, which go on when their caller has left.
const PutAwayTime = 30 * time.Minute
