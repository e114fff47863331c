package git

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/workspaces"
)

// Kinds of long git operations.
const (
	WorkFetch  = "fetch"
	WorkPush   = "push"
	WorkUpdate = "update"
	WorkMerge  = "merge"
)

// Work is a git operation in a repository that may take long, or that waits for its turn there: operations that talk to the remote of one
// repository run one at a time. Only this process knows it: stopping the server ends it.
type Work struct {
	ID, TeamID, ProjectID string
	WorkspaceID           string // "" = of the project
	ActorID               string // "" = Parawork
	Kind                  string
	Waiting               bool
	Progress              string // git's last line
	At, StartedAt         int64  // ms UTC; StartedAt 0 while it waits
}

// works are the operations of all repositories, in the order they were requested.
type works struct {
	turns  locks.Keyed // by git dir: operations that talk to a remote
	mu     sync.Mutex
	list   []*work
	closed bool
}

type work struct {
	Work
	gitDir     string
	advertised int64 // ms UTC: when progress was last published
	cancel     context.CancelCauseFunc
}

func newWorks() *works { return &works{} }

// close cancels what is in progress. Its callers wait for the end, as they own it.
func (k *works) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, w := range k.list {
		w.cancel(workspaces.ErrShutdown)
	}
}

type workKey struct{}

// BeginWork registers an operation and waits for its turn: one that talks to the remote waits for others that do. From then on it continues
// after its caller has left, unless it is a fetch; cancelling it ends it, and so does stopping the server. Call end when it is over. An
// operation within another one counts as that one.
func (s *Repo) BeginWork(ctx context.Context, p workspaces.Project, workspaceID, actorID, kind string) (_ context.Context, end func(), err error) {
	if outer, ok := ctx.Value(workKey{}).(*work); ok && outer.gitDir == p.GitDir {
		return ctx, func() {}, nil
	}
	remote := kind == WorkFetch || kind == WorkPush
	if actorID == "" {
		_, actorID = executors.AskerOf(ctx)
	}
	own := context.WithoutCancel(ctx)
	if kind == WorkFetch { // only its caller needs the result
		own = ctx
	}
	life, cancel := context.WithCancelCause(own)
	k := &work{Work: Work{ID: id.New("wrk"), TeamID: p.TeamID, ProjectID: p.ID, WorkspaceID: workspaceID, ActorID: actorID, Kind: kind, Waiting: remote, At: s.records.Millis()},
		gitDir: p.GitDir, cancel: cancel}
	s.works.mu.Lock()
	if s.works.closed {
		s.works.mu.Unlock()
		cancel(nil)
		return nil, nil, fault.New(fault.Unavailable, "stopping", "The server is being stopped. Try again when it is back.")
	}
	s.works.list = append(s.works.list, k)
	s.works.mu.Unlock()
	s.publishWork(ctx, k)
	unlock := func() {}
	end = func() {
		unlock()
		cancel(nil)
		s.works.mu.Lock()
		s.works.list = slices.DeleteFunc(s.works.list, func(w *work) bool { return w == k })
		s.works.mu.Unlock()
		s.publishWork(context.WithoutCancel(ctx), k)
	}
	if remote {
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) }) // a caller that leaves while waiting cancels it
		free, err := s.works.turns.LockContext(life, p.GitDir)
		if err == nil && !stop() && ctx.Err() != nil {
			free()
			err = context.Cause(ctx)
		}
		if err != nil {
			end()
			return nil, nil, workFault(err)
		}
		unlock = free
	}
	s.works.mu.Lock()
	k.Waiting, k.StartedAt = false, s.records.Millis()
	s.works.mu.Unlock()
	s.publishWork(ctx, k)
	return context.WithValue(life, workKey{}, k), end, nil
}

// workFault words the error of an operation that a user cancelled.
func workFault(err error) error {
	if err == workspaces.ErrCancelled { //nolint:errorlint // the cause itself
		return fault.New(fault.Conflict, "cancelled", "It was cancelled. Nothing was changed.")
	}
	return err
}

// EndedBy marks the error of an operation that somebody cancelled as such.
func EndedBy(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), workspaces.ErrCancelled) {
		return workFault(workspaces.ErrCancelled)
	}
	return err
}

// ProgressOf returns the receiver of git's progress lines for the operation of ctx, nil without one.
func (s *Repo) ProgressOf(ctx context.Context) func(string) {
	k, ok := ctx.Value(workKey{}).(*work)
	if !ok {
		return nil
	}
	return func(line string) {
		now := s.records.Millis()
		s.works.mu.Lock()
		k.Progress = line
		notify := now-k.advertised >= progressPause
		if notify {
			k.advertised = now
		}
		s.works.mu.Unlock()
		if notify {
			s.publishWork(ctx, k)
		}
	}
}

// progressPause is the minimum time in ms between two progress events of one operation.
const progressPause = 500

// Works returns the running and waiting operations in a project's repository, also those of other projects of it, the oldest first.
func (s *Repo) Works(ctx context.Context, projectID string) ([]Work, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return nil, err
	}
	s.works.mu.Lock()
	defer s.works.mu.Unlock()
	out := []Work{}
	for _, k := range s.works.list {
		if k.gitDir == p.GitDir && k.TeamID == p.TeamID {
			out = append(out, k.Work)
		}
	}
	return out, nil
}

// Work returns one operation.
func (s *Repo) Work(_ context.Context, workID string) (Work, error) {
	s.works.mu.Lock()
	defer s.works.mu.Unlock()
	for _, k := range s.works.list {
		if k.ID == workID {
			return k.Work, nil
		}
	}
	return Work{}, fault.New(fault.NotFound, "not_found", "There is no such operation any more: it has ended.")
}

// CancelWork cancels an operation. git undoes what it has done so far, or leaves it harmless.
func (s *Repo) CancelWork(ctx context.Context, workID string) error {
	if _, err := s.Work(ctx, workID); err != nil {
		return err
	}
	s.works.mu.Lock()
	defer s.works.mu.Unlock()
	for _, k := range s.works.list {
		if k.ID == workID {
			k.cancel(workspaces.ErrCancelled)
		}
	}
	return nil
}

func (s *Repo) publishWork(ctx context.Context, k *work) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "git.updated", ID: k.ProjectID, WorkspaceID: k.WorkspaceID, TeamID: k.TeamID, Version: s.records.Millis()})
	}
}

// Close cancels the running operations. Their callers wait for their end.
func (s *Repo) Close() { s.works.close() }
