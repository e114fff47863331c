// Package e2b makes places in sandboxes of E2B: virtual machines of its service, or of any server that speaks its API.
//
// A sandbox is another machine: its disk is its own, and nothing of this one is seen there. The guest is found in the sandbox's template
// or uploaded; E2B's own daemon in the sandbox, envd, starts it. A pipe to it is the input and output of a small process that envd runs
// beside it (see guest/bridge): envd streams what it writes, and takes what it reads in another stream.
//
// A sandbox lives on a short lease that is extended while it is in use (executors.Leased), and is paused, not ended, when nobody extends
// it: a server that died costs one lease and loses nothing. Making one is not idempotent at E2B's, so each try carries an id of its own in
// the sandbox's metadata, by which what an answer was lost of is found and ended.
//
// Secrets: the API key goes to the control plane alone, envd's token to envd alone and is kept in memory only. The guest's token reaches
// it in a file that it removes at once, never in arguments or environments: envd writes those into its log.
//
// Goroutines: one or two for each pipe, until it ends; short ones that end processes nobody needs. Close waits for all.
package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/internal/guestbin"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tasks"
)

// Kind is the kind of these places.
const Kind executors.Kind = "e2b"

// handleVersion is the version of this executor's handles.
const handleVersion = 1

// Lease is how long a sandbox lives that nobody extends.
const Lease = 10 * time.Minute

// Config is what an Executor is made of.
type Config struct {
	Kind      executors.Kind                          // that of a region; default Kind
	Dir       string                                  // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string                                  // a guest for Linux
	Settings  func(context.Context) (Settings, error) // asked before each use
	HTTP      func(Settings) *http.Client             // default: one with the proxy of the settings
	ReadyIn   time.Duration                           // how long a guest may take to be reached; default 30 s
	Now       func() time.Time
	Rand      io.Reader // default crypto/rand
	Log       *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("e2b executor: Dir %q must be absolute", c.Dir)
	}
	if c.Settings == nil {
		return errors.New("e2b executor: Settings must be set")
	}
	c.Kind = cmp.Or(c.Kind, Kind)
	if c.HTTP == nil {
		c.HTTP = newHTTP
	}
	if c.ReadyIn <= 0 {
		c.ReadyIn = 30 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Rand = cmp.Or(c.Rand, rand.Reader)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Executor makes sandboxes at E2B. Safe for concurrent use.
type Executor struct {
	cfg   Config
	turns locks.Keyed // making, finding and destroying one sandbox take turns
	run   string
	files sandboxdir.Dir[record]
	guest guestbin.Hashed

	life context.Context
	stop context.CancelFunc
	work tasks.Group

	mu       sync.Mutex
	now      *account
	live     map[string]*sandbox // by our id
	instance string
}

var (
	_ executors.Executor      = (*Executor)(nil)
	_ executors.RemnantKeeper = (*Executor)(nil)
	_ executors.Sleeper       = (*Executor)(nil)
	_ executors.Warmer        = (*Executor)(nil)
)

// New makes an Executor. It starts nothing and asks nobody.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Executor{cfg: cfg, files: sandboxdir.Dir[record]{Path: cfg.Dir, Kind: cfg.Kind, Record: recordName, Rand: cfg.Rand}, live: make(map[string]*sandbox)}
	var err error
	if e.run, err = e.files.Random(6); err != nil {
		return nil, err
	}
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
	now := e.now
	e.mu.Unlock()
	e.stop()
	for _, s := range live {
		s.cutAll(errors.New("the server stops"))
	}
	e.work.Close()
	if now != nil {
		now.http.CloseIdleConnections()
	}
	return nil
}

// Kind is e2b, or that of a region.
func (e *Executor) Kind() executors.Kind { return e.cfg.Kind }

// account is one key at one server, and the clients for it.
type account struct {
	set   Settings // normal
	http  *http.Client
	plane *plane

	mu        sync.Mutex
	ways      map[string]*inputWay // by address of envd
	asked     time.Time            // when the key was last tried
	refused   error                // how that went
	took      time.Duration        // the last round trip that was measured; 0 = none
	templates map[string]known
}

// known says whether a template was there when it was last asked for.
type known struct {
	there bool
	at    time.Time
}

// account returns the clients for the settings as they are now. Without a key it is an error with the reason no_key.
func (e *Executor) account(ctx context.Context) (*account, error) {
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of E2B: %w", err)
	}
	if set, err = set.Normal(); err != nil {
		return nil, CannotServe(err, Outage, "E2B's settings cannot be used: "+err.Error(), "Fix them in Settings, Places, or in config.json.")
	}
	if !set.on() {
		return nil, cannot(nil, NoKey)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.now
	if a == nil || !a.set.same(set) {
		client := e.cfg.HTTP(set)
		a = &account{set: set, http: client, plane: newPlane(set, client), ways: make(map[string]*inputWay), templates: make(map[string]known)}
		a.plane.now = e.cfg.Now
		e.now = a
	} else if a.set.Template != set.Template || a.set.CPUs != set.CPUs || a.set.MemoryMB != set.MemoryMB || a.set.MaxRun != set.MaxRun ||
		a.set.PriceVCPU != set.PriceVCPU || a.set.PriceGiB != set.PriceGiB {
		a = a.with(set)
		e.now = a
	}
	return a, nil
}

// with is the same account under settings that change no connection.
func (a *account) with(set Settings) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &account{set: set, http: a.http, plane: a.plane, ways: a.ways, asked: a.asked, refused: a.refused, took: a.took, templates: make(map[string]known)}
}

// way is how the envd at an address is written to.
func (a *account) way(base string) *inputWay {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.ways[base]
	if w == nil {
		w = &inputWay{}
		a.ways[base] = w
	}
	return w
}
