// Package history reads what sessions have printed: it searches all sessions of a workspace, exports one in several formats, and shows its
// terminal as it was at some moment. It reads recordings that sessions hold open, slows no session, and changes nothing. An export is written
// by a goroutine of the sessions' service, which ends with its reader. It takes no lock; how many searches and exports run at a time is bounded.
package history

import (
	"time"

	"github.com/parawork/parawork/sessions"
)

// Config is what a Service is made of. Sessions is needed.
type Config struct {
	Sessions *sessions.Service
	// SearchTime is how long one search reads before it answers with what it found and a cursor to go on from; default 4 s.
	SearchTime time.Duration
	Now        func() time.Time // default time.Now
}

// Service reads recordings. It is safe for concurrent use.
type Service struct {
	cfg      Config
	sessions *sessions.Service
	searches chan struct{} // one place for each search under way
	exports  chan struct{} // one place for each export under way
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Sessions == nil {
		panic("history: Sessions is needed")
	}
	if cfg.SearchTime <= 0 {
		cfg.SearchTime = 4 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, sessions: cfg.Sessions, searches: make(chan struct{}, searchesAtOnce), exports: make(chan struct{}, exportsAtOnce)}
}
