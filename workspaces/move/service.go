// Package move gives workspaces another place to live: with the agents that run in them, or when nothing runs; and a place on this server
// where their own cannot serve. Until the new sandbox runs, whatever fails or whoever cancels has a workspace go on where it was. The row of
// a move is stored first, so that the next server goes on, or back, where one was killed.
//
// A move is a job (jobs.Jobs), in whose goroutine it runs. It holds the workspace's busy lock (workspaces.Locks) from its beginning to its
// end; the lock over the moves under way is innermost and never held while anything else is waited for.
package move

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parawork/parawork/internal/jobs"
	"github.com/parawork/parawork/workspaces"
)

// Store is what moves need of the storage.
type Store interface {
	workspaces.MoveStore
	// Workspace returns deleted ones too.
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// BoxUser returns the number of the workspace's user on this machine.
	BoxUser(ctx context.Context, workspaceID string) (int64, error)
}

// Config is what a Service is made of.
type Config struct {
	Store      Store
	Workspaces *workspaces.Service
	// Locks and Jobs are those of Workspaces.
	Locks *workspaces.Locks
	Jobs  *jobs.Jobs
	// FallBackAllowed says whether work whose place is another machine may go on on this server when that cannot serve. nil: never by itself.
	FallBackAllowed func(context.Context) bool
	// Chown gives what an isolated workspace may write to a user of its own. Only root can.
	Chown bool
	Now   func() time.Time // nil = the clock
	Log   *slog.Logger     // nil = none
}

// Service moves workspaces. Safe for concurrent use. It starts nothing of its own: Recover is called once, after that of Workspaces and before
// the jobs run.
type Service struct {
	cfg     Config
	w       *workspaces.Service
	store   Store
	locks   *workspaces.Locks
	jobs    *jobs.Jobs
	movings movings
}

// New makes a Service. It panics without what it needs.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Workspaces == nil || cfg.Locks == nil || cfg.Jobs == nil {
		panic(errors.New("move: Store, Workspaces, Locks and Jobs are needed"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, w: cfg.Workspaces, store: cfg.Store, locks: cfg.Locks, jobs: cfg.Jobs,
		movings: movings{jobs: make(map[string]*moveJob), lacks: make(map[string]map[string]bool)}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }
