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

// Kinds of work that may take long.
const (
	WorkFetch  = "fetch"
	WorkPush   = "push"
	WorkUpdate = "update"
	WorkMerge  = "merge"
)

// Work is something git does in a repository that may take long, or that waits for its turn there: what talks to the remote of one
// repository takes turns. It is known to this process only: a server that stops ends it.
type Work struct {
	ID, TeamID, ProjectID string
	WorkspaceID           string // "" = of the project
	ActorID               string // "" = Parawork itself
	Kind                  string
	Waiting               bool
	Progress              string // git's last line
	At, StartedAt         int64  // ms UTC; StartedAt 0 while it waits
}

// works are the works of all repositories, in the order they were asked for.
type works struct {
	turns  locks.Keyed // by git dir: what talks to a remote
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

// close cancels what is under way. Who asked for it waits for its end, as it is theirs.
func (k *works) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, w := range k.list {
		w.cancel(workspaces.ErrShutdown)
	}
}

type workKey struct{}

// BeginWork notes a work and waits for its turn: one that talks to the remote waits for others that do. From its turn on it goes on when who
// asked has left, unless it is a fetch; cancelling it ends it, and so does the end of the server. end is called when it is over. Work that
// is part of another is that one.
func (s *Repo) BeginWork(ctx context.Context, p workspaces.Project, workspaceID, actorID, kind string) (_ context.Context, end func(), err error) {
	if outer, ok := ctx.Value(workKey{}).(*work); ok && outer.gitDir == p.GitDir {
		return ctx, func() {}, nil
	}
	remote := kind == WorkFetch || kind == WorkPush
	if actorID == "" {
		_, actorID = executors.AskerOf(ctx)
	}
	own := context.WithoutCancel(ctx)
	if kind == WorkFetch { // nothing comes of it for anybody but who waits for it
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
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) }) // who leaves while it waits takes it along
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

// workFault says of a work that a person cancelled that they did.
func workFault(err error) error {
	if err == workspaces.ErrCancelled { //nolint:errorlint // the cause itself
		return fault.New(fault.Conflict, "cancelled", "It was cancelled. Nothing was changed.")
	}
	return err
}

// EndedBy has an error of a work that somebody cancelled say so.
func EndedBy(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), workspaces.ErrCancelled) {
		return workFault(workspaces.ErrCancelled)
	}
	return err
}

// ProgressOf returns what git's progress lines of the work under ctx are given to, nil without a work.
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

// progressPause is how many ms lie at least between two events of one work's progress.
const progressPause = 500

// Works returns what is under way or waits in a project's repository, also for other projects of it, the first asked for first.
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

// Work returns one work.
func (s *Repo) Work(_ context.Context, workID string) (Work, error) {
	s.works.mu.Lock()
	defer s.works.mu.Unlock()
	for _, k := range s.works.list {
		if k.ID == workID {
			return k.Work, nil
		}
	}
	return Work{}, fault.New(fault.NotFound, "not_found", "There is no such work any more: it has ended.")
}

// CancelWork ends a work. What it had done so far is taken back by git, or is harmless.
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

// Close cancels the work under way. Who asked for it waits for its end.
func (s *Repo) Close() { s.works.close() }
