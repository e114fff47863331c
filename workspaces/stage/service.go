// Package stage works on parts of a workspace's changes: it stages, unstages, discards and commits files, hunks and lines, and takes files
// from another workspace. It first takes a snapshot of whatever it would overwrite.
//
// It starts no goroutine. Everything that writes begins with sandboxgit's Begin, which holds Locks.Busy.
package stage

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

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
	Store       Store
	Records     *workspaces.Records
	Repo        *git.Repo
	SecretFiles *secretfiles.Service
	Sandboxes   *sandboxgit.Store
	Snapshots   *snapshot.Service
	Git         *hostgit.Git
	Log         *slog.Logger
}

// Service stages, discards and commits parts of workspaces' changes. Safe for concurrent use.
type Service struct {
	cfg         Config
	store       Store
	records     *workspaces.Records
	repo        *git.Repo
	secretFiles *secretfiles.Service
	sandboxes   *sandboxgit.Store
	snapshots   *snapshot.Service
	git         *hostgit.Git
	files       atomic.Pointer[Files]
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Git == nil {
		panic(errors.New("stage: Store, Records, Repo, SecretFiles, Sandboxes, Snapshots, Git are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, git: cfg.Git}
}
