// Package fake is an executor whose guests run in this process, with knobs for everything that can go wrong: for the tests of packages that
// work in sandboxes. Its processes are real; only the isolation is missing.
package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/changes"
	"github.com/parawork/parawork/guest/daemon"
)

// Kind is the kind of a fake executor unless Knobs.Kind is set.
const Kind executors.Kind = "fake"

// World is where fake sandboxes live: it survives the Executors of "restarted servers". Safe for concurrent use.
type World struct {
	Now func() time.Time // the clock of leases; nil = time.Now. Set before use

	dir string
	log *slog.Logger

	mu    sync.Mutex
	boxes map[string]*box
}

type box struct {
	handle executors.Handle
	token  string
	listen *memListener
	cancel context.CancelFunc
	ended  chan struct{}
	dir    string

	// Used by a Cloud, under the world's mu.
	still     bool
	leaseEnds int64 // ms UTC, 0 = never
	runEnds   int64
	runs      int
}

// NewWorld makes a World that stores its guests' files below dir.
func NewWorld(dir string, log *slog.Logger) *World {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &World{dir: dir, log: log, boxes: make(map[string]*box)}
}

// Close ends every sandbox of the world.
func (w *World) Close() {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.boxes))
	clear(w.boxes)
	w.mu.Unlock()
	for _, b := range all {
		b.end()
	}
}

// Vanish ends a sandbox as if its machine had died: nothing is left, and there is no notification.
func (w *World) Vanish(id string) {
	w.mu.Lock()
	b := w.boxes[id]
	delete(w.boxes, id)
	w.mu.Unlock()
	if b != nil {
		b.end()
	}
}

// end stops the guest and waits until it and all its processes have ended.
func (b *box) end() {
	b.cancel()
	_ = b.listen.Close()
	<-b.ended
	_ = os.RemoveAll(b.dir)
}

// Knobs control what goes wrong. The zero value is an executor that works.
type Knobs struct {
	CreateErr   error         // Create fails
	CreateDelay time.Duration // Create takes this long
	DialErr     error         // Dial fails
	RecoverErr  error         // Recover fails
	DestroyErr  error         // Destroy fails
	ListErr     error         // List fails
	Liar        bool          // guests report another sandbox's id, from the next Create on
	Unavailable string        // Capabilities: the reason why it is not available
	Away        bool          // Capabilities: it is unreachable now and comes back
	Isolated    bool          // Capabilities: it says that it isolates
	OwnDisk     bool          // sandboxes have a worktree and a home of their own, which begin empty; it isolates
	Self        string        // path of the guest's program as its processes see it; "" = it has no hooks and no tools
	Kind        executors.Kind
	Brief       string                                      // Capabilities: what agents read about it
	Boundary    executors.Boundary                          // the boundary in Capabilities; "" = none
	Probe       func(context.Context) error                 // called by Capabilities, which returns its error
	Wrap        func(io.ReadWriteCloser) io.ReadWriteCloser // wraps each pipe
	CreateErrs  []error                                     // results of the next Creates, in order; nil = success. Later ones follow CreateErr
	Creating    func(context.Context)                       // called by Create

	// Of a Cloud.
	Sizes     []executors.Size
	PriceNano int64
	Lease     time.Duration // 0 = for ever
	Run       time.Duration // 0 = for ever
	PauseErr  error         // Pause fails
	ResumeErr error         // Resume, and so Recover, fails
	ExtendErr error         // Extend fails
	AsleepErr error         // Asleep fails

	// Of a Pooled.
	WarmErr error                 // Warm fails
	TakeErr error                 // Create of a warm one fails
	NoClass bool                  // no warm sandbox can serve anybody
	Warming func(context.Context) // called by Warm
}

// Executor makes fake sandboxes in a World.
type Executor struct {
	w *World

	mu      sync.Mutex
	knobs   Knobs
	creates int
	specs   []executors.Spec
}

// New makes an Executor over w. A second one over the same World is the executor of a restarted server.
func New(w *World) *Executor { return &Executor{w: w} }

// Set turns the knobs.
func (e *Executor) Set(k Knobs) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.knobs = k
}

// Specs returns the specs of the requested sandboxes, in order.
func (e *Executor) Specs() []executors.Spec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.specs)
}

// Creates returns how many sandboxes were requested.
func (e *Executor) Creates() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.creates
}

func (e *Executor) get() Knobs {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.knobs
}

// Kind returns Knobs.Kind, or "fake".
func (e *Executor) Kind() executors.Kind {
	if k := e.get().Kind; k != "" {
		return k
	}
	return Kind
}

// Capabilities returns what the knobs say.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	k := e.get()
	if k.Probe != nil {
		if err := k.Probe(ctx); err != nil {
			return executors.Capabilities{}, err
		}
	}
	return executors.Capabilities{Kind: e.Kind(), Name: "Fake", Available: k.Unavailable == "" && !k.Away, Reason: k.Unavailable, Away: k.Away,
		Cure: "Turn the knob.", Isolation: "No isolation: a fake for tests", Isolated: k.Isolated || k.OwnDisk, OwnDisk: k.OwnDisk, Boundary: k.Boundary, Brief: k.Brief}, nil
}

// Create starts a guest in this process.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	e.mu.Lock()
	e.creates++
	k := e.knobs
	if len(k.CreateErrs) > 0 {
		k.CreateErr, e.knobs.CreateErrs = k.CreateErrs[0], k.CreateErrs[1:]
	}
	e.specs = append(e.specs, s)
	e.mu.Unlock()
	if k.Creating != nil {
		k.Creating(ctx)
	}
	if k.CreateDelay > 0 {
		select {
		case <-time.After(k.CreateDelay):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if k.CreateErr != nil {
		return nil, k.CreateErr
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the root %q is not a folder", s.Root)
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if e.w.boxes[s.ID] == nil {
		b, err := e.w.start(s, e.Kind(), k)
		if err != nil {
			return nil, err
		}
		e.w.boxes[s.ID] = b
	}
	return &sandbox{e: e, handle: e.w.boxes[s.ID].handle, token: e.w.boxes[s.ID].token}, nil
}

// start runs a guest. The world's mu is held.
func (w *World) start(s executors.Spec, kind executors.Kind, k Knobs) (*box, error) {
	name := s.ID
	if k.Liar {
		name += "_liar"
	}
	b := &box{handle: executors.Handle{Kind: kind, ID: s.ID, Version: 1}, token: "token of " + s.ID, listen: newMemListener(),
		ended: make(chan struct{}), dir: filepath.Join(w.dir, s.ID)}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	root, home := s.Root, ""
	if k.OwnDisk {
		root, home = filepath.Join(b.dir, "work"), filepath.Join(b.dir, "home")
		for _, dir := range [...]string{root, home} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
		}
	}
	watcher := changes.New(changes.Config{Root: root, Dir: filepath.Join(b.dir, "changes"), Log: w.log})
	d, err := daemon.New(daemon.Config{Dir: b.dir, Root: root, Home: home, SandboxID: name, Token: b.token, Build: "fake", Self: k.Self, Env: os.Environ(),
		Changes: watcher, Now: time.Now, Log: w.log})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() { // ends with the box: end waits for it
		defer close(b.ended)
		if err := d.Serve(ctx, b.listen); err != nil && ctx.Err() == nil {
			w.log.Warn("fake guest ended", "sandbox_id", s.ID, "error", err)
		}
		w.mu.Lock()
		if w.boxes[s.ID] == b {
			delete(w.boxes, s.ID)
		}
		w.mu.Unlock()
	}()
	return b, nil
}

// Recover finds a sandbox of the world again.
func (e *Executor) Recover(_ context.Context, h executors.Handle) (executors.Sandbox, error) {
	if err := e.get().RecoverErr; err != nil {
		return nil, err
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	b := e.w.boxes[h.ID]
	if b == nil {
		return nil, executors.ErrGone
	}
	return &sandbox{e: e, handle: b.handle, token: b.token}, nil
}

// List returns every sandbox of the world.
func (e *Executor) List(context.Context) ([]executors.Handle, error) {
	if err := e.get().ListErr; err != nil {
		return nil, err
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	var out []executors.Handle
	for _, id := range slices.Sorted(maps.Keys(e.w.boxes)) {
		out = append(out, e.w.boxes[id].handle)
	}
	return out, nil
}

type sandbox struct {
	e      *Executor
	handle executors.Handle
	token  string
}

func (s *sandbox) Handle() executors.Handle { return s.handle }
func (s *sandbox) Token() string            { return s.token }

func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if err := s.e.get().DialErr; err != nil {
		return nil, err
	}
	s.e.w.mu.Lock()
	b := s.e.w.boxes[s.handle.ID]
	still := b != nil && s.e.w.isSuspended(b)
	s.e.w.mu.Unlock()
	if b == nil || still {
		return nil, errors.New("nobody is there")
	}
	pipe, err := b.listen.dial(ctx)
	if wrap := s.e.get().Wrap; wrap != nil && err == nil {
		return wrap(pipe), nil
	}
	return pipe, err
}

func (s *sandbox) Destroy(context.Context) error {
	if err := s.e.get().DestroyErr; err != nil {
		return err
	}
	s.e.w.Vanish(s.handle.ID)
	return nil
}

// memListener is a listener whose pipes stay in memory.
type memListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}

	mu   sync.Mutex
	open []net.Conn
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) Addr() net.Addr { return memAddr{} }

func (l *memListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		l.mu.Lock()
		l.open = append(l.open, there)
		l.mu.Unlock()
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// cut breaks every open pipe.
func (l *memListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

type memAddr struct{}

func (memAddr) Network() string { return "memory" }
func (memAddr) String() string  { return "memory" }
