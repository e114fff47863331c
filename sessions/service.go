package sessions

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/modelgateway"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/toolrelay"
	"github.com/parawork/parawork/sessions/transcript"
	"github.com/parawork/parawork/workspaces"
)

// Store is what the package needs of the storage. Errors: fault.NotFound for an unknown ID.
type Store interface {
	prompt.Store
	question.Store
	SessionStore
	ConversationStore
}

// SessionStore stores sessions.
type SessionStore interface {
	// InsertSession stores a new session. One that begins with a conversation claims it in this home of its agent;
	// fault.Conflict, conversation_in_use, when a running session has it: then nothing is stored.
	InsertSession(ctx context.Context, s Session, home string) error
	// UpdateSession stores everything that changes in a session's life except its conversation. An ended session stays ended: the
	// call is then a no-op.
	UpdateSession(ctx context.Context, s Session) error
	// UpdateSessions is UpdateSession for several, all or none.
	UpdateSessions(ctx context.Context, all []Session) error
	Session(ctx context.Context, id string) (Session, error)
	// Sessions returns a workspace's sessions, newest first.
	Sessions(ctx context.Context, workspaceID string) ([]Session, error)
	// OpenSessions returns every session that has not ended.
	OpenSessions(ctx context.Context) ([]Session, error)
	// TeamSessions returns, for the workspaces of a team that are not deleted, the open sessions and each workspace's last ended
	// one, ignoring shells and setup scripts.
	TeamSessions(ctx context.Context, teamID string, workspaceIDs ...string) ([]Counted, error)
	// AttentionSessions returns the sessions that may need attention in the workspaces of a team that are neither archived nor
	// deleted: the open ones, and of each workspace the last ended one, ignoring shells and setup scripts, unless somebody has
	// stopped it or userID has marked it as done. "" stands for no user.
	AttentionSessions(ctx context.Context, teamID, userID string) ([]Session, error)
	// KeptSessions returns every session of a team, or of all with "", with all fields of Kept but Disk.
	KeptSessions(ctx context.Context, teamID string) ([]history.Kept, error)
}

// ConversationStore stores which conversation of an agent belongs to which session.
type ConversationStore interface {
	// ClaimConversation assigns a conversation to a session. It returns false when the conversation belongs to another session
	// that runs or ended after c.Until. Of concurrent claims one succeeds.
	ClaimConversation(ctx context.Context, c Claim) (bool, error)
	// Conversations returns the conversation IDs of sessions of this agent that were running at some time after since (ms UTC).
	Conversations(ctx context.Context, agent string, since int64) ([]string, error)
}

// Counted is a session with the total number of sessions of its workspace.
type Counted struct {
	Session
	Total int
}

// Places is what the package needs of the executors: the live sandbox of a workspace.
type Places interface {
	Kinds
	Pauses
	Ends

	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	Live(workspaceID string) (*executors.Place, bool)
	// Permit returns an error when nothing new may start in the workspace's sandbox in its current state.
	Permit(ctx context.Context, workspaceID string) error
	// UnreachableSandbox returns the workspace's sandbox while it exists but could not be reached; "" when there is none such.
	UnreachableSandbox(workspaceID string) (sandboxID string)
	// Away returns why the sandbox cannot be reached now although it may be running; nil = it can, or there is none.
	Away(ctx context.Context, workspaceID string) error
}

// Kinds reports the last known capabilities of the executors.
type Kinds interface {
	// Capabilities returns the last known capabilities of every kind of executor.
	Capabilities(ctx context.Context) []executors.Capabilities
	// Place returns the last known capabilities of one kind of executor; false when there is no such kind.
	Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool)
}

// Pauses reports which sandboxes are suspended, and wakes them.
type Pauses interface {
	// Paused returns why the workspace's sandbox is suspended, and whether it is; Wake resumes it.
	Paused(workspaceID string) (reason string, paused bool)
	Wake(ctx context.Context, workspaceID string) error
	// WakesItself reports whether it is suspended and is to be woken, with Wake, by any caller that needs what runs in it.
	WakesItself(workspaceID string) bool
}

// Ends reports why a process or a sandbox ended.
type Ends interface {
	// KilledBy returns why a process that was just killed died, EndOf why a sandbox ended that no person ended; "" = unknown.
	KilledBy(workspaceID, sandboxID string) string
	EndOf(sandboxID string) string
}

// Workspaces is what the package needs of workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Accounts is what the package needs of users: who they are and the account their agent uses.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
	// AgentAccountFor returns the account with this ID, "" = the default, and its secret; fault.NotFound when the actor has no
	// such account, or none was chosen.
	AgentAccountFor(ctx context.Context, actor accounts.Actor, teamID, agent, accountID string) (accounts.AgentAccount, string, error)
	// ManagedAgentAccount returns an account the actor may change, and its secret.
	ManagedAgentAccount(ctx context.Context, actor accounts.Actor, accountID string) (accounts.AgentAccount, string, error)
	// UsableAgentAccounts returns the accounts the actor may use in a team, without secrets.
	UsableAgentAccounts(ctx context.Context, actor accounts.Actor, teamID string) ([]accounts.AgentAccount, error)
}

// Checkpoints are states of workspaces to go back to.
type Checkpoints interface {
	// Prompted and Compacting note that a session's agent got a prompt, and that it is about to compact its conversation. They
	// must not block, nor call sessions. One prompt may be noted twice: by its sender, and by the agent's hook.
	Prompted(s Session, prompt string)
	Compacting(s Session)
	// Handover returns what an agent must know to go on with the work of an ended session whose conversation it cannot continue;
	// "" when nothing is known.
	Handover(ctx context.Context, old Session) (string, error)
}

// Config configures a Service. Limits that are zero take their defaults.
type Config struct {
	Store      Store
	Places     Places
	Workspaces Workspaces
	Accounts   Accounts
	Agents     *agents.Registry
	Events     events.Publisher
	DataDir    string // absolute; logs are in DataDir/sessions/<id>
	// Secrets gives sessions their secrets. Nil: none.
	Secrets masks.Secrets
	// Gateway proxies agents' requests to their models. Nil: agents get their accounts' keys.
	Gateway modelgateway.Gateway
	// ToolServer serves agents' connections to the tools. Nil: they have none.
	ToolServer toolrelay.Server
	// Grace returns how long the work of a workspace that reached a limit may still continue; false when it reached none. Nil:
	// there are no limits. It must not block.
	Grace func(workspaceID string) (Grace, bool)
	// Allow refuses a command that may not run in this kind of executor: the agent "command" starts it. Nil: all may.
	Allow func(ctx context.Context, w workspaces.Workspace, kind executors.Kind, argv []string, env map[string]string) error
	// Tools says how an agent in a workspace reaches Parawork's tools. Nil: agents do not learn of them.
	Tools func(ctx context.Context, w workspaces.Workspace) (agents.Tools, error)
	// Hosts are the agents that work in the server. Nil: there are none.
	Hosts prompt.Hosts
	// Meter counts requests to models by agents that do not use the gateway. Nil: they are not counted.
	Meter transcript.Meter
	// TurnEnded is called when an agent that reports its turns has finished one, with the prompt of the turn, "" where that is
	// unknown. It must not block, nor call sessions. May be nil.
	TurnEnded func(s Session, prompt string)
	// Checkpoints marks moments worth going back to, and knows how to go on from them. Nil: nobody does.
	Checkpoints Checkpoints
	// Exclude excludes files of a worktree from git in its repository. Nil: nothing to exclude.
	Exclude func(ctx context.Context, workspaceID string, names []string) error
	// Key seals the secrets of running sessions on disk, so that they are still masked after a restart: at least 16 bytes.
	// Without it, the later output of sessions that outlive the server is no longer masked.
	Key []byte
	Now func() time.Time
	Log *slog.Logger

	Limits history.Limits // of the history on disk; Session, when it is not 0, is MaxLogBytes
	// TeamHistory replaces Limits.Team where that depends on the instance; bytes, 0 = no cap. Optional.
	TeamHistory  func(ctx context.Context) (int64, error)
	MaxLogBytes  int64         // of one session's log on disk; default 1 GiB
	RingBytes    int64         // of one session's log in memory; default 512 KiB
	SlowAfter    time.Duration // how long a viewer may be silent while over its window; default 30 s
	SizeHold     time.Duration // how long a size owner who left keeps the size; default 30 s
	AcceptWithin time.Duration // how long an agent may take to start work on a queued prompt; default 20 s
	ScreenSleep  time.Duration // after this much silence a session's screen is stored on disk only; default 1 min
	SearchTime   time.Duration // how long one search reads before it answers with what it found; default 4 s
	EndPatience  time.Duration // how long an end waits for a failing store before it is published without; default 15 s
	TakeUpTries  int           // how often after a start the server tries to reconnect a session whose files are damaged before it asks people; default 8

	// MaxConversationBytes bounds the stored conversation of one session; default 32 MiB.
	MaxConversationBytes int64
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil || c.Places == nil || c.Workspaces == nil || c.Accounts == nil || c.Agents == nil {
		return errors.New("sessions: Store, Places, Workspaces, Accounts and Agents are required")
	}
	if c.DataDir == "" {
		return errors.New("sessions: DataDir is required")
	}
	if n := len(c.Key); n != 0 && n < 16 {
		return errors.New("sessions: Key must have at least 16 bytes")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Limits.Session > 0 {
		c.MaxLogBytes = c.Limits.Session
	}
	if c.MaxLogBytes <= 0 {
		c.MaxLogBytes = 1 << 30
	}
	if c.RingBytes <= 0 {
		c.RingBytes = 512 << 10
	}
	if c.MaxConversationBytes <= 0 {
		c.MaxConversationBytes = 32 << 20
	}
	if c.SlowAfter <= 0 {
		c.SlowAfter = 30 * time.Second
	}
	if c.SizeHold <= 0 {
		c.SizeHold = 30 * time.Second
	}
	if c.AcceptWithin <= 0 {
		c.AcceptWithin = 20 * time.Second
	}
	if c.ScreenSleep <= 0 {
		c.ScreenSleep = time.Minute
	}
	if c.EndPatience <= 0 {
		c.EndPatience = 15 * time.Second
	}
	if c.TakeUpTries <= 0 {
		c.TakeUpTries = 8
	}
	return nil
}

// Service manages sessions. Safe for concurrent use.
type Service struct {
	cfg Config

	// Callers reach the parts through these fields.
	Recordings *history.Recordings // output of sessions
	Queue      *prompt.Queue       // typed input and queued prompts
	Board      *question.Board     // questions of agents
	Masks      *masks.Masks        // secrets given to sessions

	*roster // the agents that can be started

	hard context.Context // bounds the life of pumps and inputs: ends when Run returns
	end  context.CancelCauseFunc

	tasks *tasks.Group // what Run waits for; the parts of the service run in it, too

	mu      sync.Mutex
	lives   map[string]*live
	dirty   map[*live]struct{} // changed since it was stored
	seats   map[*live]struct{} // the people at its terminal changed: published, not stored
	closed  bool
	wake    chan struct{} // signals that something is dirty
	hurried chan struct{} // and is to be stored at once

	gateway *modelgateway.Listeners
	relay   *toolrelay.Relay

	stranded    strandings
	transcripts *transcript.Transcripts
	launches    masks.Launches // what the server must remember about sessions across a restart
}

// New returns a Service. It starts nothing; it panics on a Config that Validate rejects.
func New(cfg Config) *Service {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	hard, end := context.WithCancelCause(tenant.All(context.Background(), "the loops of the service"))
	s := &Service{cfg: cfg, tasks: new(tasks.Group), hard: hard, end: end, lives: map[string]*live{}, dirty: map[*live]struct{}{}, seats: map[*live]struct{}{},
		wake: make(chan struct{}, 1), hurried: make(chan struct{}, 1),
		stranded: strandings{all: map[string]*stranding{}}}
	s.Recordings = history.New(history.Config{Sessions: openRecordings{s}, DataDir: cfg.DataDir, Limits: cfg.Limits, TeamHistory: cfg.TeamHistory, MaxLogBytes: cfg.MaxLogBytes,
		RingBytes: cfg.RingBytes, ScreenSleep: cfg.ScreenSleep, SearchTime: cfg.SearchTime, Tasks: s.tasks, Context: hard, Now: cfg.Now, Log: cfg.Log})
	s.Queue = prompt.New(prompt.Config{Store: cfg.Store, Sessions: promptedSessions{s}, Agents: cfg.Agents, Hosts: cfg.Hosts, AcceptWithin: cfg.AcceptWithin, Events: cfg.Events, Tasks: s.tasks,
		Context: hard, Now: cfg.Now, Log: cfg.Log})
	s.Board = question.New(question.Config{Store: cfg.Store, Sessions: questionedSessions{s}, Agents: cfg.Agents, Accounts: cfg.Accounts, Live: cfg.Places.Live, Events: cfg.Events,
		Tasks: s.tasks, Context: hard, Now: cfg.Now, Log: cfg.Log})
	s.roster = &roster{agents: cfg.Agents, accounts: cfg.Accounts, kinds: cfg.Places, gateway: cfg.Gateway != nil}
	s.launches = masks.Launches{DataDir: cfg.DataDir, Key: cfg.Key}
	s.Masks = masks.New(masks.Config{Secrets: cfg.Secrets, Launches: s.launches, Homes: cfg.Agents, Live: cfg.Places.Live, Workspace: s.anyWorkspace, Exclude: cfg.Exclude,
		Tasks: s.tasks, Context: hard, Log: cfg.Log})
	s.transcripts = transcript.New(transcript.Config{Agents: cfg.Agents, DataDir: cfg.DataDir, MaxBytes: cfg.MaxConversationBytes, Workspace: cfg.Workspaces.Workspace,
		RanInside: s.ranInside, Meter: cfg.Meter, Events: cfg.Events, Tasks: s.tasks, Context: hard, Now: cfg.Now, Log: cfg.Log})
	s.gateway = modelgateway.New(modelgateway.Config{Gateway: cfg.Gateway, Agents: cfg.Agents, Live: cfg.Places.Live, Run: s.run, Context: hard, EndPatience: cfg.EndPatience, Log: cfg.Log})
	s.relay = toolrelay.New(toolrelay.Config{Server: cfg.ToolServer, Live: cfg.Places.Live, Run: s.run, Context: hard, Log: cfg.Log})
	return s
}

// Run stores changes in sessions until ctx ends, then releases every session and returns when all goroutines of the service have
// ended. The sessions themselves continue in their sandboxes.
func (s *Service) Run(ctx context.Context) error {
	s.Recordings.StartLoops()
	s.saveLoop(ctx)
	s.end(ErrRestarting)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	lives := s.all()
	s.tasks.Close()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	if a := s.save(last); a.failed > 0 {
		s.cfg.Log.Error("sessions could not be stored before the server stopped", "sessions", a.failed, "error", a.err)
	}
	for _, l := range lives {
		l.shut()
	}
	return nil
}

// run starts fn in a goroutine for which Run waits. It returns false when the service is closed: fn will not run.
func (s *Service) run(fn func()) bool { return s.tasks.Go(fn) }

// after calls fn once d has passed, unless the service is closed by then.
func (s *Service) after(d time.Duration, fn func()) *time.Timer { return s.tasks.After(d, fn) }

// dir is the folder of a session's files.
func (s *Service) dir(id string) string { return filepath.Join(s.cfg.DataDir, "sessions", id) }

// anyWorkspace returns a workspace of any team, for work that outlives its session.
func (s *Service) anyWorkspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	return s.cfg.Workspaces.Workspace(tenant.All(ctx, "the files of an ended session"), id)
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }
