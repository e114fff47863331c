// Package machine is the machine's side of a runner: it answers the server's requests (executors/runner/wire) with sandboxes of one
// executor. It uses
// that executor only through the contract, so local, process and container sandboxes work alike.
//
// Here a sandbox consists of what the owner's disk stores of it - a worktree, a home, a page in the journal - and, while it runs, a sandbox
// of
// the executor. The first survives the second: guests go on when this program ends, and where a guest died with the machine's power, a new
// one
// starts over the same files. Only a command signed by the server removes the files.
//
// Everything that changes something is a command: signed, for this machine, this request and this moment, and never used before; and the
// Keeper asks the owner first. Pipes to guests go through executors/runner/guard, which requires the same of each request in them.
//
// Goroutines: Run has one for the heartbeat and one that cleans up; a making has one, which Run waits for.
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

// Keeper applies the owner's policy: a policy.Keeper.
type Keeper interface {
	guard.Keeper
	// Ready returns why no sandbox can be made now, nil when one can.
	Ready() error
	Policy() policy.Policy
	Folder(path string) (wire.Folder, error)
	Folders() []wire.Folder
	Questions() []policy.Question
	OnChange(fn func())
	OnQuestion(fn func(policy.Question))
}

// Config configures a Machine.
type Config struct {
	RunnerID string
	Name     string
	Executor executors.Executor
	Mode     wire.Mode
	Keeper   Keeper
	Checker  guard.Checker
	Dir      string   // absolute: the machine's files for this server
	Home     string   // absolute: the owner's own home, which agents share in mode Direct
	Build    string   // of this program
	Programs []string // of agents: searched for where sandboxes use this machine's programs

	// Prepare completes a sandbox's spec from the owner's policy file: the network, the way out, the image. It is called again before a
	// sandbox is recovered. Optional.
	Prepare func(ctx context.Context, s *executors.Spec) error
	// Ended is called for a sandbox that no longer exists, or stopped. Optional.
	Ended   func(sandboxID string)
	Folders Folders // nil = no folder is offered

	Heartbeat time.Duration // default 10 s
	Orphan    time.Duration // how long a making goes on without a listener; default 2 min
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

// Machine is the machine's side of a runner. Safe for concurrent use.
type Machine struct {
	cfg   Config
	guard *guard.Guard
	hub   hub
	about about

	life context.Context // ends with Run's context, and ends background work
	stop context.CancelCauseFunc
	work sync.WaitGroup

	mu    sync.Mutex
	boxes map[string]*box // by sandbox id
	over  bool            // Run has ended: nothing new begins
}

// Folders of a Machine, below Config.Dir.
const (
	workspacesDir = "workspaces" // one per sandbox: tree, home
	journalDir    = "journal"    // one file per sandbox
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

// Run works until ctx ends: it finishes what an earlier program left half-done, reopens the ways out of running sandboxes, and reports the
// machine's load to the server. Sandboxes live on.
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
