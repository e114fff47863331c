// Package merge brings a workspace's branch and its base together: merges, squashes and rebases the branch into the base, updates the branch, and says
// beforehand what would conflict. It changes only what the person saw: a branch that moved meanwhile is refused.
//
// Landing, updating and rebasing are one package: they share the plan of a merge. It begins no goroutine. Locks: Locks.Busy of the
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

// Config is what a Service is made of.
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

// New makes a Service. It starts nothing and panics without what it needs.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Ingest == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("merge: Store, Records, Repo, SecretFiles, Sandboxes, Snapshots, Ingest, Git, Locks are needed"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, ingest: cfg.Ingest, git: cfg.Git, locks: cfg.Locks}
}
