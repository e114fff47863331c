// Package origin works with the remote a project's repository came from: it pushes branches and notes there, compares a branch with the
// remote, and fetches what was merged there.
//
// It owns no goroutines. A push holds the workspace's busy lock (workspaces.Locks) and waits for its turn at the remote; the refs it moves
// are written under the repository's lock.
package origin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
	"github.com/parawork/parawork/workspaces/merge"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Store is the storage this package needs.
type Store interface {
	// Workspace returns deleted ones too.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
}

// Config configures a Service.
type Config struct {
	Store       Store
	Records     *workspaces.Records
	Repo        *git.Repo
	SecretFiles *secretfiles.Service
	Sandboxes   *sandboxgit.Store
	Ingest      *ingest.Service
	Merging     *merge.Service
	Git         *hostgit.Git
	Locks       *workspaces.Locks
	Credentials git.Credentials  // for the hosts of remotes; nil = none
	Protocols   []string         // of URLs; default https, ssh, git
	PushTimeout time.Duration    // default: two hours
	Now         func() time.Time // nil = the clock
	Log         *slog.Logger     // nil = none
}

// Service talks to the remotes of projects. Safe for concurrent use.
type Service struct {
	cfg         Config
	records     *workspaces.Records
	repo        *git.Repo
	secretFiles *secretfiles.Service
	sandboxes   *sandboxgit.Store
	ingest      *ingest.Service
	merging     *merge.Service
	git         *hostgit.Git
	store       Store
	locks       *workspaces.Locks
}

// New makes a Service. It panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Ingest == nil || cfg.Merging == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("origin: Store, Records, Repo, SecretFiles, Sandboxes, Ingest, Merging, Git and Locks are required"))
	}
	if len(cfg.Protocols) == 0 {
		cfg.Protocols = []string{"https", "ssh", "git"}
	}
	if cfg.PushTimeout <= 0 {
		cfg.PushTimeout = 2 * time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, ingest: cfg.Ingest, merging: cfg.Merging,
		git: cfg.Git, store: cfg.Store, locks: cfg.Locks}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }
