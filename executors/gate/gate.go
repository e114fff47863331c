// Package gate is the only way out for sandboxes that have no network of their own: an HTTP proxy on one unix socket per sandbox. The
// socket identifies the sandbox, so nothing inside holds a secret that could be stolen. The proxy speaks CONNECT and plain HTTP.
//
// The gate judges a host by its name first, and never resolves a name that is not allowed. It resolves an allowed name once, judges the
// addresses, and dials exactly a judged address: a name server that changes its answer changes nothing. It refuses addresses inside the
// server's own networks, its own addresses and those of clouds' metadata services in every mode, unless the operator allows them.
//
// Goroutines: one for each open gate, one for each connection and one more for each tunnel; Close ends those of one gate, Run all when
// its context ends.
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/egress"
)

// socketName is the socket in a sandbox's folder.
const socketName = "egress"

// Limits of all gates together and of each gate.
const (
	maxConns    = 8192 // connections of all sandboxes
	maxBoxConns = 512  // connections of one
	maxLookups  = 64   // concurrent name lookups of all sandboxes
	boxLookups  = 16   // concurrent name lookups of one
)

// Config of a Gate. Dir is required.
type Config struct {
	Dir string // where each sandbox's folder is made

	// Allow are networks that sandboxes may reach although they are not public.
	Allow []egress.Exception
	// Upstream returns the proxy through which a host is reached, nil where it is reached directly; as http.Transport.Proxy. Optional.
	Upstream func(*url.URL) (*url.URL, error)
	// Refused is called for each refused connection; Reached for each connection made, and for each page requested from the server's own
	// proxy. They must not block. Optional.
	Refused func(executors.Refusal)
	Reached func(executors.Reach)
	// Fresh returns what a workspace may reach now. The gate calls it, now and then, before it refuses a name that is not listed. Optional.
	Fresh func(ctx context.Context, workspaceID string) (executors.Network, error)
	// Known returns the sandboxes that have not ended. Folders of others are removed. Optional.
	Known func(ctx context.Context) ([]string, error)

	MaxConns    int                                                            // default 8192, or less where there are few file descriptors
	MaxBoxConns int                                                            // default 512
	HeadIn      time.Duration                                                  // how long the head of a request may take; default 10 s
	Idle        time.Duration                                                  // how long a connection may be silent; default 1 h
	HalfIdle    time.Duration                                                  // the same after one side has closed; default 10 min
	DialIn      time.Duration                                                  // default 20 s
	Resolve     func(ctx context.Context, name string) ([]netip.Addr, error)   // default: the system's
	Dial        func(ctx context.Context, to netip.AddrPort) (net.Conn, error) // default: net.Dialer's
	Own         func() []netip.Addr                                            // this machine's addresses; default: looked up
	SweepEvery  time.Duration                                                  // default 10 min
	After       func(time.Duration) <-chan time.Time                           // the clock of sweeps; default time.After
	Log         *slog.Logger
}

func (c *Config) defaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&c.HeadIn, 10*time.Second)
	set(&c.Idle, time.Hour)
	set(&c.HalfIdle, 10*time.Minute)
	set(&c.DialIn, 20*time.Second)
	set(&c.SweepEvery, 10*time.Minute)
	if c.MaxConns <= 0 {
		c.MaxConns = maxConns
		if n := descriptors(); n > 0 { // each connection takes two descriptors; the server needs more than half for itself
			c.MaxConns = max(min(maxConns, n/5), 64)
		}
	}
	if c.MaxBoxConns <= 0 {
		c.MaxBoxConns = min(maxBoxConns, max(c.MaxConns/4, 16))
	}
	if c.Resolve == nil {
		c.Resolve = resolve
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	if c.Own == nil {
		c.Own = new(egress.Own).Addrs
	}
	if c.After == nil {
		c.After = time.After
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
}

// Gate opens and closes the gates of sandboxes. Safe for concurrent use.
type Gate struct {
	cfg     Config
	guard   egress.Guard
	ports   []int // ports on the server's loopback that sandboxes find at the same address
	slots   chan struct{}
	lookups chan struct{}

	mu    sync.Mutex
	boxes map[string]*box
	over  bool
	work  sync.WaitGroup
}

var _ executors.Gate = (*Gate)(nil)

// New makes a Gate. It starts nothing.
func New(cfg Config) (*Gate, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, errors.New("gate: Dir must be absolute")
	}
	cfg.defaults()
	g := &Gate{cfg: cfg, guard: egress.Guard{Allow: cfg.Allow, Own: cfg.Own}, slots: make(chan struct{}, cfg.MaxConns),
		lookups: make(chan struct{}, maxLookups), boxes: make(map[string]*box)}
	for _, e := range cfg.Allow {
		if p := e.Loopback(); p != 0 && e.Prefix.Addr().Is4() && !slices.Contains(g.ports, p) {
			g.ports = append(g.ports, p)
		}
	}
	return g, nil
}

// dir returns a sandbox's folder.
func (g *Gate) dir(sandboxID string) string { return filepath.Join(g.cfg.Dir, sandboxID) }

func checkID(id string) error {
	for i := range len(id) {
		c := id[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return fmt.Errorf("gate: %q is no id of a sandbox", id)
		}
	}
	if id == "" || len(id) > 64 {
		return fmt.Errorf("gate: %q is no id of a sandbox", id)
	}
	return nil
}

// Open listens in the sandbox's folder, which it returns. When the gate is already open, it updates the allowed network to the ticket's.
func (g *Gate) Open(ctx context.Context, t executors.Ticket) (string, error) {
	if err := checkID(t.SandboxID); err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return "", errors.New("gate: the server is stopping")
	}
	if b := g.boxes[t.SandboxID]; b != nil {
		b.update(t.Network)
		return b.dir, nil
	}
	b := newBox(g, t)
	if err := b.listen(); err != nil {
		return "", err
	}
	g.boxes[t.SandboxID] = b
	g.work.Go(b.serve)
	g.cfg.Log.DebugContext(ctx, "gate opened", "sandbox_id", t.SandboxID, "workspace_id", t.WorkspaceID, "mode", t.Network.Mode)
	return b.dir, nil
}

// Close ends every connection through the sandbox's gate, and removes its folder.
func (g *Gate) Close(sandboxID string) {
	if checkID(sandboxID) != nil {
		return
	}
	g.mu.Lock()
	b := g.boxes[sandboxID]
	delete(g.boxes, sandboxID)
	g.mu.Unlock()
	if b != nil {
		b.shut()
	}
	g.remove(sandboxID)
}

func (g *Gate) remove(sandboxID string) {
	if err := os.RemoveAll(g.dir(sandboxID)); err != nil {
		g.cfg.Log.Warn("the folder of a gate could not be removed", "sandbox_id", sandboxID, "error", err)
	}
}

// Has reports whether the sandbox has a gate, opened by this process or an earlier one.
func (g *Gate) Has(sandboxID string) bool {
	if checkID(sandboxID) != nil {
		return false
	}
	g.mu.Lock()
	_, open := g.boxes[sandboxID]
	g.mu.Unlock()
	if open {
		return true
	}
	info, err := os.Lstat(g.dir(sandboxID))
	return err == nil && info.IsDir()
}

// Update changes what the sandboxes of a workspace may reach from now on, and ends connections that are no longer allowed.
func (g *Gate) Update(workspaceID string, n executors.Network) {
	for _, b := range g.open() {
		if b.ticket.WorkspaceID == workspaceID {
			b.update(n)
		}
	}
}

// Workspaces returns those that have an open gate.
func (g *Gate) Workspaces() []string {
	var out []string
	for _, b := range g.open() {
		if !slices.Contains(out, b.ticket.WorkspaceID) {
			out = append(out, b.ticket.WorkspaceID)
		}
	}
	return out
}

func (g *Gate) open() []*box {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.boxes))
}

// Run removes the folders of ended sandboxes from time to time until ctx is done. Then it ends every connection and waits; the other folders
// stay, for the sandboxes that live on.
func (g *Gate) Run(ctx context.Context) error {
	g.sweep(ctx)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-g.cfg.After(g.cfg.SweepEvery):
			g.sweep(ctx)
		}
	}
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	for _, b := range g.open() {
		b.shut()
	}
	g.work.Wait()
	return nil
}

// sweep removes the folders of sandboxes that have ended.
func (g *Gate) sweep(ctx context.Context) {
	if g.cfg.Known == nil {
		return
	}
	// List the folders first: a sandbox has its row before its folder.
	entries, err := os.ReadDir(g.cfg.Dir)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			g.cfg.Log.Warn("the folders of gates could not be listed", "error", err)
		}
		return
	}
	known, err := g.cfg.Known(ctx)
	if err != nil {
		if ctx.Err() == nil {
			g.cfg.Log.Warn("the open sandboxes could not be read", "error", err)
		}
		return
	}
	for _, e := range entries {
		g.mu.Lock()
		_, open := g.boxes[e.Name()]
		g.mu.Unlock()
		if !open && !slices.Contains(known, e.Name()) && checkID(e.Name()) == nil {
			g.remove(e.Name())
		}
	}
}
