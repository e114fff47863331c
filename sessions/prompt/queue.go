// Package prompt types into sessions: what people type, what a terminal answers to its program, and the prompts that wait until
// the agent is idle. Each frame of input has a number that is stored before it is sent, so that nothing is typed twice, whenever
// the server dies.
//
// While something is queued for a session, one goroutine sends it; the initial prompt of a session has one until it is queued.
// Both are in the group the package is given.
//
// The lock of the session itself, which is passed in, guards what a session knows of its queue: whether a prompt may be sent
// depends on the session's state. To type, a goroutine takes the turn, a channel with one token; while it has it, it may wait for
// the guest and the storage. Order: the turn > the session's lock, under which nothing waits.
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

// Sessions gives access to the sessions that take prompts.
type Sessions interface {
	// Open returns the session that a prompt for this one goes to: with resume, an ended one is resumed first. Errors: not_found,
	// session_takes_no_prompts, session_not_running, and those of resuming.
	Open(ctx context.Context, actor accounts.Actor, id string, resume bool) (About, error)
	// Hold returns a session's part and keeps the session in memory until release; nil when it is not in memory.
	Hold(id string) (s *Session, release func())
	// InMemory returns a session's part, nil when it is not in memory.
	InMemory(id string) *Session
}

// Hosts are the agents that work in the server: they are given prompts, and nothing is typed for them.
type Hosts interface {
	// Give gives a session's agent a prompt, under its ID, as what the person who queued it says. again: it may have been given before,
	// and is given once. working: the agent works because of it. Errors of kind Invalid, Forbidden, NotFound and Conflict last, except
	// for turn_running, undo_running and session_not_running.
	Give(ctx context.Context, p Prompt, again bool) (working bool, err error)
	// InterruptSession stops the turn of a session's agent, if one runs.
	InterruptSession(ctx context.Context, sessionID string) error
}

// Config configures a Queue. All but Hosts and Events is required.
type Config struct {
	Store        Store
	Sessions     Sessions
	Agents       *agents.Registry
	Hosts        Hosts
	AcceptWithin time.Duration // how long an agent may take to start work on a queued prompt
	Events       events.Publisher
	Tasks        *tasks.Group
	Context      context.Context // ends the tasks' work
	Now          func() time.Time
	Log          *slog.Logger
}

// Queue holds the prompts of all sessions of a server. Safe for concurrent use.
type Queue struct{ cfg Config }

// New returns a Queue. It starts nothing.
func New(cfg Config) *Queue { return &Queue{cfg: cfg} }

func (q *Queue) now() int64 { return q.cfg.Now().UnixMilli() }
