package e2b

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

const (
	// askedFor is how long it holds that the key is taken.
	askedFor = 20 * time.Second
	// thereFor and missingFor are how long it holds that a template is there, or is not.
	thereFor   = 5 * time.Minute
	missingFor = 20 * time.Second
	// usualStart is how long a sandbox takes where none was made yet, ms.
	usualStart = 1500
)

// Capabilities asks E2B whether it takes the key, and which sizes have a template.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: e.cfg.Kind, Name: "E2B", Isolated: true, Boundary: executors.MachineBoundary, Limits: true, Network: true,
		Pause: true, Ports: true, OwnDisk: true, PauseFree: true, LeaseMs: Lease.Milliseconds(), StartMs: usualStart,
		Isolation: "MicroVM: a machine of its own at E2B, with its own kernel and disk; the code is sent there"}
	refuse := func(reason, cure string) (executors.Capabilities, error) {
		c.Available, c.Reason, c.Cure = false, reason, cure
		return c, nil
	}
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the settings of E2B: %w", err)
	}
	if set, err = set.Normal(); err != nil {
		return refuse("its settings cannot be used: "+err.Error(), "Fix them in Settings, Places, or in config.json.")
	}
	if set.Region != "" {
		c.Name = "E2B · " + set.Region
	}
	c.ProbeURL = probe(set, set.ProbeURL)
	c.Sizes, c.RunMs = set.Sizes(), set.MaxRun.Milliseconds()
	c.PriceNano = set.PriceNano(set.CPUs, int64(set.MemoryMB))
	missing := func(reason, cure string) {
		for i := range c.Sizes {
			c.Sizes[i].Available, c.Sizes[i].Reason, c.Sizes[i].Cure = false, reason, cure
		}
	}
	no := func(reason, cure string) (executors.Capabilities, error) {
		missing(reason, cure)
		return refuse(reason, cure)
	}
	if !set.on() {
		c.NotSetUp = true
		return no(words[NoKey][0], words[NoKey][1])
	}
	if info, err := os.Stat(e.cfg.GuestPath); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return no("the guest program is missing", "Run make build, or point the server at its guest binary.")
	}
	a, err := e.account(ctx)
	if err != nil {
		return c, err
	}
	err = a.taken(ctx, e.cfg.Now)
	c.LatencyMs = a.latency()
	if err != nil {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		return no(wordsOf(unwell(err), err))
	}
	if err := a.fill(ctx, e.cfg.Now, c.Sizes); err != nil {
		return no(wordsOf(unwell(err), err))
	}
	for _, s := range c.Sizes {
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

// unwell is what it means that a plain question was not answered well: no machine was asked for.
func unwell(err error) Reason {
	r := why(err)
	if _, ok := words[r]; !ok || r == Capacity {
		return Outage
	}
	return r
}

// taken asks whether the key is taken; a fresh answer is not asked for again.
func (a *account) taken(ctx context.Context, now func() time.Time) error {
	a.mu.Lock()
	asked, refused := a.asked, a.refused
	a.mu.Unlock()
	if !asked.IsZero() && now().Sub(asked) < askedFor {
		return refused
	}
	var wrote, answered atomic.Int64 // ns; without the time that connecting takes
	_, err := a.plane.check(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { wrote.Store(time.Now().UnixNano()) },
		GotFirstResponseByte: func() { answered.Store(time.Now().UnixNano()) },
	}))
	if ctx.Err() == nil {
		a.mu.Lock()
		a.asked, a.refused = now(), err
		if d := time.Duration(answered.Load() - wrote.Load()); err == nil && d > 0 && d < time.Hour {
			a.took = d
		}
		a.mu.Unlock()
	}
	return err
}

// latency is the last measured round trip, in whole milliseconds; 0 = none was measured.
func (a *account) latency() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.took == 0 {
		return 0
	}
	return max(a.took.Milliseconds(), 1)
}

// fill says of each size whether its template is there.
func (a *account) fill(ctx context.Context, now func() time.Time, sizes []executors.Size) error {
	g, gctx := errgroup.WithContext(ctx)
	for i := range sizes {
		s := &sizes[i]
		g.Go(func() error {
			there, err := a.has(gctx, now, a.set.TemplateOf(s.CPUs, s.MemoryMB))
			if s.Available = there; !there {
				s.Reason, s.Cure = templateWords(a.set, s.CPUs, s.MemoryMB)
			}
			return err
		})
	}
	return g.Wait()
}

// has reports whether a template is there, as last known or as asked now.
func (a *account) has(ctx context.Context, now func() time.Time, name string) (bool, error) {
	a.mu.Lock()
	k, ok := a.templates[name]
	a.mu.Unlock()
	if age := now().Sub(k.at); ok && (k.there && age < thereFor || !k.there && age < missingFor) {
		return k.there, nil
	}
	there, err := a.plane.known(ctx, name)
	if err == nil {
		a.mu.Lock()
		a.templates[name] = known{there, now()}
		a.mu.Unlock()
	}
	return there, err
}

// Check says whether E2B can be used with settings, before they are kept, and how many sandboxes run there. Its error is a
// place_cannot_serve whose words are the reason alone: the cure is a detail.
func Check(ctx context.Context, set Settings) (running int, err error) {
	set, err = set.Normal()
	if err != nil {
		return 0, only(err, BadKey, "These settings cannot be used: "+err.Error()+".", "Fix them.")
	}
	if !set.on() {
		return 0, only(nil, NoKey, words[NoKey][0]+".", words[NoKey][1])
	}
	set.Retries = 0
	client := newHTTP(set)
	defer client.CloseIdleConnections()
	if running, err = newPlane(set, client).check(ctx); err == nil {
		return running, nil
	}
	r := unwell(err)
	reason, cure := wordsOf(r, err)
	return 0, only(err, r, strings.TrimSuffix(reason, ".")+".", cure)
}

func only(cause error, r Reason, reason, cure string) error {
	return fault.Wrap(cause, fault.Unavailable, "place_cannot_serve", "%s", reason).With("reason", string(r)).With("hint", cure).With("ways", ways[r])
}
