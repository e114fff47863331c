// Package history stores the output of sessions: the log with its journal, the screen that results, packed files and search
// files, within the caps of the instance. It searches all sessions of a workspace, exports one in several formats, and shows its
// terminal as it was at some moment. Reading slows no session.
//
// Run has three goroutines: one writes journals, one packs, one drops what exceeds the caps. A running session has one more,
// which follows its output (Follow); exports and answers to programs have one while they last. All are in the group the package
// is given. The number of concurrent screens, searches and exports is bounded.
//
// Locks: model.mu (a screen) is held while the log and the journal are read; keys.mu, touched.mu, noting.mu and keeping.mu are
// leaves. Note and Mark may be called under any lock of a session.
package history

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/internal/tasks"
)

// Sessions gives access to the recorded sessions.
type Sessions interface {
	// Open holds the recording of a session open, even of one that has ended; release closes it. Errors: not_found, and why it
	// cannot be read now.
	Open(ctx context.Context, id string) (r *Recording, release func(), err error)
	// InMemory returns the recording of a currently open session, nil when it is not open.
	InMemory(id string) *Recording
	// WhileUnused calls fn while nobody can open the session, unless it is open or the server is stopping.
	WhileUnused(id string, fn func())
	// Rows returns the sessions of a workspace, newest first.
	Rows(ctx context.Context, workspaceID string) ([]Row, error)
	// Kept returns every session of a team, or of all with "", with all fields of Kept but Disk.
	Kept(ctx context.Context, teamID string) ([]Kept, error)
}

// Config configures Recordings. All but TeamHistory is required; a SearchTime of 0 takes its default.
type Config struct {
	Sessions Sessions
	DataDir  string // absolute; a session's folder is DataDir/sessions/<id>
	Limits   Limits
	// TeamHistory replaces Limits.Team where that depends on the instance; bytes, 0 = no cap.
	TeamHistory func(ctx context.Context) (int64, error)
	MaxLogBytes int64         // of one session's log on disk
	RingBytes   int64         // of one session's log in memory
	ScreenSleep time.Duration // after this much silence a session's screen is stored on disk only
	// SearchTime is how long one search reads before it answers with what it found and a cursor to continue from; default 4 s.
	SearchTime time.Duration
	Tasks      *tasks.Group
	Context    context.Context // ends the tasks' work
	Now        func() time.Time
	Log        *slog.Logger
}

// Recordings holds the output of all sessions of a server. Safe for concurrent use.
type Recordings struct {
	cfg      Config
	noting   noting        // recordings whose journals wait to be written
	keeping  keeping       // sessions whose history waits to be packed
	packed   chan struct{} // a session's history was packed
	screens  chan struct{} // one slot for each screen being built
	searches chan struct{} // one slot for each running search
	exports  chan struct{} // one slot for each running export
}

// New returns Recordings. It starts nothing.
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

// dir is the folder of a session's files.
func (s *Recordings) dir(id string) string { return filepath.Join(s.cfg.DataDir, "sessions", id) }

// screenSlot waits for one of the few slots in which screens are built: each uses a core. The caller calls giveBack.
func (s *Recordings) screenSlot(ctx context.Context) (giveBack func(), err error) {
	select {
	case s.screens <- struct{}{}:
		return func() { <-s.screens }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Recordings) now() int64 { return s.cfg.Now().UnixMilli() }
