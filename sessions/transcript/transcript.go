// Package transcript keeps what agents write down of their conversations: it follows the record an agent keeps in its home while its session
// runs, masks it, appends it to the session's own timeline, counts what models were asked, and brings the record along when the agent goes
// on elsewhere. Nothing depends on a record: it is the agent's, and may hold anything.
//
// A session whose agent keeps a record has one goroutine here, in the group the package is given, until it ends. The only lock is that of
// the views that were read last; it is a leaf.
package transcript

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/workspaces"
)

// Config is what Transcripts are made of. All but Events and Meter is needed.
type Config struct {
	Agents  *agents.Registry
	DataDir string // absolute; a session's folder is DataDir/sessions/<id>
	// MaxBytes bounds what is kept of one session's conversation.
	MaxBytes int64
	// Workspace returns a workspace.
	Workspace func(ctx context.Context, id string) (workspaces.Workspace, error)
	// RanInside says whether the home of a session's agent was the place's own, as far as that is known.
	RanInside func(sessionID string) (inside, known bool, err error)
	Meter     Meter // nil: nobody counts what models are asked
	Events    events.Publisher
	Tasks     *tasks.Group
	Context   context.Context // ends what the tasks do
	Now       func() time.Time
	Log       *slog.Logger
}

// Transcripts are the conversations of all sessions of a server. Safe for concurrent use.
type Transcripts struct {
	cfg   Config
	views viewCache
}

// New makes Transcripts. It starts nothing.
func New(cfg Config) *Transcripts { return &Transcripts{cfg: cfg} }

// Row is what the package knows of a session.
type Row struct {
	ID, TeamID, WorkspaceID string
	Agent, AccountID        string
	CreatedBy               string
	Conversation            string // as the agent names it; "": not known yet
	StartedAt               int64
	Worktree                string // where the agent works
	ByKey                   bool   // its agent was given an account's key itself
	Metered                 bool   // what it asks its model is counted elsewhere
}

// Host is the session whose record is followed.
type Host interface {
	// Row returns the session as it is now.
	Row() Row
	// Source opens the home in which the agent keeps its record; nil when it cannot be reached now. What it returns beside it gives it back.
	Source(ctx context.Context) (conversation.Source, func(), error)
	// Observe takes what the record says of the session's state.
	Observe(h agents.Hint)
}

// SessionConfig is what a Session is made of.
type SessionConfig struct {
	ID      string
	Host    Host
	Log     *bytelog.Log     // what the session prints
	Journal *journal.Journal // and when
	Mask    func(string) string
}

// Session follows the record of one session.
type Session struct {
	all  *Transcripts
	cfg  SessionConfig
	id   string
	host Host

	since     int64              // what the record says of an earlier time is left out; 0 = the session's start
	following atomic.Bool        // somebody follows it, or has
	ending    chan struct{}      // closed when the session ends: read the rest
	over      chan struct{}      // closed when nothing will be read any more
	now       chan chan struct{} // asks for what can be read now; what is sent is closed when that was read
}

// Session makes the part of a session that follows its record. It starts nothing.
func (t *Transcripts) Session(cfg SessionConfig) *Session {
	return &Session{all: t, cfg: cfg, id: cfg.ID, host: cfg.Host, ending: make(chan struct{}), over: make(chan struct{}), now: make(chan chan struct{})}
}

// Since has left out what the record says of the time before. It is called before Follow.
func (s *Session) Since(at int64) { s.since = at }

// Follow starts following the record, until the session ends or the server stops; then it calls done. Where the place is gone, what the
// agent wrote last may still lie in its home, if that is on this machine.
func (s *Session) Follow(done func()) {
	s.following.Store(true)
	if !s.all.cfg.Tasks.Go(func() { defer done(); s.follow(s.all.cfg.Context) }) {
		close(s.over)
		done()
	}
}

// End reads what is left of the record, before the session's secrets are forgotten. It is called once.
func (s *Session) End() {
	close(s.ending)
	if !s.following.Load() {
		return
	}
	t := time.NewTimer(endRead)
	defer t.Stop()
	select {
	case <-s.over:
	case <-t.C:
		s.all.cfg.Log.Warn("the end of an agent's record was not waited for", "session_id", s.id)
	}
}

// Read reads what the record has now, as far as ctx lets it.
func (s *Session) Read(ctx context.Context) {
	if !s.following.Load() {
		return
	}
	read := make(chan struct{})
	select {
	case s.now <- read:
		select {
		case <-read:
		case <-s.over:
		case <-ctx.Done():
		}
	case <-s.over:
	case <-ctx.Done():
	}
}
