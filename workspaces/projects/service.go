// Package projects adds the repositories teams work on: by URL, from a folder of this server or of a member's machine, or as a sample.
// Clones are jobs; one that a crash interrupted becomes failed with a reason.
//
// Goroutines: a clone runs in the goroutine of its job (jobs.Jobs). Locks: none but the store's.
package projects

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Store is what the package needs of the storage.
type Store interface {
	// DeleteProject marks the project deleted; fault.Conflict when workspaces that are not deleted belong to it.
	DeleteProject(ctx context.Context, id, by string, at int64) error
	EditProject(ctx context.Context, id string, fn func(*workspaces.Project) error) (workspaces.Project, error)
	// EditProject changes a project in one transaction; an error of fn rolls it back. FolderProjects returns every team's projects in
	// folders of the server, those in the trash included.
	FolderProjects(ctx context.Context) ([]workspaces.Project, error)
	// InsertFolderProject stores a project in a folder, if known are the ids of all such projects, else it returns ErrFoldersChanged: of
	// several added concurrently, each sees those before it.
	InsertFolderProject(ctx context.Context, p workspaces.Project, known []string) error
	InsertProject(ctx context.Context, p workspaces.Project) error
	Project(ctx context.Context, id string) (workspaces.Project, error)
	Projects(ctx context.Context, teamID string, pg page.Page) (items []workspaces.Project, next string, err error)
	// ProjectsAt returns every project, of any team, whose git dir this is.
	ProjectsAt(ctx context.Context, gitDir string) ([]workspaces.Project, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
}

// Config configures a Service.
type Config struct {
	Store        Store
	Records      *workspaces.Records
	Repo         *git.Repo
	Sandboxes    *sandboxgit.Store
	Transfer     *transfer.Service
	Git          *hostgit.Git
	Jobs         *jobs.Jobs
	AllowedRoots []string // folders below which people may choose repositories
	CloneTimeout time.Duration
	CopyIgnored  []string // patterns of ignored files copied for new projects, such as ".env"
	FetchTimeout time.Duration
	Log          *slog.Logger
	MaxLimits    executors.Limits // the most a project or a workspace may request
	Now          func() time.Time
	// Outgoing checks every address that remotes lead to; nil = all are allowed. Connector is the proxy for ssh and git: hostgit.Config.
	Outgoing  *egress.Guard
	Protocols []string // of URLs; default https, ssh, git
	Trash     bool     // deleted projects stay until they are purged; without it they are removed at once
}

// Service adds and changes projects. Safe for concurrent use.
type Service struct {
	cfg       Config
	store     Store
	records   *workspaces.Records
	repo      *git.Repo
	sandboxes *sandboxgit.Store
	transfer  *transfer.Service
	git       *hostgit.Git
	jobs      *jobs.Jobs

	making sync.Mutex // held while a project of sandboxes is made
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.Sandboxes == nil || cfg.Transfer == nil || cfg.Git == nil || cfg.Jobs == nil {
		panic(errors.New("projects: Store, Records, Repo, Sandboxes, Transfer, Git, Jobs are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, sandboxes: cfg.Sandboxes, transfer: cfg.Transfer, git: cfg.Git, jobs: cfg.Jobs}
}
