//go:build linux || darwin

package local

import (
	"context"
	"os"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
)

// guests makes, finds and ends the guests of an Executor.
type guests = hostproc.Guests

// Executor makes sandboxes on this machine. Safe for concurrent use.
type Executor struct {
	*guests
	cfg    Config
	groups hostproc.Groups
}

var (
	_ executors.Executor      = (*Executor)(nil)
	_ executors.RemnantKeeper = (*Executor)(nil)
	_ executors.Remover       = (*Executor)(nil)
	_ executors.Destroyer     = (*Executor)(nil)
)

// New makes an Executor. It starts nothing.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	groups := hostproc.Groups{Tree: cfg.Groups}
	return &Executor{cfg: cfg, groups: groups, guests: hostproc.New(hostproc.Config{Kind: executors.Local, Dir: cfg.Dir, Groups: groups,
		ReadyIn: cfg.ReadyIn, Grace: cfg.Grace, Now: cfg.Now, Rand: cfg.Rand, Log: cfg.Log})}, nil
}

// Capabilities says whether the local executor may be used, and that it isolates nothing.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: executors.Local, Name: "This server", Available: true, Ports: true, Host: true, Boundary: executors.NoBoundary,
		Isolation: "No isolation: agents run with the rights of the server's user"}
	c.Limits, c.Pause, c.Warning = e.groups.Support()
	refuse := func(reason, cure string) (executors.Capabilities, error) {
		c.Available, c.Reason, c.Cure = false, reason, cure
		return c, nil
	}
	if !e.cfg.Enabled {
		return refuse("it is switched off", "Set sandboxing.local.enabled to true in config.json.")
	}
	if e.cfg.TeamCount != nil {
		n, err := e.cfg.TeamCount(ctx)
		if err != nil {
			return refuse("the teams of this instance could not be counted", "Look into the server's log.")
		}
		if n > 1 {
			return refuse("it isolates nothing, and this instance has more than one team",
				"Choose a place that isolates. Where all teams trust one another, an operator can set sandboxing.local.enabled to true in config.json.")
		}
	}
	if info, err := os.Stat(e.cfg.GuestPath); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return refuse("the guest program is missing", "Run make build, or point the server at its guest binary.")
	}
	return c, nil
}
