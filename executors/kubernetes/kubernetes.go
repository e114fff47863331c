// Package kubernetes makes places in pods of a Kubernetes cluster.
//
// A pod is another machine's: its disk is a PersistentVolumeClaim or ends with it, and nothing of this machine is seen there. The pod is made with
// a small shell program that waits; an exec brings the guest's program and what it must know, and the shell becomes the guest, which is the
// container's first process. A pipe to it is the input and output of another exec (see guest/bridge), never a port-forward, which does not reach
// into sandboxed runtimes. An exec that was cut says nothing about the guest. Where an address of this server is set, guests call it instead
// (see guest/call), and are reached by exec when they do not.
//
// Names are decided here before anything is asked for, and are kept first: what an answer was lost of is found again by its name. A pod that
// ended, however it did, leaves its volume: the sandbox is then asleep, and another pod goes on with its files.
//
// Only four small parts of client-go are linked: configuration, transport, exec. The typed clients would cost minutes of compiling for a few
// kinds of objects, which are plain JSON here.
//
// Secrets: what reaches the cluster's API is only in the memory of this process. The guest's token goes through an exec's input, never into a
// pod's specification, arguments or environment.
//
// Goroutines: one for each exec until it ends, one for a sandbox's way out, and one that watches pods. Close waits for all.
package kubernetes

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
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tasks"
)

// Kind is the kind of these places.
const Kind executors.Kind = "kubernetes"

// handleVersion is the version of this executor's handles.
const handleVersion = 1

// Config is what an Executor is made of.
type Config struct {
	Dir       string                                  // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string                                  // a guest for Linux
	Settings  func(context.Context) (Settings, error) // asked before each use
	ReadyIn   time.Duration                           // how long a guest may take to be reached in a pod that runs; default 60 s
	CallIn    time.Duration                           // how long a guest that calls may take before it is reached by exec; default 10 s
	Now       func() time.Time
	Rand      io.Reader // default crypto/rand
	Log       *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("kubernetes executor: Dir %q must be absolute", c.Dir)
	}
	if c.Settings == nil {
		return errors.New("kubernetes executor: Settings must be set")
	}
	c.ReadyIn, c.CallIn = cmp.Or(c.ReadyIn, time.Minute), cmp.Or(c.CallIn, 10*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Rand = cmp.Or(c.Rand, rand.Reader)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Executor makes sandboxes in a cluster. Safe for concurrent use.
type Executor struct {
	cfg   Config
	files sandboxdir.Dir[record]
	turns locks.Keyed // making, finding and destroying one sandbox take turns

	life context.Context
	stop context.CancelFunc
	work tasks.Group

	mu       sync.Mutex
	now      *cluster
	live     map[string]*sandbox // by our id
	instance string
	guest    program
	ends     map[string]string // why pods ended, by name, as watched
	watching string            // the address of the cluster whose pods are watched
}

var (
	_ executors.Callee        = (*Executor)(nil)
	_ executors.Executor      = (*Executor)(nil)
	_ executors.Explainer     = (*Executor)(nil)
	_ executors.RemnantKeeper = (*Executor)(nil)
	_ executors.Remover       = (*Executor)(nil)
	_ executors.RunRecorder   = (*Executor)(nil)
	_ executors.Sleeper       = (*Executor)(nil)
	_ executors.Warmer        = (*Executor)(nil)
)

// New makes an Executor. It starts nothing and asks nobody.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Executor{cfg: cfg, files: sandboxdir.Dir[record]{Path: cfg.Dir, Kind: Kind, Record: recordName, Rand: cfg.Rand}, live: make(map[string]*sandbox), ends: make(map[string]string)}
	e.life, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// Close cuts every pipe and waits until nothing of the executor runs. Sandboxes live on.
func (e *Executor) Close() error {
	e.mu.Lock()
	live := make([]*sandbox, 0, len(e.live))
	for _, s := range e.live {
		live = append(live, s)
	}
	e.mu.Unlock()
	e.stop()
	for _, s := range live {
		s.shut(errors.New("the server stops"))
	}
	e.work.Close()
	return nil
}

// Kind is kubernetes.
func (e *Executor) Kind() executors.Kind { return Kind }

// known returns the sandbox this process has to do with.
func (e *Executor) known(id string) *sandbox {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

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

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
