// Package transcript stores agents' records of their conversations: it follows the record an agent writes in its home while its
// session runs, masks it, appends it to the session's own timeline, counts requests to models, and copies the record when the
// agent continues elsewhere. Nothing depends on a record: it is the agent's, and may contain anything.
//
// A session whose agent writes a record has one goroutine of this package, in the group the package is given, until it ends. The
// locks are that of the recently read views, a leaf, and that of changes of ended timelines, which is held while one is written.
package transcript

import (
	"context"
	"log/slog"
	"sync"
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

// Config configures Transcripts. All but Events and Meter is required.
type Config struct {
	Agents  *agents.Registry
	DataDir string // absolute; a session's folder is DataDir/sessions/<id>
	// MaxBytes bounds the stored conversation of one session.
	MaxBytes int64
	// Workspace returns a workspace.
	Workspace func(ctx context.Context, id string) (workspaces.Workspace, error)
	// RanInside reports whether a session's agent used the sandbox's own home, as far as that is known.
	RanInside func(sessionID string) (inside, known bool, err error)
	Meter     Meter // nil: requests to models are not counted
	Events    events.Publisher
	Tasks     *tasks.Group
	Context   context.Context // ends the tasks' work
	Now       func() time.Time
	Log       *slog.Logger
}

// Transcripts holds the conversations of all sessions of a server. Safe for concurrent use.
type Transcripts struct {
	cfg      Config
	views    viewCache
	amending sync.Mutex // held while the timeline of an ended session is changed
}

// New returns Transcripts. It starts nothing.
func New(cfg Config) *Transcripts { return &Transcripts{cfg: cfg} }

// Row is what the package needs of a session.
type Row struct {
	ID, TeamID, WorkspaceID string
	Agent, AccountID        string
	CreatedBy               string
	Conversation            string // the agent's ID of it; "": unknown
	StartedAt               int64
	Worktree                string // where the agent works
	ByKey                   bool   // its agent was given an account's key directly
	Metered                 bool   // its requests to the model are counted elsewhere
}

// Host is the session whose record is followed.
type Host interface {
	// Row returns the session as it is now.
	Row() Row
	// Source opens the home in which the agent stores its record; nil when it cannot be reached now. The returned function closes
	// it.
	Source(ctx context.Context) (conversation.Source, func(), error)
	// Observe takes the record's report of the session's state.
	Observe(h agents.Hint)
}

// SessionConfig configures a Session.
type SessionConfig struct {
	ID      string
	Host    Host
	Log     *bytelog.Log     // the session's output
	Journal *journal.Journal // and its times
	Mask    func(string) string
}

// Session follows the record of one session.
type Session struct {
	all  *Transcripts
	cfg  SessionConfig
	id   string
	host Host

	since     int64              // earlier entries of the record are left out; 0 = the session's start
	following atomic.Bool        // somebody follows it, or has
	ending    chan struct{}      // closed when the session ends: read the rest
	over      chan struct{}      // closed when nothing will be read any more
	now       chan chan struct{} // requests reading what there is now; the sent channel is closed when that is done

	adding sync.Mutex
	added  *conversation.Writer // of Add; guarded by adding
}

// Session returns the part of a session that follows its record. It starts nothing.
func (t *Transcripts) Session(cfg SessionConfig) *Session {
	return &Session{all: t, cfg: cfg, id: cfg.ID, host: cfg.Host, ending: make(chan struct{}), over: make(chan struct{}), now: make(chan chan struct{})}
}

// Since leaves out earlier entries of the record. Call it before Follow.
func (s *Session) Since(at int64) { s.since = at }

// Follow starts following the record, until the session ends or the server stops; then it calls done. Where the sandbox is gone,
// the agent's last entries may still be in its home, if that is on this server.
func (s *Session) Follow(done func()) {
	s.following.Store(true)
	if !s.all.cfg.Tasks.Go(func() { defer done(); s.follow(s.all.cfg.Context) }) {
		close(s.over)
		done()
	}
}

// End reads the rest of the record, before the session's secrets are forgotten. Call it once.
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
		s.all.cfg.Log.Warn("the end of an agent's record was not awaited", "session_id", s.id)
	}
}

// Read reads what the record has now, until ctx ends.
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
