package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/internal/resident"
	"github.com/parawork/parawork/internal/tenant"
)

// LookAfter compares the opened database with what is noted beside it, and keeps what was found for as long as nobody has settled it.
func (h *App) LookAfter(ctx context.Context, d *instance.Doubt) error {
	if len(d.Found) == 0 {
		forgotten, err := h.workspaces.NumbersForgotten(ctx)
		if err != nil {
			return err
		}
		behind, err := h.audit.Behind(ctx)
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
			if err := d.Write(h.cfg.DataDir); err != nil {
				return fmt.Errorf("noting what the database has lost: %w", err)
			}
		}
	}
	if err := d.Err(); err != nil {
		h.doubt = err.Error()
	}
	return nil
}

// stage is a room while it runs.
type stage struct {
	name string
	run  func(context.Context) error

	cancel context.CancelFunc
	done   chan struct{}
}

// patience is how long one room may take to end.
const patience = 20 * time.Second

// Run recovers what an earlier server left, opens the door, and works until ctx ends. Then the rooms end one after the other:
// the door first, what it leads to after it, and the sandboxes' keeper last. Agents go on in their sandboxes.
func (h *App) Run(ctx context.Context, l net.Listener, stdout io.Writer) error {
	work, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	start := func(s *stage) *stage {
		var sctx context.Context
		// What a room does by itself is done for all teams; requests have the scope of who asks, which the server's guard gives them.
		sctx, s.cancel = context.WithCancel(tenant.All(context.WithoutCancel(ctx), "the rooms' own work"))
		s.done = make(chan struct{})
		go func() {
			defer close(s.done)
			if err := s.run(sctx); err != nil {
				fail(fmt.Errorf("%s: %w", s.name, err))
			} else if sctx.Err() == nil {
				fail(fmt.Errorf("%s ended by itself", s.name))
			}
		}()
		return s
	}
	// In the order in which they end.
	stages := []*stage{start(&stage{name: "server", run: func(ctx context.Context) error { return h.server.Serve(ctx, l) }})}

	var err error
	if h.doubt != "" { // nothing is recovered, ended or given a number
		fmt.Fprintln(os.Stderr, "parawork: "+h.doubt)
		h.log.Error("the database is in doubt: operators may look, nobody works", "found", h.doubt)
		h.server.LookOnly(h.doubt)
		if _, err = fmt.Fprintf(stdout, "listening on http://%s\n", l.Addr()); err != nil {
			err = fmt.Errorf("saying where the server listens: %w", err)
		}
	} else if err = h.recover(tenant.All(ctx, "start")); err == nil {
		for _, s := range h.components() {
			stages = append(stages, start(s))
		}
		h.server.Open()
		err = h.announce(ctx, l.Addr(), stdout)
	}
	if err == nil {
		select {
		case <-ctx.Done():
			h.log.Info("stopping", "agents", "go on in their sandboxes")
		case <-work.Done():
			err = context.Cause(work)
			h.log.Error("a room failed; stopping", "error", err)
		}
	}
	h.stop(stages)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // told to stop while it started
	}
	return err
}

// components are what works besides the server, in the order in which they end: each before what it uses.
func (h *App) components() []*stage {
	list := []*stage{
		{name: "warden", run: h.suspension.Run}, // ends sessions and sandboxes
		{name: "enforce", run: h.enforcer.Run},  // makes sandboxes stand still and wakes them
		{name: "runs", run: h.runs.Run},         // asks for workspaces and sessions
		{name: "reviews", run: h.reviews.Run},   // too
		{name: "forge", run: h.forge.Run},       // brings home what was merged elsewhere
		{name: "disk", run: h.disk.Run},
		{name: "checks", run: h.checks.Run}, // has commands run, and lands what they say is good
		{name: "overlap", run: h.overlap.Run},
		{name: "images", run: h.images.Run},
		{name: "workspaces", run: h.workspaces.Run}, // a creation that is cut needs sessions and sandboxes to clean up
		{name: "payments", run: h.payments.Run},     // has mail sent
		{name: "reports", run: h.reports.Run},       // too
		{name: "mail", run: h.mail.Run},
		{name: "notify", run: h.notify.Run},
		{name: "commands", run: h.commands.Run},
		{name: "sessions", run: h.sessions.Run},
		{name: "sync", run: h.files.Run},
		{name: "gate", run: h.gate.Run},
		{name: "network", run: h.network.Run},
		{name: "limits", run: h.meters.Run},
		{name: "executors", run: h.places.Run},
		{name: "ledger", run: h.ledger.Run},
		{name: "machines", run: h.machines.Run}, // what leads to them has ended by then
		{name: "audit", run: h.audit.Run},
		{name: "memory", run: resident.New(h.log).Run},
	}
	if h.caches != nil {
		list = append(list, &stage{name: "caches", run: h.caches.Run})
	}
	if h.line != nil {
		list = append(list, &stage{name: "events", run: h.line.Run})
	}
	return list
}

// step is one thing that is taken up again at a start.
type step struct {
	what string // in words
	do   func(context.Context) error
}

// recovery are the steps of a start, in their order: each finds what the ones before it recovered. It is not the order in which components
// end, reversed: commands, workspaces, images, graces and checks are recovered after sessions.
func (h *App) recovery() []step {
	return []step{
		{"sealing secrets", h.sealSecrets},
		{"sweeping secrets", h.secrets.Sweep},
		{"recovering the ledger", h.ledger.Recover},
		{"reading the prices", h.prices.Load},
		{"recovering tokens", h.recoverTokens},
		{"recovering machines", h.machines.Recover},
		{"recovering sandboxes", h.places.Recover},
		{"recovering sessions", h.sessions.Recover},
		{"recovering commands", h.commands.Recover},
		{"recovering workspaces", h.recoverWorkspaces},
		{"recovering builds of images", h.images.Recover},
		{"recovering graces", h.enforcer.Recover},
		{"recovering checks", h.checks.Recover},
	}
}

// recoverWorkspaces takes up creations, then moves.
func (h *App) recoverWorkspaces(ctx context.Context) error {
	if err := h.workspaces.Recover(ctx); err != nil {
		return err
	}
	return h.moves.Recover(ctx)
}

// recover takes up what an earlier server left, while the door says "starting".
func (h *App) recover(ctx context.Context) error {
	for _, s := range h.recovery() {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		h.log.Debug(s.what, "ms", time.Since(began).Milliseconds())
	}
	return nil
}

// sealSecrets seals anew what an older version, or an older key, sealed.
func (h *App) sealSecrets(ctx context.Context) error {
	unreadable, err := h.vault.UpgradeSecrets(ctx)
	if unreadable > 0 {
		h.log.Warn("secrets cannot be read: secret.key is not the one they were kept with", "count", unreadable,
			"cure", "restore secret.key from a backup, or enter the keys of these agents' accounts again")
	}
	return err
}

// stop ends the rooms in order. One that does not end in time is left behind: the process is about to end.
func (h *App) stop(stages []*stage) {
	for _, s := range stages {
		s.cancel()
		select {
		case <-s.done:
		case <-time.After(patience):
			h.log.Warn("a room did not end in time", "name", s.name)
		}
	}
}

// announce says on standard output where the door is, and how the first user comes in. Nothing else secret is ever printed.
func (h *App) announce(ctx context.Context, addr net.Addr, stdout io.Writer) error {
	here := "http://" + addr.String()
	if a, ok := addr.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		here = fmt.Sprintf("http://127.0.0.1:%d", a.Port)
	}
	if _, err := fmt.Fprintf(stdout, "listening on http://%s\n", addr); err != nil {
		return fmt.Errorf("saying where the server listens: %w", err)
	}
	token, needed, err := h.directory.SetupToken(ctx)
	if err != nil {
		return fmt.Errorf("making the setup link: %w", err)
	}
	if !needed {
		return nil
	}
	if h.cfg.Server.PublicURL != "" {
		here = h.cfg.Server.PublicURL
	}
	// Behind the # no proxy's log gets to see it.
	_, err = fmt.Fprintf(stdout, "No user exists yet. Make the first one with this link, which works once, for 30 minutes:\n  %s/setup#%s\n", here, token)
	return err
}
