package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/internal/tenant"
)

// CheckDefault refuses a defaultProvider that this server can never use and a public demo that does not isolate, and warns of a
// defaultProvider that cannot be used now.
func (a *App) CheckDefault(ctx context.Context) error {
	if err := fromconfig.CheckDemo(a.cfg, a.kinds); err != nil {
		return err
	}
	return fromconfig.CheckDefault(ctx, a.cfg, a.kinds, a.choice, a.log)
}

// stage is a component while it runs.
type stage struct {
	component

	cancel context.CancelFunc
	done   chan struct{}
}

// patience is how long one component may take to end.
const patience = 20 * time.Second

// Run recovers what an earlier server left, serves, and works until ctx ends. Then the components end one after the other:
// the server first, what it leads to after it, and what keeps sandboxes last. Agents go on in their sandboxes.
func (a *App) Run(ctx context.Context, l net.Listener, stdout io.Writer) error {
	work, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	start := func(c component) *stage {
		s := &stage{component: c, done: make(chan struct{})}
		var sctx context.Context
		// What a component does by itself is done for all teams; requests have the scope of who asks, which the server's guard gives them.
		sctx, s.cancel = context.WithCancel(tenant.All(context.WithoutCancel(ctx), "the components' own work"))
		go func() {
			defer close(s.done)
			if err := s.run(sctx); err != nil {
				fail(fmt.Errorf("%s: %w", s.name, err))
			} else if sctx.Err() == nil {
				fail(fmt.Errorf("%s ended unexpectedly", s.name))
			}
		}()
		return s
	}
	// In the order in which they end.
	stages := []*stage{start(component{"server", func(ctx context.Context) error { return a.server.Serve(ctx, l) }})}

	var err error
	if a.doubt != "" { // nothing is recovered, ended or given a number
		fmt.Fprintln(os.Stderr, "parawork: "+a.doubt)
		a.log.Error("the state of the database is uncertain: the server is read-only, for operators alone", "found", a.doubt)
		a.server.LookOnly(a.doubt)
		if _, err = fmt.Fprintf(stdout, "listening on http://%s\n", l.Addr()); err != nil {
			err = fmt.Errorf("printing the address of the server: %w", err)
		}
	} else if err = a.recover(tenant.All(ctx, "start")); err == nil {
		for _, c := range a.components() {
			stages = append(stages, start(c))
		}
		a.server.Open()
		err = a.announce(ctx, l.Addr(), stdout)
	}
	if err == nil {
		select {
		case <-ctx.Done():
			a.log.Info("stopping", "agents", "go on in their sandboxes")
		case <-work.Done():
			err = context.Cause(work)
			a.log.Error("a component failed; stopping", "error", err)
		}
	}
	a.stop(stages)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // asked to stop during the start
	}
	return err
}

// recover takes up what an earlier server left, while the server says "starting".
func (a *App) recover(ctx context.Context) error {
	for _, s := range a.recovery() {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		a.log.Debug(s.what, "ms", time.Since(began).Milliseconds())
	}
	return nil
}

// stop ends the components in order. One that does not end in time is left behind: the process is about to end.
func (a *App) stop(stages []*stage) {
	for _, s := range stages {
		s.cancel()
		select {
		case <-s.done:
		case <-time.After(patience):
			a.log.Warn("a component did not end in time", "name", s.name)
		}
	}
}

// announce says on standard output where the server listens, and how the first user comes in. Nothing else secret is ever printed.
func (a *App) announce(ctx context.Context, addr net.Addr, stdout io.Writer) error {
	here := "http://" + addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		here = fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
	}
	if _, err := fmt.Fprintf(stdout, "listening on http://%s\n", addr); err != nil {
		return fmt.Errorf("printing the address of the server: %w", err)
	}
	token, needed, err := a.directory.SetupToken(ctx)
	if err != nil {
		return fmt.Errorf("creating the setup link: %w", err)
	}
	if !needed {
		return nil
	}
	if a.cfg.Server.PublicURL != "" {
		here = a.cfg.Server.PublicURL
	}
	// Behind the # no proxy's log gets to see it.
	_, err = fmt.Fprintf(stdout, "No user exists yet. Create the first one with this link, which works once and expires after 30 minutes:\n  %s/setup#%s\n", here, token)
	return err
}

// LookAfter compares the opened database with what is noted beside it, and keeps what was found for as long as nobody has settled it.
func (a *App) LookAfter(ctx context.Context, d *instance.Doubt) error {
	if len(d.Found) == 0 {
		forgotten, err := a.workspaces.Lifecycle.NumbersForgotten(ctx)
		if err != nil {
			return err
		}
		behind, err := a.audit.Behind(ctx)
		if err != nil {
			return err
		}
		if len(forgotten) > 0 {
			d.Found = append(d.Found, fmt.Sprintf("numbers of workspaces of %s would be given again", instance.Count(len(forgotten), "team")))
		}
		if len(behind) > 0 {
			d.Found = append(d.Found, fmt.Sprintf("the newest entries of %s of the audit are missing", instance.Count(len(behind), "chain")))
		}
		if len(d.Found) > 0 { // each login while operators look adds to the audit, which would hide that it has lost entries
			if err := d.Write(a.cfg.DataDir); err != nil {
				return fmt.Errorf("recording what the database has lost: %w", err)
			}
		}
	}
	if err := d.Err(); err != nil {
		a.doubt = err.Error()
	}
	return nil
}
