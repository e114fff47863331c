// Package conflict lets people and agents resolve the conflicts of an update: file by file, with both sides next to each other, undoable
// until the update is finished.
//
// It starts no goroutine. Everything that writes begins with sandboxgit's Begin, which holds Locks.Busy.
package conflict

import (
	"context"
	"errors"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
	"github.com/parawork/parawork/workspaces/merge"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
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
	Stage       *stage.Service
	Merging     *merge.Service
}

// Service resolves the conflicts of updates. Safe for concurrent use.
type Service struct {
	cfg         Config
	store       Store
	records     *workspaces.Records
	repo        *git.Repo
	secretFiles *secretfiles.Service
	sandboxes   *sandboxgit.Store
	snapshots   *snapshot.Service
	ingest      *ingest.Service
	stage       *stage.Service
	merging     *merge.Service
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Ingest == nil || cfg.Stage == nil || cfg.Merging == nil {
		panic(errors.New("conflict: Store, Records, Repo, SecretFiles, Sandboxes, Snapshots, Ingest, Stage, Merging are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, ingest: cfg.Ingest, stage: cfg.Stage, merging: cfg.Merging}
}
