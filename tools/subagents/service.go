package subagents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
)

// Config configures a Service.
type Config struct {
	Store      Store
	Sessions   Sessions
	Prompts    Prompts
	Screens    Screens
	Workspaces Workspaces
	Snapshots  Snapshots
	Siblings   Siblings
	Commits    Committer
	Merging    Merger
	Accounts   Accounts
	// Admit returns why a user may not have an agent work in a workspace beyond what their role allows. Nil: nothing more is asked.
	Admit func(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) error
	// Threads are those of Parawork's own agent. Nil: there are none.
	Threads Threads
	// GroupOf returns the group of a tool, "" when there is no such tool. Nil: only groups can be named.
	GroupOf func(tool string) string
	// Spent returns what sessions have spent on models, in nano-USD, by session. Nil: nobody knows, and no maximum can be given.
	Spent func(ctx context.Context, sessionIDs ...string) (map[string]int64, error)
	// Secrets masks results. Nil: teams have no secrets.
	Secrets tools.Secrets
	Bus     *events.Bus      // what happened to sessions
	Events  events.Publisher // optional
	Now     func() time.Time
	Look    time.Duration // how often to look at what is followed besides after events; default 3 s
	Settle  time.Duration // how long an agent that was never seen working is idle before its work counts as done; default 20 s
	Idle    time.Duration // how long a session is kept for further messages after its task has ended; default 30 min
	Log     *slog.Logger
}

// atWork is how many subagents the service starts or looks at at once.
const atWork = 16

// Service starts and follows subagents. Safe for concurrent use.
type Service struct {
	cfg   Config
	work  *tasks.Scope // once it has ended, the next server goes on
	looks *tasks.Looks

	mu       sync.Mutex
	followed map[string]*followed
	changed  chan struct{} // closed and replaced whenever a subagent changed
}

// followed is a subagent that is live.
type followed struct {
	session, parent string
}

// New returns a Service. It starts nothing; it panics when a required dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Sessions == nil || cfg.Prompts == nil || cfg.Screens == nil || cfg.Workspaces == nil || cfg.Snapshots == nil || cfg.Siblings == nil || cfg.Commits == nil || cfg.Merging == nil || cfg.Accounts == nil || cfg.Bus == nil {
		panic("subagents: Store, Sessions, Prompts, Screens, Workspaces, Snapshots, Siblings, Commits, Merging, Accounts and Bus are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Look, cfg.Settle, cfg.Idle = cmp.Or(cfg.Look, 3*time.Second), cmp.Or(cfg.Settle, 20*time.Second), cmp.Or(cfg.Idle, 30*time.Minute)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, work: tasks.NewScope(tenant.All(context.Background(), "subagents go on when their caller has left")),
		followed: map[string]*followed{}, changed: make(chan struct{})}
	s.looks = tasks.NewLooks(s.work, atWork, s.seeTo)
	return s
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Recover reads which subagents an earlier server left live. Run continues them.
func (s *Service) Recover(ctx context.Context) error {
	live, err := s.cfg.Store.OpenSubagents(tenant.All(ctx, "subagents of all teams go on"), "")
	if err != nil {
		return fmt.Errorf("reading subagents: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range live {
		s.followed[a.ID] = &followed{session: a.SessionID, parent: a.ParentSessionID}
	}
	return nil
}

// Run starts and follows subagents until ctx ends. The next server continues them.
func (s *Service) Run(ctx context.Context) error {
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	tick := time.NewTicker(s.cfg.Look)
	defer tick.Stop()
	s.lookAtAll()
	for {
		select {
		case <-ctx.Done():
			s.work.End(context.Canceled)
			return nil
		case <-tick.C:
			s.lookAtAll()
		case e, ok := <-sub.C:
			switch {
			case !ok:
				<-ctx.Done()
			case e.Type == events.Resync || sub.Missed():
				s.lookAtAll()
			case e.Type == "session.updated", e.Type == "prompt.updated":
				s.lookAtSession(e.ID)
			}
		}
	}
}

func (s *Service) lookAtAll() {
	for _, id := range s.ids(func(*followed) bool { return true }) {
		s.look(id)
	}
}

// lookAtSession looks at the subagents whose session, or whose caller's session, changed.
func (s *Service) lookAtSession(sessionID string) {
	for _, id := range s.ids(func(f *followed) bool { return f.session == sessionID || f.parent == sessionID }) {
		s.look(id)
	}
}

func (s *Service) ids(which func(*followed) bool) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.followed {
		if which(f) {
			out = append(out, id)
		}
	}
	return out
}

// follow begins to follow a subagent.
func (s *Service) follow(a Subagent) {
	s.mu.Lock()
	if f := s.followed[a.ID]; f == nil {
		s.followed[a.ID] = &followed{session: a.SessionID, parent: a.ParentSessionID}
	}
	s.mu.Unlock()
	s.look(a.ID)
}

// look has a subagent looked at soon.
func (s *Service) look(id string) { s.looks.At(id) }

// seeTo takes a subagent that is followed one step further. It is followed no more once nothing is left to be done.
func (s *Service) seeTo(ctx context.Context, id string) {
	s.mu.Lock()
	f := s.followed[id]
	s.mu.Unlock()
	if f == nil || s.step(ctx, id) {
		return
	}
	s.mu.Lock()
	delete(s.followed, id)
	s.mu.Unlock()
}

// edit changes a subagent and notifies whoever waits for it or shows it. fn returns errUnchanged to leave it alone.
func (s *Service) edit(ctx context.Context, id string, fn func(*Subagent) error) (Subagent, error) {
	a, err := s.cfg.Store.EditSubagent(ctx, id, func(a *Subagent) error {
		if err := fn(a); err != nil {
			return err
		}
		a.UpdatedAt = s.now()
		return nil
	})
	if err == nil {
		s.notify(ctx, a)
	}
	return a, err
}

func (s *Service) notify(ctx context.Context, a Subagent) {
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	if f := s.followed[a.ID]; f != nil {
		f.session = a.SessionID
	}
	s.mu.Unlock()
	if s.cfg.Events == nil {
		return
	}
	s.cfg.Events.Publish(ctx, events.Event{Type: "subagent.changed", ID: a.ID, WorkspaceID: a.FromWorkspaceID, TeamID: a.TeamID, Version: a.UpdatedAt})
}

// masked is a text with the team's secrets masked; "" when they cannot be read.
func (s *Service) masked(ctx context.Context, teamID, text string) string {
	if err := tools.Hide(ctx, s.cfg.Secrets, teamID, &text); err != nil {
		s.cfg.Log.WarnContext(ctx, "a subagent's result is not stored: the team's secrets could not be read", "team_id", teamID, "error", err)
		return ""
	}
	return text
}

// actorFor returns the user a subagent works for, after checking that they may still have agents work in the workspace.
func (s *Service) actorFor(ctx context.Context, userID string, w workspaces.Workspace) (accounts.Actor, error) {
	actor, err := s.cfg.Accounts.Actor(ctx, userID)
	if err != nil {
		return actor, err
	}
	if err := accounts.Can(actor, accounts.TypeTerminal, accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private}); err != nil {
		return actor, err
	}
	if s.cfg.Admit == nil {
		return actor, nil
	}
	return actor, s.cfg.Admit(ctx, actor, w)
}

var errUnchanged = errors.New("nothing changed")
