// Package boxlite makes places in boxes of BoxLite: micro-VMs of a server that speaks its REST API, such as `boxlite serve` on a machine of
// one's own. What is the same at every such service is in executors/hosted.
//
// A box is made with the automatic stop switched off: whether somebody uses it only this server knows. A pipe to the guest is an
// execution, the guest's bridge, that is attached to by WebSocket. It may be attached to once only and is never attached to again: what it wrote
// would come twice. The server drops output that is read slowly, so reading is confirmed. An execution whose pipe has ended is removed, because a box may have few at a time.
package boxlite

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hosted"
	"github.com/parawork/parawork/internal/tasks"
)

// Kind is the kind of these places.
const Kind executors.Kind = "boxlite"

// Config is what an Executor is made of.
type Config struct {
	Dir       string // absolute: one folder per sandbox below it
	GuestPath string
	Settings  func(context.Context) (Settings, error) // asked before each use
	ReadyIn   time.Duration
	Now       func() time.Time
	Log       *slog.Logger
}

// Executor makes sandboxes at BoxLite. Safe for concurrent use.
type Executor struct {
	*hosted.Executor
	cfg  Config
	work tasks.Group // of the clients

	mu  sync.Mutex
	now *client
}

var (
	_ executors.Executor = (*Executor)(nil)
	_ executors.Sleeper  = (*Executor)(nil)
)

// New makes an Executor. It starts nothing and asks nobody.
func New(cfg Config) (*Executor, error) {
	if cfg.Settings == nil {
		return nil, fmt.Errorf("boxlite executor: Settings must be set")
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
			return set.URL != "", err
		},
		Wrap: func(s *hosted.Sandbox) executors.Sandbox { return hosted.Pausing{Sandbox: s} }})
	return e, err
}

// Close cuts every pipe and waits until nothing of the executor runs. Sandboxes live on.
func (e *Executor) Close() error {
	err := e.Executor.Close()
	e.work.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now != nil {
		e.now.api.Close()
	}
	return err
}

// client returns the client for the settings as they are now. Without an address it is an error with the reason no_key.
func (e *Executor) client(ctx context.Context) (*client, error) {
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of BoxLite: %w", err)
	}
	if set = set.normal(); set.URL == "" {
		return nil, troubles.CannotServe(nil, hosted.NoKey)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now == nil || e.now.set != set {
		c := newClient(set, &e.work)
		if e.now != nil && e.now.set.URL == set.URL && e.now.set.APIKey == set.APIKey {
			c.api = e.now.api
		}
		e.now = c
	}
	return e.now, nil
}

// Asleep reports whether a box has stopped.
func (e *Executor) Asleep(ctx context.Context, h executors.Handle) (bool, error) {
	return e.IsStopped(ctx, h)
}

const (
	// askedFor is how long it holds that the key is taken.
	askedFor = 20 * time.Second
	// usualStart is how long a box takes where none was made yet, ms.
	usualStart = 3000
	// makeWithin is how long making one may take: the server may have to fetch the image.
	makeWithin = 15 * time.Minute
)

// Capabilities asks the server whether it takes the key, and what it can do.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: Kind, Name: "BoxLite", Isolated: true, Boundary: executors.MachineBoundary, Limits: true, Network: true, Pause: true, Ports: true,
		OwnDisk: true, PauseFree: true, Metered: true, StartMs: usualStart, MakeMs: makeWithin.Milliseconds(),
		Isolation: "MicroVM: a machine of its own on the BoxLite server, with its own kernel and disk; the code is sent there"}
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the settings of BoxLite: %w", err)
	}
	set = set.normal()
	c.Sizes = set.sizes()
	c.PriceNano = set.priceNano(set.CPUs, int64(set.MemoryMB))
	no := func(reason, cure string) (executors.Capabilities, error) {
		c.Reason, c.Cure = reason, cure
		for i := range c.Sizes {
			c.Sizes[i].Available, c.Sizes[i].Reason, c.Sizes[i].Cure = false, reason, cure
		}
		return c, nil
	}
	if set.URL == "" {
		c.NotSetUp = true
		return no(troubles.Words[hosted.NoKey][0], troubles.Words[hosted.NoKey][1])
	}
	if missing := e.GuestMissing(); missing != "" {
		return no(missing, "Run make build, or point the server at its guest binary.")
	}
	cl, err := e.client(ctx)
	if err != nil {
		return c, err
	}
	about, err := cl.about(ctx, e.cfg.Now)
	if err != nil {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		_, reason, cure := troubles.Unwell(err)
		return no(reason, cure)
	}
	for i := range c.Sizes {
		s := &c.Sizes[i]
		s.Reason, s.Cure = about.refuses(s.CPUs, s.MemoryMB)
		s.Available = s.Reason == ""
		c.Available = c.Available || s.Available
		if s.Default && !s.Available {
			c.Reason, c.Cure = s.Reason, s.Cure
		}
	}
	if c.Available && c.Reason != "" { // another size can be had
		c.Warning = c.Reason + ". " + c.Cure
		c.Reason, c.Cure = "", ""
	}
	return c, nil
}

// Check says whether a server can be used with settings, before they are kept.
func Check(ctx context.Context, set Settings) (string, error) {
	set = set.normal()
	if set.URL == "" {
		return "", troubles.Only(nil, hosted.NoKey)
	}
	var work tasks.Group
	defer work.Close()
	c := newClient(set, &work)
	c.api.Again = -1
	defer c.api.Close()
	about, err := c.about(ctx, time.Now)
	if err != nil {
		r, _, _ := troubles.Unwell(err)
		return "", troubles.Only(err, r)
	}
	if reason, cure := about.refuses(set.CPUs, int64(set.MemoryMB)); reason != "" {
		return "", hosted.Say(nil, hosted.Refused, reason, cure)
	}
	boxes, err := c.All(ctx, "")
	if err != nil {
		r, _, _ := troubles.Unwell(err)
		return "", troubles.Only(err, r)
	}
	return fmt.Sprintf("%d boxes are there now; a box may have %s", len(boxes), cmp.Or(about.words(), "what the server gives")), nil
}

// troubles are the words of this service.
var troubles = hosted.Troubles{Service: "BoxLite",
	Words: map[hosted.Reason][2]string{
		hosted.NoKey:        {"no BoxLite server is named", "An operator enters its address in Settings, Places, or sets BOXLITE_REST_URL on the server."},
		hosted.BadKey:       {"BoxLite does not take this server's API key", "An operator enters a valid one in Settings, Places: the one that boxlite serve --api-key has."},
		hosted.Quota:        {"BoxLite's server has no room for another box", "Stop a workspace that nobody uses, or give the server more memory and disk."},
		hosted.Outage:       {"BoxLite does not answer", "See whether boxlite serve runs at the address in Settings, Places, and whether this server reaches it."},
		hosted.ImageMissing: {"BoxLite cannot fetch the image", "Look at the image's name in sandboxing.boxlite, and whether the BoxLite server reaches its registry."},
		hosted.Timeout:      {"BoxLite took too long", "Try again: an image that is fetched for the first time takes long. See whether its server is busy."},
	},
	Why: func(e *hosted.APIError) hosted.Reason {
		switch e.Code {
		case "unauthenticated", "permission_denied":
			return hosted.BadKey
		case "resource_exhausted":
			return hosted.Quota
		case "image_pull_failed":
			return hosted.ImageMissing
		case "timeout":
			return hosted.Timeout
		case "network_unavailable", "upstream_unavailable", "engine_unavailable", "storage_error", "database_error", "metadata_error", "config_error", "internal":
			return hosted.Outage
		case "invalid_argument", "unsupported", "already_exists", "invalid_state", "stopped", "execution_failed", "not_found", "session_reaped":
			return hosted.Refused
		}
		return ""
	}}
