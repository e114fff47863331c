package prompt

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/state"
)

// NotedBytes is how many bytes of a prompt its journal entry holds.
const NotedBytes = 500

// About holds the constant facts about a session.
type About struct {
	ID, TeamID, WorkspaceID string
	Agent, CreatedBy        string
	Explicit                bool // its agent reports its own state
}

// Row is a session as it is now.
type Row struct {
	State              state.State
	StateAt, StartedAt int64
	Prompt             string // its initial prompt
	Stopping           bool   // somebody requested its end
	HeldBy, HeldName   string // the holder of its keyboard; "": nobody
}

// Host is the session prompts are typed into. Row, Changed, Bump and Paused are called under its lock, the others without it.
type Host interface {
	Row() Row
	// Changed returns a channel that is closed when the session changes.
	Changed() <-chan struct{}
	// Bump refreshes viewers of the session.
	Bump()
	// Paused returns why nothing can be typed because the workspace is suspended, "" when it is not, and when to check again at
	// the latest. With wake it wakes a workspace that sleeps.
	Paused(wake bool) (why string, wait time.Duration)
	// Awake returns an error while the session's workspace is suspended. It wakes one that sleeps.
	Awake(ctx context.Context) error
	// Guest returns the guest the session runs in; an error when it has ended, or is not reconnected yet.
	Guest() (*client.Client, error)
	// Hold keeps the session in memory until release; false when it no longer is.
	Hold() (release func(), ok bool)
	// Sent records that a prompt was sent.
	Sent(p Prompt)
	// Record adds a sent prompt to the workspace's timeline.
	Record(p Prompt)
}

// SessionConfig configures a Session.
type SessionConfig struct {
	About    About
	Host     Host
	Lock     sync.Locker                                 // the session's
	Machine  *state.Machine                              // likewise; guarded by Lock
	Done     <-chan struct{}                             // closed when the session has ended
	Note     func(kind journal.Kind, data any)           // adds an event to the session's journal
	Lines    func(ctx context.Context) ([]string, error) // of the session's screen
	Brackets func() bool                                 // whether the program enabled bracketed paste
}

// Session types into one session, and sends its queued prompts. Safe for concurrent use.
type Session struct {
	queue    *Queue
	cfg      SessionConfig
	about    About
	host     Host
	mu       sync.Locker // the session's
	stream   stream
	steering steering
}

// Session returns the part of a session that types.
func (q *Queue) Session(cfg SessionConfig) *Session {
	return &Session{queue: q, cfg: cfg, about: cfg.About, host: cfg.Host, mu: cfg.Lock, stream: newStream(), steering: newSteering()}
}

// over reports whether the session has ended and its end is stored.
func (s *Session) over() bool {
	select {
	case <-s.cfg.Done:
		return true
	default:
		return false
	}
}

// ended reports whether the session has ended.
func (s *Session) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host.Row().State.Ended()
}
