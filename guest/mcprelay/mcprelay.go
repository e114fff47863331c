// Package mcprelay is the MCP server that an agent starts: a thin relay between the agent's standard input and output and the
// Model Context Protocol of the Parawork server, over the guest's socket. It knows of the protocol only what it takes to survive a
// restart of the server: the agent's stdio stays open, the agent's own initialize is repeated to the new server, calls that were
// under way are answered with an error that says whether they may have been done, and calls that were not sent yet are sent then.
package mcprelay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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

// held is a message that waits for a connection.
type held struct {
	data     []byte
	messages []message
}

// call is a request that was sent.
type call struct {
	id     json.RawMessage
	number uint64
	first  bool   // an initialize
	again  []byte // the message, where repeating it changes nothing
}

// repeatable are the methods that change nothing: after a cut they are sent again.
var repeatable = map[string]bool{"initialize": true, "ping": true, "server/discover": true, "tools/list": true}

// stream is a connection that a server has accepted.
type stream struct {
	conn        net.Conn
	from        *bufio.Reader
	initialized bool          // the agent's session is complete at this server
	done        chan struct{} // closed when nothing more can be read
}

func (s *stream) close() { _ = s.conn.Close() }

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

// connect connects to a server: the guest's socket, until a host has accepted, and the agent's session again.
func (r *relay) connect(ctx context.Context) (*stream, error) {
	d := net.Dialer{Timeout: dialIn}
	conn, err := d.DialContext(ctx, "unix", r.cfg.Env(guest.EnvTools))
	if err != nil {
		return nil, err
	}
	s := &stream{conn: conn, from: bufio.NewReaderSize(conn, 64<<10), done: make(chan struct{})}
	stop := context.AfterFunc(ctx, s.close)
	err = r.open(s)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (r *relay) open(s *stream) error {
	hello, err := json.Marshal(guest.ToolHello{Token: r.cfg.Env(guest.EnvHookToken), Use: guest.UseMCP})
	if err != nil {
		return err
	}
	_ = s.conn.SetDeadline(time.Now().Add(acceptIn))
	if _, err := s.conn.Write(append(hello, '\n')); err != nil {
		return err
	}
	greeting := make([]byte, len(guest.ToolGreeting))
	if _, err := io.ReadFull(s.from, greeting); err != nil {
		return err
	}
	if string(greeting) != guest.ToolGreeting {
		return errors.New("the guest did not confirm the connection")
	}
	_ = s.conn.SetDeadline(time.Now().Add(replayIn))
	if err := r.replay(s); err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Time{})
}

// replay repeats the agent's initialize and takes the answer from the stream.
func (r *relay) replay(s *stream) error {
	r.mu.Lock()
	initialize, initialized := r.initialize, r.initialized
	r.mu.Unlock()
	if initialize == nil {
		return nil
	}
	if _, err := s.conn.Write(append(initialize, '\n')); err != nil {
		return err
	}
	id := string(parse(initialize)[0].ID)
	for {
		l, err := readLine(s.from)
		if err != nil {
			return err
		}
		if l.long != nil {
			continue
		}
		for _, m := range parse(l.data) {
			if !m.response() || string(m.ID) != id {
				continue
			}
			if m.Result == nil {
				return errors.New("the server refused the agent's session")
			}
			if initialized == nil {
				return nil
			}
			s.initialized = true
			_, err := s.conn.Write(append(initialized, '\n'))
			return err
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

// accept checks a line of the agent; false for one that needs no server any more.
func (r *relay) accept(l line) (held, bool) {
	if l.long != nil {
		if l.long.method || l.long.id == nil { // no answer to a server's request
			r.answer(l.long.id, faultLong)
		}
		return held{}, false
	}
	h := held{l.data, parse(l.data)}
	if h.messages == nil {
		r.answer(nil, faultUnreadable)
		return held{}, false
	}
	r.mu.Lock()
	calls := len(r.flying)
	for _, m := range h.messages {
		switch {
		case m.request():
			calls++
		case m.Method == "notifications/initialized":
			r.initialized = l.data
		}
	}
	r.mu.Unlock()
	for _, waiting := range r.held {
		calls += len(waiting.messages)
	}
	if calls > maxCalls {
		r.reject(h.messages, faultMany)
		return held{}, false
	}
	return h, true
}

// keep handles a line of the agent while there is no server: requests wait for one. What belongs to calls of an earlier connection
// is of no use to the next one.
func (r *relay) keep(l line) {
	h, ok := r.accept(l)
	if !ok {
		return
	}
	if r.away {
		r.reject(h.messages, faultAway)
		return
	}
	size, request := len(h.data), false
	for _, m := range h.messages {
		if m.Method == "notifications/cancelled" {
			r.withdraw(m)
		}
		request = request || m.request()
	}
	for _, waiting := range r.held {
		size += len(waiting.data)
	}
	switch {
	case !request:
	case size > maxHeld:
		r.reject(h.messages, faultMany)
	default:
		r.held = append(r.held, h)
	}
}

// withdraw removes a call that the agent cancels before it was sent. Such a call gets no answer.
func (r *relay) withdraw(cancelled message) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(cancelled.Params, &p) != nil {
		return
	}
	for i, h := range r.held {
		if len(h.messages) == 1 && string(h.messages[0].ID) == string(p.ID) {
			r.held = append(r.held[:i:i], r.held[i+1:]...)
			return
		}
	}
}

// send sends a message, whose requests are then under way. After false the stream is of no use; a message of which the server has
// not received the end is kept for the next one.
func (r *relay) send(s *stream, h held) bool {
	r.mu.Lock()
	for _, m := range h.messages {
		if !m.request() {
			continue
		}
		r.sent++
		c := call{id: m.ID, number: r.sent, first: m.Method == "initialize"}
		if repeatable[m.Method] && len(h.messages) == 1 {
			c.again = h.data
		}
		r.flying[string(m.ID)] = c
	}
	r.mu.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeIn))
	data := append(h.data[:len(h.data):len(h.data)], '\n')
	n, err := s.conn.Write(data)
	if err == nil {
		return true
	}
	if n < len(data) {
		request := false
		r.mu.Lock()
		for _, m := range h.messages {
			if m.request() {
				request = true
				delete(r.flying, string(m.ID))
			}
		}
		r.mu.Unlock()
		if request {
			r.held = append([]held{h}, r.held...)
		}
	}
	return false
}

// fromServer passes a message of the server on.
func (r *relay) fromServer(l line) {
	if l.long != nil {
		if l.long.id != nil && !l.long.method {
			r.mu.Lock()
			delete(r.flying, string(l.long.id))
			r.mu.Unlock()
			r.answer(l.long.id, faultLongAnswer)
		}
		return
	}
	messages := parse(l.data)
	if messages == nil {
		return
	}
	r.mu.Lock()
	for _, m := range messages {
		c, ok := r.flying[string(m.ID)]
		if !ok || !m.response() {
			continue
		}
		delete(r.flying, string(m.ID))
		if c.first && m.Result != nil {
			r.initialize, r.initialized = c.again, nil
		}
	}
	r.mu.Unlock()
	r.write(l.data)
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
