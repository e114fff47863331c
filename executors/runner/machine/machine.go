// Package machine is the machine's end of a runner: it answers what the server asks (executors/runner/wire) with sandboxes of one executor. It knows
// that executor by the contract alone, so local, process and container places serve alike.
//
// A sandbox here is what the owner's disk keeps of it - a worktree, a home, a page in the journal - and, while it runs, a place of the
// executor's. The one outlives the other: guests go on when this program ends, and where a guest has died with the machine's power another
// is started over the same files. Only the server's signed word removes them.
//
// Whatever changes something is a command: signed, for this machine, this request and this moment, never had before; and the owner is asked
// (Keeper) before it is done. Pipes to guests go through executors/runner/guard, which asks the same of each request in them.
//
// Goroutines: Run has one for the heartbeat and one that clears away; a making has one, which Run waits for.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/guard"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
)

// Keeper is the owner's say: a policy.Keeper.
type Keeper interface {
	guard.Keeper
	// Ready says why no sandbox can be made now, nil when one can.
	Ready() error
	Policy() policy.Policy
	Folder(path string) (wire.Folder, error)
	Folders() []wire.Folder
	Questions() []policy.Question
	OnChange(fn func())
	OnQuestion(fn func(policy.Question))
}

// Config is what a Machine is made of.
type Config struct {
	RunnerID string
	Name     string
	Executor executors.Executor
	Mode     wire.Mode
	Keeper   Keeper
	Checker  guard.Checker
	Dir      string   // absolute: what the machine keeps for this server
	Home     string   // absolute: the owner's own home, which agents share in mode Direct
	Build    string   // of this program
	Programs []string // of agents: what is looked for where sandboxes use this machine's own

	// Prepare completes what a sandbox is made with, by what the owner's file says: the network, the way out, the image. It is called again
	// before a sandbox is found again. Optional.
	Prepare func(ctx context.Context, s *executors.Spec) error
	// Ended is told of a sandbox that is no more, or stopped. Optional.
	Ended   func(sandboxID string)
	Folders Folders // nil = none can be borrowed from

	Heartbeat time.Duration // default 10 s
	Orphan    time.Duration // how long a making goes on that nobody listens to; default 2 min
	Now       func() time.Time
	Log       *slog.Logger
}

func (c *Config) complete() error {
	switch {
	case c.RunnerID == "" || c.Executor == nil || c.Keeper == nil || c.Checker == nil:
		return errors.New("machine: RunnerID, Executor, Keeper and Checker are needed")
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("machine: Dir %q must be absolute", c.Dir)
	case c.Mode == wire.Direct && !filepath.IsAbs(c.Home):
		return fmt.Errorf("machine: Home %q must be absolute", c.Home)
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = 10 * time.Second
	}
	if c.Orphan <= 0 {
		c.Orphan = 2 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Machine is the machine's end. Safe for concurrent use.
type Machine struct {
	cfg   Config
	guard *guard.Guard
	hub   hub
	about about

	life context.Context // ends with Run's, and with it what goes on by itself
	stop context.CancelCauseFunc
	work sync.WaitGroup

	mu    sync.Mutex
	boxes map[string]*box // by sandbox id
	over  bool            // Run has ended: nothing is begun any more
}

// Folders of a Machine's own, below Config.Dir.
const (
	workspacesDir = "workspaces" // one a sandbox: tree, home
	journalDir    = "journal"    // one file a sandbox
	trashDir      = "trash"      // what is being removed
)

// New makes a Machine and reads its journal. It starts nothing.
func New(cfg Config) (*Machine, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	for _, name := range []string{workspacesDir, journalDir, trashDir} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("making the machine's folders: %w", err)
		}
	}
	m := &Machine{cfg: cfg, boxes: make(map[string]*box)}
	m.life, m.stop = context.WithCancelCause(context.Background())
	m.guard = guard.New(guard.Config{Checker: cfg.Checker, Keeper: cfg.Keeper, Log: cfg.Log})
	m.hub.subs = make(map[*subscriber]bool)
	if err := m.readJournal(); err != nil {
		return nil, err
	}
	cfg.Keeper.OnChange(func() { m.hub.helloChanged() })
	cfg.Keeper.OnQuestion(func(q policy.Question) { m.hub.question(q.Question) })
	return m, nil
}

// Run keeps the machine until ctx ends: what an earlier program left half-done is ended, sandboxes that run get their way out again, the
// server is told how busy the machine is. Sandboxes live on.
func (m *Machine) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { m.stop(context.Cause(ctx)) })()
	var wg sync.WaitGroup
	wg.Go(func() { m.tidy(m.life) })
	wg.Go(func() { m.beat(m.life) })
	wg.Wait()
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	m.hub.close()
	m.work.Wait()
	return nil
}

// start runs fn as work that Run waits for; false when the program is ending.
func (m *Machine) start(fn func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over || m.life.Err() != nil {
		return false
	}
	m.work.Go(fn)
	return true
}

func (m *Machine) now() int64 { return m.cfg.Now().UnixMilli() }
