package prompt

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/state"
)

// NotedBytes is how many bytes of a prompt its entry in the journal shows.
const NotedBytes = 500

// About is what there is to know of a session. Nothing of it ever changes.
type About struct {
	ID, TeamID, WorkspaceID string
	Agent, CreatedBy        string
	Explicit                bool // its agent says itself what it does
}

// Row is a session as it is now.
type Row struct {
	State              state.State
	StateAt, StartedAt int64
	Prompt             string // what it was started with
	Stopping           bool   // somebody asked for its end
	HeldBy, HeldName   string // who holds its keyboard; "": nobody
}

// Host is the session prompts are typed into. Row, Changed, Bump and Paused are called under its lock, the others without it.
type Host interface {
	Row() Row
	// Changed returns what is closed when the session changes.
	Changed() <-chan struct{}
	// Bump has the session shown anew.
	Bump()
	// Paused says why nothing can be typed since the workspace stands still, "" when it does not, and when to look again at the latest. One that
	// sleeps is woken if wake.
	Paused(wake bool) (why string, wait time.Duration)
	// Awake refuses what needs a program that runs. One that sleeps is woken.
	Awake(ctx context.Context) error
	// Guest returns the guest the session runs in; an error when it has ended, or is not taken up yet.
	Guest() (*client.Client, error)
	// Hold keeps the session in memory until release; false when it is not there any more.
	Hold() (release func(), ok bool)
	// Sent notes that a prompt was sent.
	Sent(p Prompt)
	// Record puts a prompt that was sent into the workspace's timeline.
	Record(p Prompt)
}

// SessionConfig is what a Session is made of.
type SessionConfig struct {
	About    About
	Host     Host
	Lock     sync.Locker                                 // the session's
	Machine  *state.Machine                              // likewise; guarded by Lock
	Done     <-chan struct{}                             // closed when the session has ended
	Note     func(kind journal.Kind, data any)           // puts into the session's journal what happened
	Lines    func(ctx context.Context) ([]string, error) // of the session's screen
	Brackets func() bool                                 // whether the program knows pastes by their brackets
}

// Session types into one session, and sends what is queued for it. Safe for concurrent use.
type Session struct {
	queue    *Queue
	cfg      SessionConfig
	about    About
	host     Host
	mu       sync.Locker // the session's
	stream   stream
	steering steering
}

// Session makes the part of a session that types.
func (q *Queue) Session(cfg SessionConfig) *Session {
	return &Session{queue: q, cfg: cfg, about: cfg.About, host: cfg.Host, mu: cfg.Lock, stream: newStream(), steering: newSteering()}
}

// over reports whether the session has ended and that is stored.
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
