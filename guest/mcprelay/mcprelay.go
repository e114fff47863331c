// Package mcprelay is the MCP server that an agent starts: a thin relay between the agent's standard input and output and the
// Model Context Protocol of the Parawork server, over the guest's socket. It knows of the protocol only what it takes to survive a
// restart of the server: the agent's stdio stays open, the agent's own initialize is repeated to the new server, calls that were
// under way are answered with an error that says whether they may have been done, and calls that were not sent yet are sent then.
package mcprelay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
)

// Limits of calls that wait for their answers.
const (
	maxCalls = 256      // under way or not sent yet
	maxHeld  = 16 << 20 // bytes of those not sent yet
)

// Config is what a relay works with. The times have defaults.
type Config struct {
	Env func(string) string
	In  io.Reader
	Out io.Writer

	Parent      func() int    // the pid of the parent: the relay ends when it changes
	ParentEvery time.Duration // how often it is looked at
	Patience    time.Duration // how long calls wait for a server
	RetryFirst  time.Duration // before the second attempt to connect; doubled up to RetryMost
	RetryMost   time.Duration
}

const (
	dialIn   = 2 * time.Second
	acceptIn = 3 * time.Minute  // the guest gives up earlier
	replayIn = 30 * time.Second // a server's answer to the repeated initialize
	writeIn  = time.Minute      // one message to the server
	stableIn = 5 * time.Second  // a connection that lasted longer was a good one
	endIn    = time.Second      // to write what is left after a signal
)

func (c *Config) defaults() {
	for p, d := range map[*time.Duration]time.Duration{&c.ParentEvery: 2 * time.Second, &c.Patience: 2 * time.Minute, &c.RetryFirst: 100 * time.Millisecond, &c.RetryMost: 5 * time.Second} {
		if *p <= 0 {
			*p = d
		}
	}
}

// Run is `parawork-guest mcp`. It returns nil when the agent has closed its side or has ended, or ctx has ended.
func Run(ctx context.Context, cfg Config) error {
	cfg.defaults()
	r := &relay{cfg: cfg, flying: map[string]call{}, wait: cfg.RetryFirst}
	if cfg.Env(guest.EnvTools) == "" || cfg.Env(guest.EnvHookToken) == "" {
		return r.refuse()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.watchParent(ctx, cancel) // ends with ctx
	lines, ended := make(chan line), make(chan struct{})
	go r.read(ctx, lines) // ends with the agent's input; the program ends in any case
	go func() {           // ends with ctx, unless the agent takes no output: then with the program
		defer close(ended)
		r.run(ctx, lines)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(endIn):
	}
	return nil
}

// read passes on what the agent sends.
func (r *relay) read(ctx context.Context, lines chan<- line) {
	defer close(lines)
	from := bufio.NewReaderSize(r.cfg.In, 64<<10)
	for {
		l, err := readLine(from)
		if err != nil {
			return
		}
		select {
		case lines <- l:
		case <-ctx.Done():
			return
		}
	}
}

// run relays over one connection after the other.
func (r *relay) run(ctx context.Context, lines <-chan line) {
	for again := true; again; {
		s := r.connected(ctx, lines)
		if s == nil {
			return
		}
		began := time.Now()
		if again = r.serve(ctx, lines, s); again {
			r.cut()
		}
		if r.pause = time.Since(began) < stableIn; !r.pause {
			r.wait = r.cfg.RetryFirst
		}
	}
}

// relay is the state between connections.
type relay struct {
	cfg   Config
	wait  time.Duration // between two attempts to connect
	pause bool          // before the first one, too: the last connection was cut at once
	away  bool          // no server for longer than cfg.Patience
	held  []held        // not sent yet, oldest first

	out sync.Mutex // guards cfg.Out

	mu          sync.Mutex
	flying      map[string]call // sent and not answered, by id
	sent        uint64
	initialize  []byte // the agent's own, once a server has accepted it
	initialized []byte // and what it sent afterwards
}

// connected waits for a connection, while it answers or keeps what the agent sends. nil: the relay has ended.
func (r *relay) connected(ctx context.Context, lines <-chan line) *stream {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan *stream)
	go func() { // ends with ctx
		for pause := r.pause; ; pause = true {
			if pause {
				select {
				case <-time.After(r.wait):
				case <-ctx.Done():
					return
				}
				r.wait = min(2*r.wait, r.cfg.RetryMost)
			}
			s, err := r.connect(ctx)
			if err != nil {
				continue
			}
			select {
			case got <- s:
			case <-ctx.Done():
				s.close()
			}
			return
		}
	}()
	late := time.NewTimer(r.cfg.Patience)
	defer late.Stop()
	for {
		select {
		case s := <-got:
			r.away = false
			return s
		case l, ok := <-lines:
			if !ok {
				return nil
			}
			r.keep(l)
		case <-late.C:
			r.away = true
			waiting := r.held
			r.held = nil
			for _, h := range waiting {
				r.reject(h.messages, faultAway)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// serve relays until the stream has ended, and then reports true, or until the agent has.
func (r *relay) serve(ctx context.Context, lines <-chan line, s *stream) bool {
	go func() { // ends with the stream
		defer close(s.done)
		for {
			l, err := readLine(s.from)
			if err != nil {
				return
			}
			r.fromServer(l)
		}
	}()
	defer func() { s.close(); <-s.done }()
	defer context.AfterFunc(ctx, s.close)()
	r.mu.Lock()
	late := r.initialize != nil && r.initialized != nil && !s.initialized // it came while the session was repeated
	initialized := r.initialized
	r.mu.Unlock()
	if late && !r.send(s, held{data: initialized}) {
		return ctx.Err() == nil
	}
	for len(r.held) > 0 {
		h := r.held[0]
		r.held = r.held[1:]
		if !r.send(s, h) {
			return ctx.Err() == nil
		}
	}
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				return false
			}
			if h, ok := r.accept(l); ok && !r.send(s, h) {
				return ctx.Err() == nil
			}
		case <-s.done:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
}

// watchParent ends the relay when its parent has: then another process takes its place.
func (r *relay) watchParent(ctx context.Context, end func()) {
	if r.cfg.Parent == nil {
		return
	}
	parent := r.cfg.Parent()
	tick := time.NewTicker(r.cfg.ParentEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if r.cfg.Parent() != parent {
				end()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// refuse answers the agent's first request: there is no guest to connect to.
func (r *relay) refuse() error {
	from := bufio.NewReaderSize(r.cfg.In, 64<<10)
	for {
		l, err := readLine(from)
		if err != nil {
			break
		}
		if l.long != nil || !r.reject(parse(l.data), faultNoGuest) {
			continue
		}
		break
	}
	return fmt.Errorf("mcp: %s", faultNoGuest.message)
}
