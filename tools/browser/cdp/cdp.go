// Package cdp is a small client of the DevTools protocol that Chromium speaks: commands with answers, and events. It knows no command;
// callers bring their own structs. What it reads comes from a process that agents control: it bounds the size and number of messages,
// and ignores those it cannot read.
//
// Goroutines: Run starts one that writes, and reads in the caller's.
package cdp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Pipe carries messages, one at a time. Receive and Send are each called by one goroutine at a time.
type Pipe interface {
	// Receive returns the next message. It is valid until the next call.
	Receive() ([]byte, error)
	Send(message []byte) error
	Close()
}

// Event is something that Chromium reports by itself.
type Event struct {
	Session string // of a target; "" of the browser itself
	Method  string
	Params  json.RawMessage
	Picture []byte // of a screencast; nil when Params has it, or when it is none
}

// Into decodes the parameters. It reports false for an event that says something else.
func (e Event) Into(v any) bool { return json.Unmarshal(e.Params, v) == nil }

// Error is Chromium's refusal of a command.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (%d)", e.Message[:min(len(e.Message), maxErrorText)], e.Code)
}

// ErrClosed says that the connection has ended.
var ErrClosed = errors.New("the connection to the browser has ended")

const (
	maxWaiting = 512  // commands without an answer
	maxQueued  = 1024 // messages that are not sent yet

	maxQueuedBytes = 32 << 20 // of them: a browser that reads no more has ended
	maxSession     = 128      // bytes of a session's id; messages with longer ones are ignored
	maxErrorText   = 500      // bytes of a refusal
)

// Conn is a connection to one browser. Safe for concurrent use.
type Conn struct {
	pipe   Pipe
	handle func(Event)
	queue  chan []byte
	queued atomic.Int64 // bytes in queue
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan answer
	err     error
}

type answer struct {
	result json.RawMessage
	err    *Error
}

// New returns a connection over a pipe. handle is called for each event, by the goroutine of Run: it does not block, and uses Post alone.
func New(pipe Pipe, handle func(Event)) *Conn {
	return &Conn{pipe: pipe, handle: handle, queue: make(chan []byte, maxQueued), done: make(chan struct{}), waiting: map[int64]chan answer{},
		next: rand.Int64N(1 << 29)} // answers to an earlier connection over the same pipe must not be taken for ours
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection. The browser goes on.
func (c *Conn) Close() { c.close(ErrClosed) }

func (c *Conn) close(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		close(c.done)
		c.pipe.Close()
	})
}

// Run serves the connection until it ends, and says why.
func (c *Conn) Run() error {
	var writer sync.WaitGroup
	writer.Go(c.write)
	for {
		line, err := c.pipe.Receive()
		if err != nil {
			c.close(err)
			break
		}
		c.receive(line)
	}
	writer.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Conn) write() {
	for {
		select {
		case <-c.done:
			return
		case line := <-c.queue:
			c.queued.Add(int64(-len(line)))
			if err := c.pipe.Send(line); err != nil {
				c.close(err)
				return
			}
		}
	}
}

// receive passes a message on to the command that waits for it, or to the handler of events.
func (c *Conn) receive(line []byte) {
	var m struct {
		ID      int64           `json:"id"`
		Session string          `json:"sessionId"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   *Error          `json:"error"`
	}
	line, picture := lift(line)
	if json.Unmarshal(line, &m) != nil || len(m.Session) > maxSession {
		return
	}
	if m.Method != "" {
		c.handle(Event{m.Session, m.Method, m.Params, picture})
		return
	}
	c.mu.Lock()
	to := c.waiting[m.ID]
	delete(c.waiting, m.ID)
	c.mu.Unlock()
	if to != nil {
		to <- answer{m.Result, m.Error}
	}
}

// beforePicture is how Chromium begins a picture of a screencast.
var beforePicture = []byte(`{"method":"Page.screencastFrame","params":{"data":"`)

// lift takes the picture out of a message that begins so. Pictures are nearly all that a browser says while somebody watches, and decoders of
// JSON read such a text four times. A message that only looks like one stays as it is.
func lift(line []byte) (rest, picture []byte) {
	text, ok := bytes.CutPrefix(line, beforePicture)
	end := bytes.IndexByte(text, '"')
	if !ok || end < 0 {
		return line, nil
	}
	picture = make([]byte, base64.StdEncoding.DecodedLen(end))
	n, err := base64.StdEncoding.Decode(picture, text[:end])
	if err != nil || n == 0 {
		return line, nil
	}
	return append(bytes.Clone(beforePicture), text[end:]...), picture[:n]
}

type command struct {
	ID      int64  `json:"id"`
	Session string `json:"sessionId,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// Call has the browser do a command, and decodes the answer into result; nil ignores it. An *Error is a refusal.
func (c *Conn) Call(ctx context.Context, session, method string, params, result any) error {
	to := make(chan answer, 1)
	c.mu.Lock()
	if len(c.waiting) >= maxWaiting {
		c.mu.Unlock()
		return fmt.Errorf("%s: %d commands wait for the browser already", method, maxWaiting)
	}
	c.next++
	id := c.next
	c.waiting[id] = to
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	line, err := json.Marshal(command{id, session, method, params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if !c.reserve(line) {
		return c.ended()
	}
	select {
	case c.queue <- line:
	case <-c.done:
		return c.ended()
	case <-ctx.Done():
		c.queued.Add(int64(-len(line)))
		return context.Cause(ctx)
	}
	select {
	case a := <-to:
		if a.err != nil {
			return fmt.Errorf("%s: %w", method, a.err)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(a.result, result); err != nil {
			return fmt.Errorf("%s: the browser's answer cannot be read: %w", method, err)
		}
		return nil
	case <-c.done:
		return c.ended()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Conn) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(ErrClosed, c.err)
}

// reserve counts the bytes of a message that is to be queued. It ends the connection, and reports false, when too many wait.
func (c *Conn) reserve(line []byte) bool {
	if c.queued.Add(int64(len(line))) <= maxQueuedBytes {
		return true
	}
	c.close(fmt.Errorf("%w: the browser does not read what it is sent", ErrClosed))
	return false
}

// Post sends a command whose answer nobody waits for. It does not block: when too much waits to be sent, the command is dropped, and
// Post reports false.
func (c *Conn) Post(session, method string, params any) bool {
	c.mu.Lock()
	c.next++
	id := c.next
	c.mu.Unlock()
	line, err := json.Marshal(command{id, session, method, params})
	if err != nil || !c.reserve(line) {
		return false
	}
	select {
	case c.queue <- line:
		return true
	default:
		c.queued.Add(int64(-len(line)))
		return false
	}
}
