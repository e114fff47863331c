package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/environ"
)

// Limits of a run.
const (
	MaxAttempts = 8
	maxPrompt   = 1 << 20
	maxName     = 200
	nameOf      = 60 // characters of the prompt used as a run's name
)

// Config configures a Service.
type Config struct {
	Store      Store
	Records    Records
	Workspaces Workspaces
	Sessions   Sessions
	Accounts   Accounts
	Events     events.Publisher
	Now        func() time.Time
	Look       time.Duration // how often to check a workspace that is being created; default 250 ms
	Log        *slog.Logger
}

// Service manages runs. Safe for concurrent use.
type Service struct {
	cfg Config

	work *tasks.Scope // the attempts under way

	mu      sync.Mutex
	resumed bool            // Run has continued what an earlier server left
	own     map[string]bool // runs created by this server before that
}

// New returns a Service. It starts nothing; it panics when a required dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Workspaces == nil || cfg.Sessions == nil || cfg.Accounts == nil {
		panic("runs: Store, Records, Workspaces, Sessions and Accounts are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Look <= 0 {
		cfg.Look = 250 * time.Millisecond
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	work := tasks.NewScope(tenant.All(context.Background(), "attempts continue when their requester has left"))
	return &Service{cfg: cfg, work: work, own: map[string]bool{}}
}

// Run continues the attempts an earlier server left, and works until ctx ends. The next start continues the attempts under way.
func (s *Service) Run(ctx context.Context) error {
	open, err := s.cfg.Store.OpenRuns(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading runs: %w", err)
	}
	s.mu.Lock()
	own := s.own
	s.resumed, s.own = true, nil
	s.mu.Unlock()
	for _, r := range open {
		if !own[r.ID] {
			s.drive(r, true)
		}
	}
	<-ctx.Done()
	s.work.End(context.Canceled)
	return nil
}

// drive starts every open attempt of r; again: an earlier server had begun it.
func (s *Service) drive(r Run, again bool) {
	for _, a := range r.Attempts {
		if a.State != Making && a.State != Starting {
			continue
		}
		s.work.Go(func() { s.attempt(s.work.Context(), r, a, again) }) // once it is closed, the next start continues them
	}
}

// Create stores a run and starts its attempts. Failures are recorded in the attempt concerned. Errors: not_found, invalid_run,
// project_*.
func (s *Service) Create(ctx context.Context, actor accounts.Actor, teamID string, n Request) (Run, error) {
	p, err := s.cfg.Records.Project(ctx, n.ProjectID)
	if err != nil {
		return Run{}, err
	}
	if p.TeamID != teamID {
		return Run{}, fault.New(fault.NotFound, "project_not_found", "The team has no such project.")
	}
	if err := n.check(); err != nil {
		return Run{}, err
	}
	now := s.cfg.Now().UnixMilli()
	r := Run{ID: id.New("run"), TeamID: teamID, ProjectID: p.ID, Name: n.name(), Prompt: n.Prompt, CreatedBy: actor.User.ID, CreatedAt: now}
	for i, want := range n.Attempts {
		a := Attempt{ID: id.New("att"), RunID: r.ID, Num: i + 1, Name: want.Name, Agent: want.Agent, AccountID: want.AccountID, Args: want.Args, Base: want.Base,
			Executor: want.Executor, WorkspaceID: want.WorkspaceID, Made: want.WorkspaceID == "", State: Making, StateAt: now}
		if want.WorkspaceID != "" {
			w, err := s.cfg.Records.Workspace(ctx, want.WorkspaceID)
			if err == nil && (w.TeamID != teamID || w.ProjectID != p.ID) {
				err = fault.New(fault.NotFound, "workspace_not_found", "The project has no such workspace.").With("field", "workspace_ids")
			}
			if err != nil {
				return Run{}, err
			}
			a.Name = w.Name
		}
		if a.Name == "" {
			a.Name = s.nameOf(r, n.Attempts, i)
		}
		if slices.ContainsFunc(r.Attempts, func(o Attempt) bool { return o.Name == a.Name }) && a.Made {
			return Run{}, fault.New(fault.Invalid, "invalid_run", "Two attempts have the same name %q.", a.Name).With("field", "attempts")
		}
		// Create no workspace for an agent that cannot be started.
		if err := s.cfg.Sessions.CheckAgent(ctx, a.Agent); err != nil {
			a.fail(err)
		}
		r.Attempts = append(r.Attempts, a)
	}
	s.mu.Lock()
	if !s.resumed {
		s.own[r.ID] = true
	}
	s.mu.Unlock()
	if err := s.cfg.Store.InsertRun(ctx, r); err != nil {
		return Run{}, err
	}
	s.publish(r)
	s.drive(r, false)
	return r, nil
}

func (n Request) check() error {
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_run", format, args...).With("field", field)
	}
	switch {
	case len(n.Attempts) == 0:
		return bad("attempts", "The run names no agents. Choose which agents are to try it.")
	case len(n.Attempts) > MaxAttempts:
		return bad("attempts", "A run has at most %d attempts.", MaxAttempts)
	case strings.TrimSpace(n.Prompt) == "":
		return bad("prompt", "The prompt is empty. Write what the agents should do.")
	case len(n.Prompt) > maxPrompt || !utf8.ValidString(n.Prompt) || strings.ContainsRune(n.Prompt, 0):
		return bad("prompt", "The prompt must be UTF-8 text of at most 1 MiB, without NUL characters.")
	case utf8.RuneCountInString(n.Name) > maxName:
		return bad("name", "The name is longer than %d characters.", maxName)
	}
	seen := map[string]bool{}
	for _, a := range n.Attempts {
		switch {
		case a.Agent == "":
			return bad("attempts", "An attempt names no agent. Choose the agent of each attempt.")
		case utf8.RuneCountInString(a.Name) > maxName:
			return bad("attempts", "The name of an attempt is longer than %d characters.", maxName)
		case a.WorkspaceID != "" && seen[a.WorkspaceID]:
			return bad("workspace_ids", "A workspace is named twice.")
		}
		if err := environ.Check(a.Args, nil); err != nil {
			return bad("attempts", "%s", fault.Words(err, "The arguments of an attempt are invalid."))
		}
		seen[a.WorkspaceID] = true
	}
	return nil
}

// name is the run's name: as given, or the beginning of the prompt.
func (n Request) name() string {
	name := strings.TrimSpace(n.Name)
	if name == "" {
		name, _, _ = strings.Cut(strings.TrimSpace(n.Prompt), "\n")
		name = strings.Join(strings.Fields(name), " ")
	}
	if r := []rune(name); len(r) > nameOf && strings.TrimSpace(n.Name) == "" {
		name = strings.TrimSpace(string(r[:nameOf])) + "…"
	}
	return name
}

// nameOf names the workspace of an attempt after the run and the agent, numbered where an agent tries it more than once.
func (s *Service) nameOf(r Run, all []AttemptRequest, i int) string {
	agent, num, same := s.cfg.Sessions.AgentName(all[i].Agent), 1, 0
	for j, a := range all {
		if a.Agent == all[i].Agent {
			same++
			if j < i {
				num++
			}
		}
	}
	suffix := " · " + agent
	if same > 1 {
		suffix += fmt.Sprintf(" %d", num)
	}
	base := []rune(r.Name)
	return string(base[:min(len(base), maxName-utf8.RuneCountInString(suffix))]) + suffix
}

func (a *Attempt) fail(err error) {
	a.State, a.Code, a.Reason = Failed, "internal", "An error occurred on the server. Its log has the details."
	if f, ok := errors.AsType[*fault.Error](err); ok {
		a.Code, a.Reason = f.Code, f.Message
	}
}

// Get returns a run. Errors: not_found.
func (s *Service) Get(ctx context.Context, id string) (Run, error) { return s.cfg.Store.Run(ctx, id) }

// List returns a page of a team's runs, newest first.
func (s *Service) List(ctx context.Context, teamID string, pg page.Page) ([]Run, string, error) {
	return s.cfg.Store.Runs(ctx, teamID, pg)
}

// ByWorkspace returns the newest run of every workspace of the team that is part of one, or of the named ones.
func (s *Service) ByWorkspace(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]string, error) {
	return s.cfg.Store.RunsByWorkspace(ctx, teamID, workspaceIDs...)
}

// Keep decides for one attempt: it archives the workspaces created for the others, which can all be restored. It leaves alone
// workspaces that existed before the run, and those hidden from actor: private ones of others. It returns the first failure to
// archive together with the run. Errors: not_found.
func (s *Service) Keep(ctx context.Context, actor accounts.Actor, runID, attemptID string, hidden map[string]bool) (Run, error) {
	r, err := s.Get(ctx, runID)
	if err != nil {
		return Run{}, err
	}
	if !slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.ID == attemptID && a.WorkspaceID != "" && !hidden[a.WorkspaceID] }) {
		return Run{}, fault.New(fault.NotFound, "attempt_not_found", "The run has no such attempt with a workspace.").With("field", "attempt_id")
	}
	for _, a := range r.Attempts {
		if a.ID != attemptID && (a.State == Making || a.State == Starting) {
			return Run{}, fault.New(fault.Conflict, "run_not_ready", "%s is still being created. Wait for it, or cancel it.", a.Name)
		}
	}
	if err := s.cfg.Store.KeepAttempt(ctx, runID, attemptID); err != nil {
		return Run{}, err
	}
	r.Kept = attemptID
	var failed error
	for _, a := range r.Attempts {
		if a.ID == attemptID || !a.Made || a.WorkspaceID == "" || hidden[a.WorkspaceID] {
			continue
		}
		w, err := s.cfg.Records.Workspace(ctx, a.WorkspaceID)
		if err == nil && w.ArchivedAt == 0 && w.DeletedAt == 0 {
			_, err = s.cfg.Workspaces.Archive(ctx, actor, a.WorkspaceID)
		}
		failed = errors.Join(failed, err)
	}
	s.publish(r)
	if failed != nil {
		return r, fault.Wrap(failed, fault.KindOf(failed), fault.CodeOf(failed), "Not every other workspace could be archived: %s", words(failed))
	}
	return r, nil
}

// words returns the message of the first error that has one for people.
func words(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return "the server's log has the details."
}

func (s *Service) publish(r Run) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(s.work.Context(), events.Event{Type: "run.updated", ID: r.ID, TeamID: r.TeamID, Version: s.cfg.Now().UnixMilli()})
	}
}
