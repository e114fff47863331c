// Package question knows what agents ask and brings them the answers: questions that hooks tell of, dialogs that only the screen shows, and the
// inbox in which people find both. A question is stored before people see it and is settled once, whoever answers; an answer the agent did
// not get leaves it open.
//
// While a session whose agent has hooks runs, one goroutine a sandbox listens to them; while an agent asks something, one goroutine a session
// looks at its screen. Both are in the group the package is given.
//
// The questions of a session are guarded by the lock of the session itself, which it hands over: a question and the state of its session
// change together. Order: a question's turn > the session's lock; a call's lock > a listener's; the board's lock is a leaf. No lock but a turn
// is held while the storage, the guest or the screen is waited for.
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

// Accounts knows who answered.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Sessions are the sessions that are in memory.
type Sessions interface {
	// Hold returns a session's questions and keeps the session in memory until release; nil when it is not there.
	Hold(id string) (q *Questions, release func())
	// InMemory returns a session's questions, nil when it is not in memory.
	InMemory(id string) *Questions
	// All returns the questions of all sessions in memory.
	All() []*Questions
}

// Config is what a Board is made of. All but Events is needed.
type Config struct {
	Store    Store
	Sessions Sessions
	Agents   *agents.Registry
	Accounts Accounts
	// Live returns the live sandbox of a workspace.
	Live    func(workspaceID string) (*executors.Place, bool)
	Events  events.Publisher
	Tasks   *tasks.Group
	Context context.Context // ends what the tasks do
	Now     func() time.Time
	Log     *slog.Logger
}

// Board is what all sessions of a server ask. Safe for concurrent use.
type Board struct {
	cfg Config

	mu        sync.Mutex
	listeners map[string]*listener // by sandbox
}

// New makes a Board. It starts nothing.
func New(cfg Config) *Board { return &Board{cfg: cfg, listeners: map[string]*listener{}} }

func (b *Board) now() int64 { return b.cfg.Now().UnixMilli() }

// About is what there is to know of a session. Nothing of it ever changes.
type About struct {
	ID, TeamID, WorkspaceID, SandboxID string
	Agent                              string
}

// Host is the session that asks. State, Judge and Changed are called under its lock, the others without it.
type Host interface {
	State() state.State
	// Judge has the session's state follow what its machine has heard.
	Judge()
	// Changed has the session shown anew, and stored.
	Changed()
	// Observe takes what a hook knows of the session's state.
	Observe(h agents.Hint)
	// Claim makes the agent's conversation the session's, unless another session holds it.
	Claim(ctx context.Context, conversation string) error
	// Press types keys.
	Press(ctx context.Context, keys []byte) error
	// Prompt queues a text for the agent, before the others.
	Prompt(ctx context.Context, who accounts.Actor, text string) error
	// Wake wakes the session's workspace when it sleeps.
	Wake(ctx context.Context) error
}

// SessionConfig is what Questions are made of.
type SessionConfig struct {
	About   About
	Host    Host
	Lock    sync.Locker    // the session's
	Machine *state.Machine // likewise; guarded by Lock
	Mask    func(text string) string
	Note    func(kind journal.Kind, data any)    // puts into the session's journal what happened
	Screen  func(fn func(s *screen.Screen)) bool // calls fn with the session's screen, brought up to date
	Printed func() int64                         // how many bytes the session has printed
}

// Questions is what one session asks.
type Questions struct {
	board *Board
	cfg   SessionConfig
	about About
	host  Host

	mu       sync.Locker // the session's; it guards what follows
	asked    []*pending  // open questions, oldest first
	coming   *agents.Ask // what the dialog that opens next asks
	comingAt time.Time
	hookAt   time.Time // of the newest word of a hook
	watching bool      // somebody looks at the screen for dialogs
	busy     busyWords // the terminal's so far
	busyThen busyWords // at the newest key
}

// Session makes the questions of a session.
func (b *Board) Session(cfg SessionConfig) *Questions {
	return &Questions{board: b, cfg: cfg, about: cfg.About, host: cfg.Host, mu: cfg.Lock}
}
