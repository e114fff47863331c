package firststart

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/environ"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Config configures a Service.
type Config struct {
	Store      Store
	Records    Records
	Workspaces Workspaces
	Sessions   Sessions
	Actor      func(ctx context.Context, userID string) (accounts.Actor, error)
	// Admit returns why a user may not have an agent work in a workspace. Nil: everybody may.
	Admit func(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) error
	// Place writes a file that a person attached into the worktree of a workspace's sandbox, where git ignores it, and returns its path there.
	Place func(ctx context.Context, workspaceID, name string, data []byte) (path string, err error)
	Own   string // the agent that takes the files of its first prompt from FilesOf
	Bus   Bus
	Now   func() time.Time
	Log   *slog.Logger
}

// Service starts first sessions. Safe for concurrent use.
type Service struct {
	cfg   Config
	work  *tasks.Scope
	looks *tasks.Looks // at the workspaces that wait for one

	mu      sync.Mutex
	waiting map[string]bool // workspaces whose first session is not there
}

const atOnce = 4 // sessions that are started at the same time

// New returns a Service. It starts nothing; it panics when a required dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Records == nil || cfg.Workspaces == nil || cfg.Sessions == nil || cfg.Actor == nil || cfg.Bus == nil {
		panic("firststart: Store, Records, Workspaces, Sessions, Actor and Bus are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, waiting: map[string]bool{}, work: tasks.NewScope(tenant.All(context.Background(), "sessions are started when who asked for them has left"))}
	s.looks = tasks.NewLooks(s.work, atOnce, s.look)
	return s
}

// Run continues what an earlier server left, and starts the first sessions of workspaces as they become ready, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "one loop for the workspaces of all teams")
	defer s.work.End(context.Canceled)
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	if err := s.resume(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-sub.C:
			if sub.Missed() {
				s.lookAtAll()
			}
			if e.Type == "workspace.updated" && s.waits(e.WorkspaceID) {
				s.looks.At(e.WorkspaceID)
			}
		}
	}
}

// resume takes up what an earlier server left. A creation that it was stopped in is begun once more.
func (s *Service) resume(ctx context.Context) error {
	open, err := s.cfg.Store.OpenStarts(ctx)
	if err != nil {
		return s.ended(ctx, fmt.Errorf("reading first sessions: %w", err))
	}
	stopped := git.Reason(workspaces.ErrShutdown)
	for _, st := range open {
		w, err := s.cfg.Records.Workspace(ctx, st.WorkspaceID)
		if err == nil && w.State == workspaces.Failed && w.DeletedAt == 0 && strings.HasPrefix(w.StateReason, stopped) {
			_, err = s.cfg.Workspaces.RetryCreate(ctx, w.ID)
		}
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "a creation that was cut short could not be begun again", "workspace_id", st.WorkspaceID, "error", err)
		}
		s.Follow(st.WorkspaceID)
	}
	return nil
}

// ended is err, unless ctx is what ended.
func (s *Service) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Follow starts the session of a workspace, once that is ready: it is looked at now, and whenever it changes.
func (s *Service) Follow(workspaceID string) {
	s.mu.Lock()
	s.waiting[workspaceID] = true
	s.mu.Unlock()
	s.looks.At(workspaceID)
}

func (s *Service) forget(workspaceID string) {
	s.mu.Lock()
	delete(s.waiting, workspaceID)
	s.mu.Unlock()
}

func (s *Service) waits(workspaceID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[workspaceID]
}

func (s *Service) lookAtAll() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.waiting))
	s.mu.Unlock()
	for _, id := range all {
		s.looks.At(id)
	}
}

// Check returns why a request cannot be one. Errors: agent_*, invalid_*.
func (s *Service) Check(ctx context.Context, r Request) error {
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_start", format, args...).With("field", field)
	}
	switch {
	case r.Agent == "":
		return bad("start.agent", "The request names no agent. Choose which agent to start.")
	case len(r.Prompt) > prompt.MaxBytes || !utf8.ValidString(r.Prompt) || strings.ContainsRune(r.Prompt, 0):
		return bad("start.prompt", "The prompt must be UTF-8 text of at most 1 MiB, without NUL characters.")
	case len(r.Files) > 0 && (r.Agent == agents.Shell || r.Agent == agents.Command):
		return bad("start.attachments", "Only agents take files with their prompt.")
	case len(r.Files) > 0 && strings.TrimSpace(r.Prompt) == "":
		return bad("start.prompt", "Write what the agent should do with the files.")
	case len(r.Files) > MaxFiles:
		return bad("start.attachments", "A prompt takes at most %d files.", MaxFiles)
	}
	sum := 0
	for _, f := range r.Files {
		if f.Name == "" || len(f.Name) > maxFileName || !utf8.ValidString(f.Name) || strings.ContainsRune(f.Name, 0) {
			return bad("start.attachments", "The name of a file must be UTF-8 text of at most %d bytes, without NUL characters.", maxFileName)
		}
		if sum += len(f.Data); len(f.Data) == 0 || len(f.Data) > MaxFile || sum > maxFileBytes {
			return bad("start.attachments", "A file must have 1 byte to %d MiB, and all of them at most %d MiB.", MaxFile>>20, maxFileBytes>>20)
		}
	}
	if err := environ.Check(r.Argv, nil); err != nil {
		return err
	}
	return s.cfg.Sessions.CheckAgent(ctx, r.Agent)
}

// Keep stores the first session of a workspace, which is stored in the same transaction. Follow comes after it.
func (s *Service) Keep(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, r Request) error {
	now := s.cfg.Now().UnixMilli()
	return s.cfg.Store.InsertStart(ctx, Start{WorkspaceID: w.ID, TeamID: w.TeamID, SessionID: id.New("ses"), Request: r, State: Waiting, CreatedBy: actor.User.ID, CreatedAt: now, StateAt: now})
}

// Of returns the first sessions that are not there yet, of a team or of the named workspaces.
func (s *Service) Of(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Start, error) {
	return s.cfg.Store.FirstStarts(ctx, teamID, workspaceIDs...)
}

// Again starts one that failed once more, as actor. Errors: first_start_not_failed, not_found.
func (s *Service) Again(ctx context.Context, actor accounts.Actor, workspaceID string) error {
	st, err := s.cfg.Store.FirstStart(ctx, workspaceID)
	if err != nil {
		return err
	}
	was := st.State
	st.SessionID, st.State, st.Code, st.Reason, st.CreatedBy, st.StateAt, st.Retried = id.New("ses"), Waiting, "", "", actor.User.ID, s.cfg.Now().UnixMilli(), false
	moved, err := s.cfg.Store.MoveStart(ctx, st, Failed)
	if err == nil && !moved {
		err = fault.New(fault.Conflict, "first_start_not_failed", "The first session of this workspace has not failed: it is %s.", was)
	}
	if err != nil {
		return err
	}
	s.Follow(workspaceID)
	return nil
}

// Forget has a first session that waits or failed not be started.
func (s *Service) Forget(ctx context.Context, workspaceID string) error {
	s.forget(workspaceID)
	return s.cfg.Store.DeleteStart(ctx, workspaceID)
}

// FilesOf returns the files that the first prompt of a session comes with.
func (s *Service) FilesOf(ctx context.Context, sessionID string) ([]File, error) {
	return s.cfg.Store.FilesOf(ctx, sessionID)
}

// Taken forgets them: the agent has them.
func (s *Service) Taken(ctx context.Context, sessionID string) error {
	return s.cfg.Store.TakenFrom(ctx, sessionID)
}

// look starts the session of a workspace that is ready.
func (s *Service) look(ctx context.Context, workspaceID string) {
	err := s.try(ctx, workspaceID)
	if err == nil || ctx.Err() != nil {
		return // the next server continues
	}
	s.cfg.Log.WarnContext(ctx, "the first session of a workspace could not be started yet", "workspace_id", workspaceID, "error", err)
	if tasks.Sleep(ctx, retryAfter) { // the store does not work
		s.looks.At(workspaceID)
	}
}

const (
	retryAfter = 2 * time.Second
	moving     = "workspace_moving" // code of what is refused while a workspace is moved to another place
)

func (s *Service) try(ctx context.Context, workspaceID string) error {
	st, err := s.cfg.Store.FirstStart(ctx, workspaceID)
	if fault.Is(err, fault.NotFound) || err == nil && (st.State == Failed || st.State == Handed) {
		s.forget(workspaceID)
		return nil
	}
	if err != nil {
		return err
	}
	ctx = tenant.In(ctx, st.TeamID)
	w, err := s.cfg.Records.Workspace(ctx, workspaceID)
	switch {
	case err != nil:
		return err
	case w.DeletedAt != 0 || w.State == workspaces.Archived:
		return s.Forget(ctx, workspaceID)
	case w.State != workspaces.Ready:
		return nil // it is looked at when it changes
	}
	st.State, st.StateAt = Starting, s.cfg.Now().UnixMilli()
	if claimed, err := s.cfg.Store.MoveStart(ctx, st, Waiting, Starting); err != nil || !claimed {
		return err
	}
	err = s.start(ctx, w, &st)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case fault.CodeOf(err) == moving: // it changes once it has arrived
		st.State = Waiting
		_, err = s.cfg.Store.MoveStart(ctx, st, Starting)
		return err
	case err != nil:
		s.cfg.Log.WarnContext(ctx, "the first session of a workspace did not start", "workspace_id", w.ID, "error", err)
		st.State, st.Code, st.Reason = Failed, cmp.Or(fault.CodeOf(err), "internal"), fault.Words(err, "An error occurred on the server. Its log has the details.")
		st.StateAt = s.cfg.Now().UnixMilli()
		_, err = s.cfg.Store.MoveStart(ctx, st, Starting)
	case st.Request.Agent == s.cfg.Own: // its thread takes the files
		st.State = Handed
		_, err = s.cfg.Store.MoveStart(ctx, st, Starting)
	default:
		failpoint.Reach(failpoint.FirstStarted)
		err = s.cfg.Store.DeleteStart(ctx, w.ID)
	}
	if err == nil {
		s.forget(w.ID)
		s.cfg.Records.PublishWorkspace(ctx, w)
	}
	return err
}

// start starts the session, unless an earlier server did.
func (s *Service) start(ctx context.Context, w workspaces.Workspace, st *Start) error {
	one, err := s.cfg.Sessions.Get(ctx, st.SessionID)
	switch {
	case fault.Is(err, fault.NotFound):
	case err != nil || !sessions.NeverStarted(one) || st.Retried:
		return err
	default:
		st.SessionID, st.Retried = id.New("ses"), true
		if _, err := s.cfg.Store.MoveStart(ctx, *st, Starting); err != nil {
			return err
		}
	}
	actor, err := s.cfg.Actor(ctx, st.CreatedBy)
	if err == nil {
		err = accounts.Can(actor, accounts.TypeTerminal, accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private})
	}
	if err == nil && s.cfg.Admit != nil {
		err = s.cfg.Admit(ctx, actor, w)
	}
	if err != nil {
		return err
	}
	r := st.Request
	req := sessions.StartRequest{ID: st.SessionID, Agent: r.Agent, Prompt: r.Prompt, Argv: slices.Clone(r.Argv), AccountID: r.AccountID, Permissions: r.Permissions, ConfirmNoBoundary: r.ConfirmNoBoundary, Cols: r.Cols, Rows: r.Rows}
	if r.Agent != s.cfg.Own {
		if req.Prompt, err = s.withFiles(ctx, w.ID, r.Prompt); err != nil {
			return err
		}
	}
	failpoint.Reach(failpoint.FirstStarting)
	_, err = s.cfg.Sessions.Start(ctx, actor, w.ID, req)
	return err
}

// withFiles places the files of a prompt in the sandbox and returns the prompt with their names.
func (s *Service) withFiles(ctx context.Context, workspaceID, text string) (string, error) {
	files, err := s.cfg.Store.StartFiles(ctx, workspaceID)
	if err != nil || len(files) == 0 {
		return text, err
	}
	var b strings.Builder
	b.WriteString(strings.TrimRight(text, "\n") + "\n\nAttached files:\n")
	for _, f := range files {
		path, err := s.cfg.Place(ctx, workspaceID, f.Name, f.Data)
		if fault.CodeOf(err) == moving {
			return "", err
		}
		if err != nil {
			return "", fault.Wrap(err, fault.Unavailable, "attachment_not_placed", "A file of the prompt could not be placed in the sandbox: %s", fault.Words(err, "the sandbox could not be reached."))
		}
		b.WriteString("- " + path + "\n")
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
