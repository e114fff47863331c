package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/parawork/parawork/cmd/parawork/app"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// serve is the command `parawork serve`.
func (p program) serve(args []string) error {
	flags := flag.NewFlagSet("parawork serve", flag.ContinueOnError)
	file := flags.String("config", "", "configuration `FILE` (default: $PARAWORK_CONFIG, else config.json when there is one)")
	if err := p.parse(flags, args); err != nil {
		return err
	}
	cfg, err := p.config(*file)
	if err != nil {
		return err
	}
	log, err := newLog(cfg.Log)
	if err != nil {
		return err
	}
	lock, err := instance.LockData(cfg.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()

	ctx, stop := stopSignals()
	defer stop()
	found, err := instance.LookBefore(ctx, cfg)
	if ctx.Err() != nil {
		return nil // told to stop while it started
	}
	if err != nil {
		return err
	}
	// It listens from the start and says "starting", so that what waits for the server can see it come.
	l, err := listen(ctx, cfg.Server.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	err = waitForDatabase(ctx, cfg, l, p.stderr)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	h, err := app.Build(tenant.All(ctx, "start"), app.Options{Config: cfg, Kinds: p.kinds, Log: log, Env: p.env, Version: version, Guest: p.guest})
	if err != nil {
		return errors.Join(err, found.Err())
	}
	defer h.Close()
	if err := h.LookAfter(tenant.All(ctx, "start"), found); err != nil {
		return err
	}
	if err := h.CheckDefault(tenant.All(ctx, "start")); err != nil {
		return err
	}
	return h.Run(ctx, l, p.stdout)
}

// stopSignals returns a context that ends with the first SIGTERM or SIGINT. The second ends the process at once.
func stopSignals() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		select {
		case <-sig:
		case <-done:
			return
		}
		cancel()
		select {
		case s := <-sig:
			code := 130
			if s == syscall.SIGTERM {
				code = 143
			}
			os.Exit(code)
		case <-done:
		}
	}()
	return ctx, func() { signal.Stop(sig); close(done); cancel() }
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.Wrap(err, fault.Unavailable, "address_in_use", "%s is in use by another program. Stop that, or set server.listen to another port.", addr)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "cannot_listen", "Parawork cannot listen on %s: %v. Set server.listen to an address of this machine.", addr, err)
	}
	return l, nil
}
