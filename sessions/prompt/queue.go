// Package prompt types into sessions: what people type, what a terminal answers to its program, and the prompts that wait until the agent is
// idle. Each frame of input has a number that is stored before it is sent, so that nothing is typed twice, whenever the server dies.
//
// While something is queued for a session, one goroutine sends it; a prompt a session is started with has one until it is queued. Both are in
// the group the package is given.
//
// What a session knows of its queue is guarded by the lock of the session itself, which it hands over: whether a prompt may be sent depends on
// the session's state. Who types has the turn, a channel with one token, and may wait for the guest and the storage meanwhile. Order: the turn >
// the session's lock, under which nothing is waited for.
package prompt

import (
	"context"
	"log/slog"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
)

// Sessions are the sessions prompts are for.
type Sessions interface {
	// Open returns the session a prompt for this one goes to: with resume, one that has ended is resumed first. Errors: not_found,
	// session_takes_no_prompts, session_not_running, and those of resuming.
	Open(ctx context.Context, actor accounts.Actor, id string, resume bool) (About, error)
	// Hold returns a session's part and keeps the session in memory until release; nil when it is not there.
	Hold(id string) (s *Session, release func())
	// InMemory returns a session's part, nil when it is not in memory.
	InMemory(id string) *Session
}

// Config is what a Queue is made of. All but Events is needed.
type Config struct {
	Store        Store
	Sessions     Sessions
	Agents       *agents.Registry
	AcceptWithin time.Duration // how long an agent may take to go to work on a queued prompt
	Events       events.Publisher
	Tasks        *tasks.Group
	Context      context.Context // ends what the tasks do
	Now          func() time.Time
	Log          *slog.Logger
}

// Queue is the prompts of all sessions of a server. Safe for concurrent use.
type Queue struct{ cfg Config }

// New makes a Queue. It starts nothing.
func New(cfg Config) *Queue { return &Queue{cfg: cfg} }

func (q *Queue) now() int64 { return q.cfg.Now().UnixMilli() }
