// Package code runs code of agents, people and scripts in kernels: interpreters in the workspace's sandbox that keep their variables between
// two runs. A kernel is a process of the guest, see guest/kernel; this package starts it, reads what it says, and stores each run. A kernel
// goes on while the server restarts, and is found again by the id of its process.
//
// Goroutines: one for each kernel that is attached reads it until it ends. Locks: Service.mu guards which kernels and runs there are, a
// run's own lock its record; none is held during a call to the guest or the store.
package code

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
)

// Sandboxes are the sandboxes kernels run in: the Manager's.
type Sandboxes interface {
	// Spec returns the sandbox a workspace needs, and its kind.
	Spec(ctx context.Context, workspaceID string) (executors.Spec, executors.Kind, error)
	// Permit refuses a workspace whose executor its team no longer allows.
	Permit(ctx context.Context, workspaceID string) error
	// Ensure returns the workspace's live sandbox and makes one when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	// Live returns the workspace's live sandbox without making one.
	Live(workspaceID string) (*executors.Place, bool)
}

// Workspaces finds workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Config configures a Service.
type Config struct {
	Store      Store
	Sandboxes  Sandboxes
	Workspaces Workspaces
	// Secrets returns the secrets a kernel gets, and those that its output must not show, as for a command.
	Secrets func(ctx context.Context, c command.Command) (command.Secrets, error)
	// Guard refuses an interpreter that may not run in this kind of executor, as it does commands. nil: all may.
	Guard func(ctx context.Context, kind executors.Kind, s executors.Spec, req command.Request) error
	// Keep saves a result that is too large for the record as an artifact, and returns its id.
	Keep   func(ctx context.Context, r Run, mime string, content []byte) (artifactID string, err error)
	Events events.Publisher
	Now    func() time.Time
	Log    *slog.Logger
}

// Service runs code. Safe for concurrent use.
type Service struct {
	cfg  Config
	life context.Context // ends with Run: kernels go on
	end  context.CancelFunc
	work tasks.Group

	mu      sync.Mutex
	kernels map[kernelKey]*kernel
	runs    map[string]*run   // that have not ended, by id
	waiting map[string]int    // runs of a workspace that have not ended
	lost    map[string][]*run // runs of an earlier server whose kernel has not been found yet, by process

	attaching locks.Keyed // by key of a kernel
}

type kernelKey struct {
	workspaceID string
	language    string
	name        string
}

// String names the kernel in a lock.
func (k kernelKey) String() string { return k.workspaceID + "/" + k.language + "/" + k.name }

// New makes a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Sandboxes == nil || cfg.Workspaces == nil || cfg.Keep == nil || cfg.Secrets == nil {
		panic("code: Store, Sandboxes, Workspaces, Secrets and Keep are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, kernels: map[kernelKey]*kernel{}, runs: map[string]*run{}, waiting: map[string]int{}, lost: map[string][]*run{}}
	s.life, s.end = context.WithCancel(tenant.All(context.Background(), "kernels go on when their caller has left"))
	return s
}

// Run works until ctx ends; kernels go on in their sandboxes.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	s.end()
	s.work.Close()
	return nil
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Event is what a caller of Stream hears while code runs.
type Event struct {
	Output *Output // one more output
	Begun  bool    // the kernel runs the code now
	RunID  string
}

// Execute runs code and returns when it has ended. The end of ctx interrupts it, and is the error then. Other errors are of requests that could
// not be carried out; how the code ended is the Run's State.
func (s *Service) Execute(ctx context.Context, req Request) (Run, error) {
	return s.Stream(ctx, req, nil)
}

// Stream is Execute that passes outputs on as they come. fn is called by this goroutine alone; its error interrupts the code. Outputs that come
// faster than fn takes them are left out; the Run has them.
func (s *Service) Stream(ctx context.Context, req Request, fn func(Event) error) (Run, error) {
	if err := check(&req); err != nil {
		return Run{}, err
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, req.WorkspaceID)
	if err != nil {
		return Run{}, err
	}
	if w.TeamID != req.TeamID {
		return Run{}, errNoWorkspace()
	}
	r := &run{done: make(chan struct{}), Run: Run{ID: id.New("code"), TeamID: w.TeamID, WorkspaceID: w.ID, SessionID: req.SessionID, UserID: req.UserID, Agent: req.Agent,
		Language: req.Language, Kernel: req.Kernel, Code: req.Code, State: Running, CreatedAt: s.now()}}
	if fn != nil {
		r.events = make(chan Event, maxEvents)
	}
	if err := s.admit(r); err != nil {
		return Run{}, err
	}
	k, err := s.kernelFor(ctx, r)
	if err != nil {
		s.drop(r)
		return Run{}, err
	}
	if err := s.begin(ctx, k, r, req.TimeoutMs); err != nil {
		s.drop(r)
		return Run{}, err
	}
	late := time.NewTimer(time.Duration(req.TimeoutMs)*time.Millisecond + lateness)
	defer late.Stop()
	for {
		select {
		case e := <-r.events:
			if err := fn(e); err != nil {
				return s.abandon(k, r, err)
			}
			continue
		case <-r.done:
		case <-late.C: // a kernel keeps to the time itself, unless it lies
			s.interruptSoon(k, r)
			_ = k.finish(r.ID, func(r *Run) { r.State, r.Cause = Lost, "the kernel did not end the code in time" })
			<-r.done
		case <-ctx.Done():
			return s.abandon(k, r, context.Cause(ctx))
		case <-s.life.Done():
			return r.snapshot(), executors.ErrStopping()
		}
		break
	}
	for len(r.events) > 0 {
		if err := fn(<-r.events); err != nil {
			break // it has ended
		}
	}
	return r.snapshot(), nil
}

// abandon interrupts a run that nobody waits for any more, and returns it once it has ended.
func (s *Service) abandon(k *kernel, r *run, why error) (Run, error) {
	s.interruptSoon(k, r)
	select {
	case <-r.done:
	case <-time.After(cancelPatience):
	case <-s.life.Done():
	}
	return r.snapshot(), why
}

const (
	// maxEvents is how many outputs wait for a client that streams.
	maxEvents = 256
	// lateness is how long after its time a run may take to end.
	lateness = time.Minute
)

// cancelPatience is how long an interrupted run is waited for: longer than the kernel waits before it ends the interpreter.
const cancelPatience = 8 * time.Second

var kernelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func check(req *Request) error {
	req.Kernel, req.TimeoutMs = cmp.Or(req.Kernel, "default"), cmp.Or(req.TimeoutMs, defaultTimeout.Milliseconds())
	switch {
	case !slices.Contains(Languages, req.Language):
		return fault.New(fault.Invalid, "code_language_unknown", "There is no kernel for %.50q. Choose python, javascript, typescript or shell.", req.Language).With("field", "language")
	case !kernelName.MatchString(req.Kernel):
		return fault.New(fault.Invalid, "code_kernel_name_invalid", "The name of a kernel has 1 to 32 lower-case letters, digits, dashes and underscores.").With("field", "kernel")
	case req.Code == "" || len(req.Code) > MaxCode:
		return fault.New(fault.Invalid, "code_size_invalid", "Code may have 1 to %d bytes; this has %d.", MaxCode, len(req.Code)).With("field", "code")
	case req.TimeoutMs < 1 || req.TimeoutMs > maxTimeout.Milliseconds():
		return fault.New(fault.Invalid, "code_timeout_invalid", "timeout_ms may be 1 to %d.", maxTimeout.Milliseconds()).With("field", "timeout_ms")
	}
	return nil
}

const (
	defaultTimeout = 5 * time.Minute
	maxTimeout     = 24 * time.Hour
)

// admit counts a run of its workspace.
func (s *Service) admit(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[r.WorkspaceID] >= maxAtOnce {
		return fault.New(fault.Conflict, "code_runs_at_once", "%d runs of code are under way in this workspace. Wait until one has ended.", maxAtOnce)
	}
	s.waiting[r.WorkspaceID]++
	s.runs[r.ID] = r
	return nil
}

// drop forgets a run that has ended or never began.
func (s *Service) drop(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[r.ID] != r {
		return
	}
	delete(s.runs, r.ID)
	if s.waiting[r.WorkspaceID]--; s.waiting[r.WorkspaceID] <= 0 {
		delete(s.waiting, r.WorkspaceID)
	}
}

// Get returns a run, with its outputs so far.
func (s *Service) Get(ctx context.Context, runID string) (Run, error) {
	s.mu.Lock()
	r := s.runs[runID]
	s.mu.Unlock()
	stored, err := s.cfg.Store.Run(ctx, runID) // also for its own team alone
	if err != nil || r == nil {
		return stored, err
	}
	return r.snapshot(), nil
}

// List lists a workspace's runs, newest first.
func (s *Service) List(ctx context.Context, workspaceID string, pg page.Page) ([]Run, string, error) {
	items, next, err := s.cfg.Store.Runs(ctx, workspaceID, pg)
	if err != nil {
		return nil, "", err
	}
	for i := range items {
		s.mu.Lock()
		r := s.runs[items[i].ID]
		s.mu.Unlock()
		if r != nil {
			items[i] = r.snapshot()
		}
	}
	return items, next, nil
}

// Interrupt interrupts a run and returns it once it has ended. A run that has ended stays as it is.
func (s *Service) Interrupt(ctx context.Context, runID string) (Run, error) {
	s.mu.Lock()
	r := s.runs[runID]
	s.mu.Unlock()
	if r == nil {
		return s.cfg.Store.Run(ctx, runID)
	}
	k := s.attached(r)
	if k == nil {
		return r.snapshot(), fault.New(fault.Unavailable, "code_kernel_unreachable", "The kernel that runs the code cannot be reached now. Try again in a moment.")
	}
	if err := k.interrupt(ctx, r.ID); err != nil {
		return r.snapshot(), err
	}
	wait, cancel := context.WithTimeout(ctx, cancelPatience)
	defer cancel()
	select {
	case <-r.done:
	case <-wait.Done():
	case <-s.life.Done():
	}
	return r.snapshot(), nil
}

func (s *Service) interruptSoon(k *kernel, r *run) {
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, 30*time.Second)
		defer cancel()
		if err := k.interrupt(ctx, r.ID); err != nil && s.life.Err() == nil {
			s.cfg.Log.Warn("a run of code could not be interrupted", "run_id", r.ID, "error", err)
		}
	})
}

// Kernels lists a workspace's kernels. Without a live sandbox there are none.
func (s *Service) Kernels(ctx context.Context, workspaceID string) ([]Kernel, error) {
	place, ok := s.cfg.Sandboxes.Live(workspaceID)
	if !ok {
		return nil, nil
	}
	found, err := s.find(ctx, place)
	if err != nil {
		return nil, err
	}
	out := make([]Kernel, 0, len(found))
	for _, p := range found {
		k := Kernel{Language: p.language, Name: p.name, StartedAt: p.startedAt}
		s.mu.Lock()
		if have := s.kernels[kernelKey{workspaceID, string(p.language), p.name}]; have != nil && have.processID == p.processID {
			k.Version, k.Busy = have.info()
		}
		s.mu.Unlock()
		out = append(out, k)
	}
	return out, nil
}

// Stop ends a kernel: its variables are lost, and the next run starts another one. A kernel that is not there is no error.
func (s *Service) Stop(ctx context.Context, workspaceID string, l Language, name string) error {
	place, ok := s.cfg.Sandboxes.Live(workspaceID)
	if !ok {
		return nil
	}
	found, err := s.find(ctx, place)
	if err != nil {
		return err
	}
	for _, p := range found {
		if p.language != l.kernel() || p.name != cmp.Or(name, "default") {
			continue
		}
		s.mu.Lock()
		k := s.kernels[kernelKey{workspaceID, string(p.language), p.name}]
		s.mu.Unlock()
		if k != nil && k.processID == p.processID {
			k.setEnding()
		}
		if _, err := place.Guest.Stop(ctx, p.processID, executors.StopGrace); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("ending a kernel: %w", err)
		}
	}
	if w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID); err == nil {
		s.changed(ctx, w.TeamID, workspaceID, "")
	}
	return nil
}

// changed publishes that a run changed, or all of a workspace where there is none.
func (s *Service) changed(ctx context.Context, teamID, workspaceID, runID string) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "code.ran", ID: cmp.Or(runID, workspaceID), WorkspaceID: workspaceID, TeamID: teamID, Version: s.now()})
	}
}

func errNoWorkspace() error {
	return fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace in this team.")
}

var errSandboxEnded = errors.New("the sandbox ended")
