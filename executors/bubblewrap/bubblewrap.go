//go:build linux && (amd64 || arm64)

package bubblewrap

import (
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
)

// guestDir is the guest's folder in a sandbox's folder: the only part of that folder the sandbox sees.
const guestDir = "guest"

// guests makes, finds and ends the guests of an Executor.
type guests = hostproc.Guests

// Executor makes sandboxes on this machine. Safe for concurrent use.
type Executor struct {
	*guests
	cfg    Config
	groups hostproc.Groups
	probe  probe
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
	return &Executor{cfg: cfg, groups: groups, guests: hostproc.New(hostproc.Config{Kind: Kind, Dir: cfg.Dir, Own: guestDir, FirstPid: true, Groups: groups,
		ReadyIn: cfg.ReadyIn, Grace: cfg.Grace, Now: cfg.Now, Rand: cfg.Rand, Log: cfg.Log})}, nil
}
