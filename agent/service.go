package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent/plan"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/tools"
)

// Config configures a Service. All but Attach, Checkpoints, Cost, Files, Tasks, Place, Guide, Briefings, TurnLimits and Events is required; limits that are zero take their defaults.
type Config struct {
	Store    Store
	Sessions Sessions
	Tools    Tools
	// Subagents work for sessions. Nil: there are none.
	Subagents Subagents
	// Model returns the model that a session's turns ask. Its errors are shown to people.
	Model func(ctx context.Context, s sessions.Session, o Options) (Model, error)
	// Caller says for whom a session's tools are called, and refuses when that person may no longer work in the workspace.
	Caller func(ctx context.Context, s sessions.Session) (tools.Caller, error)
	// Project returns the project of a workspace.
	Project func(ctx context.Context, workspaceID string) (projectID string, err error)
	// Cost returns what a request to a model cost, as the model gateway recorded it; false while it has not. Nil: nobody knows.
	Cost func(ctx context.Context, sessionID, request string) (Cost, bool, error)
	// Tasks creates the tasks of an approved plan, and returns their IDs. With a key that it had before, it creates nothing. Nil: no tasks.
	Tasks func(ctx context.Context, c tools.Caller, key string, of []plan.Task) ([]string, error)
	// Rules are the permission rules.
	Rules Rules
	// Place returns where a workspace's agent works. Nil: nothing isolates it, and it has no links.
	Place func(ctx context.Context, workspaceID string) (Place, error)
	// Guide and Briefings say what the agent reads beside people's prompts, and remember it. Nil, both: nothing.
	Guide     Guide
	Briefings Briefings
	// Attach writes an attached file into the worktree of a workspace's sandbox. Nil: models are only shown the beginning of texts.
	Attach func(ctx context.Context, workspaceID, path string, data []byte) error
	// First has the files that first prompts of sessions come with. Nil: there are none.
	First FirstFiles
	// Checkpoints marks the state before a conversation is summarized. Nil: nothing does.
	Checkpoints Checkpoints
	// Files undoes what turns change. Nil: only messages can be undone.
	Files Files
	// Siblings makes the workspaces of forks. Nil: forks share the workspace of their origin.
	Siblings Siblings
	// Fork starts a session like another, with a copy of its thread.
	Fork   func(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest, of sessions.From) (sessions.Session, error)
	Owner  string // this server; the same after a restart
	Events events.Publisher
	Now    func() time.Time
	Log    *slog.Logger

	Limits Limits
	// TurnLimits are the limits of teams and projects, beside Limits. Nil: they have none.
	TurnLimits LimitStore
}

// Limits bound a turn.
type Limits struct {
	Steps       int64         // requests to the model; default 250
	Time        time.Duration // default 6 h
	Compactions int64         // default 10
	CostNano    int64         // nano-USD that its answers cost; 0 = any
	ResultBytes int           // of one tool result; default 48 KiB
	Parallel    int           // calls of tools that change nothing, at once; default 4
}

// Model is what a turn asks.
type Model struct {
	Provider providers.Provider
	Name     string
	Window   int64 // tokens of input and output together
	Output   int   // tokens of one answer at most
}

// Tools are what the agent may call; tools.Set has them.
type Tools interface {
	Specs() []tools.Spec
	Call(ctx context.Context, c tools.Caller, name string, args json.RawMessage) (tools.Result, error)
}

// Checkpoints marks states of the work to go back to.
type Checkpoints interface {
	// Compacting notes that a session's conversation is about to be summarized. It does not block.
	Compacting(s sessions.Session)
}

// Sessions gives access to the sessions of this agent that run.
type Sessions interface {
	// Hosted returns a running session; false when it is not in memory.
	Hosted(id string) (Host, bool)
	// Session returns a session as it is stored.
	Session(ctx context.Context, id string) (sessions.Session, error)
	// Continuing returns the sessions that continued a conversation one after the other, the first one first.
	Continuing(ctx context.Context, workspaceID, conversation string) ([]sessions.Session, error)
	// Amend stores items that the conversation of a session that has ended has already, in another state.
	Amend(ctx context.Context, s sessions.Session, items []conversation.Item)
}

// Host is a running session of this agent.
type Host interface {
	Row() sessions.Session
	// Done is closed when the session has ended.
	Done() <-chan struct{}
	// Observe reports what the agent does.
	Observe(h agents.Hint)
	// Ask asks a person and waits for the answer, at most until ctx ends. A question with the same key that an earlier server opened is
	// taken over, also with the answer that it was given. accept can refuse an answer: then the question stays open.
	Ask(ctx context.Context, key string, a agents.Ask, accept question.Accept) (agents.Answer, error)
	// Prompted notes a prompt that did not come through the session's queue or terminal.
	Prompted(text string)
	// Record adds to the session's conversation.
	Record(items []conversation.Item)
	// Mask hides the secrets of the session in a text, without changing its length. Stream does so in one that comes in pieces.
	Mask(text string) string
	Stream() *redact.Masker
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil || c.Sessions == nil || c.Tools == nil || c.Model == nil || c.Caller == nil || c.Project == nil || c.Rules == nil || c.Fork == nil || c.Owner == "" {
		return errors.New("agent: Store, Sessions, Tools, Model, Caller, Project, Rules, Fork and Owner are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	l := &c.Limits
	l.Steps, l.Time, l.Compactions = cmp.Or(l.Steps, 250), cmp.Or(l.Time, 6*time.Hour), cmp.Or(l.Compactions, 10)
	l.ResultBytes, l.Parallel = cmp.Or(l.ResultBytes, 48<<10), cmp.Or(l.Parallel, 4)
	return nil
}

// Service runs the turns of threads. Safe for concurrent use.
type Service struct {
	cfg     Config
	work    *tasks.Group
	life    context.Context // of turns: ends when Run returns
	end     context.CancelCauseFunc
	mu      sync.Mutex
	turns   map[string]*running   // under way here, by thread
	orphans map[string]bool       // turns of an earlier server that wait for their sessions, by thread; true: to be interrupted
	feeds   map[string]*subscript // followed threads

	terminals terminals
}

// New returns a Service. It starts nothing; it panics on a Config that Validate rejects.
func New(cfg Config) *Service {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	life, end := context.WithCancelCause(tenant.All(context.Background(), "the turns of the agent"))
	return &Service{cfg: cfg, work: new(tasks.Group), life: life, end: end, turns: map[string]*running{}, orphans: map[string]bool{}, feeds: map[string]*subscript{}}
}

// errClosing is why turns stop when the server does: the next one goes on with them.
var errClosing = fmt.Errorf("the server is stopping: %w", question.ErrStays)

// runs reports whether a turn runs here.
func (s *Service) runs(t Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.turns[t.ThreadID]
	return r != nil && r.turn.ID == t.ID
}

// begin runs a turn in a goroutine of its own, after the thread's turn before it.
func (s *Service) begin(t Thread, turn Turn, host Host) {
	r := s.newRunning(t, turn, host)
	s.mu.Lock()
	before := s.turns[t.ID]
	if before != nil && before.turn.ID == turn.ID {
		s.mu.Unlock()
		r.cancel(nil)
		return
	}
	s.turns[t.ID] = r
	s.mu.Unlock()
	if !s.work.Go(func() {
		defer s.left(r)
		if before != nil { // its end is stored; it is about to return
			<-before.over
		}
		r.run()
	}) {
		s.left(r)
	}
}

func (s *Service) left(r *running) {
	r.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(r.over)
	if s.turns[r.turn.ThreadID] == r {
		delete(s.turns, r.turn.ThreadID)
	}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Open returns the thread of a session of this agent. A new one begins with the session's prompt.
func (s *Service) Open(ctx context.Context, row sessions.Session, o Options) (Thread, error) {
	ctx = tenant.In(ctx, row.TeamID)
	t, err := s.cfg.Store.ThreadOf(ctx, row.WorkspaceID, row.Conversation)
	switch {
	case fault.Is(err, fault.NotFound):
		projectID, err := s.cfg.Project(ctx, row.WorkspaceID)
		if err != nil {
			return t, err
		}
		now := s.now()
		t = Thread{ID: id.New("thr"), TeamID: row.TeamID, ProjectID: projectID, WorkspaceID: row.WorkspaceID, SessionID: row.ID, Conversation: row.Conversation, CreatedBy: row.CreatedBy,
			Model: o.Model, Mode: cmp.Or(o.Mode, Build), State: Idle, CreatedAt: now, UpdatedAt: now, Version: 1}
		if err := s.cfg.Store.CreateThread(ctx, t); fault.Is(err, fault.Conflict) { // two connections
			if t, err = s.cfg.Store.ThreadOf(ctx, row.WorkspaceID, row.Conversation); err != nil {
				return t, err
			}
		} else if err != nil {
			return t, err
		}
		s.changed(ctx, t)
	case err != nil:
		return t, err
	case t.SessionID != row.ID:
		if s.cfg.Subagents != nil {
			if err := s.cfg.Subagents.Adopt(ctx, t.SessionID, row.ID); err != nil {
				return t, err
			}
			defer s.takeLeft(row)
		}
		if _, err := s.cfg.Store.Apply(ctx, t.ID, Change{At: s.now(), Thread: &ThreadChange{SessionID: row.ID, Model: o.Model, Mode: o.Mode}, NoTurn: true}); err != nil {
			return t, err
		}
		if t, err = s.cfg.Store.Thread(ctx, t.ID); err != nil {
			return t, err
		}
		s.changed(ctx, t)
	}
	if err := errors.Join(s.adopt(ctx, t, row), s.showCopied(ctx, t)); err != nil || row.Prompt == "" {
		return t, err
	}
	text, err := s.expand(ctx, t, row.Prompt)
	if err != nil {
		s.cfg.Log.Warn("a command in the prompt of a session could not be looked up", "session_id", row.ID, "error", err)
		text = row.Prompt
	}
	// The session's first prompt is its thread's message with the session's ID: once, however often a session is opened.
	p := Prompt{Text: text, UserID: row.CreatedBy, id: "msg_" + strings.TrimPrefix(row.ID, "ses_"), first: true}
	if s.cfg.First == nil {
		_, err = s.send(ctx, t, p)
		return t, err
	}
	if p.Attachments, err = s.cfg.First.Files(ctx, row.ID); err != nil {
		return t, err
	}
	if _, err = s.send(ctx, t, p); err == nil {
		err = s.cfg.First.Taken(ctx, row.ID)
	}
	return t, err
}

// adopt goes on with a turn of a thread that runs nowhere, as when the session was not there at the server's start. A session that begins
// without a prompt waits for one.
func (s *Service) adopt(ctx context.Context, t Thread, row sessions.Session) error {
	v, err := s.cfg.Store.View(ctx, t.ID, Window{Limit: 1})
	switch {
	case err != nil:
		return err
	case v.Turn != nil && v.Turn.State == TurnRunning:
		if !s.runs(*v.Turn) {
			s.work.Go(func() { s.resume(*v.Turn) })
		}
	case row.State == state.Starting && row.Prompt == "":
		if host, ok := s.cfg.Sessions.Hosted(row.ID); ok {
			host.Observe(agents.Hint{Source: agents.FromHook, Mood: agents.Ready})
		}
	}
	return nil
}

// FirstFiles are the files that first prompts of sessions come with.
type FirstFiles interface {
	Files(ctx context.Context, sessionID string) ([]Attachment, error)
	// Taken forgets those of a session: its thread has them.
	Taken(ctx context.Context, sessionID string) error
}

// Options are how a session is started.
type Options struct {
	Model  string // "" = the default
	Mode   Mode   // "" = Build
	Cost   int64  // nano-USD that a turn may cost; 0 = any
	Effort string // of the model's reasoning: low, medium or high; "" = the model's own
	API    string // messages, responses or chat: the one that the account's address speaks; "" = the usual one for its key
}

// Prompt is what a person says to the agent.
type Prompt struct {
	Text        string
	UserID      string
	Replaces    string // a prompt that this one takes the place of: what came after it is undone; "" = none
	Attachments []Attachment

	id    string // "" = a new one
	first bool   // the session's first one, one of its queue, or one that no person wrote
	idle  bool   // only while no turn runs
	again bool   // it may have been entered before
}

const (
	maxPrompt   = 1 << 20 // bytes
	mostPrompts = 50      // that the agent has not answered yet
)

// Send gives the agent a prompt: it starts a turn, or joins the one that runs. A prompt that calls a command of the repository or a skill is
// replaced by its text. Errors: not_found, invalid_prompt, session_not_running, and with Replaces turn_running, message_not_found,
// message_undone and message_not_prompt.
func (s *Service) Send(ctx context.Context, threadID string, p Prompt) (Message, error) {
	t, err := s.cfg.Store.Thread(ctx, threadID)
	if err != nil {
		return Message{}, err
	}
	if p.Text, err = s.expand(ctx, t, p.Text); err != nil {
		return Message{}, err
	}
	return s.send(ctx, t, p)
}

func (s *Service) send(ctx context.Context, t Thread, p Prompt) (Message, error) {
	text := strings.TrimSpace(p.Text)
	if text == "" && len(p.Attachments) == 0 || len(text) > maxPrompt || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return Message{}, fault.New(fault.Invalid, "invalid_prompt", "A prompt is UTF-8 text of at most 1 MiB without NUL characters, and not empty.")
	}
	host, ok := s.cfg.Sessions.Hosted(t.SessionID)
	if !ok {
		return Message{}, errNotRunning
	}
	m := &Message{ID: cmp.Or(p.id, id.New("msg")), ThreadID: t.ID, Role: User, State: Complete, UserID: p.UserID, Parts: textParts(host.Mask(text))}
	attached, kept, err := s.attach(ctx, t, host, p.Attachments)
	if err != nil {
		return Message{}, err
	}
	m.Parts = append(m.Parts, attached...)
	if p.Replaces != "" {
		return s.resend(ctx, t, host, m, kept, p)
	}
	for {
		turn := s.newTurn(t)
		m.CreatedAt, m.DoneAt = turn.StartedAt, turn.StartedAt
		m.TurnID, m.Seq = turn.ID, 0
		_, err := s.cfg.Store.Apply(ctx, t.ID, Change{At: turn.StartedAt, Thread: &ThreadChange{State: Working}, Messages: []*Message{m}, Media: kept, Turn: turn, NoTurn: true, Fresh: p.first})
		switch {
		case err == nil:
			s.prompted(ctx, t, host, m, p)
			s.begin(t, *turn, host)
			return *m, nil
		case fault.CodeOf(err) == "message_exists":
			return *m, nil
		case fault.CodeOf(err) != "turn_running" || p.idle:
			return Message{}, err
		}
		v, err := s.cfg.Store.View(ctx, t.ID, Window{Limit: 1})
		if err != nil {
			return Message{}, err
		}
		if v.Turn == nil || v.Turn.State != TurnRunning {
			continue // it has just ended
		}
		m.TurnID = v.Turn.ID
		_, err = s.cfg.Store.Apply(ctx, t.ID, Change{At: turn.StartedAt, Messages: []*Message{m}, Media: kept, TurnID: v.Turn.ID, Fresh: p.first, MostPrompts: mostPrompts})
		switch {
		case err == nil:
			s.prompted(ctx, t, host, m, p)
			return *m, nil
		case fault.CodeOf(err) == "message_exists":
			return *m, nil
		case fault.CodeOf(err) != "turn_lost":
			return Message{}, err
		}
	}
}

// newTurn is a turn of a thread that begins here and now.
func (s *Service) newTurn(t Thread) *Turn {
	now := s.cfg.Now()
	return &Turn{ID: id.New("trn"), ThreadID: t.ID, TeamID: t.TeamID, State: TurnRunning, Owner: s.cfg.Owner, LeaseUntil: now.Add(leaseFor).UnixMilli(), StartedAt: now.UnixMilli()}
}

// prompted tells everybody of a prompt that was stored.
func (s *Service) prompted(ctx context.Context, t Thread, host Host, m *Message, p Prompt) {
	s.changed(ctx, t)
	host.Record([]item{promptItem(m)})
	if !p.first { // the session knows its own
		host.Prompted(promptOf(m))
	}
}

// Interrupt stops the thread's turn: what was done stays done. It returns false when no turn runs here.
func (s *Service) Interrupt(threadID string) bool {
	s.mu.Lock()
	r := s.turns[threadID]
	_, waits := s.orphans[threadID]
	if r == nil && waits {
		s.orphans[threadID] = true
	}
	s.mu.Unlock()
	if r == nil {
		return waits
	}
	r.cancel(errInterrupted)
	return true
}
