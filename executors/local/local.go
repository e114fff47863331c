//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// handleVersion is the version of this executor's handles.
const handleVersion = 1

// Executor makes sandboxes on this machine. Safe for concurrent use.
type Executor struct {
	cfg Config

	mu    sync.Mutex
	turns map[string]*turn // by sandbox id: making, finding and destroying one sandbox take turns
}

type turn struct {
	mu    sync.Mutex
	users int
}

var (
	_ executors.Executor = (*Executor)(nil)
	_ executors.Remainer = (*Executor)(nil)
)

// New makes an Executor. It starts nothing.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Executor{cfg: cfg, turns: make(map[string]*turn)}, nil
}

// Kind is executors.Local.
func (e *Executor) Kind() executors.Kind { return executors.Local }

// Capabilities says whether local places may be used, and that they isolate nothing.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: executors.Local, Name: "This server", Available: true, Ports: true,
		Isolation: "No isolation: agents run with the rights of the server's user"}
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

// lock takes the turn of one sandbox; the returned func gives it back.
func (e *Executor) lock(id string) func() {
	e.mu.Lock()
	t := e.turns[id]
	if t == nil {
		t = &turn{}
		e.turns[id] = t
	}
	t.users++
	e.mu.Unlock()
	t.mu.Lock()
	return func() {
		t.mu.Unlock()
		e.mu.Lock()
		if t.users--; t.users == 0 {
			delete(e.turns, id)
		}
		e.mu.Unlock()
	}
}

// sandbox is one guest process on this machine.
type sandbox struct {
	e     *Executor
	id    string
	dir   string
	token string
	who   identity
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

func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) { return dialUnix(ctx, s.dir) }

func (s *sandbox) Destroy(ctx context.Context) error {
	defer s.e.lock(s.id)()
	return s.e.destroy(ctx, s.id)
}

// checkID refuses ids that are not one plain path element: the id names a folder.
func checkID(id string) error {
	if id == "" || len(id) > 64 {
		return fault.New(fault.Invalid, "invalid_sandbox_id", "The sandbox id must have 1 to 64 characters.")
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return fault.New(fault.Invalid, "invalid_sandbox_id", "The sandbox id %q has characters other than letters, digits, _ and -.", id)
		}
	}
	return nil
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
	if err := checkID(h.ID); err != nil {
		return nil, err
	}
	defer e.lock(h.ID)()
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

// Remains returns the folder of a guest, which outlives it until Sweep.
func (e *Executor) Remains(sandboxID string) (string, bool) {
	if checkID(sandboxID) != nil {
		return "", false
	}
	info, err := os.Lstat(e.dir(sandboxID))
	return e.dir(sandboxID), err == nil && info.IsDir()
}

// Sweep removes the folder of a guest that has ended.
func (e *Executor) Sweep(ctx context.Context, sandboxID string) error {
	if err := checkID(sandboxID); err != nil {
		return err
	}
	defer e.lock(sandboxID)()
	if who, err := readRecord(e.dir(sandboxID)); err == nil && who.guestOf(sandboxID) {
		return nil
	}
	return e.destroy(ctx, sandboxID)
}

// List returns a handle for every folder below Dir.
func (e *Executor) List(context.Context) ([]executors.Handle, error) {
	entries, err := os.ReadDir(e.cfg.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var out []executors.Handle
	for _, entry := range entries {
		if !entry.IsDir() || checkID(entry.Name()) != nil {
			continue
		}
		h := executors.Handle{Kind: executors.Local, ID: entry.Name(), Version: handleVersion}
		out = append(out, h)
	}
	return out, nil
}
