// Package lifecycle creates workspaces, archives and deletes them, and restores them. A workspace's files are in a snapshot before its
// worktree is removed, and whenever the server dies, the next start finishes or undoes what was interrupted.
//
// Creating, undoing a creation, archiving and restoring are one package: they share the steps a workspace is built of. Goroutines: a
// creation runs in the goroutine of its job (jobs.Jobs), which Run drives. Locks: Locks.Busy, then Locks.Names.
package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
	"github.com/parawork/parawork/workspaces/merge"
	"github.com/parawork/parawork/workspaces/projects"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Rows are the stored workspaces and projects.
type Rows interface {
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// ProjectsIn returns every project in this state, for recovery.
	ProjectsIn(ctx context.Context, state workspaces.ProjectState) ([]workspaces.Project, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	// WorkspaceKnown reports whether there ever was a workspace with this id.
	WorkspaceKnown(ctx context.Context, id string) (bool, error)
	Workspaces(ctx context.Context, teamID string, f workspaces.Filter, pg page.Page) (items []workspaces.Workspace, next string, err error)
	// WorkspacesIn returns every workspace in one of these states, for recovery.
	WorkspacesIn(ctx context.Context, states ...workspaces.State) ([]workspaces.Workspace, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
	// PrivateWorkspaces returns a team's private workspaces, deleted ones too; those of all teams with "".
	PrivateWorkspaces(ctx context.Context, teamID string) ([]workspaces.Workspace, error)
}

// Numbers are the numbers of workspaces, such as the 12 of PW-12.
type Numbers interface {
	// NumbersGiven returns the highest number of each team's workspaces; SkipNumbers makes a team's next one higher than num.
	NumbersGiven(ctx context.Context) (map[string]int64, error)
	SkipNumbers(ctx context.Context, teamID string, num int64) error
}

// Store is what the package needs of the storage.
type Store interface {
	Rows
	Numbers
	// InsertWorkspace takes the team's next number in the same transaction and returns the row with it.
	InsertWorkspace(ctx context.Context, w workspaces.Workspace) (workspaces.Workspace, error)
	// Tx runs fn in one transaction: every call made with fn's ctx is part of it. fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	// UndeleteProject brings a deleted project back, for a workspace that is restored from the trash.
	UndeleteProject(ctx context.Context, id string) error
}

// Config configures a Service.
type Config struct {
	Store           Store
	Records         *workspaces.Records
	Repo            *git.Repo
	Sandboxes       *sandboxgit.Store
	Snapshots       *snapshot.Service
	Transfer        *transfer.Service
	Ingest          *ingest.Service
	Merging         *merge.Service
	Projects        *projects.Service
	Git             *hostgit.Git
	Locks           *workspaces.Locks
	Jobs            *jobs.Jobs
	BranchPrefix    string // of the branches of workspaces, such as "parawork/"; "" = none
	CheckoutWorkers int    // default: one per core, at most 8
	DataDir         string
	// DefaultExecutor is used when Places is not a Chooser.
	DefaultExecutor string
	// FallBackAllowed reports whether a workspace of this kind of remote executor may fall back to this server when that executor is unavailable. nil:
	// never automatically.
	FallBackAllowed func(context.Context, executors.Kind) bool
	FetchTimeout    time.Duration
	GitTimeout      time.Duration // of other git calls
	Log             *slog.Logger
	MaxLimits       executors.Limits // the most a project or a workspace may request
	Now             func() time.Time
	SetupTimeout    time.Duration // of a setup script
	StepTimeout     time.Duration // of worktree and sandbox steps
}

// Service creates workspaces, archives, deletes and restores them. Safe for concurrent use.
type Service struct {
	cfg       Config
	store     Store
	records   *workspaces.Records
	repo      *git.Repo
	sandboxes *sandboxgit.Store
	snapshots *snapshot.Service
	transfer  *transfer.Service
	ingest    *ingest.Service
	merging   *merge.Service
	projects  *projects.Service
	git       *hostgit.Git
	locks     *workspaces.Locks
	jobs      *jobs.Jobs
	numbers   numbers
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Transfer == nil || cfg.Ingest == nil || cfg.Merging == nil || cfg.Projects == nil || cfg.Git == nil || cfg.Locks == nil || cfg.Jobs == nil {
		panic(errors.New("lifecycle: Store, Records, Repo, Sandboxes, Snapshots, Transfer, Ingest, Merging, Projects, Git, Locks, Jobs are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, transfer: cfg.Transfer, ingest: cfg.Ingest, merging: cfg.Merging, projects: cfg.Projects, git: cfg.Git, locks: cfg.Locks, jobs: cfg.Jobs, numbers: numbers{path: filepath.Join(cfg.DataDir, "numbers.json")}}
}
