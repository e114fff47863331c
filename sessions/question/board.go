// Package question tracks what agents ask and delivers the answers: questions reported by hooks, dialogs that only the screen
// shows, and the inbox in which people find both. A question is stored before people see it and is settled once, whoever answers;
// an answer that did not reach the agent leaves it open.
//
// While a session whose agent has hooks runs, one goroutine per sandbox listens to them; while an agent asks something, one
// goroutine per session looks at its screen. Both are in the group the package is given.
//
// The lock of the session itself, which is passed in, guards the questions of a session: a question and the state of its session
// change together. Order: a question's turn > the session's lock; a call's lock > a listener's; the board's lock is a leaf. Only
// a turn is held during waits for the storage, the guest or the screen.
package question

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/sessions/state"
)

// Accounts looks up who answered.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Sessions gives access to the sessions that are in memory.
type Sessions interface {
	// Hold returns a session's questions and keeps the session in memory until release; nil when it is not there.
	Hold(id string) (q *Questions, release func())
	// InMemory returns a session's questions, nil when it is not in memory.
	InMemory(id string) *Questions
	// All returns the questions of all sessions in memory.
	All() []*Questions
}

// Config configures a Board. All but Events is required.
type Config struct {
	Store    Store
	Sessions Sessions
	Agents   *agents.Registry
	Accounts Accounts
	// Live returns the live sandbox of a workspace.
	Live    func(workspaceID string) (*executors.Place, bool)
	Events  events.Publisher
	Tasks   *tasks.Group
	Context context.Context // ends the tasks' work
	Now     func() time.Time
	Log     *slog.Logger
}

// Board holds the questions of all sessions of a server. Safe for concurrent use.
type Board struct {
	cfg Config

	mu        sync.Mutex
	listeners map[string]*listener // by sandbox
}

// New returns a Board. It starts nothing.
func New(cfg Config) *Board { return &Board{cfg: cfg, listeners: map[string]*listener{}} }

func (b *Board) now() int64 { return b.cfg.Now().UnixMilli() }

// About holds the constant facts about a session.
type About struct {
	ID, TeamID, WorkspaceID, SandboxID string
	Agent                              string
}

// Host is the session that asks. State, Judge and Changed are called under its lock, the others without it.
type Host interface {
	State() state.State
	// Judge updates the session's state from its state machine.
	Judge()
	// Changed refreshes viewers of the session and has it stored.
	Changed()
	// Observe takes a hook's report of the session's state.
	Observe(h agents.Hint)
	// Noticed takes everything else that a hook reports. It must not block.
	Noticed(h agents.HookReport)
	// Claim assigns the agent's conversation to the session, unless another session has it.
	Claim(ctx context.Context, conversation string) error
	// Press types keys.
	Press(ctx context.Context, keys []byte) error
	// Prompt queues a text for the agent, before the others.
	Prompt(ctx context.Context, who accounts.Actor, text string) error
	// Wake wakes the session's workspace when it sleeps.
	Wake(ctx context.Context) error
}

// SessionConfig configures Questions.
type SessionConfig struct {
	About   About
	Host    Host
	Lock    sync.Locker    // the session's
	Machine *state.Machine // likewise; guarded by Lock
	Mask    func(text string) string
	Note    func(kind journal.Kind, data any)    // adds an event to the session's journal
	Screen  func(fn func(s *screen.Screen)) bool // calls fn with the session's updated screen
	Printed func() int64                         // returns how many bytes the session has printed
}

// Questions holds the questions of one session.
type Questions struct {
	board *Board
	cfg   SessionConfig
	about About
	host  Host

	mu       sync.Locker // the session's; it guards the fields below
	asked    []*pending  // open questions, oldest first
	coming   *agents.Ask // the question of the dialog that opens next
	comingAt time.Time
	hookAt   time.Time // of the newest report of a hook
	watching bool      // a goroutine watches the screen for dialogs
	busy     busyWords // the terminal's reports so far
	busyThen busyWords // the same at the newest key
}

// Session returns the questions of a session.
func (b *Board) Session(cfg SessionConfig) *Questions {
	return &Questions{board: b, cfg: cfg, about: cfg.About, host: cfg.Host, mu: cfg.Lock}
}
