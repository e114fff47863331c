// Package git reads and writes the repositories of projects on this server: branches, commits, trees, comparisons, credentials of remotes,
// and the part of a repository that a remote sandbox is sent. It knows projects and workspaces as rows, and nothing about sandboxes.
//
// Goroutines: it starts only those that feed git and end with the call. Locks: Locks.Repos is held while refs of a repository are written;
// the mutexes of the caches (bases, comparisons, progress, works) are innermost.
package git

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// Store is what the package needs of the storage.
type Store interface {
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
}

// Config configures a Repo.
type Config struct {
	Store        Store
	Records      *workspaces.Records
	Git          *hostgit.Git
	Locks        *workspaces.Locks
	AllowedRoots []string    // folders below which people may choose repositories
	BranchPrefix string      // of the branches of workspaces, such as "parawork/"; "" = none
	Credentials  Credentials // for the hosts of remotes; nil = none
	DataDir      string
	Events       events.Publisher // optional
	FetchTimeout time.Duration
	Log          *slog.Logger
	Now          func() time.Time
	StepTimeout  time.Duration // of worktree and sandbox steps
}

// Repo works on the repositories of projects. Safe for concurrent use.
type Repo struct {
	cfg         Config
	store       Store
	records     *workspaces.Records
	git         *hostgit.Git
	locks       *workspaces.Locks
	bases       *bases
	comparisons compared
	works       *works
}

// New makes a Repo. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Repo {
	if cfg.Store == nil || cfg.Records == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("git: Store, Records, Git, Locks are required"))
	}
	return &Repo{cfg: cfg, store: cfg.Store, records: cfg.Records, git: cfg.Git, locks: cfg.Locks, bases: newBases(), comparisons: newCompared(), works: newWorks()}
}
