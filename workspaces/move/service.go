// Package move gives workspaces another place to live: with the agents that run in them, or when nothing runs; and a place on this server
// where their own cannot serve. Until the new sandbox runs, whatever fails or whoever cancels has a workspace go on where it was. The row of
// a move is stored first, so that the next server goes on, or back, where one was killed.
//
// A move is a job (jobs.Jobs), in whose goroutine it runs. It holds the workspace's busy lock (workspaces.Locks) from its beginning to its
// end; the lock over the moves under way is innermost and never held while anything else is waited for.
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

// Rows keeps the rows of moves.
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

// Config is what a Service is made of.
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
	// FallBackAllowed says whether work may go on on this server when its kind of place, which is another machine, cannot serve. nil: never by itself.
	FallBackAllowed func(context.Context, executors.Kind) bool
	// Chown gives what an isolated workspace may write to a user of its own. Only root can.
	Chown bool
	Now   func() time.Time // nil = the clock
	Log   *slog.Logger     // nil = none
}

// Service moves workspaces. Safe for concurrent use. It starts nothing of its own: Recover is called once, after that of Workspaces and before
// the jobs run.
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

// New makes a Service. It panics without what it needs.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Repo == nil || cfg.Sandboxes == nil || cfg.Snapshots == nil || cfg.Transfer == nil || cfg.Ingest == nil || cfg.Lifecycle == nil || cfg.Locks == nil || cfg.Jobs == nil {
		panic(errors.New("move: Store, the packages below, Locks and Jobs are needed"))
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
