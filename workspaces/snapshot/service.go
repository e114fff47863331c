// Package snapshot takes snapshots of workspaces' files: while an agent works, before everything that could lose something, and on request.
// It shows them in a timeline, compares and restores them, and deletes expired ones.
//
// It is one package, not three: taking, reading and removing work on one state (snapshots), which nearly every method uses. Goroutines: Run
// has one that takes the snapshots that polls requested, and as many takers as that allows. Locks: Locks.Snapshots is held while one of a
// workspace is taken, before Locks.Repos; the mutex of the caches is innermost.
package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Rows are what snapshots need to know of workspaces.
type Rows interface {
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// Workspace returns deleted ones too: they are in the trash.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	// Activity returns the newest entries first.
	Activity(ctx context.Context, workspaceID string, pg page.Page) (items []workspaces.Activity, next string, err error)
	// GitDirs returns the repositories of workspaces' projects, by workspace, without those of deleted projects.
	GitDirs(ctx context.Context, workspaceIDs []string) (map[string]string, error)
}

// Reader reads the rows of snapshots.
type Reader interface {
	Snapshot(ctx context.Context, id string) (Snap, error)
	// SnapshotsNamed returns those of the snapshots that exist, in no order.
	SnapshotsNamed(ctx context.Context, ids []string) ([]Snap, error)
	// Snapshots returns the newest first; of these kinds only, all when none is named.
	Snapshots(ctx context.Context, workspaceID string, kinds []string, pg page.Page) (items []Snap, next string, err error)
	// SnapshotBefore returns the newest one of a workspace that was taken before at; of all when at is 0.
	SnapshotBefore(ctx context.Context, workspaceID string, at int64) (Snap, error)
	// SnapshotAt returns one of a workspace whose hidden commit, or head, this is.
	SnapshotAt(ctx context.Context, workspaceID, commit string) (Snap, error)
	// OldSnapshots returns those of any workspace that expire at this time or before, at most n; none that is pinned, and none that a
	// review or a checkpoint refers to.
	OldSnapshots(ctx context.Context, before int64, n int) ([]Snap, error)
	// InCheckpoints returns those of the snapshots to which a checkpoint refers.
	InCheckpoints(ctx context.Context, ids []string) (map[string]bool, error)
	// InReviews returns those of the snapshots to which a review refers.
	InReviews(ctx context.Context, ids []string) (map[string]bool, error)
}

// Writer stores the rows of snapshots.
type Writer interface {
	// InsertSnapshot stores a snapshot. It does not change one whose id is already stored.
	InsertSnapshot(ctx context.Context, s Snap) error
	EditSnapshot(ctx context.Context, id string, fn func(*Snap) error) (Snap, error)
	DeleteSnapshots(ctx context.Context, ids []string) error
	// SetSnapshotEnds sets the expiry of all that are not pinned to this long, in ms, after the end of their day; 0 = they expire with the
	// workspace.
	SetSnapshotEnds(ctx context.Context, polls, others int64) error
}

// Store is what the package needs of the storage.
type Store interface {
	Rows
	Reader
	Writer
}

// Config configures a Service.
type Config struct {
	Store       Store
	Records     *workspaces.Records
	Repo        *git.Repo
	SecretFiles *secretfiles.Service
	Sandboxes   *sandboxgit.Store
	Git         *hostgit.Git
	Locks       *workspaces.Locks
	After       func(time.Duration) <-chan time.Time
	Events      events.Publisher // optional
	GitTimeout  time.Duration    // of other git calls
	Log         *slog.Logger
	Now         func() time.Time
	// Retention returns how long snapshots are retained; nil = the defaults.
	Retention   func() Retention
	StepTimeout time.Duration // of worktree and sandbox steps
}

// Service takes, shows and restores snapshots of workspaces' files. Safe for concurrent use.
type Service struct {
	cfg          Config
	store        Store
	records      *workspaces.Records
	repo         *git.Repo
	secretFiles  *secretfiles.Service
	sandboxes    *sandboxgit.Store
	git          *hostgit.Git
	locks        *workspaces.Locks
	captureState *captureState
}

// New makes a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.SecretFiles == nil || cfg.Sandboxes == nil || cfg.Git == nil || cfg.Locks == nil {
		panic(errors.New("snapshot: Store, Records, Repo, SecretFiles, Sandboxes, Git, Locks are required"))
	}
	return &Service{cfg: cfg, store: cfg.Store, records: cfg.Records, repo: cfg.Repo, secretFiles: cfg.SecretFiles, sandboxes: cfg.Sandboxes, git: cfg.Git, locks: cfg.Locks, captureState: newCaptureState()}
}
