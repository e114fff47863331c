package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// about is what is known about the machine.
type about struct {
	mu    sync.Mutex
	caps  executors.Capabilities
	at    time.Time // of caps; zero = never asked
	gauge gauge
}

const (
	capsFresh  = 30 * time.Second // how long the executor's capabilities are cached
	capsWithin = 5 * time.Second  // how long it may take to answer
)

// capabilities returns the executor's capabilities, from the cache while they are fresh.
func (m *Machine) capabilities(ctx context.Context) executors.Capabilities {
	a := &m.about
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := m.cfg.Now(); a.at.IsZero() || now.Sub(a.at) >= capsFresh || !a.caps.Available {
		ctx, cancel := context.WithTimeout(ctx, capsWithin)
		defer cancel()
		c, err := m.cfg.Executor.Capabilities(ctx)
		if err != nil {
			c.Available, c.Reason, c.Cure = false, "it does not answer", "Check the program that runs sandboxes on the machine."
			m.cfg.Log.Warn("the program that runs sandboxes does not answer", "error", err)
		}
		a.caps, a.at = c, now
	}
	return a.caps
}

// Hello returns the machine's current description of itself.
func (m *Machine) Hello(ctx context.Context) wire.Hello { return m.hello(ctx) }

func (m *Machine) hello(ctx context.Context) wire.Hello {
	c, p := m.capabilities(ctx), m.cfg.Keeper.Policy()
	host, _ := os.Hostname()
	h := wire.Hello{Version: wire.Version, Build: m.cfg.Build, OS: runtime.GOOS, Arch: runtime.GOARCH, Release: release(), Hostname: policy.Clean(host, 200), Name: m.cfg.Name,
		Mode: m.cfg.Mode, Available: c.Available, Reason: c.Reason, Cure: c.Cure, Isolation: c.Isolation, Boundary: string(c.Boundary), Warning: c.Warning,
		Pause: c.Pause, SharedHome: m.cfg.Mode == wire.Direct, Access: p.Access, Share: p.Share, Folders: m.cfg.Keeper.Folders(), QuietHours: p.QuietWords(),
		Limits: p.Limits.Wire(), CPUs: runtime.NumCPU(), MemoryMB: memoryMB(), StartMs: c.StartMs, Load: m.load()}
	if m.cfg.Mode == wire.Docker {
		h.Image = p.Image
	} else {
		h.Programs = agentPrograms(m.cfg.Programs, m.cfg.Mode, p.Paths)
	}
	if n, err := p.NetworkFor(m.cfg.Mode); err == nil {
		h.Network, h.Allow = n.Mode, n.Allow
	} else {
		h.Network, h.Available, h.Reason, h.Cure = p.Network.Mode, false, "its owner's policy file asks for a network that the machine does not have", reasonOf(err)
	}
	if err := m.cfg.Keeper.Ready(); err != nil && h.Available {
		h.Available, h.Reason, h.Cure = false, reasonOf(err), ""
	}
	return h
}

// agentPrograms looks for the agents' programs where sandboxes use those of this machine: in its whole PATH where nothing is isolated, else
// in the system's folders and in those its owner shows.
func agentPrograms(programs []string, mode wire.Mode, shown []string) map[string]bool {
	out := make(map[string]bool)
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err == nil && mode == wire.Bubblewrap {
			if real, rerr := filepath.EvalSymlinks(path); rerr == nil {
				path = real
			}
			if !slices.ContainsFunc(append([]string{"/usr", "/bin", "/opt"}, shown...), func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }) {
				continue // not reported: it may be mounted in another way
			}
		}
		if err != nil && mode == wire.Bubblewrap && len(shown) > 0 {
			continue
		}
		out[name] = err == nil
	}
	return out
}

func reasonOf(err error) string { return remoteError(err).Message }

// load returns how busy the machine is.
func (m *Machine) load() wire.Load {
	m.about.mu.Lock()
	l := m.about.gauge.read()
	m.about.mu.Unlock()
	l.DiskFreeMB = diskFreeMB(filepath.Join(m.cfg.Dir, workspacesDir))
	m.mu.Lock()
	l.Sandboxes = m.busy()
	m.mu.Unlock()
	l.WaitingAnswer = len(m.cfg.Keeper.Questions())
	return l
}

// beat reports the load at each heartbeat, and more where that has changed.
func (m *Machine) beat(ctx context.Context) {
	t := time.NewTicker(m.cfg.Heartbeat)
	defer t.Stop()
	var last reported
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		m.hub.mu.Lock()
		listeners := len(m.hub.subs)
		m.hub.mu.Unlock()
		if listeners == 0 {
			continue
		}
		m.hub.beat(m.load())
		c := m.capabilities(ctx)
		now := reported{c.Available, c.Reason, c.Warning, reasonOrNone(m.cfg.Keeper.Ready()), fmt.Sprint(agentPrograms(m.cfg.Programs, m.cfg.Mode, m.cfg.Keeper.Policy().Paths))}
		if now != last {
			if last != (reported{}) {
				m.hub.helloChanged()
			}
			last = now
		}
	}
}

// reported is the part of a hello that changes on its own.
type reported struct {
	available       bool
	reason, warning string
	ready, programs string
}

func reasonOrNone(err error) string {
	if err == nil {
		return ""
	}
	return fault.CodeOf(err)
}
