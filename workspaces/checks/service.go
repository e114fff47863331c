package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

// Config configures a Service.
type Config struct {
	Store     Store
	Records   Records
	Sandboxes Sandboxes
	Merges    Merges
	Commands  Commands
	Accounts  Accounts
	Events    events.Publisher
	// Approved reports whether somebody approved these files of a workspace; nil = nobody ever did.
	Approved func(ctx context.Context, workspaceID, tree string) (bool, error)
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time // timer of retries; default time.After
	Log      *slog.Logger
}

// keepRuns is how many runs of a workspace are retained.
const keepRuns = 60

// Service runs checks and the merge queue. Safe for concurrent use. Order of a start: New, Recover, Run.
type Service struct {
	cfg Config

	scope *tasks.Scope
	life  context.Context // context of running work: the scope's

	mu      sync.Mutex
	begun   bool                               // Run is running
	waiting []func()                           // work requested before that
	turns   locks.Keyed                        // by workspace: its checks run one after the other
	cancels map[string]context.CancelCauseFunc // by id of a run or a queue entry in progress
	queues  map[string]*queue                  // by project: queues in progress
}

// queue is a project's queue while a worker processes it.
type queue struct{ again bool }

// Causes for ending work.
var (
	errStopping  = errors.New("the server is stopping")
	errCancelled = errors.New("cancelled by a person")
	errDequeued  = errors.New("taken out of the queue")
)

// New makes a Service. It starts nothing; it panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Sandboxes == nil || cfg.Merges == nil || cfg.Commands == nil || cfg.Accounts == nil {
		panic("checks: Store, Records, Sandboxes, Merges, Commands and Accounts are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, cancels: map[string]context.CancelCauseFunc{}, queues: map[string]*queue{}}
	s.scope = tasks.NewScope(tenant.All(context.Background(), "checks go on when who asked has left"))
	s.life = s.scope.Context()
	return s
}

// Run works until ctx ends. Running commands continue in their sandboxes, and the next server follows them again.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.begun = true
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, fn := range waiting {
		s.start(fn)
	}
	<-ctx.Done()
	s.scope.End(errStopping)
	return nil
}

// start runs fn in a goroutine owned by Run.
func (s *Service) start(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.waiting = append(s.waiting, fn)
		return
	}
	s.scope.Go(fn) // the server is stopping: the next start takes it up
}

// Recover takes up the runs and entries an earlier server left. It comes after the commands' own Recover, and before Run.
func (s *Service) Recover(ctx context.Context) error {
	open, err := s.cfg.Store.OpenCheckRuns(ctx)
	if err != nil {
		return fmt.Errorf("reading runs of checks: %w", err)
	}
	batches := map[string][]Run{}
	var order []string
	for _, r := range open {
		if r.QueueID != "" { // the entry starts over
			reason := "The server stopped while it ran. The queue starts it over."
			if r.QueueID == Baseline {
				reason = "The server stopped while it ran."
			}
			s.lose(ctx, r, reason)
			continue
		}
		if batches[r.BatchID] == nil {
			order = append(order, r.BatchID)
		}
		batches[r.BatchID] = append(batches[r.BatchID], r)
	}
	for _, id := range order {
		runs := batches[id]
		s.start(func() { s.batch(runs) })
	}
	entries, err := s.cfg.Store.OpenEntries(ctx, "")
	if err != nil {
		return fmt.Errorf("reading merge queues: %w", err)
	}
	for _, e := range entries {
		s.wake(e.ProjectID)
	}
	return nil
}

// lose ends a run whose outcome is unknown.
func (s *Service) lose(ctx context.Context, r Run, reason string) {
	if r.CommandID != "" {
		s.start(func() {
			if _, err := s.cfg.Commands.Cancel(s.life, r.CommandID); err != nil && s.life.Err() == nil && !fault.Is(err, fault.NotFound) {
				s.cfg.Log.Warn("the command of a lost check could not be ended", "run_id", r.ID, "error", err)
			}
		})
	}
	_, err := s.edit(ctx, r.ID, func(r *Run) error {
		if !r.State.Ended() {
			r.State, r.Reason, r.EndedAt = RunLost, reason, s.now()
		}
		return nil
	})
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "a run of a check could not be closed", "run_id", r.ID, "error", err)
	}
}

// edit changes a run and publishes the change.
func (s *Service) edit(ctx context.Context, id string, fn func(*Run) error) (Run, error) {
	r, err := s.cfg.Store.EditCheckRun(ctx, id, fn)
	if err == nil {
		s.publish(ctx, "checks.updated", r.WorkspaceID, r.WorkspaceID, r.TeamID)
	}
	return r, err
}

func (s *Service) publish(ctx context.Context, kind, id, workspaceID, teamID string) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: kind, ID: id, WorkspaceID: workspaceID, TeamID: teamID, Version: s.now()})
	}
}

// cancellable returns a context that cancel(id, …) ends.
func (s *Service) cancellable(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	s.cancels[id] = cancel
	s.mu.Unlock()
	return ctx, func() {
		s.mu.Lock()
		delete(s.cancels, id)
		s.mu.Unlock()
		cancel(nil)
	}
}

// cancel ends the work with this id, and reports whether there was any.
func (s *Service) cancel(id string, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cancels[id]
	if ok {
		c(cause)
	}
	return ok
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }
