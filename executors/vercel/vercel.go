// Package vercel makes places in sandboxes of Vercel: micro-VMs of its service, spoken to as its SDK 3.5.0 speaks. What is the same at every such
// service is in executors/hosted.
//
// A sandbox has a name and, one after the other, sessions: a session is a machine that runs, for the length of a lease that is extended while
// it is in use. When it is stopped, or nobody extends it, Vercel keeps a snapshot of its disk, from which the next session begins: processes end.
// A pipe is an interactive session, which is a terminal: it is made raw before the guest's bridge begins.
package vercel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hosted"
)

// Kind is the kind of these places.
const Kind executors.Kind = "vercel"

// Lease is how long a session lives that nobody extends.
const Lease = 5 * time.Minute

// Config is what an Executor is made of.
type Config struct {
	Dir       string // absolute: one folder per sandbox below it
	GuestPath string
	Settings  func(context.Context) (Settings, error) // asked before each use
	ReadyIn   time.Duration
	Now       func() time.Time
	Log       *slog.Logger
}

// Executor makes sandboxes at Vercel. Safe for concurrent use.
type Executor struct {
	*hosted.Executor
	cfg Config

	mu   sync.Mutex
	now  *client
	want map[string]*executors.Network // the latest change of what each sandbox reaches, until it is done
}

var (
	_ executors.Executor    = (*Executor)(nil)
	_ executors.Sleeper     = (*Executor)(nil)
	_ executors.RunRecorder = (*Executor)(nil)
	_ executors.Enforcer    = (*Executor)(nil)
	_ executors.Leased      = sandbox{}
	_ executors.Pauser      = sandbox{}
)

// New makes an Executor. It starts nothing and asks nobody.
func New(cfg Config) (*Executor, error) {
	if cfg.Settings == nil {
		return nil, fmt.Errorf("vercel executor: Settings must be set")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	e := &Executor{cfg: cfg, want: make(map[string]*executors.Network)}
	var err error
	e.Executor, err = hosted.New(hosted.Config{Kind: Kind, Dir: cfg.Dir, GuestPath: cfg.GuestPath, Troubles: troubles, ReadyIn: cfg.ReadyIn, Now: cfg.Now, Log: cfg.Log,
		Account: func(ctx context.Context) (hosted.Account, error) {
			c, err := e.client(ctx)
			if err != nil {
				return hosted.Account{}, err
			}
			return hosted.Account{Service: c, ID: c.set.account()}, nil
		},
		On: func(ctx context.Context) (bool, error) {
			set, err := cfg.Settings(ctx)
			return set.secret() != "", err
		},
		Wrap: func(s *hosted.Sandbox) executors.Sandbox { return sandbox{hosted.Pausing{Sandbox: s}, e} }})
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
		return nil, fmt.Errorf("reading the settings of Vercel: %w", err)
	}
	if set, err = set.normal(e.cfg.Now()); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.now == nil || e.now.set.login() != set.login():
		e.now = newClient(set, e.cfg.Now)
	case e.now.set != set:
		e.now = e.now.with(set)
	}
	return e.now, nil
}

// sandbox is one sandbox.
type sandbox struct {
	hosted.Pausing
	e *Executor
}

// Extend lets the present session live for d more. A limit of the plan is the end of the run.
func (s sandbox) Extend(ctx context.Context, d time.Duration) (executors.Lease, error) {
	c, err := s.e.client(ctx)
	if err != nil {
		return executors.Lease{}, err
	}
	l, err := c.extend(ctx, s.Machine(), d, s.RunsSince())
	if err != nil {
		return l, fmt.Errorf("extending the sandbox's lease: %w", s.InWords(err))
	}
	return l, nil
}

// Asleep reports whether a sandbox has no session that runs.
func (e *Executor) Asleep(ctx context.Context, h executors.Handle) (bool, error) {
	return e.IsStopped(ctx, h)
}

// Ran returns the sandbox's latest session as Vercel records it, which is what Vercel charges for.
func (e *Executor) Ran(ctx context.Context, h executors.Handle) (executors.Ran, error) {
	m, err := e.Latest(ctx, h)
	return executors.Ran{BeganAt: m.BeganAt, EndedAt: m.EndedAt}, err
}

// NetworkChanged has a sandbox reach what n says from now on. It is tried again until it is done.
func (e *Executor) NetworkChanged(sandboxID string, n executors.Network) {
	e.mu.Lock()
	e.want[sandboxID] = &n
	e.mu.Unlock()
	e.Persist(sandboxID, func(ctx context.Context, machine string) error {
		e.mu.Lock()
		newer := e.want[sandboxID] != &n
		e.mu.Unlock()
		if newer {
			return nil
		}
		c, err := e.client(ctx)
		if err != nil {
			return err
		}
		if err := c.reach(ctx, machine, n); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.want[sandboxID] == &n {
			delete(e.want, sandboxID)
		}
		return nil
	})
}

const (
	// askedFor is how long it holds that the token is taken.
	askedFor = 20 * time.Second
	// usualStart is how long a sandbox takes where none was made yet, ms.
	usualStart = 3000
)

// Capabilities asks Vercel whether it takes the token.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: Kind, Name: "Vercel Sandbox", Isolated: true, Boundary: executors.MachineBoundary, Limits: true, Network: true, Pause: true, Ports: true,
		OwnDisk: true, PauseFree: true, Metered: true, StartMs: usualStart, LeaseMs: Lease.Milliseconds(),
		Isolation: "MicroVM: a machine of its own at Vercel, with its own kernel and disk; the code is sent there"}
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the settings of Vercel: %w", err)
	}
	set, wrong := set.normal(e.cfg.Now())
	c.Sizes, c.RunMs = set.sizes(), set.MaxRun.Milliseconds()
	c.PriceNano = set.priceNano(set.CPUs)
	no := func(reason, cure string) (executors.Capabilities, error) {
		c.Reason, c.Cure = reason, cure
		for i := range c.Sizes {
			c.Sizes[i].Available, c.Sizes[i].Reason, c.Sizes[i].Cure = false, reason, cure
		}
		return c, nil
	}
	if wrong != nil {
		why, reason, cure := troubles.Unwell(wrong)
		c.NotSetUp = why == hosted.NoKey
		return no(reason, cure)
	}
	if missing := e.GuestMissing(); missing != "" {
		return no(missing, "Run make build, or point the server at its guest binary.")
	}
	cl, err := e.client(ctx)
	if err != nil {
		return c, err
	}
	if _, err := cl.check(ctx); err != nil {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		_, reason, cure := troubles.Unwell(err)
		return no(reason, cure)
	}
	c.Available = true
	for i := range c.Sizes {
		c.Sizes[i].Available = true // which size a plan has is known when one is asked for
	}
	return c, nil
}

// Check says whether Vercel can be used with settings, before they are kept.
func Check(ctx context.Context, set Settings) (string, error) {
	set, err := set.normal(time.Now())
	if err != nil {
		r, reason, cure := troubles.Unwell(err)
		return "", hosted.Say(err, r, reason, cure)
	}
	c := newClient(set, time.Now)
	c.api.Again = -1
	defer c.api.Close()
	n, err := c.check(ctx)
	if err != nil {
		r, reason, cure := troubles.Unwell(err)
		return "", hosted.Say(err, r, reason, cure)
	}
	if n == 0 {
		return "the project has no sandbox now", nil
	}
	return fmt.Sprintf("the project has sandboxes (%d on the first page)", n), nil
}

// troubles are the words of this service.
var troubles = hosted.Troubles{Service: "Vercel",
	Words: map[hosted.Reason][2]string{
		hosted.NoKey: {"Vercel has no token, team and project here", "An operator enters them in Settings, Places; tokens are made at vercel.com/account/tokens."},
		hosted.BadKey: {"Vercel does not take this server's token for the team and project",
			"An operator enters a valid one in Settings, Places. A token of `vercel env pull` ends after 12 hours; one of vercel.com/account/tokens does not."},
		hosted.Quota:        {"Vercel's plan allows no more sandboxes now", "Pause a workspace that nobody uses, wait, or upgrade the plan at vercel.com."},
		hosted.Payment:      {"Vercel asks for a payment: the plan's allowance is used up", "Look at the team's usage and payments at vercel.com, or wait for the next month."},
		hosted.Outage:       {"Vercel does not answer", "Try again in a moment, and look at vercel-status.com."},
		hosted.ImageMissing: {"Vercel has no such image or runtime", "Correct sandboxing.vercel.image or runtime in Settings, Places."},
	},
	Why: func(e *hosted.APIError) hosted.Reason {
		switch {
		case e.Status == 429 && e.RetryAfter < 0:
			return hosted.Quota
		case e.Code == "image_not_found", e.Code == "invalid_runtime":
			return hosted.ImageMissing
		}
		return ""
	}}
