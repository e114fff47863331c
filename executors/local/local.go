//go:build linux || darwin

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/internal/locks"
)

// handleVersion is the version of this executor's handles.
const handleVersion = 1

// Executor makes sandboxes on this machine. Safe for concurrent use.
type Executor struct {
	cfg Config

	turns locks.Keyed // making, finding and destroying one sandbox take turns
}

var (
	_ executors.Executor = (*Executor)(nil)
	_ executors.Remainer = (*Executor)(nil)
	_ executors.Remover  = (*Executor)(nil)
	_ executors.Sandbox  = (*sandbox)(nil)
	_ executors.Pauser   = (*sandbox)(nil)
	_ executors.Metered  = (*sandbox)(nil)
	_ executors.Limiter  = (*sandbox)(nil)
)

// New makes an Executor. It starts nothing.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Executor{cfg: cfg}, nil
}

// Kind is executors.Local.
func (e *Executor) Kind() executors.Kind { return executors.Local }

// Capabilities says whether local places may be used, and that they isolate nothing.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: executors.Local, Name: "This server", Available: true, Ports: true, Host: true, Boundary: executors.NoBoundary,
		Isolation: "No isolation: agents run with the rights of the server's user"}
	c.Limits, c.Pause, c.Warning = e.groups().Support()
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

// sandbox is one guest process on this machine.
type sandbox struct {
	e     *Executor
	id    string
	dir   string
	token string
	who   hostproc.Identity
	executors.Confined
}

// Handle carries who the guest process is. The token is not in it, for handles are stored: it stays in the sandbox's folder.
func (s *sandbox) Handle() executors.Handle {
	b, err := json.Marshal(s.who)
	if err != nil {
		panic(err) // a struct of numbers and a string always encodes
	}
	return executors.Handle{Kind: executors.Local, ID: s.id, Version: handleVersion, State: b}
}

func (s *sandbox) Token() string { return s.token }

func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	return hostproc.Dial(ctx, s.dir)
}

func (s *sandbox) Destroy(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	return s.e.destroy(ctx, s.id)
}

func (e *Executor) dir(id string) string { return filepath.Join(e.cfg.Dir, id) }

// Recover finds a guest again. ErrGone when its process has ended, or can never be reached again: then what it left running is
// ended, and its folder stays for those who want to know how its processes ended. Any other error says that it cannot be
// told now.
func (e *Executor) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if h.Kind != executors.Local {
		return nil, fmt.Errorf("handle of kind %q given to the local executor", h.Kind)
	}
	if h.Version > handleVersion {
		return nil, fmt.Errorf("handle version %d of sandbox %s is newer than this server", h.Version, h.ID)
	}
	if err := hostproc.CheckID(h.ID); err != nil {
		return nil, err
	}
	defer e.turns.Lock(h.ID)()
	s, err := e.find(ctx, h)
	if errors.Is(err, executors.ErrGone) {
		if eerr := e.endAll(ctx, h.ID); eerr != nil {
			e.cfg.Log.Warn("rests of a sandbox could not be ended", "sandbox_id", h.ID, "error", eerr)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Remove ends and removes a sandbox that nobody has found again, whether its guest answers or not. Idempotent.
func (e *Executor) Remove(ctx context.Context, h executors.Handle) error {
	if h.Kind != executors.Local {
		return fmt.Errorf("handle of kind %q given to the local executor", h.Kind)
	}
	if err := hostproc.CheckID(h.ID); err != nil {
		return err
	}
	defer e.turns.Lock(h.ID)()
	return e.destroy(ctx, h.ID)
}

// Remains returns the folder of a guest, which outlives it until Sweep.
func (e *Executor) Remains(sandboxID string) (string, bool) {
	if hostproc.CheckID(sandboxID) != nil {
		return "", false
	}
	info, err := os.Lstat(e.dir(sandboxID))
	return e.dir(sandboxID), err == nil && info.IsDir()
}

// Sweep removes the folder of a guest that has ended.
func (e *Executor) Sweep(ctx context.Context, sandboxID string) error {
	if err := hostproc.CheckID(sandboxID); err != nil {
		return err
	}
	defer e.turns.Lock(sandboxID)()
	if who, err := readRecord(e.dir(sandboxID)); err == nil && who.GuestOf(sandboxID) {
		return nil
	}
	return e.destroy(ctx, sandboxID)
}

// List returns a handle for every folder of ours below Dir.
func (e *Executor) List(context.Context) ([]executors.Handle, error) {
	ids, err := hostproc.Folders(e.cfg.Dir, executors.Local, executors.Local)
	if err != nil {
		return nil, err
	}
	var out []executors.Handle
	for _, id := range ids {
		out = append(out, executors.Handle{Kind: executors.Local, ID: id, Version: handleVersion})
	}
	return out, nil
}
