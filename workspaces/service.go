// Package workspaces has the common parts of all packages that work on workspaces: the types, the rows with their timelines (Records), and
// the locks that serialize requests (Locks). A workspace is a piece of work: its own branch in its own git worktree.
//
// The operations are in the packages below, from the lowest to the highest: git, secretfiles, sandboxgit, snapshot, transfer, ingest,
// stage, merge, conflict, projects, lifecycle, reclaim, origin and move. Each imports only those before it.
//
// It starts no goroutine. The mutex of Records is innermost.
package workspaces

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/internal/page"
)

// Store is what the package needs of the storage.
type Store interface {
	// Activity returns the newest entries first.
	Activity(ctx context.Context, workspaceID string, pg page.Page) (items []Activity, next string, err error)
	// CountActive returns how many workspaces that are neither archived nor deleted each project of a team has, by its id.
	CountActive(ctx context.Context, teamID string) (map[string]int, error)
	// EditWorkspace changes a workspace in one transaction; an error of fn rolls it back.
	EditWorkspace(ctx context.Context, id string, fn func(*Workspace) error) (Workspace, error)
	InsertActivity(ctx context.Context, a Activity) error
	Project(ctx context.Context, id string) (Project, error)
	// ProjectLines returns a line for every project of a team, deleted ones included; their workspaces are not counted.
	ProjectLines(ctx context.Context, teamID string) (map[string]ProjectLine, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (Workspace, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]Workspace, error)
	Workspaces(ctx context.Context, teamID string, f Filter, pg page.Page) (items []Workspace, next string, err error)
}

// Places manages the sandboxes of workspaces.
type Places interface {
	// Ensure creates the workspace's sandbox or finds the live one.
	Ensure(ctx context.Context, workspaceID string) error
	// Destroy destroys the sandbox and everything in it. It is idempotent.
	Destroy(ctx context.Context, workspaceID string) error
	// Live reports whether the workspace has a sandbox now.
	Live(workspaceID string) bool
	// RunInSandbox runs a bounded command in the sandbox, and creates one if needed.
	RunInSandbox(ctx context.Context, workspaceID string, c executors.SandboxCommand) (executors.SandboxResult, error)
}

// Sessions manages the sessions of workspaces.
type Sessions interface {
	// StartSetup starts the project's setup script as a session people can watch. Env values are not logged.
	StartSetup(ctx context.Context, w Workspace, script string, env map[string]string) (sessionID string, err error)
	// WaitEnd waits until the session has ended and returns how.
	WaitEnd(ctx context.Context, sessionID string) (exitCode int, reason string, err error)
	// StopAll stops every session of the workspace and waits until they have ended.
	StopAll(ctx context.Context, workspaceID string) error
	// Running counts the sessions that have not ended.
	Running(ctx context.Context, workspaceID string) (int, error)
	// SecretFiles returns the secrets the workspace was ever given. On an error, callers show and store none of its files.
	SecretFiles(ctx context.Context, workspaceID string) (SecretFiles, error)
	// SecretsPass adds another workspace's secrets to those of a workspace that is about to receive its files.
	SecretsPass(ctx context.Context, from, to Workspace) error
}

// Config configures Records. DataDir is absolute.
type Config struct {
	Store   Store
	Git     *hostgit.Git
	DataDir string
	Events  events.Publisher // optional
	Log     *slog.Logger     // nil = none
	Now     func() time.Time // nil = the clock
}

// Records are the rows of workspaces and projects, and the references to the sandboxes and sessions that all operations need. Safe for
// concurrent use.
type Records struct {
	cfg   Config
	store Store
	git   *hostgit.Git

	progress *progress

	mu       sync.Mutex
	places   Places
	sessions Sessions
	leaving  map[string]bool // by workspace id: it is being archived or deleted
}

// New makes Records. It panics if a required field is missing.
func New(cfg Config) *Records {
	if cfg.Store == nil || cfg.Git == nil || !filepath.IsAbs(cfg.DataDir) {
		panic(errors.New("workspaces: Store, Git and an absolute DataDir are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Records{cfg: cfg, store: cfg.Store, git: cfg.Git, progress: newProgress(), leaving: make(map[string]bool)}
}

// Connect sets the sandboxes and the sessions, which need the Records themselves. It is called once, before recovery.
func (s *Records) Connect(p Places, ss Sessions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places, s.sessions = p, ss
}

// mostJobs is how many clones, creations and moves run at once.
const mostJobs = 4

// NewJobs makes the pool that runs clones, creations and moves.
func NewJobs() *jobs.Jobs { return jobs.New(mostJobs, ErrShutdown) }
