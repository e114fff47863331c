// Package hosted is what executors have in common that make sandboxes at a service which runs machines, in which programs can be started but
// nothing can be dialled. It is no executor: a kind of place brings the Service, which speaks the API, and its words.
//
// A machine's disk is its own. The guest's program is uploaded, and a shell starts it apart from the call that asked for it, so that it
// outlives every call, stream and connection: their ends say nothing about the guest. A pipe to the guest is the input and output of one
// small program beside it (guest/bridge), and everything on it is encrypted (guest/seal): it passes through somebody else's machines. A
// pipe may be cut at any time; whoever reads from the guest dials again and goes on where it was.
//
// Making a machine is not idempotent at these services, so each try gives the machine a name of its own, which is written down before:
// by it the machine is found and removed whose making was not answered. Secrets: the guest's token reaches it in a file that it removes at
// once, never in arguments or environments.
//
// Goroutines: one that closes the pipe of Spare, and short ones that end what nobody needs. Close waits for all. No lock is held during a
// call to the service, except the turn of one sandbox.
package hosted

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/internal/guestbin"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tasks"
)

// handleVersion is the version of handles.
const handleVersion = 1

// ErrNoMachine says that a service has no such machine (any more).
var ErrNoMachine = errors.New("the service has no such machine")

// State is how a machine stands.
type State string

// States of a machine.
const (
	Running State = "running"
	Stopped State = "stopped" // its disk is kept, and it can be started
)

// Machine is one at a service.
type Machine struct {
	ID, Name string
	State    State
	CPUs     int
	MemoryMB int64
	BeganAt  int64 // when its latest run began, ms UTC; 0 = not known
	EndedAt  int64 // when that ended; 0 = not known, or it lasts
}

// File is a file for a machine.
type File struct {
	Path    string // absolute; its folder is there
	Mode    int64
	Size    int64
	Content io.Reader
}

// Result is how a small program ended.
type Result struct {
	Code   int
	Output string // what it wrote, the end of it where that is much
}

// Service is the API of a service. Safe for concurrent use.
type Service interface {
	// Make makes a machine for s that has this name, and waits until programs can be started in it. After an error there may be one
	// nevertheless.
	Make(ctx context.Context, name string, s executors.Spec) (Machine, error)
	// Look says how a machine stands, without waking it. ErrNoMachine when there is none.
	Look(ctx context.Context, id string) (Machine, error)
	// All lists the machines whose names begin so.
	All(ctx context.Context, prefix string) ([]Machine, error)
	// Start starts a machine that has stopped. ErrNoMachine when there is none.
	Start(ctx context.Context, id string) error
	// Stop ends everything in a machine and keeps its disk. One that has stopped is no error.
	Stop(ctx context.Context, id string) error
	// Remove ends a machine and its disk. One that is not there is no error.
	Remove(ctx context.Context, id string) error
	// Put writes a file.
	Put(ctx context.Context, id string, f File) error
	// Run runs a small program to its end. An error says that it could not be run, or that its end is not known.
	Run(ctx context.Context, id string, argv []string) (Result, error)
	// Open starts a program whose input and output are the pipe, byte by byte. Closing the pipe ends the program.
	Open(ctx context.Context, id string, argv []string) (io.ReadWriteCloser, error)
}

// Account is one login at one service.
type Account struct {
	Service Service
	ID      string // tells it from others, without telling the secret
}

// Config is what an Executor is made of.
type Config struct {
	Kind      executors.Kind
	Dir       string // absolute: one folder for each sandbox below it
	GuestPath string // a guest for Linux
	// Account is that of the settings as they are now. It is asked before each use; without a login it is an error for people.
	Account func(context.Context) (Account, error)
	// On reports whether there is a login: without one nobody is asked which machines there are.
	On       func(context.Context) (bool, error)
	Troubles Troubles
	// Lossy says that what carries a pipe drops bytes when it is read slowly: then reading is confirmed. See bridge.Acked.
	Lossy bool
	// Wrap gives a sandbox the abilities that this kind's have; nil = none beside the contract's.
	Wrap    func(*Sandbox) executors.Sandbox
	ReadyIn time.Duration // how long a guest may take to be reached; default 30 s
	Now     func() time.Time
	Rand    io.Reader
	Log     *slog.Logger
}

func (c *Config) complete() error {
	switch {
	case c.Kind == "":
		return errors.New("hosted executor: Kind must be set")
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("%s executor: Dir %q must be absolute", c.Kind, c.Dir)
	case c.Account == nil || c.On == nil:
		return fmt.Errorf("%s executor: Account and On must be set", c.Kind)
	}
	if c.Wrap == nil {
		c.Wrap = func(s *Sandbox) executors.Sandbox { return s }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.ReadyIn = cmp.Or(c.ReadyIn, 30*time.Second)
	c.Rand = cmp.Or[io.Reader](c.Rand, rand.Reader)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Executor makes sandboxes at a service. A kind embeds it and adds Capabilities. Safe for concurrent use.
type Executor struct {
	cfg   Config
	files sandboxdir.Dir[record]
	guest guestbin.Hashed
	turns locks.Keyed // making, finding and destroying one sandbox take turns

	life context.Context
	stop context.CancelFunc
	work tasks.Group

	mu       sync.Mutex
	live     map[string]*Sandbox // by our id
	instance string
}

// New makes an Executor. It starts nothing and asks nobody.
func New(cfg Config) (*Executor, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e := &Executor{cfg: cfg, files: sandboxdir.Dir[record]{Path: cfg.Dir, Kind: cfg.Kind, Record: recordName, Rand: cfg.Rand}, live: make(map[string]*Sandbox)}
	e.life, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// Close cuts every pipe and waits until nothing of the executor runs. Sandboxes live on.
func (e *Executor) Close() error {
	e.mu.Lock()
	live := make([]*Sandbox, 0, len(e.live))
	for _, s := range e.live {
		live = append(live, s)
	}
	e.mu.Unlock()
	e.stop()
	for _, s := range live {
		s.cut(errStopped)
	}
	e.work.Close()
	return nil
}

// Kind is the kind's name.
func (e *Executor) Kind() executors.Kind { return e.cfg.Kind }

// laterWithin bounds what is done in the background.
const laterWithin = 30 * time.Second

// later does something in the background, unless the executor was closed.
func (e *Executor) later(do func(context.Context)) {
	e.work.Go(func() {
		ctx, cancel := context.WithTimeout(e.life, laterWithin)
		defer cancel()
		do(ctx)
	})
}

// Persist does something about a sandbox's machine in the background, and again until it has worked or nobody here has to do with the sandbox.
func (e *Executor) Persist(sandboxID string, do func(ctx context.Context, machine string) error) {
	e.work.Go(func() {
		for wait := time.Second; ; wait = min(2*wait, time.Minute) {
			s := e.known(sandboxID)
			if s == nil {
				return
			}
			ctx, cancel := context.WithTimeout(e.life, laterWithin)
			err := do(ctx, s.Machine())
			cancel()
			if err == nil || e.life.Err() != nil {
				return
			}
			e.cfg.Log.Warn("what a sandbox may reach could not be changed yet", "sandbox_id", sandboxID, "error", err)
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-e.life.Done():
				t.Stop()
				return
			}
		}
	})
}

// known returns the sandbox this process has to do with.
func (e *Executor) known(id string) *Sandbox {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// adopt makes the value of a sandbox that is there, of which there is one in a process.
func (e *Executor) adopt(id string, rec record, token string) *Sandbox {
	s := &Sandbox{e: e, id: id, token: token, rec: rec, open: make(map[io.Closer]struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[id] = s
	return s
}
