// Package history keeps what sessions have printed: the log beside its journal, the screen both make, packed files and search files, within
// the caps of the instance. It searches all sessions of a workspace, exports one in several formats, and shows its terminal as it was at
// some moment. Reading slows no session.
//
// Run has three goroutines: one writes journals, one packs, one drops what is over the caps. A running session has one more, that follows its
// output (Follow); exports and answers to programs have one while they last. All are in the group the package is given. How many screens,
// searches and exports are made at a time is bounded.
//
// Locks: model.mu (a screen) is held while the log and the journal are read; keys.mu, touched.mu, noting.mu and keeping.mu are leaves. Note and
// Mark may be called under whatever lock a session holds.
package history

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/internal/tasks"
)

// Sessions are the sessions that are recorded.
type Sessions interface {
	// Open holds the recording of a session open, also of one that has ended; release gives it back. Errors: not_found, and why it cannot be
	// read now.
	Open(ctx context.Context, id string) (r *Recording, release func(), err error)
	// InMemory returns the recording of a session that is open now, nil when it is not.
	InMemory(id string) *Recording
	// WhileUnused calls fn while nobody can open the session, unless it is open or the server is stopping.
	WhileUnused(id string, fn func())
	// Rows returns the sessions of a workspace, newest first.
	Rows(ctx context.Context, workspaceID string) ([]Row, error)
	// Kept returns every session of a team, or of all with "", as far as Kept goes without Disk.
	Kept(ctx context.Context, teamID string) ([]Kept, error)
}

// Config is what Recordings are made of. All but TeamHistory is needed; a SearchTime of 0 takes its default.
type Config struct {
	Sessions Sessions
	DataDir  string // absolute; a session's folder is DataDir/sessions/<id>
	Limits   Limits
	// TeamHistory takes the place of Limits.Team where that depends on the instance; bytes, 0 = no cap.
	TeamHistory func(ctx context.Context) (int64, error)
	MaxLogBytes int64         // of one session's log on disk
	RingBytes   int64         // of one session's log in memory
	ScreenSleep time.Duration // after so much silence a session's screen is kept on disk only
	// SearchTime is how long one search reads before it answers with what it found and a cursor to go on from; default 4 s.
	SearchTime time.Duration
	Tasks      *tasks.Group
	Context    context.Context // ends what the tasks do
	Now        func() time.Time
	Log        *slog.Logger
}

// Recordings is what all sessions of a server printed. Safe for concurrent use.
type Recordings struct {
	cfg      Config
	noting   noting        // recordings whose journals wait to be written
	keeping  keeping       // sessions whose history waits to be packed
	packed   chan struct{} // a session's history was packed
	screens  chan struct{} // one place for each screen being built
	searches chan struct{} // one place for each search under way
	exports  chan struct{} // one place for each export under way
}

// New makes Recordings. It starts nothing.
func New(cfg Config) *Recordings {
	if cfg.SearchTime <= 0 {
		cfg.SearchTime = 4 * time.Second
	}
	return &Recordings{cfg: cfg, noting: newNoting(), keeping: newKeeping(), packed: make(chan struct{}, 1), screens: make(chan struct{}, screensBuilt),
		searches: make(chan struct{}, searchesAtOnce), exports: make(chan struct{}, exportsAtOnce)}
}

// StartLoops starts the loops, which end with the Context.
func (s *Recordings) StartLoops() {
	for _, loop := range []func(context.Context){s.noteLoop, s.keepLoop, s.capLoop} {
		s.cfg.Tasks.Go(func() { loop(s.cfg.Context) })
	}
}

// dir is the folder in which a session's files lie.
func (s *Recordings) dir(id string) string { return filepath.Join(s.cfg.DataDir, "sessions", id) }

// screenSlot waits for one of the places in which screens are built, of which there are few: each keeps a core busy. The place is to be given back.
func (s *Recordings) screenSlot(ctx context.Context) (giveBack func(), err error) {
	select {
	case s.screens <- struct{}{}:
		return func() { <-s.screens }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Recordings) now() int64 { return s.cfg.Now().UnixMilli() }
