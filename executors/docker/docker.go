//go:build linux || darwin

package docker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/locks"
)

// Labels of our containers and images.
const (
	labelManaged   = "parawork.managed"
	labelInstance  = "parawork.instance"
	labelWorkspace = "parawork.workspace"
	labelSandbox   = "parawork.sandbox"
)

// HandleVersion is the version of this executor's handles.
const HandleVersion = 1

// Executor makes sandboxes in containers. Safe for concurrent use.
type Executor struct {
	cfg    Config
	api    *client.Client
	remote string // the engine's address when it is not on this machine

	turns locks.Keyed // making, finding and destroying one sandbox take turns

	mu       sync.Mutex
	live     map[string]*sandbox // those whose listener is open
	complete map[string]bool     // images checked to contain what is needed
	whole    map[string]bool     // images that lack nothing, by id
	instance string
	engine   engine
	virtual  bool // the engine runs in a virtual machine
	closed   bool
}

var (
	_ executors.Executor      = (*Executor)(nil)
	_ executors.RemnantKeeper = (*Executor)(nil)
	_ executors.Stopper       = (*Executor)(nil)
	_ executors.Remover       = (*Executor)(nil)
)

// New makes an Executor. It starts nothing and makes no call.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	api, remote, err := connect(cfg.Host, cfg.Dial)
	if err != nil {
		return nil, err
	}
	return &Executor{cfg: cfg, api: api, remote: remote, live: make(map[string]*sandbox),
		complete: make(map[string]bool), whole: make(map[string]bool)}, nil
}

// connect makes a client of the engine at host, and names the host when it is another machine.
func connect(host string, dial Dial) (api *client.Client, remote string, err error) {
	if host == "" {
		host = os.Getenv(client.EnvOverrideHost)
	}
	opts := []client.Opt{client.FromEnv}
	if dial == nil && strings.HasPrefix(host, "ssh:") {
		if dial, err = overSSH(host); err != nil {
			return nil, "", err
		}
	}
	switch {
	case dial != nil:
		opts = []client.Opt{client.WithHost("http://docker.example.com"), // the name is not resolved
			client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) })}
		remote = host
	case host != "":
		opts = []client.Opt{client.WithTLSClientConfigFromEnv(), client.WithHost(host)}
	}
	api, err = client.NewClientWithOpts(append(opts, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, "", fmt.Errorf("address of the Docker engine: %w", err)
	}
	if h := api.DaemonHost(); remote == "" && !strings.HasPrefix(h, "unix://") {
		remote = h
	}
	return api, remote, nil
}

// Close closes the listeners: guests call the next server. Sandboxes live on.
func (e *Executor) Close() error {
	e.mu.Lock()
	e.closed = true
	live := slices.Collect(maps.Values(e.live))
	clear(e.live)
	e.mu.Unlock()
	for _, s := range live {
		s.shut()
	}
	return e.api.Close()
}

// Kind is docker, or what Config says.
func (e *Executor) Kind() executors.Kind { return e.cfg.Kind }

func (e *Executor) opened(s *sandbox) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[s.id] = s
}

// known returns the sandbox whose listener is open.
func (e *Executor) known(id string) *sandbox {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// shut closes a sandbox's listener, if it is open.
func (e *Executor) shut(id string) {
	e.mu.Lock()
	s := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if s != nil {
		s.shut()
	}
}

// instanceName is the file that distinguishes our containers from those of other servers that use the same engine.
const instanceName = ".docker-instance"

// ourInstance returns this instance's name, and makes it at first use.
func (e *Executor) ourInstance() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.instance != "" {
		return e.instance, nil
	}
	path := filepath.Join(e.cfg.Dir, instanceName)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		var raw [16]byte
		if _, err := io.ReadFull(e.cfg.Rand, raw[:]); err != nil {
			return "", fmt.Errorf("naming this instance: %w", err)
		}
		b = []byte(hex.EncodeToString(raw[:]))
		if err = os.MkdirAll(e.cfg.Dir, 0o700); err == nil {
			err = atomicfile.WriteDurable(path, b, 0o600)
		}
	}
	if err != nil {
		return "", fmt.Errorf("naming this instance: %w", err)
	}
	if e.instance = strings.TrimSpace(string(b)); e.instance == "" {
		return "", fmt.Errorf("naming this instance: %s is empty; remove it", path)
	}
	return e.instance, nil
}

// List returns a handle for every container of this instance, and for every folder that is ours.
func (e *Executor) List(ctx context.Context) ([]executors.Handle, error) {
	ids := make(map[string]bool)
	folders, err := hostproc.Folders(e.cfg.Dir, e.cfg.Kind, "")
	if err != nil {
		return nil, err
	}
	for _, id := range folders {
		ids[id] = true
	}
	if _, err := os.Stat(filepath.Join(e.cfg.Dir, instanceName)); err == nil {
		instance, err := e.ourInstance()
		if err != nil {
			return nil, err
		}
		list, err := e.api.ContainerList(ctx, container.ListOptions{All: true,
			Filters: filters.NewArgs(filters.Arg("label", labelInstance+"="+instance))})
		if err != nil {
			return nil, inWords(err)
		}
		for _, c := range list {
			if id := c.Labels[labelSandbox]; hostproc.CheckID(id) == nil {
				ids[id] = true
			}
		}
	}
	var out []executors.Handle
	for id := range ids {
		out = append(out, executors.Handle{Kind: e.cfg.Kind, ID: id, Version: HandleVersion})
	}
	return out, nil
}

// Remove ends and removes a sandbox that was not recovered, whether or not its guest answers. Idempotent.
func (e *Executor) Remove(ctx context.Context, h executors.Handle) error {
	if h.Kind != e.cfg.Kind {
		return fmt.Errorf("handle of kind %q given to the docker executor", h.Kind)
	}
	if err := hostproc.CheckID(h.ID); err != nil {
		return err
	}
	defer e.turns.Lock(h.ID)()
	return e.destroy(ctx, h.ID)
}

// Stop ends everything in a container. Its disk stays, where it has one of its own: Create and Recover start it again.
func (e *Executor) Stop(ctx context.Context, h executors.Handle) error {
	if err := hostproc.CheckID(h.ID); err != nil {
		return err
	}
	if !e.recorded(h.ID).Remote {
		return e.Remove(ctx, h)
	}
	defer e.turns.Lock(h.ID)()
	e.shut(h.ID)
	c, err := e.inspect(ctx, h.ID)
	if errors.Is(err, executors.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.stop(ctx, h.ID, c)
}

// Remnants returns the guest's own folder, which survives its container until Sweep.
func (e *Executor) Remnants(sandboxID string) (string, bool) {
	if hostproc.CheckID(sandboxID) != nil || !e.ours(sandboxID) || e.recorded(sandboxID).Remote {
		return "", false
	}
	info, err := os.Lstat(e.guestDir(sandboxID))
	return e.guestDir(sandboxID), err == nil && info.IsDir()
}

// Sweep removes what is left of a sandbox whose container has ended.
func (e *Executor) Sweep(ctx context.Context, sandboxID string) error {
	if err := hostproc.CheckID(sandboxID); err != nil {
		return err
	}
	defer e.turns.Lock(sandboxID)()
	c, err := e.inspect(ctx, sandboxID)
	if err == nil && c.State != nil && c.State.Running {
		return nil
	}
	if err != nil && !errors.Is(err, executors.ErrGone) {
		return err
	}
	return e.destroy(ctx, sandboxID)
}

// recorded returns the stored record of a sandbox, as far as it can be read.
func (e *Executor) recorded(id string) (rec record) {
	if err := hostproc.ReadRecord(e.dir(id), &rec); err != nil {
		return record{}
	}
	return rec
}

// settleTimeout bounds what must happen even though the caller has left.
const settleTimeout = 30 * time.Second
