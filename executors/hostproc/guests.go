//go:build linux || darwin

package hostproc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/locks"
)

// handleVersion is the version of the handles of guests.
const handleVersion = 1

// Config configures Guests.
type Config struct {
	Kind     executors.Kind
	Dir      string        // absolute: one folder per sandbox below it
	Own      string        // the guest's own folder in a sandbox's folder; "" = that folder itself
	FirstPid bool          // the guest is the first process of a pid namespace
	Groups   Groups        // the control groups for sandboxes
	ReadyIn  time.Duration // how long a guest may take to answer its first hello; default 10 s
	Grace    time.Duration // the time between SIGTERM and SIGKILL; default 2 s
	Now      func() time.Time
	Rand     io.Reader // default crypto/rand
	Log      *slog.Logger
}

// Guests is what executors that start guests on this machine have in common: it makes, finds, lists and ends them. An executor embeds it and
// calls Make with a function that starts the guest. Safe for concurrent use.
type Guests struct {
	cfg   Config
	turns locks.Keyed // making, finding and destroying one sandbox take turns
}

var (
	_ executors.RemnantKeeper = (*Guests)(nil)
	_ executors.Remover       = (*Guests)(nil)
	_ executors.Destroyer     = (*Guests)(nil)
	_ executors.Sandbox       = (*sandbox)(nil)
	_ executors.Pauser        = (*sandbox)(nil)
	_ executors.Metered       = (*sandbox)(nil)
	_ executors.Limiter       = (*sandbox)(nil)
)

// New makes Guests. It starts nothing.
func New(cfg Config) *Guests {
	cfg.ReadyIn = cmp.Or(cfg.ReadyIn, 10*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Guests{cfg: cfg}
}

// Record identifies the processes of a sandbox on this machine.
type Record struct {
	Identity          // the guest
	Outer    Identity `json:"outer,omitzero"` // a process that waits next to the guest and ends with it, where there is one
}

// Start is the input for starting a guest.
type Start struct {
	Spec             executors.Spec
	Dir, Token       string   // the sandbox's folder and the guest's secret in it
	Listener, Output *os.File // of the guest; closed once Launch has returned, so that only the guest has them
}

// Launch starts a guest in a session of its own, so that it survives whatever ends the server. It calls WriteRecord as soon as the guest's
// identity is known. ended is closed when the started process has ended and was reaped.
type Launch func(ctx context.Context, s Start) (who Record, ended <-chan struct{}, err error)

// sandbox is one guest on this machine.
type sandbox struct {
	of    *Guests
	id    string
	token string
	who   Record
	executors.Confined
}

func (g *Guests) sandbox(id, token string, who Record) *sandbox {
	return &sandbox{of: g, id: id, token: token, who: who, Confined: g.cfg.Groups.Of(id)}
}

// Handle carries the identity of the processes. It does not carry the token, because handles are stored: the token stays in the sandbox's
// folder.
func (s *sandbox) Handle() executors.Handle {
	b, err := json.Marshal(s.who)
	if err != nil {
		panic(err) // encoding a struct of numbers and strings cannot fail
	}
	return executors.Handle{Kind: s.of.cfg.Kind, ID: s.id, Version: handleVersion, State: b}
}

func (s *sandbox) Token() string { return s.token }

func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	return Dial(ctx, s.of.folder(s.id))
}

func (s *sandbox) Destroy(ctx context.Context) error { return s.of.End(ctx, s.id) }

// guest returns how to reach the guest of the sandbox.
func (s *sandbox) guest() Guest {
	pid := s.who.Pid
	if s.of.cfg.FirstPid {
		pid = 1
	}
	return Guest{ID: s.id, Dir: s.of.folder(s.id), Token: s.token, Pid: pid, Now: s.of.cfg.Now}
}

// Kind returns the kind of the executor.
func (g *Guests) Kind() executors.Kind { return g.cfg.Kind }

func (g *Guests) folder(id string) string { return filepath.Join(g.cfg.Dir, id) }

// Make starts a guest for s with launch, or finds the one that was started for s.ID before; started says which. On error it leaves nothing
// behind.
func (g *Guests) Make(ctx context.Context, s executors.Spec, launch Launch) (sb executors.Sandbox, started bool, err error) {
	if err := CheckID(s.ID); err != nil {
		return nil, false, err
	}
	defer g.turns.Lock(s.ID)()
	found, err := g.find(ctx, executors.Handle{Kind: g.cfg.Kind, ID: s.ID})
	if err == nil {
		return found, false, nil
	}
	if !errors.Is(err, executors.ErrGone) {
		return nil, false, err
	}
	if err := g.destroy(ctx, s.ID); err != nil { // leftovers of an earlier try
		return nil, false, err
	}
	made, err := g.start(ctx, s, launch)
	if err != nil {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		return nil, false, fmt.Errorf("starting the guest of sandbox %s: %w", s.ID, errors.Join(err, g.destroy(cctx, s.ID)))
	}
	return made, true, nil
}

// start makes the folder and starts the guest in it. The caller cleans up after an error.
func (g *Guests) start(ctx context.Context, s executors.Spec, launch Launch) (*sandbox, error) {
	dir, err := MakeFolder(g.cfg.Dir, s.ID, g.cfg.Kind)
	if err != nil {
		return nil, err
	}
	token, err := MakeToken(dir, g.cfg.Rand)
	if err != nil {
		return nil, err
	}
	listener, err := Listen(dir)
	if err != nil {
		return nil, err
	}
	defer listener.Close() // a second time where launching failed
	output, err := OpenOutput(dir)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	who, ended, err := launch(ctx, Start{Spec: s, Dir: dir, Token: token, Listener: listener, Output: output})
	if err != nil {
		return nil, err
	}
	_ = listener.Close() // now only the guest has it: when it ends, dialing fails at once
	sb := g.sandbox(s.ID, token, who)
	return sb, sb.guest().Ready(ctx, g.cfg.ReadyIn, ended)
}

// Recover finds a guest again. ErrGone when its process has ended, or can never be reached again: Recover then ends what it left running,
// and leaves its folder for those who want to know how its processes ended. Any other error means that the state is unknown now.
func (g *Guests) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if err := g.check(h); err != nil {
		return nil, err
	}
	if h.Version > handleVersion {
		return nil, fmt.Errorf("handle version %d of sandbox %s is newer than this server", h.Version, h.ID)
	}
	defer g.turns.Lock(h.ID)()
	s, err := g.find(ctx, h)
	if errors.Is(err, executors.ErrGone) {
		if eerr := g.endAll(ctx, h.ID); eerr != nil {
			g.cfg.Log.Warn("the leftovers of a sandbox could not be ended", "sandbox_id", h.ID, "error", eerr)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// check rejects handles of other executors.
func (g *Guests) check(h executors.Handle) error {
	if h.Kind != g.cfg.Kind {
		return fmt.Errorf("handle of kind %q given to the %s executor", h.Kind, g.cfg.Kind)
	}
	return CheckID(h.ID)
}

// find looks for the live guest of a sandbox. The caller holds the sandbox's turn.
func (g *Guests) find(ctx context.Context, h executors.Handle) (*sandbox, error) {
	dir := g.folder(h.ID)
	who, err := readRecord(dir)
	if Unreadable(err) {
		return nil, fmt.Errorf("reading the record of sandbox %s: %w", h.ID, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no record (%w): %w", h.ID, err, executors.ErrGone)
	}
	if len(h.State) > 0 {
		var stored Record
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
	token, err := ReadToken(dir)
	if Unreadable(err) {
		return nil, fmt.Errorf("reading the token of sandbox %s: %w", h.ID, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no token (%w): %w", h.ID, err, executors.ErrGone)
	}
	if err := g.cfg.Groups.Unfreeze(ctx, h.ID); err != nil {
		return nil, err
	}
	sb := g.sandbox(h.ID, token, who)
	return sb, sb.guest().Find(ctx)
}

func readRecord(dir string) (Record, error) {
	var who Record
	err := ReadRecord(dir, &who)
	return who, err
}

// Remove ends and removes a sandbox that was not recovered, whether or not its guest answers. Idempotent.
func (g *Guests) Remove(ctx context.Context, h executors.Handle) error {
	if err := g.check(h); err != nil {
		return err
	}
	return g.End(ctx, h.ID)
}

// End destroys a sandbox whose guest may no longer answer. Idempotent.
func (g *Guests) End(ctx context.Context, sandboxID string) error {
	if err := CheckID(sandboxID); err != nil {
		return err
	}
	defer g.turns.Lock(sandboxID)()
	return g.destroy(ctx, sandboxID)
}

// Remnants returns the guest's own folder, which survives it until Sweep.
func (g *Guests) Remnants(sandboxID string) (string, bool) {
	if CheckID(sandboxID) != nil {
		return "", false
	}
	dir := filepath.Join(g.folder(sandboxID), g.cfg.Own)
	info, err := os.Lstat(dir)
	return dir, err == nil && info.IsDir()
}

// Sweep removes the folder of a guest that has ended.
func (g *Guests) Sweep(ctx context.Context, sandboxID string) error {
	if err := CheckID(sandboxID); err != nil {
		return err
	}
	defer g.turns.Lock(sandboxID)()
	if who, err := readRecord(g.folder(sandboxID)); err == nil && who.GuestOf(sandboxID) {
		return nil
	}
	return g.destroy(ctx, sandboxID)
}

// List returns a handle for every folder of the executor's below Dir.
func (g *Guests) List(context.Context) ([]executors.Handle, error) {
	ids, err := Folders(g.cfg.Dir, g.cfg.Kind, executors.Local)
	if err != nil {
		return nil, err
	}
	var out []executors.Handle
	for _, id := range ids {
		out = append(out, executors.Handle{Kind: g.cfg.Kind, ID: id, Version: handleVersion})
	}
	return out, nil
}

// destroy ends everything of a sandbox and removes its folder. Idempotent. The caller holds the sandbox's turn.
func (g *Guests) destroy(ctx context.Context, id string) error {
	if err := g.endAll(ctx, id); err != nil {
		return err
	}
	if err := RemoveFolder(g.folder(id)); err != nil {
		return fmt.Errorf("removing the folder of sandbox %s: %w", id, err)
	}
	return nil
}

// endAll ends the guest, if it lives, and every process of the sandbox.
func (g *Guests) endAll(ctx context.Context, id string) error {
	who, err := readRecord(g.folder(id))
	if terr := g.cfg.Groups.Unfreeze(ctx, id); terr != nil {
		g.cfg.Log.Warn("a suspended sandbox could not be resumed to be ended", "sandbox_id", id, "error", terr)
	}
	var known map[int]Proc
	if err == nil && who.GuestOf(id) {
		// Listed before the guest ends: afterwards they have no parent that shows which sandbox they belong to.
		known = Members(id, who.Identity)
		g.shutdown(ctx, id, who)
	}
	return errors.Join(End(ctx, id, known, who.Identity, g.cfg.Grace), g.cfg.Groups.Dissolve(ctx, id))
}

// shutdown asks the guest to end its processes and itself. End does what the guest does not.
func (g *Guests) shutdown(ctx context.Context, id string, who Record) {
	token, err := ReadToken(g.folder(id))
	if err != nil {
		return
	}
	gone := func() bool { return !who.Alive() && !who.Outer.Alive() }
	if err := g.sandbox(id, token, who).guest().Shutdown(ctx, g.cfg.Grace, gone); err != nil {
		g.cfg.Log.Debug("a guest did not accept its shutdown", "sandbox_id", id, "error", err)
	}
}
