// Package ingest brings commits into the repositories of projects: it fetches what sandboxes committed, as soon as that is seen and before
// a sandbox ends, what an abandoned sandbox has, and what the project's remote has. It prepares a workspace's git dir for each new sandbox,
// and restores the worktree of one whose sandbox has gone.
//
// Goroutines: Run has one that follows the sandboxes that moved, and at most followAtOnce that fetch. Locks: Locks.Names before Locks.Repos
// where commits of an abandoned sandbox get a branch; the mutex of moved is innermost.
package ingest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Store is what the package needs of the storage.
type Store interface {
	// BoxUser returns the workspace's user id on this machine, a new one when it has none. It never reuses an id.
	BoxUser(ctx context.Context, workspaceID string) (int64, error)
	EditProject(ctx context.Context, id string, fn func(*workspaces.Project) error) (workspaces.Project, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
}

// Config configures a Service.
type Config struct {
	Store          Store
	Records        *workspaces.Records
	Repo           *git.Repo
	Sandboxes      *sandboxgit.Store
	Snapshots      *snapshot.Service
	Transfer       *transfer.Service
	Git            *hostgit.Git
	Locks          *workspaces.Locks
	After          func(time.Duration) <-chan time.Time
	SandboxTimeout time.Duration // of one git call in a sandbox
	// Chown gives the files an isolated workspace may write to their own user. Only root can do that.
	Chown     bool
	DataDir   string
	Log       *slog.Logger
	Protocols []string // of URLs; default https, ssh, git
}

// Service brings commits into the repositories of projects. Safe for concurrent use.
type Service struct {
	cfg       Config
	store     Store
	records   *workspaces.Records
	repo      *git.Repo
	sandboxes *sandboxgit.Store
	snapshots *snapshot.Service
	transfer  *transfer.Service
	git       *hostgit.Git
	locks     *workspaces.Locks
	moved     moved
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Transfer == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("ingest: Store, Records, Repo, Sandboxes, Snapshots, Transfer, Git, Locks are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, transfer: cfg.Transfer, git: cfg.Git, locks: cfg.Locks, moved: newMoved()}
}
