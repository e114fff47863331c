// Package transfer copies a workspace's repository and files into a sandbox with its own disk, and the ignored files back: as one bundle
// that is packed while the sandbox is being created, so that the agent's first prompt waits only for what it needs.
//
// Goroutines: one for each bundle packed ahead; Run waits for their end. Locks: Locks.Homing while ignored files are written; the mutex of
// the bundles in progress is innermost.
package transfer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Store is what the package needs of the storage.
type Store interface {
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Config configures a Service.
type Config struct {
	Store        Store
	Records      *workspaces.Records
	Repo         *git.Repo
	SecretFiles  *secretfiles.Service
	Sandboxes    *sandboxgit.Store
	Snapshots    *snapshot.Service
	Git          *hostgit.Git
	Locks        *workspaces.Locks
	CloneTimeout time.Duration
	DataDir      string
	FetchTimeout time.Duration
	Log          *slog.Logger
	Machines     Machines      // members' own machines; nil = none
	StepTimeout  time.Duration // of worktree and sandbox steps
}

// Service transfers workspaces into sandboxes. Safe for concurrent use.
type Service struct {
	cfg         Config
	store       Store
	records     *workspaces.Records
	repo        *git.Repo
	secretFiles *secretfiles.Service
	sandboxes   *sandboxgit.Store
	snapshots   *snapshot.Service
	git         *hostgit.Git
	locks       *workspaces.Locks
	packs       *packs
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("transfer: Store, Records, Repo, SecretFiles, Sandboxes, Snapshots, Git, Locks are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, git: cfg.Git, locks: cfg.Locks, packs: newPacks()}
}
