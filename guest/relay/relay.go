// Package relay lets ordinary programs out of a sandbox that has no network: it listens on the sandbox's own loopback, where the
// proxy variables point, and passes bytes to the gate's socket. It makes no decisions; the gate does.
//
// Goroutines: Run has one for each listener, and two for each connection; it waits for all of them.
package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/proxycopy"
)

// Address is where programs find the proxy.
const Address = "127.0.0.1:3128"

const (
	// maxConns bounds the connections of a sandbox, so that a program that floods the relay does not use up its guest's
	// descriptors.
	maxConns = 512
	// dialIn is how long to wait for the gate: a restarting server is back by then.
	dialIn = 15 * time.Second
	// maxHead bounds the header of the gate's answer.
	maxHead = 16 << 10
)

// Config configures a Relay. Socket is required.
type Config struct {
	Socket string        // the gate's
	Listen string        // default Address; the system chooses a port where that one is taken
	DialIn time.Duration // default 15 s
	Log    *slog.Logger
}

// Relay passes connections to the gate. Create it with Open, run it with Run.
type Relay struct {
	cfg   Config
	door  net.Listener
	slots chan struct{}

	mu   sync.Mutex
	live map[net.Conn]bool
	over bool
	work sync.WaitGroup
}

// Open listens. It starts nothing.
func Open(cfg Config) (*Relay, error) {
	if cfg.Socket == "" {
		return nil, errors.New("relay: Socket is required")
	}
	cfg.Listen = cmp.Or(cfg.Listen, Address)
	if cfg.DialIn <= 0 {
		cfg.DialIn = dialIn
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	door, err := net.Listen("tcp", cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		door, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("listening for outgoing connections: %w", err)
	}
	return &Relay{cfg: cfg, door: door, slots: make(chan struct{}, maxConns), live: make(map[net.Conn]bool)}, nil
}

// URL is the value of the proxy variables.
func (r *Relay) URL() string { return "http://" + r.door.Addr().String() }

// Run passes connections until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.work.Wait()
	defer r.hangUp()
	r.work.Go(func() { r.forward(ctx) })
	r.accept(ctx, r.door, "")
	return nil
}

// hangUp ends every connection, and lets none begin.
func (r *Relay) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for c := range r.live {
		_ = c.Close()
	}
}

// keep tracks a connection until it is dropped. It returns false when the relay has ended.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		_ = c.Close()
		return false
	}
	r.live[c] = true
	return true
}

func (r *Relay) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, c)
}

// accept passes on the connections of l until ctx ends, each to target where it is not "".
func (r *Relay) accept(ctx context.Context, l net.Listener, target string) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil { // out of descriptors: others will be closed
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		select {
		case r.slots <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		if !r.keep(conn) {
			return
		}
		r.work.Go(func() {
			defer func() { <-r.slots }()
			defer r.drop(conn)
			r.pass(ctx, conn.(*net.TCPConn), target)
		})
	}
}

// pass connects a program with the gate.
func (r *Relay) pass(ctx context.Context, conn *net.TCPConn, target string) {
	gate, err := dial(ctx, r.cfg.Socket, r.cfg.DialIn)
	if err != nil {
		r.cfg.Log.Warn("the gate cannot be reached", "error", err)
		if target == "" {
			const words = "Parawork: the server does not answer. Try again in a moment.\n"
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 503 Parawork does not answer\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(words), words)
		}
		return
	}
	if !r.keep(gate) {
		return
	}
	defer r.drop(gate)
	if target != "" {
		early, err := Ask(gate, target)
		if err != nil {
			r.cfg.Log.Warn("a port of the server cannot be reached", "target", target, "error", err)
			return
		}
		if _, err := conn.Write(early); err != nil {
			return
		}
	}
	proxycopy.Both(conn, gate, proxycopy.Options{}) // the gate decides what has been idle too long
}

// dial reaches the gate. While nobody listens there, as when the server restarts, it retries.
func dial(ctx context.Context, socket string, in time.Duration) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, in)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", socket)
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EAGAIN) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// forward finds the ports of the server's loopback that may be reached, and makes them available at the same address inside.
func (r *Relay) forward(ctx context.Context) {
	ports, err := r.forwards(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.cfg.Log.Warn("the gate did not report the forwarded ports", "error", err)
		}
		return
	}
	var lc net.ListenConfig
	for _, port := range ports {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := lc.Listen(ctx, "tcp", at)
		if err != nil {
			r.cfg.Log.Warn("a forwarded port cannot be opened", "port", port, "error", err)
			continue
		}
		r.work.Go(func() { r.accept(ctx, l, at) })
	}
}

func (r *Relay) forwards(ctx context.Context) ([]int, error) {
	conn, err := dial(ctx, r.cfg.Socket, r.cfg.DialIn)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(r.cfg.DialIn))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n", guest.ForwardsPath); err != nil {
		return nil, err
	}
	resp, _, err := readHead(conn, http.MethodGet)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var f guest.Forwards
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxHead)).Decode(&f); err != nil {
		return nil, fmt.Errorf("reading the gate's answer: %w", err)
	}
	for _, p := range f.Ports {
		if p < 1 || p > 65535 || len(f.Ports) > guest.MaxForwards {
			return nil, errors.New("the gate's answer is invalid")
		}
	}
	return f.Ports, nil
}
