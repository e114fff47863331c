// Package reclaim frees disk space: it purges what has been in the trash for its retention time, repacks repositories, and estimates how
// much that would free.
//
// Goroutines: Run, which empties the trash. Locks: Locks.Busy and Locks.Snapshots of a workspace, Locks.Repos of a repository.
package reclaim

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Store is what the package needs of the storage.
type Store interface {
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// ProjectsAt returns every project, of any team, whose git dir this is.
	ProjectsAt(ctx context.Context, gitDir string) ([]workspaces.Project, error)
	// UndeleteProject brings a deleted project back, for a workspace that is restored from the trash.
	UndeleteProject(ctx context.Context, id string) error
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
}

// Config configures a Service.
type Config struct {
	Store        Store
	Records      *workspaces.Records
	Repo         *git.Repo
	Sandboxes    *sandboxgit.Store
	Snapshots    *snapshot.Service
	Transfer     *transfer.Service
	Lifecycle    *lifecycle.Service
	Git          *hostgit.Git
	Locks        *workspaces.Locks
	After        func(time.Duration) <-chan time.Time
	CloneTimeout time.Duration
	DataDir      string
	Log          *slog.Logger
	Trash        TrashStore    // nil = deleted workspaces stay
	TrashKeep    time.Duration // how long deleted workspaces can be restored; 0 = forever
}

// Service frees disk space. Safe for concurrent use.
type Service struct {
	cfg       Config
	store     Store
	records   *workspaces.Records
	repo      *git.Repo
	sandboxes *sandboxgit.Store
	snapshots *snapshot.Service
	transfer  *transfer.Service
	lifecycle *lifecycle.Service
	git       *hostgit.Git
	locks     *workspaces.Locks
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Transfer == nil || cfg.Lifecycle == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("reclaim: Store, Records, Repo, Sandboxes, Snapshots, Transfer, Lifecycle, Git, Locks are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, transfer: cfg.Transfer, lifecycle: cfg.Lifecycle, git: cfg.Git, locks: cfg.Locks}
}
