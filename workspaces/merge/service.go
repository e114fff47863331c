// Package merge joins a workspace's branch and its base: it merges, squashes and rebases the branch into the base, updates the branch, and
// predicts conflicts. It changes only what the user saw: it rejects a branch that moved meanwhile.
//
// Landing, updating and rebasing are one package: they share the plan of a merge. It starts no goroutine. Locks: Locks.Busy of the
// workspace, then Locks.Repos.
package merge

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
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
	Store       Store
	Records     *workspaces.Records
	Repo        *git.Repo
	SecretFiles *secretfiles.Service
	Sandboxes   *sandboxgit.Store
	Snapshots   *snapshot.Service
	Ingest      *ingest.Service
	Git         *hostgit.Git
	Locks       *workspaces.Locks
	GitTimeout  time.Duration // of other git calls
	Log         *slog.Logger
	Protocols   []string      // of URLs; default https, ssh, git
	StepTimeout time.Duration // of worktree and sandbox steps
}

// Service merges and updates workspaces' branches. Safe for concurrent use.
type Service struct {
	cfg         Config
	store       Store
	records     *workspaces.Records
	repo        *git.Repo
	secretFiles *secretfiles.Service
	sandboxes   *sandboxgit.Store
	snapshots   *snapshot.Service
	ingest      *ingest.Service
	git         *hostgit.Git
	locks       *workspaces.Locks
	gate        atomic.Pointer[Gate]
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Ingest == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("merge: Store, Records, Repo, SecretFiles, Sandboxes, Snapshots, Ingest, Git, Locks are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, ingest: cfg.Ingest, git: cfg.Git, locks: cfg.Locks}
}
