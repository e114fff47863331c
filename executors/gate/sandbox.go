package gate

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/hostname"
	"github.com/parawork/parawork/internal/sockpath"
)

// maxHead limits the head of a request.
const maxHead = 16 << 10

// box is the gate of one sandbox. All that comes through its socket is untrusted.
type box struct {
	g      *Gate
	ticket executors.Ticket
	dir    string
	srv    *http.Server
	plain  *http.Transport // for plain HTTP
	far    *http.Transport // the same through the server's own proxy
	ctx    context.Context // ends with the gate
	cancel context.CancelFunc

	listener  *net.UnixListener
	conns     atomic.Int64
	lookups   chan struct{}
	knocks    pace // connections
	questions pace // requests
	work      sync.WaitGroup

	mu     sync.Mutex
	rules  rules
	links  map[*link]bool
	asked  time.Time // when Fresh was
	closed bool
}

// link is one connection to a host outside.
type link struct {
	host string
	port int
	end  func()
}

// Rate limits of connections and lookups per sandbox: a page of a registry needs hundreds at once, a runaway loop thousands.
const (
	burst   = 2048
	asecond = 1000
)

func newBox(g *Gate, t executors.Ticket) *box {
	b := &box{g: g, ticket: t, dir: g.dir(t.SandboxID), lookups: make(chan struct{}, boxLookups), knocks: newPace(burst, asecond),
		questions: newPace(burst, asecond), rules: compile(t.Network), links: make(map[*link]bool)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.srv = &http.Server{Handler: b, ReadHeaderTimeout: g.cfg.HeadIn, IdleTimeout: time.Minute, MaxHeaderBytes: maxHead,
		BaseContext: func(net.Listener) context.Context { return b.ctx }, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	b.plain, b.far = b.newTransport(), b.newRemoteTransport()
	return b
}

// listen makes the folder and the socket in it. It reuses the folder of an earlier server, because sandboxes have it mounted.
func (b *box) listen() error {
	if err := os.MkdirAll(b.g.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of gates: %w", err)
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil && !os.IsExist(err) {
		return fmt.Errorf("making the folder of a gate: %w", err)
	}
	path, done, err := sockpath.Short(b.dir, socketName)
	if err != nil {
		return err
	}
	defer done()
	if err := os.Chmod(b.dir, 0o755); err != nil { // whatever the umask: the sandbox's own user must be able to enter it
		return err
	}
	if err := os.Remove(filepath.Join(b.dir, socketName)); err != nil && !os.IsNotExist(err) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("making the socket of a gate: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(filepath.Join(b.dir, socketName), 0o666); err != nil {
		_ = l.Close()
		return err
	}
	b.listener = l
	return nil
}

// serve handles connections until the gate is shut, and returns when all have ended.
func (b *box) serve() {
	_ = b.srv.Serve(door{b}) // it ends because the gate was shut
	b.shut()
	b.work.Wait()
	b.plain.CloseIdleConnections()
	b.far.CloseIdleConnections()
}

// shut ends every connection. It does not wait.
func (b *box) shut() {
	b.mu.Lock()
	b.closed = true
	links := b.links
	b.links = map[*link]bool{}
	b.mu.Unlock()
	b.cancel()
	_ = b.srv.Close()
	_ = b.listener.Close()
	for l := range links {
		l.end()
	}
}

// update sets new rules and ends the connections they do not allow.
func (b *box) update(n executors.Network) {
	r := compile(n)
	b.mu.Lock()
	b.rules = r
	var ends []*link
	for l := range b.links {
		if r.judge(l.host, l.port) != "" {
			ends = append(ends, l)
			delete(b.links, l)
		}
	}
	b.mu.Unlock()
	for _, l := range ends {
		l.end()
	}
}

// hold registers a connection to a host until drop is called. When the rules changed meanwhile, it ends the connection and returns false.
func (b *box) hold(l *link) bool {
	b.mu.Lock()
	ok := !b.closed && b.rules.judge(l.host, l.port) == ""
	if ok {
		b.links[l] = true
	}
	b.mu.Unlock()
	if !ok {
		l.end()
	}
	return ok
}

func (b *box) drop(l *link) {
	b.mu.Lock()
	delete(b.links, l)
	b.mu.Unlock()
	l.end()
}

// freshEvery is the shortest time between two calls of Fresh.
const freshEvery = 2 * time.Second

// judge returns why a host may not be reached, "" when it may. The allowed hosts may have changed without a notification, such as when an
// agent's account with an address of its own was added.
func (b *box) judge(ctx context.Context, host string, port int) executors.RefusalReason {
	b.mu.Lock()
	why := b.rules.judge(host, port)
	ask := why == executors.NotListed && b.g.cfg.Fresh != nil && time.Since(b.asked) >= freshEvery
	if ask {
		b.asked = time.Now()
	}
	b.mu.Unlock()
	if !ask {
		return why
	}
	n, err := b.g.cfg.Fresh(ctx, b.ticket.WorkspaceID)
	if err != nil {
		b.g.cfg.Log.WarnContext(ctx, "what a workspace may reach could not be read", "workspace_id", b.ticket.WorkspaceID, "error", err)
		return why
	}
	b.update(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rules.judge(host, port)
}

// rules are a sandbox's network rules, prepared for lookups.
type rules struct {
	mode executors.NetworkMode
	list []hostname.Pattern
}

func compile(n executors.Network) rules {
	r := rules{mode: n.Mode}
	for _, s := range n.Allow {
		if p, err := hostname.Parse(s); err == nil { // an unreadable rule allows nothing
			r.list = append(r.list, p)
		}
	}
	return r
}

// judge returns why the name of a host may not be reached, "" when it may. An unknown mode reaches nothing.
func (r rules) judge(host string, port int) executors.RefusalReason {
	switch r.mode {
	case executors.NetworkOpen:
		if !executors.MayPort(r.mode, 0, port) {
			return executors.BadPort
		}
		return ""
	case executors.NetworkAllow:
	default:
		return executors.NoNetwork
	}
	why := executors.NotListed
	for _, p := range r.list {
		if !p.Names(host) {
			continue
		}
		if executors.MayPort(r.mode, p.Port(), port) {
			return ""
		}
		why = executors.BadPort
	}
	return why
}

// door is a listener that limits the open connections, and counts each until it is closed.
type door struct{ b *box }

func (d door) Addr() net.Addr { return d.b.listener.Addr() }
func (d door) Close() error   { return d.b.listener.Close() }

func (d door) Accept() (net.Conn, error) {
	b := d.b
	for {
		if err := b.knocks.wait(b.ctx); err != nil {
			return nil, net.ErrClosed
		}
		c, err := b.listener.AcceptUnix()
		if err != nil {
			return nil, err // the HTTP server waits and retries where that helps
		}
		if b.conns.Add(1) <= int64(b.g.cfg.MaxBoxConns) {
			select {
			case b.g.slots <- struct{}{}:
				return &caller{UnixConn: c, b: b}, nil
			default:
			}
		}
		b.conns.Add(-1)
		turnAway(c)
	}
}

// turnAway answers a caller that there are too many connections, without waiting for it.
func turnAway(c *net.UnixConn) {
	const words = "Parawork: too many connections are open. Close some, or try again in a moment.\n"
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Parawork: too many connections\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(words), words)
	_ = c.Close()
}

// caller is a connection from the sandbox. A caller that does not read what it requested gets no more time than one that is silent.
type caller struct {
	*net.UnixConn
	b    *box
	once sync.Once
}

func (c *caller) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.b.g.cfg.Idle))
	return c.UnixConn.Write(p)
}

func (c *caller) Close() error {
	err := c.UnixConn.Close()
	c.once.Do(func() {
		c.b.conns.Add(-1)
		<-c.b.g.slots
	})
	return err
}

// pace allows a burst and then a fixed rate per second.
type pace struct {
	mu     sync.Mutex
	most   float64
	rate   float64
	tokens float64
	at     time.Time
}

func newPace(most, rate float64) pace { return pace{most: most, rate: rate, tokens: most} }

// wait waits for the caller's turn.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	if !p.at.IsZero() {
		p.tokens = min(p.most, p.tokens+now.Sub(p.at).Seconds()*p.rate)
	}
	p.at = now
	p.tokens--
	short := -p.tokens
	p.mu.Unlock()
	if short <= 0 {
		return nil
	}
	t := time.NewTimer(time.Duration(short / p.rate * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// descriptors returns how many file descriptors this process may have open, 0 = not known.
func descriptors() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(l.Cur, 1<<20))
}
