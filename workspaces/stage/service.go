// Package stage works on parts of a workspace's changes: files, hunks and lines are staged, unstaged, discarded, committed, or taken from another
// workspace. Whatever it would overwrite is kept in a snapshot first.
//
// It begins no goroutine. Everything that writes begins with sandboxgit's Begin, which holds Locks.Busy.
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

// Config is what a Service is made of.
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

// New makes a Service. It starts nothing and panics without what it needs.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Git == nil {
		panic(errors.New("stage: Store, Records, Repo, SecretFiles, Sandboxes, Snapshots, Git are needed"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, git: cfg.Git}
}
