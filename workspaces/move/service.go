// Package move gives workspaces another executor, together with their running agents or when nothing runs, and lets them fall back to this
// server when their own executor is unavailable. Until the new sandbox runs, any failure or cancellation resumes the workspace where it
// was. The row of a move is stored first, so that after a crash the next server continues or reverts it.
//
// A move is a job (jobs.Jobs), in whose goroutine it runs. It holds the workspace's busy lock (workspaces.Locks) from start to end; the
// lock of the moves in progress is innermost and never held while waiting for anything else.
package move

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Rows stores the rows of moves.
type Rows interface {
	// InsertMove stores a move; fault.Conflict when the workspace has one that has not ended.
	InsertMove(ctx context.Context, m workspaces.Moving) error
	// UpdateMove stores state, reason, steps, sessions and end of a move.
	UpdateMove(ctx context.Context, m workspaces.Moving) error
	// Moves returns the newest of a workspace, the newest first, at most n.
	Moves(ctx context.Context, workspaceID string, n int) ([]workspaces.Moving, error)
	// OpenMoves returns those of any workspace that have not ended.
	OpenMoves(ctx context.Context) ([]workspaces.Moving, error)
}

// Store is what moves need of the storage.
type Store interface {
	Rows
	// Workspace returns deleted ones too.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// BoxUser returns the number of the workspace's user on this machine.
	BoxUser(ctx context.Context, workspaceID string) (int64, error)
}

// Config configures a Service.
type Config struct {
	Store     Store
	Records   *workspaces.Records
	Repo      *git.Repo
	Sandboxes *sandboxgit.Store
	Snapshots *snapshot.Service
	Transfer  *transfer.Service
	Ingest    *ingest.Service
	Lifecycle *lifecycle.Service
	Locks     *workspaces.Locks
	Jobs      *jobs.Jobs
	// FallBackAllowed reports whether a workspace of this kind of remote executor may fall back to this server when that executor is unavailable. nil:
	// never automatically.
	FallBackAllowed func(context.Context, executors.Kind) bool
	// Chown gives the files an isolated workspace may write to their own user. Only root can do that.
	Chown bool
	Now   func() time.Time // nil = the clock
	Log   *slog.Logger     // nil = none
}

// Service moves workspaces. Safe for concurrent use. It starts no goroutine: Recover is called once, after that of the workspaces and
// before the jobs run.
type Service struct {
	cfg       Config
	records   *workspaces.Records
	repo      *git.Repo
	sandboxes *sandboxgit.Store
	snapshots *snapshot.Service
	transfer  *transfer.Service
	ingest    *ingest.Service
	lifecycle *lifecycle.Service
	store     Store
	locks     *workspaces.Locks
	jobs      *jobs.Jobs
	movings   movings
}

// New makes a Service. It panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Transfer == nil || cfg.Ingest == nil || cfg.Lifecycle == nil || cfg.Locks == nil || cfg.Jobs == nil {
		panic(errors.New("move: Store, the packages below, Locks and Jobs are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, records: cfg.Records, repo: cfg.Repo, sandboxes: cfg.Sandboxes, snapshots: cfg.Snapshots, transfer: cfg.Transfer, ingest: cfg.Ingest,
		lifecycle: cfg.Lifecycle, store: cfg.Store, locks: cfg.Locks, jobs: cfg.Jobs,
		movings: movings{jobs: make(map[string]*moveJob), lacks: make(map[string]map[string]bool)}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }
