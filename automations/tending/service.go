package tending

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
)

// Config configures a Service. Fields without a comment are required.
type Config struct {
	Store      Store
	Forge      Forge
	Branch     Branch
	Sessions   Sessions
	Prompts    Prompts
	Workspaces Workspaces
	// Actor returns a user with their memberships.
	Actor func(ctx context.Context, userID string) (accounts.Actor, error)
	// Admit returns why a user may not have an agent work in a workspace beyond what their role allows. Nil: nothing more is asked.
	Admit func(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) error
	// Announce tells people once, by an ID, that a pull request needs them.
	Announce func(ctx context.Context, t Tending, id, words string) error
	// Spent returns what sessions have spent on models, in nano-USD, by session. Nil: nobody knows.
	Spent   func(ctx context.Context, sessionIDs ...string) (map[string]int64, error)
	Secrets tools.Secrets // masks prompts and answers; nil: teams have none
	Bus     *events.Bus
	Events  events.Publisher
	Now     func() time.Time // nil = time.Now
	Look    time.Duration    // between looks at what is due; default 2 s
	Settle  time.Duration    // how long an agent that was never seen working is idle before its turn counts as done; default 20 s
	Log     *slog.Logger     // nil = none
}

// atOnce is how many pull requests are looked at at the same time.
const atOnce = 4

// Service brings pull requests to their merge. Safe for concurrent use.
type Service struct {
	cfg   Config
	work  *tasks.Scope
	looks *tasks.Looks
}

// New returns a Service. It starts nothing; it panics when a required dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Forge == nil || cfg.Branch == nil || cfg.Sessions == nil || cfg.Prompts == nil || cfg.Workspaces == nil || cfg.Actor == nil || cfg.Announce == nil || cfg.Bus == nil || cfg.Events == nil {
		panic(errors.New("tending: a required dependency is missing"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Look, cfg.Settle, cfg.Log = cmp.Or(cfg.Look, 2*time.Second), cmp.Or(cfg.Settle, 20*time.Second), cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, work: tasks.NewScope(tenant.All(context.Background(), "pull requests are tended when who asked for it has left"))}
	s.looks = tasks.NewLooks(s.work, atOnce, s.look)
	return s
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Run tends pull requests until ctx ends. The next server goes on.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "one loop for the pull requests of all teams")
	defer s.work.End(context.Canceled)
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	tick := time.NewTicker(s.cfg.Look)
	defer tick.Stop()
	for {
		due, err := s.cfg.Store.Due(ctx, s.now(), 10*atOnce)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "pull requests to tend could not be read", "error", err)
		}
		for _, id := range due {
			s.looks.At(id)
		}
		news, more := s.sleep(ctx, sub, tick)
		for id := range news {
			s.hurry(ctx, id, "")
		}
		if !more {
			return nil
		}
	}
}

// hurry is how soon news have a pull request looked at: what comes together is one look.
const hurry = 5 * time.Second

// sleep gathers the workspaces of which there are news until the next look; false when ctx ends. What is missed is seen a little later.
func (s *Service) sleep(ctx context.Context, sub *events.Sub, tick *time.Ticker) (map[string]bool, bool) {
	news := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-tick.C:
			return news, true
		case e := <-sub.C:
			if e.WorkspaceID != "" && (e.Type == "pull_request.updated" || e.Type == "session.updated") {
				news[e.WorkspaceID] = true
			}
		}
	}
}

func (s *Service) hurry(ctx context.Context, workspaceID, projectID string) {
	if err := s.cfg.Store.Hurry(ctx, workspaceID, projectID, s.cfg.Now().Add(hurry).UnixMilli()); err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "news of a pull request could not be noted", "workspace_id", workspaceID, "project_id", projectID, "error", err)
	}
}

// Happened has the pull requests of a project looked at soon, because its Git host reported something.
func (s *Service) Happened(ctx context.Context, projectID string) { s.hurry(ctx, "", projectID) }

// Request is what somebody wants done for a pull request.
type Request struct {
	Limits Limits
	Merge  string
	Agent  string
}

// Get returns what is done for a workspace's pull request, and its rounds, the newest first. Errors: tending_off.
func (s *Service) Get(ctx context.Context, workspaceID string) (Tending, []Round, error) {
	t, err := s.cfg.Store.Tending(ctx, workspaceID)
	if fault.Is(err, fault.NotFound) {
		return t, nil, fault.New(fault.NotFound, "tending_off", "Nobody has this workspace's pull request tended. Switch it on first.")
	}
	if err != nil {
		return t, nil, err
	}
	rounds, err := s.cfg.Store.Rounds(ctx, workspaceID, maxRoundsShown)
	return t, rounds, err
}

const maxRoundsShown = 60

// Needing returns the pull requests of a team that need a person and are not listed otherwise: an agent's question is its session's.
func (s *Service) Needing(ctx context.Context, teamID string) ([]Tending, error) {
	all, err := s.cfg.Store.Needing(ctx, teamID)
	return slices.DeleteFunc(all, func(t Tending) bool { return t.Code == AgentAsks }), err
}

// Set has a workspace's pull request tended in the name of a user, or continues and changes that: then rounds and money count anew. Errors:
// invalid_tending, pull_request_missing, those of an agent that cannot be started.
func (s *Service) Set(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, r Request) (Tending, error) {
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_tending", format, args...).With("field", field)
	}
	r.Limits.Rounds = cmp.Or(r.Limits.Rounds, DefRounds)
	switch {
	case r.Limits.Rounds < 1 || r.Limits.Rounds > MaxRounds:
		return Tending{}, bad("max_rounds", "The limit is 1 to %d rounds.", MaxRounds)
	case r.Limits.Nano < 0:
		return Tending{}, bad("max_nano", "A limit of money cannot be negative. 0 means none.")
	case r.Merge != "" && r.Merge != workspaces.StrategyMerge && r.Merge != workspaces.StrategySquash && r.Merge != workspaces.StrategyRebase:
		return Tending{}, bad("merge", "merge is empty, merge, squash or rebase.")
	case !takesPrompts(r.Agent):
		return Tending{}, bad("agent", "%s takes no prompts. Choose an agent that does.", r.Agent)
	}
	if r.Agent != "" {
		if err := s.cfg.Sessions.CheckAgent(ctx, r.Agent); err != nil {
			return Tending{}, err
		}
	}
	if _, ok, err := s.cfg.Forge.Of(ctx, w.ID); err != nil || !ok {
		return Tending{}, cmp.Or(err, error(fault.New(fault.NotFound, "pull_request_missing", "The workspace has no pull request yet. Open one.")))
	}
	if err := may(actor, w, r.Merge); err != nil {
		return Tending{}, err
	}
	now := s.now()
	t := Tending{WorkspaceID: w.ID, TeamID: w.TeamID, CreatedBy: actor.User.ID, Limits: r.Limits, Merge: r.Merge, Agent: r.Agent, State: Watching, Code: waitsHost, Because: "The Git host is asked.", Since: now, NextAt: now,
		Version: 1, CreatedAt: now, UpdatedAt: now}
	if err := s.cfg.Store.PutTending(ctx, t); err != nil {
		return t, err
	}
	s.notify(ctx, t)
	return t, nil
}

// Drop ends it. What an agent does now goes on, and is not pushed by itself any more.
func (s *Service) Drop(ctx context.Context, w workspaces.Workspace) error {
	if err := s.cfg.Store.DropTending(ctx, w.ID); err != nil {
		return err
	}
	s.notify(ctx, Tending{WorkspaceID: w.ID, TeamID: w.TeamID})
	return nil
}

func (s *Service) notify(ctx context.Context, t Tending) {
	s.cfg.Events.Publish(ctx, events.Event{Type: "tending.updated", ID: t.WorkspaceID, WorkspaceID: t.WorkspaceID, TeamID: t.TeamID, Version: s.now()})
}

// look does what is to be done for one pull request. What fails is tried again, ever more rarely.
func (s *Service) look(ctx context.Context, workspaceID string) {
	t, err := s.cfg.Store.Tending(ctx, workspaceID)
	if fault.Is(err, fault.NotFound) || err == nil && (t.NextAt == 0 || t.NextAt > s.now()) {
		return
	}
	if err == nil {
		ctx := tenant.In(ctx, t.TeamID)
		if err = s.step(ctx, t); err != nil {
			err = s.failed(ctx, t, err)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "a pull request could not be tended", "workspace_id", workspaceID, "error", err)
	}
}

const longestPause = time.Hour

// failed notes that a look failed. A Git host that asks to wait is asked again when it wants; what cannot pass by itself needs a person.
func (s *Service) failed(ctx context.Context, t Tending, cause error) error {
	if ctx.Err() != nil {
		return nil
	}
	because := fault.Words(cause, "Something went wrong on this server; its log says what.")
	if denied(cause) {
		return s.ask(ctx, t, NotAllowed, because)
	}
	pause := min(every<<min(t.Tries, 10), longestPause)
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		if until, ok := f.Details["until"].(int64); ok {
			pause = max(time.Duration(until-s.now())*time.Millisecond, every)
		}
	}
	s.cfg.Log.InfoContext(ctx, "a look at a pull request failed", "workspace_id", t.WorkspaceID, "error", cause)
	return s.edit(ctx, t, func(t *Tending) {
		if t.State != NeedsYou { // what it needs is still so
			t.set(s.now(), t.State, waitsHost, because)
		}
		t.Tries++
		t.NextAt = s.now() + pause.Milliseconds()
	})
}

// denied reports whether somebody must allow what failed, which does not pass by itself.
func denied(err error) bool {
	switch fault.CodeOf(err) {
	case "forge_not_allowed", "forge_token_missing", "forge_token_refused", "forge_not_found":
		return true
	}
	return fault.Is(err, fault.Forbidden)
}

// set is what it waits for or needs from now on.
func (t *Tending) set(now int64, state State, code, because string) {
	if t.State != state || t.Code != code {
		t.Since = now
	}
	t.State, t.Code, t.Because = state, code, because
}

// edit changes a tending that nobody replaced meanwhile.
func (s *Service) edit(ctx context.Context, t Tending, fn func(*Tending)) error {
	changed := false
	after, err := s.cfg.Store.EditTending(ctx, t.WorkspaceID, func(now *Tending) {
		if now.CreatedAt != t.CreatedAt {
			return
		}
		before := *now
		fn(now)
		now.UpdatedAt = s.now()
		changed = before.State != now.State || before.Code != now.Code || before.Because != now.Because || before.Rounds != now.Rounds || before.SpentNano != now.SpentNano || len(before.Others) != len(now.Others)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil && changed {
		s.notify(ctx, after)
	}
	return err
}

// ask has a person decide, and tells them once.
func (s *Service) ask(ctx context.Context, t Tending, code, because string) error {
	err := s.edit(ctx, t, func(t *Tending) {
		t.set(s.now(), NeedsYou, code, s.masked(ctx, t.TeamID, because))
		t.NextAt, t.Tries = s.now()+quietly.Milliseconds(), 0
		if code == AgentAsks {
			t.NextAt = s.now() + every.Milliseconds()
		}
	})
	if err != nil {
		return err
	}
	return s.tell(ctx, t)
}

// tell announces what a stored tending needs.
func (s *Service) tell(ctx context.Context, t Tending) error {
	t, err := s.cfg.Store.Tending(ctx, t.WorkspaceID)
	if err != nil || t.State != NeedsYou && t.Code != Closed {
		return err
	}
	if err := s.cfg.Announce(ctx, t, fmt.Sprintf("tending-%s-%d-%s", t.WorkspaceID, t.Since, t.Code), t.Because); err != nil {
		return fmt.Errorf("announcing that a pull request needs a person: %w", err)
	}
	return nil
}

// masked is text without the team's secrets; "" when those are unknown.
func (s *Service) masked(ctx context.Context, teamID, text string) string {
	if err := tools.Hide(ctx, s.cfg.Secrets, teamID, &text); err != nil {
		s.cfg.Log.WarnContext(ctx, "text about a pull request is left out: the team's secrets could not be read", "team_id", teamID, "error", err)
		return ""
	}
	return text
}

// actorOf returns the user in whose name it is done, after checking that they still may have agents work there and push.
func (s *Service) actorOf(ctx context.Context, t Tending, w workspaces.Workspace) (accounts.Actor, error) {
	actor, err := s.cfg.Actor(ctx, t.CreatedBy)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return actor, err
	}
	if may(actor, w, t.Merge) != nil {
		return actor, fault.New(fault.Forbidden, NotAllowed, "Who switched it on may no longer do all of this in the workspace. Somebody who may can continue it.")
	}
	return actor, nil
}

// may returns why a user may not have all of this done in a workspace: agents work there, the branch pushed, the pull request merged.
func may(actor accounts.Actor, w workspaces.Workspace, merge string) error {
	needs := []accounts.Action{accounts.TypeTerminal, accounts.EditWorkspace}
	if merge != "" {
		needs = append(needs, accounts.MergeWorkspace)
	}
	for _, action := range needs {
		if err := accounts.Can(actor, action, accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private}); err != nil {
			return err
		}
	}
	return nil
}
