package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/bundle"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/guest/search"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/homedir"
)

// Defaults of Config.
const (
	defaultMaxLog = 64 << 20
	defaultGrace  = 2 * time.Second
)

// lastWordsIn is how long hosts have to read the rest of the output when the guest ends.
const lastWordsIn = 500 * time.Millisecond

// hintEvery is the least time between two hints to Changes that output flows.
const hintEvery = 100 * time.Millisecond

// Config configures a Daemon. Dir, Root, SandboxID and Token are required.
type Config struct {
	Dir       string        // the guest's own folder: logs and exit records, created if missing
	Root      string        // absolute path of the worktree
	Home      string        // absolute path of the home whose files hosts may request; "" = none
	SandboxID string        // its sandbox's ID
	Token     string        // every request must carry it
	Build     string        // version of this build
	Env       []string      // the variables from which the allow-list for processes selects; nil = none
	OwnEnv    bool          // Env is the sandbox's own, such as an image's: processes get all of it
	Self      string        // path of the guest's program as its processes see it, for the hooks of agents; "" = hooks are off
	Gate      string        // socket of the only way out, where there is no network; "" = the sandbox uses the machine's
	Proxy     string        // address of the relay to it for programs, such as http://127.0.0.1:3128
	OwnNet    bool          // nobody else uses the sandbox's loopback: hosts may reach whatever listens there
	Changes   Changes       // nil: changes and diffs are answered as unsupported
	Reap      bool          // the program has made itself the reaper of orphans, and has no children but its processes and git
	MaxLog    int64         // bytes of unacknowledged output retained per stream unless the process's spec sets it; default 64 MiB
	Grace     time.Duration // how long processes have between TERM and KILL when the guest itself ends; default 2 s
	Now       func() time.Time
	Log       *slog.Logger
}

func (c *Config) validate() error {
	if !filepath.IsAbs(c.Dir) || !filepath.IsAbs(c.Root) {
		return errors.New("guest: Dir and Root must be absolute")
	}
	if c.Home != "" && !filepath.IsAbs(c.Home) {
		return errors.New("guest: Home must be absolute")
	}
	if c.SandboxID == "" || c.Token == "" {
		return errors.New("guest: SandboxID and Token are required")
	}
	if c.MaxLog <= 0 {
		c.MaxLog = defaultMaxLog
	}
	if c.Grace <= 0 {
		c.Grace = defaultGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Daemon is the guest's server. Create it with New, run it with Serve.
type Daemon struct {
	cfg     Config
	root    *os.Root
	home    *homedir.Dir // nil: there is no home to serve
	token   [32]byte     // sha256 of the token
	started time.Time
	tree    *tree

	mu     sync.Mutex
	procs  map[string]*process
	pumps  map[*pump]bool // outputs being read
	ending bool           // no process may start any more

	spawn sync.RWMutex // held for writing by the reaper: then no process has been started but not registered yet

	quit     chan struct{} // closed when a host asks for the shutdown
	over     chan struct{} // closed when every process has finally ended
	quitOnce sync.Once
	work     sync.WaitGroup // goroutines that outlive their request

	tokens  *tokens
	hooks   *hooks
	gateway *offer.Gateway
	tools   *offer.Tools
	bundles *bundle.Store
	search  *search.Searcher

	mending    atomic.Bool  // a goroutine waits for the disk to accept output again
	readers    atomic.Int64 // outputs being followed
	lastOutput atomic.Int64 // ms UTC
	hinted     atomic.Int64 // ns since started
	ports      portCache

	listeners   listeners    // which sockets were found to be the sandbox's
	portStreams atomic.Int64 // connections to ports that are open
}

// New returns a Daemon and finds the records of processes an earlier guest left in cfg.Dir. It starts nothing.
func New(cfg Config) (*Daemon, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "processes"), 0o700); err != nil {
		return nil, fmt.Errorf("creating the guest's folder: %w", err)
	}
	root, err := os.OpenRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("opening the worktree: %w", err)
	}
	home, err := openHome(cfg.Home)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	d := &Daemon{cfg: cfg, root: root, home: home, token: digest(cfg.Token), started: cfg.Now(), procs: make(map[string]*process), pumps: make(map[*pump]bool),
		quit: make(chan struct{}), over: make(chan struct{})}
	d.cfg.Token = ""
	d.tree = newTree(cfg.SandboxID, cfg.Reap)
	if err := d.load(); err != nil {
		d.closeRoots()
		return nil, err
	}
	d.tokens = newTokens(d)
	d.hooks = newHooks(d)
	offers := offer.Config{Over: d.over, Work: &d.work, Log: d.cfg.Log}
	d.gateway = offer.NewGateway(offers)
	d.tools = offer.NewTools(offers, d.tokens.listen("tools"), d.tokens.process)
	d.bundles = bundle.New(bundle.Config{Dir: filepath.Join(cfg.Dir, "bundles"), Root: cfg.Root, Log: d.cfg.Log})
	d.search = search.New(root)
	return d, nil
}

// Serve answers on l until ctx ends or a host requests the shutdown. Then it ends every process, and returns nil when all its
// goroutines have ended. It closes l. Call it once.
func (d *Daemon) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true) // for pipes taken over by one stream, see direct.go
	srv := &http.Server{
		Handler:   d.handler(),
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 4 * guest.MaxProcesses, // a few streams follow each process
			// A stream whose program takes no input holds at most its own window of what all uploads share.
			MaxReceiveBufferPerConnection: 4<<20 - 1,
			MaxReceiveBufferPerStream:     128 << 10,
			MaxReadFrameSize:              32 << 10,
		},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(d.cfg.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }() // ends with srv
	if d.cfg.Reap {
		d.work.Go(func() { d.reap(ctx) })
	}
	d.work.Go(d.hooks.serve)
	d.work.Go(d.gateway.Serve)
	d.work.Go(d.tools.Serve)
	var err error
	select {
	case <-ctx.Done():
	case <-d.quit:
	case err = <-served:
		served <- nil
		err = fmt.Errorf("accepting hosts: %w", err)
	}
	ended := d.endAll()
	close(d.over)
	for deadline := time.Now().Add(lastWordsIn); d.readers.Load() > 0 && time.Now().Before(deadline); {
		time.Sleep(lastWordsIn / 100) // hosts read the last output of ended programs
	}
	cancel()
	d.hooks.close()
	d.gateway.Close()
	d.tools.Close()
	d.bundles.Close()
	_ = srv.Close()
	<-served
	if !ended {
		return errors.Join(err, errors.New("some processes could not be killed"))
	}
	d.work.Wait()
	d.closeRoots()
	return err
}

func (d *Daemon) closeRoots() {
	_ = d.root.Close()
	if d.home != nil {
		_ = d.home.Close()
	}
}

// endAll ends every process of the sandbox and lets nothing start any more. It returns false when some cannot be ended.
func (d *Daemon) endAll() bool {
	d.mu.Lock()
	d.ending = true
	procs := d.list()
	d.mu.Unlock()
	for _, p := range procs {
		<-p.ready
		p.because(reasonStopped)
	}
	if !d.tree.end(func(member) bool { return true }, d.cfg.Grace) {
		return false
	}
	for _, p := range procs {
		<-p.done
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for pu := range d.pumps { // a process that is no longer ours may still hold an output open
		_ = pu.file.Close()
	}
	return true
}

// list returns every process. The caller holds mu.
func (d *Daemon) list() []*process {
	out := make([]*process, 0, len(d.procs))
	for _, p := range d.procs {
		out = append(out, p)
	}
	return out
}

// wrote records that a program has just written output.
func (d *Daemon) wrote() {
	now := d.cfg.Now()
	d.lastOutput.Store(now.UnixMilli())
	if d.cfg.Changes == nil {
		return
	}
	t, last := now.Sub(d.started).Nanoseconds(), d.hinted.Load()
	if (last == 0 || t-last >= hintEvery.Nanoseconds()) && d.hinted.CompareAndSwap(last, t) {
		d.cfg.Changes.Hint()
	}
}

// hello is the guest's description of itself.
func (d *Daemon) hello() guest.Hello {
	h := guest.Hello{Version: guest.Version, Build: d.cfg.Build, SandboxID: d.cfg.SandboxID, Root: d.cfg.Root, Home: d.cfg.Home,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Pid: os.Getpid(), StartedAt: d.started.UnixMilli(), Hooks: d.hooks.l != nil,
		Gateway: d.gateway.Port(), Tools: d.tools.Address() != ""}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.procs {
		for _, l := range p.outputs() {
			if err := l.Degraded(); err != nil {
				h.Degraded = "output is stored in memory only: " + err.Error()
				return h
			}
		}
	}
	return h
}

// logConfig configures the log of one stream.
func (d *Daemon) logConfig(spec guest.ProcessSpec, s guest.Stream) bytelog.Config {
	limit := spec.MaxLog
	if limit <= 0 {
		limit = d.cfg.MaxLog
	}
	return bytelog.Config{Dir: filepath.Join(guest.ProcessDir(d.cfg.Dir, spec.ID), string(s)), MaxBytes: limit, BacklogBytes: backlog,
		Now: d.cfg.Now}
}
