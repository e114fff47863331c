//go:build linux && (amd64 || arm64)

package bubblewrap

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

// guestDir is the guest's own folder in a sandbox's folder: all of that folder a box sees.
const guestDir = "guest"

// Executor makes boxes on this machine. Safe for concurrent use.
type Executor struct {
	cfg    Config
	turns  locks.Keyed // making, finding and destroying one sandbox take turns
	groups hostproc.Groups
	probe  probe
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
	return &Executor{cfg: cfg, groups: hostproc.Groups{Tree: cfg.Groups}}, nil
}

// Kind is bubblewrap.
func (e *Executor) Kind() executors.Kind { return Kind }

func (e *Executor) dir(id string) string { return filepath.Join(e.cfg.Dir, id) }

// record is who the processes of a box are, as the host counts them.
type record struct {
	hostproc.Identity                   // the guest: first process of the box
	Outer             hostproc.Identity `json:"outer"` // bubblewrap, which waits beside the box
}

func readRecord(dir string) (record, error) {
	var r record
	err := hostproc.ReadRecord(dir, &r)
	return r, err
}

// sandbox is one box on this machine.
type sandbox struct {
	e     *Executor
	id    string
	dir   string
	token string
	who   record
	executors.Confined
}

// Handle carries who the processes are. The token is not in it, for handles are stored: it stays in the sandbox's folder.
func (s *sandbox) Handle() executors.Handle {
	b, err := json.Marshal(s.who)
	if err != nil {
		panic(err) // a struct of numbers and strings always encodes
	}
	return executors.Handle{Kind: Kind, ID: s.id, Version: handleVersion, State: b}
}

func (s *sandbox) Token() string { return s.token }

func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	return hostproc.Dial(ctx, s.dir)
}

func (s *sandbox) Destroy(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	return s.e.destroy(ctx, s.id)
}

// guest is how the guest of a box is spoken to. In its own pid namespace it is the first process.
func (s *sandbox) guest() hostproc.Guest {
	return hostproc.Guest{ID: s.id, Dir: s.dir, Token: s.token, Pid: 1, Now: s.e.cfg.Now}
}

// Recover finds a box again. ErrGone when its guest has ended, and all of the box with it, or can never be reached again: then
// the rest is ended, and its folder stays for those who want to know how its processes ended. Any other error says that it
// cannot be told now.
func (e *Executor) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if h.Kind != Kind {
		return nil, fmt.Errorf("handle of kind %q given to the bubblewrap executor", h.Kind)
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

// find looks for the live guest of a sandbox. The caller holds the sandbox's turn.
func (e *Executor) find(ctx context.Context, h executors.Handle) (*sandbox, error) {
	dir := e.dir(h.ID)
	who, err := readRecord(dir)
	if hostproc.Unreadable(err) {
		return nil, fmt.Errorf("reading the record of sandbox %s: %w", h.ID, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no record (%w): %w", h.ID, err, executors.ErrGone)
	}
	if len(h.State) > 0 {
		var stored record
		if err := json.Unmarshal(h.State, &stored); err != nil || stored != who {
			return nil, fmt.Errorf("the record of sandbox %s names another process: %w", h.ID, executors.ErrGone)
		}
	}
	runs, err := who.Runs(h.ID)
	if err != nil {
		return nil, fmt.Errorf("looking for the guest of sandbox %s: %w", h.ID, err)
	}
	if !runs {
		return nil, fmt.Errorf("the guest of sandbox %s has ended: %w", h.ID, executors.ErrGone)
	}
	token, err := hostproc.ReadToken(dir)
	if hostproc.Unreadable(err) {
		return nil, fmt.Errorf("reading the token of sandbox %s: %w", h.ID, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no token (%w): %w", h.ID, err, executors.ErrGone)
	}
	if err := e.groups.Thaw(ctx, h.ID); err != nil {
		return nil, err
	}
	sb := &sandbox{e: e, id: h.ID, dir: dir, token: token, who: who, Confined: e.groups.Of(h.ID)}
	if err := sb.guest().Find(ctx); err != nil {
		return nil, err
	}
	return sb, nil
}

// destroy ends everything of a sandbox and removes its folder. Idempotent. The caller holds the sandbox's turn.
func (e *Executor) destroy(ctx context.Context, id string) error {
	if err := e.endAll(ctx, id); err != nil {
		return err
	}
	if err := hostproc.RemoveFolder(e.dir(id)); err != nil {
		return fmt.Errorf("removing the folder of sandbox %s: %w", id, err)
	}
	return nil
}

// endAll ends the guest, if it lives, every process of the box with it, and bubblewrap beside it.
func (e *Executor) endAll(ctx context.Context, id string) error {
	dir := e.dir(id)
	who, err := readRecord(dir)
	if terr := e.groups.Thaw(ctx, id); terr != nil {
		e.cfg.Log.Warn("sandbox that stands still could not be woken to be ended", "sandbox_id", id, "error", terr)
	}
	var known map[int]hostproc.Proc
	if err == nil && who.GuestOf(id) {
		known = hostproc.Members(id, who.Identity)
		e.shutdown(ctx, id, dir, who)
	}
	return errors.Join(hostproc.End(ctx, id, known, who.Identity, e.cfg.Grace), e.groups.Dissolve(ctx, id))
}

// shutdown asks the guest to end its processes and itself. What it does not do, End does.
func (e *Executor) shutdown(ctx context.Context, id, dir string, who record) {
	token, err := hostproc.ReadToken(dir)
	if err != nil {
		return
	}
	sb := &sandbox{e: e, id: id, dir: dir, token: token, who: who}
	if err := sb.guest().Shutdown(ctx, e.cfg.Grace, func() bool { return !who.Alive() && !who.Outer.Alive() }); err != nil {
		e.cfg.Log.Debug("guest did not take its shutdown", "sandbox_id", id, "error", err)
	}
}

// Remove ends and removes a sandbox that nobody has found again, whether its guest answers or not. Idempotent.
func (e *Executor) Remove(ctx context.Context, h executors.Handle) error {
	if h.Kind != Kind {
		return fmt.Errorf("handle of kind %q given to the bubblewrap executor", h.Kind)
	}
	if err := hostproc.CheckID(h.ID); err != nil {
		return err
	}
	defer e.turns.Lock(h.ID)()
	return e.destroy(ctx, h.ID)
}

// Remains returns the guest's own folder, which outlives it until Sweep.
func (e *Executor) Remains(sandboxID string) (string, bool) {
	if hostproc.CheckID(sandboxID) != nil {
		return "", false
	}
	dir := filepath.Join(e.dir(sandboxID), guestDir)
	info, err := os.Lstat(dir)
	return dir, err == nil && info.IsDir()
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
	ids, err := hostproc.Folders(e.cfg.Dir, Kind, executors.Local)
	if err != nil {
		return nil, err
	}
	var out []executors.Handle
	for _, id := range ids {
		out = append(out, executors.Handle{Kind: Kind, ID: id, Version: handleVersion})
	}
	return out, nil
}
