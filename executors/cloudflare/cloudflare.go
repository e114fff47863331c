// Package cloudflare makes places in containers of Cloudflare, by way of a worker that an operator deploys: it is in the folder worker. What is the
// same at every such service is in executors/hosted.
//
// A container begins once. It ends with its lease, which is extended while it is in use, or when Cloudflare moves it, and nothing of it is left: so
// nothing pauses here, and all files are synced while it runs. A pipe is a connection to a port of the container, at which our program attends
// (guest/attend). The worker holds as much as nobody reads, so reading is confirmed.
package cloudflare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hosted"
)

// Kind is the kind of these places.
const Kind executors.Kind = "cloudflare"

// Lease is how long a container lives that nobody extends.
const Lease = 10 * time.Minute

// Config is what an Executor is made of.
type Config struct {
	Dir       string // absolute: one folder per sandbox below it
	GuestPath string
	Settings  func(context.Context) (Settings, error) // asked before each use
	ReadyIn   time.Duration
	Now       func() time.Time
	Log       *slog.Logger
}

// Executor makes sandboxes at Cloudflare. Safe for concurrent use.
type Executor struct {
	*hosted.Executor
	cfg Config

	mu  sync.Mutex
	now *client
}

var (
	_ executors.Executor    = (*Executor)(nil)
	_ executors.RunRecorder = (*Executor)(nil)
	_ executors.Leased      = sandbox{}
)

// New makes an Executor. It starts nothing and asks nobody.
func New(cfg Config) (*Executor, error) {
	if cfg.Settings == nil {
		return nil, fmt.Errorf("cloudflare executor: Settings must be set")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	e := &Executor{cfg: cfg}
	var err error
	e.Executor, err = hosted.New(hosted.Config{Kind: Kind, Dir: cfg.Dir, GuestPath: cfg.GuestPath, Troubles: troubles, Lossy: true, ReadyIn: cfg.ReadyIn, Now: cfg.Now, Log: cfg.Log,
		Account: func(ctx context.Context) (hosted.Account, error) {
			c, err := e.client(ctx)
			if err != nil {
				return hosted.Account{}, err
			}
			return hosted.Account{Service: c, ID: c.set.account()}, nil
		},
		On: func(ctx context.Context) (bool, error) {
			set, err := cfg.Settings(ctx)
			return set.on(), err
		},
		Wrap: func(s *hosted.Sandbox) executors.Sandbox { return sandbox{s, e} }})
	return e, err
}

// Close cuts every pipe and waits until nothing of the executor runs. Sandboxes live on until their lease ends.
func (e *Executor) Close() error {
	err := e.Executor.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now != nil {
		e.now.api.Close()
	}
	return err
}

// client returns the client for the settings as they are now.
func (e *Executor) client(ctx context.Context) (*client, error) {
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of Cloudflare: %w", err)
	}
	if set = set.normal(); !set.on() {
		return nil, troubles.CannotServe(nil, hosted.NoKey)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now == nil || e.now.set != set {
		e.now = newClient(set, e.cfg.Now)
	}
	return e.now, nil
}

// sandbox is one sandbox.
type sandbox struct {
	*hosted.Sandbox
	e *Executor
}

// Extend lets the container live for d more.
func (s sandbox) Extend(ctx context.Context, d time.Duration) (executors.Lease, error) {
	svc, err := s.Service(ctx)
	if err == nil {
		err = svc.(*client).extend(ctx, s.Machine(), d)
	}
	if err != nil {
		return executors.Lease{}, fmt.Errorf("extending the sandbox's lease: %w", s.InWords(err))
	}
	return executors.Lease{EndsAt: s.e.cfg.Now().Add(d).UnixMilli()}, nil
}

// Ran returns when the container ran, as the worker knows it.
func (e *Executor) Ran(ctx context.Context, h executors.Handle) (executors.Ran, error) {
	m, err := e.Latest(ctx, h)
	if m.EndedAt > 0 && errors.Is(err, executors.ErrGone) { // the worker still knows when
		err = nil
	}
	return executors.Ran{BeganAt: m.BeganAt, EndedAt: m.EndedAt}, err
}

// usualStart is how long a container takes where none was made yet, ms.
const usualStart = 10_000

// Capabilities asks the worker whether it takes the key.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: Kind, Name: "Cloudflare", Isolated: true, Boundary: executors.MachineBoundary, Limits: true, Network: true, Ports: true, OwnDisk: true,
		Metered: true, StartMs: usualStart, LeaseMs: Lease.Milliseconds(),
		Isolation: "MicroVM: a container in a machine of its own at Cloudflare, with its own disk; the code is sent there"}
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the settings of Cloudflare: %w", err)
	}
	set = set.normal()
	c.PriceNano = set.priceNano()
	c.Sizes = []executors.Size{{CPUs: set.CPUs, MemoryMB: int64(set.MemoryMB), PriceNano: c.PriceNano, Default: true}}
	no := func(reason, cure string) (executors.Capabilities, error) {
		c.Reason, c.Cure = reason, cure
		c.Sizes[0].Reason, c.Sizes[0].Cure = reason, cure
		return c, nil
	}
	if !set.on() {
		c.NotSetUp = true
		return no(troubles.Words[hosted.NoKey][0], troubles.Words[hosted.NoKey][1])
	}
	if missing := e.GuestMissing(); missing != "" {
		return no(missing, "Run make build, or point the server at its guest binary.")
	}
	cl, err := e.client(ctx)
	if err == nil {
		err = cl.check(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		_, reason, cure := troubles.Unwell(err)
		return no(reason, cure)
	}
	c.Available, c.Sizes[0].Available = true, true
	c.Warning = "A container that Cloudflare moves or ends is lost with what was not synced yet"
	return c, nil
}

// Check says whether a worker can be used with settings, before they are kept.
func Check(ctx context.Context, set Settings) (string, error) {
	if set = set.normal(); !set.on() {
		return "", troubles.Only(nil, hosted.NoKey)
	}
	c := newClient(set, time.Now)
	c.api.Again = -1
	defer c.api.Close()
	err := c.check(ctx)
	var all []hosted.Machine
	if err == nil {
		all, err = c.All(ctx, "")
	}
	if err != nil {
		r, reason, cure := troubles.Unwell(err)
		return "", hosted.Say(err, r, reason, cure)
	}
	return fmt.Sprintf("the worker answers; %d containers are known to it", len(all)), nil
}

// troubles are the words of this service.
var troubles = hosted.Troubles{Service: "Cloudflare",
	Words: map[hosted.Reason][2]string{
		hosted.NoKey:    {"no worker at Cloudflare is named, or its key", "Deploy it as docs/cloudflare.md says, and enter both in Settings, Places."},
		hosted.BadKey:   {"the worker at Cloudflare does not take this server's key", "Enter the one of `wrangler secret put API_KEY` in Settings, Places."},
		hosted.Outage:   {"the worker at Cloudflare does not answer", "Look at its address in Settings, Places, and at cloudflarestatus.com."},
		hosted.Capacity: {"Cloudflare starts no container now", "Try again in a moment, and look at max_instances in the worker's wrangler.jsonc."},
		hosted.Refused:  {"Cloudflare cannot do this", "Look at docs/cloudflare.md, or choose another place."},
	},
	Why: func(e *hosted.APIError) hosted.Reason {
		switch e.Code {
		case "not_ready":
			return hosted.Capacity
		case "other_version":
			return hosted.Refused
		}
		return ""
	}}
