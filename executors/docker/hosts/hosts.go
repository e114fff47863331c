//go:build linux || darwin

// Package hosts makes sandboxes in containers of Docker engines on other machines, which it reaches over SSH.
//
// Each host has an executor of the package docker, whose engine is reached by `docker system dial-stdio` on an SSH connection of this
// program's own: the host's key is pinned, and the private key never lies in a file. A new sandbox goes to the host with the most free
// memory. Its folder on this server is below the host's, which says where it is from then on, also when the host has left the settings.
//
// Goroutines: one for each SSH connection, which pings it, until it ends or Close.
package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
)

// folder is the name of the folder of all hosts in Config.Dir. It is no sandbox's id.
const folder = ".docker-hosts"

// Config configures an Executor.
type Config struct {
	Dir       string // absolute: the folders of sandboxes are in one for each host below it
	GuestPath string
	Agents    []recipe.Package                    // the agents that images get which lack them
	Settings  func(context.Context) Settings      // what holds now
	Prepare   func(docker.Prepare) docker.Prepare // changes how images get what they lack; nil = not at all
	Now       func() time.Time
	Log       *slog.Logger
}

// Settings say which hosts there are, and how they are used.
type Settings struct {
	Hosts   []Host
	Key     string // the private key; "" = the SSH agent of this server
	Image   string // of sandboxes whose workspace names none
	Runtime string // the container runtime, as the engines call it; "" = each engine's default
}

// Executor makes sandboxes on all hosts. Safe for concurrent use.
type Executor struct {
	cfg   Config
	turns locks.Keyed // making one sandbox, so that two callers do not choose two hosts

	mu     sync.Mutex
	open   map[string]*engine // by the host's name
	held   map[string][]promise
	closed bool
}

// engine is an open host.
type engine struct {
	*docker.Executor
	host           Host
	image, runtime string
	link           *link
}

func (en *engine) close() error { return errors.Join(en.Executor.Close(), en.link.Close()) }

var (
	_ executors.Executor      = (*Executor)(nil)
	_ executors.Destroyer     = (*Executor)(nil)
	_ executors.RemnantKeeper = (*Executor)(nil)
	_ executors.Remover       = (*Executor)(nil)
	_ executors.RunRecorder   = (*Executor)(nil)
	_ executors.Stopper       = (*Executor)(nil)
)

// New makes an Executor. It makes no call.
func New(cfg Config) (*Executor, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("docker hosts: Dir %q must be absolute", cfg.Dir)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Executor{cfg: cfg, open: make(map[string]*engine), held: make(map[string][]promise)}, nil
}

// Close ends the connections. Sandboxes live on.
func (e *Executor) Close() error {
	e.mu.Lock()
	e.closed = true
	all := slices.Collect(maps.Values(e.open))
	clear(e.open)
	e.mu.Unlock()
	var err error
	for _, en := range all {
		err = errors.Join(err, en.close())
	}
	return err
}

// Kind is dockerhosts.
func (e *Executor) Kind() executors.Kind { return Kind }

// engines returns the hosts that the settings have now, in their order.
func (e *Executor) engines(ctx context.Context) ([]*engine, error) {
	s := e.cfg.Settings(ctx)
	var out, old []*engine
	err := func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed {
			return errors.New("the executor was closed")
		}
		for _, h := range s.Hosts {
			en := e.open[h.Name]
			if en == nil || en.host != h || en.image != s.Image || en.runtime != s.Runtime {
				if en != nil {
					old = append(old, en)
				}
				var err error
				if en, err = e.make(h, s); err != nil {
					return err
				}
				e.open[h.Name] = en
			}
			out = append(out, en)
		}
		for name, en := range e.open {
			if !slices.Contains(out, en) {
				old = append(old, en)
				delete(e.open, name)
			}
		}
		return nil
	}()
	for _, en := range old { // pipes of sandboxes there are cut, and made anew where the host stayed
		if cerr := en.close(); cerr != nil {
			e.cfg.Log.WarnContext(ctx, "the connections to a Docker host could not be closed", "host", en.host.Name, "error", cerr)
		}
	}
	return out, err
}

func (e *Executor) make(h Host, s Settings) (*engine, error) {
	l := &link{host: h, key: func(ctx context.Context) string { return e.cfg.Settings(ctx).Key }}
	prepare := docker.Prepare{Agents: e.cfg.Agents, Remote: true}
	if e.cfg.Prepare != nil {
		prepare = e.cfg.Prepare(prepare)
	}
	d, err := docker.New(docker.Config{Kind: Kind, Dir: e.dirOf(h.Name), GuestPath: e.cfg.GuestPath, Host: "on " + h.Name, Dial: l.dial, Image: s.Image, Runtime: s.Runtime,
		Prepare: &prepare, Now: e.cfg.Now, Log: e.cfg.Log.With("host", h.Name)})
	if err != nil {
		return nil, err
	}
	return &engine{Executor: d, host: h, image: s.Image, runtime: s.Runtime, link: l}, nil
}

func (e *Executor) dirOf(host string) string { return filepath.Join(e.cfg.Dir, folder, host) }

// whereIs returns the name of the host that has a sandbox; "" = none ever had it.
func (e *Executor) whereIs(id string) (string, error) {
	if err := hostproc.CheckID(id); err != nil {
		return "", err
	}
	names, err := e.known()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(e.dirOf(name), id)); err == nil {
			return name, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("looking for sandbox %s: %w", id, err)
		}
	}
	return "", nil
}

// known are the names of all hosts that ever had a sandbox.
func (e *Executor) known() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(e.cfg.Dir, folder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listing the Docker hosts: %w", err)
	}
	var out []string
	for _, entry := range entries {
		if entry.IsDir() && hostWord.MatchString(entry.Name()) {
			out = append(out, entry.Name())
		}
	}
	return out, nil
}

// of returns the host that has a sandbox. ErrGone when none ever had it; another error when that host is no longer in the settings.
func (e *Executor) of(ctx context.Context, id string) (*engine, error) {
	name, err := e.whereIs(id)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fmt.Errorf("no Docker host has sandbox %s: %w", id, executors.ErrGone)
	}
	all, err := e.engines(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(en *engine) bool { return en.host.Name == name })
	if i < 0 {
		return nil, fault.New(fault.Unavailable, "docker_host_removed",
			"The sandbox is on the Docker host %s, which is no longer in the settings. Add the host again to reach it.", name).With("host", name)
	}
	return all[i], nil
}

// Create starts a container on the host with the most free memory, or finds the one that was started for s.ID before.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := hostproc.CheckID(s.ID); err != nil {
		return nil, err
	}
	unlock, err := e.turns.LockContext(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	en, err := e.of(ctx, s.ID)
	if errors.Is(err, executors.ErrGone) {
		en, err = e.choose(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return en.Create(ctx, s)
}

// Recover finds a container again. ErrGone when it was removed.
func (e *Executor) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	en, err := e.of(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	return en.Recover(ctx, h)
}

// List returns a handle for every folder that is ours, and for every container of this instance on the hosts that answer. What is on
// another one is found when it does.
func (e *Executor) List(ctx context.Context) ([]executors.Handle, error) {
	out := make(map[string]executors.Handle)
	names, err := e.known()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		ids, err := hostproc.Folders(e.dirOf(name), Kind, "")
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			out[id] = executors.Handle{Kind: Kind, ID: id, Version: docker.HandleVersion}
		}
	}
	all, err := e.engines(ctx)
	if err != nil {
		return nil, err
	}
	lists := each(all, func(en *engine) []executors.Handle {
		ctx, cancel := context.WithTimeout(ctx, connectIn)
		defer cancel()
		l, err := en.List(ctx)
		if err != nil {
			e.cfg.Log.WarnContext(ctx, "a Docker host did not tell its containers", "host", en.host.Name, "error", err)
		}
		return l
	})
	for _, h := range slices.Concat(lists...) {
		out[h.ID] = h
	}
	return slices.Collect(maps.Values(out)), nil
}

// Remove ends and removes a sandbox that was not recovered. Idempotent.
func (e *Executor) Remove(ctx context.Context, h executors.Handle) error {
	return e.onEach(ctx, h.ID, func(en *engine) error { return en.Remove(ctx, h) })
}

// End destroys a sandbox whose guest may no longer answer. Idempotent.
func (e *Executor) End(ctx context.Context, id string) error {
	return e.onEach(ctx, id, func(en *engine) error { return en.End(ctx, id) })
}

// onEach does something with the host that has a sandbox. A container whose folder was lost is looked for on every host.
func (e *Executor) onEach(ctx context.Context, id string, do func(*engine) error) error {
	en, err := e.of(ctx, id)
	if err == nil {
		return do(en)
	}
	if !errors.Is(err, executors.ErrGone) {
		return err
	}
	all, err := e.engines(ctx)
	if err != nil {
		return err
	}
	return errors.Join(each(all, do)...)
}

// Stop ends everything in a container, whose disk stays. Idempotent.
func (e *Executor) Stop(ctx context.Context, h executors.Handle) error {
	en, err := e.of(ctx, h.ID)
	if errors.Is(err, executors.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return en.Stop(ctx, h)
}

// Ran returns the sandbox's latest run as its engine records it.
func (e *Executor) Ran(ctx context.Context, h executors.Handle) (executors.Ran, error) {
	en, err := e.of(ctx, h.ID)
	if err != nil {
		return executors.Ran{}, err
	}
	return en.Ran(ctx, h)
}

// Remnants is never true: the guest's folder is on its host.
func (e *Executor) Remnants(string) (string, bool) { return "", false }

// Sweep removes what is left of a sandbox whose container has ended.
func (e *Executor) Sweep(ctx context.Context, id string) error {
	en, err := e.of(ctx, id)
	if errors.Is(err, executors.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return en.Sweep(ctx, id)
}

// each does something with every host at the same time, and returns what came of it in their order.
func each[T any](all []*engine, do func(*engine) T) []T {
	out := make([]T, len(all))
	var wg sync.WaitGroup
	for i, en := range all {
		wg.Go(func() { out[i] = do(en) })
	}
	wg.Wait()
	return out
}
