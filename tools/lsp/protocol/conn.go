package protocol

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/internal/lspframe"
)

// Handler is what a server tells and asks. Its methods are called one after the other, by the goroutine that reads, and must not
// block.
type Handler interface {
	// Notified is called for each notification.
	Notified(method string, params json.RawMessage)
	// Asked returns the answer to a request of the server; ErrNoMethod for one that is not known.
	Asked(method string, params json.RawMessage) (any, error)
}

// Slow is a Handler that answers some requests in a goroutine of their own, a few at once.
type Slow interface {
	Slow(method string) bool
	AskedSlow(ctx context.Context, method string, params json.RawMessage) (any, error)
}

// Replied is a Handler that acts on some requests once their answers are under way: a server may serve nothing before.
type Replied interface {
	Replied(method string, params json.RawMessage)
}

// ErrNoMethod is the answer to a request that we do not serve.
var ErrNoMethod = errors.New("method not found")

// ErrEnded is the error of calls while the connection is not served any more; it wraps why.
var ErrEnded = errors.New("the language server has ended")

// ErrClosed is the cause of an end that its process explains better.
var ErrClosed = errors.New("it closed its output or input")

// ResponseError is a server's own error.
type ResponseError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *ResponseError) Error() string { return fmt.Sprintf("%.500s (%d)", e.Message, e.Code) }

// Codes of a ResponseError that mean: ask again.
const (
	CodeContentModified = -32801
	CodeServerCancelled = -32802
	codeNoMethod        = -32601
	codeInternal        = -32603
)

// message is any message of JSON-RPC. An id may be a number or a string.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *ResponseError  `json:"error,omitempty"`
}

type answer struct {
	result json.RawMessage
	err    error
}

// Conn is a connection to a language server. Safe for concurrent use.
type Conn struct {
	prefix string
	now    func() time.Time
	slow   chan struct{} // has room for requests that are answered in goroutines of their own
	middle bool          // reading begins in the middle of the server's output
	taken  atomic.Int64

	mu      sync.Mutex
	next    uint64
	pending map[string]chan answer
	queue   [][]byte
	queued  int
	wake    chan struct{} // has room for one: something is queued
	ended   chan struct{} // closed with cause
	cause   error
}

// NewConn returns a connection. Its ids begin with prefix, so that an answer to somebody else is none to us.
func NewConn(prefix string, now func() time.Time) *Conn {
	return &Conn{prefix: prefix, now: now, slow: make(chan struct{}, 4), pending: map[string]chan answer{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Resume says, before Serve, that reading begins in the middle of the server's output: the rest of a message that was begun is left out.
func (c *Conn) Resume() { c.middle = true }

// Taken returns how many bytes of the server's output were taken: whole messages, whose answers are under way.
func (c *Conn) Taken() int64 { return c.taken.Load() }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// Cause returns why the connection has ended, in words that follow "the language server": valid once Done is closed.
func (c *Conn) Cause() error { return c.cause }

// End ends the connection: everybody who waits gets the cause. The first cause counts.
func (c *Conn) End(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	close(c.ended)
	for id, ch := range c.pending {
		ch <- answer{err: fmt.Errorf("%w: %w", ErrEnded, cause)}
		delete(c.pending, id)
	}
	c.queue = nil
}

// Serve reads the server's messages from r, and writes ours to w, until either fails or ctx ends. It ends the connection and returns
// the cause. r must fail soon after ctx ends.
func (c *Conn) Serve(ctx context.Context, r io.Reader, w io.Writer, h Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { c.write(ctx, w) })
	in := &counted{Reader: r}
	err := c.read(bufio.NewReaderSize(in, 64<<10), in, func(m message) error { return c.take(ctx, m, h, &work) })
	if errors.Is(err, io.EOF) {
		err = ErrClosed
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	c.End(err)
	cancel()
	work.Wait()
	return c.cause
}

func (c *Conn) write(ctx context.Context, w io.Writer) {
	for {
		c.mu.Lock()
		var b []byte
		if len(c.queue) > 0 {
			b = c.queue[0]
			c.queue = c.queue[1:]
			c.queued -= len(b)
		}
		c.mu.Unlock()
		if b == nil {
			select {
			case <-c.wake:
				continue
			case <-c.ended:
			case <-ctx.Done():
			}
			return
		}
		if _, err := w.Write(b); err != nil {
			c.End(fmt.Errorf("%w: it takes no input: %w", ErrClosed, err))
			return
		}
	}
}

// send queues a message.
func (c *Conn) send(m message) error {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message for a language server: %w", err)
	}
	if len(body) > MaxMessage {
		return fmt.Errorf("a message of %d bytes for a language server is too large", len(body))
	}
	c.mu.Lock()
	if c.cause != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrEnded, c.cause)
	}
	full := c.queued+len(body) > maxQueue
	if !full {
		b := lspframe.Encode(body)
		c.queue, c.queued = append(c.queue, b), c.queued+len(b)
	}
	c.mu.Unlock()
	if full {
		c.End(errors.New("it does not read what it is sent"))
		return fmt.Errorf("%w: %w", ErrEnded, c.cause)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	return c.send(message{Method: method, Params: raw})
}

// Call sends a request and decodes its answer into result. When ctx ends it cancels the request.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	ch := make(chan answer, 1)
	c.mu.Lock()
	if len(c.pending) >= maxPending {
		c.mu.Unlock()
		return fmt.Errorf("the language server has not answered %d requests", maxPending)
	}
	c.next++
	id := strconv.Quote(c.prefix + strconv.FormatUint(c.next, 10))
	c.pending[id] = ch
	c.mu.Unlock()
	if string(raw) == "null" {
		raw = nil
	}
	if err := c.send(message{ID: json.RawMessage(id), Method: method, Params: raw}); err != nil {
		c.forget(id)
		return err
	}
	select {
	case a := <-ch:
		if a.err != nil || result == nil || len(a.result) == 0 || string(a.result) == "null" {
			return a.err
		}
		if err := json.Unmarshal(a.result, result); err != nil {
			return fmt.Errorf("the language server's answer to %s cannot be read: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		c.forget(id)
		_ = c.Notify("$/cancelRequest", map[string]json.RawMessage{"id": json.RawMessage(id)})
		return context.Cause(ctx)
	}
}

func (c *Conn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// read reads messages until one is wrong or there are too many.
func (c *Conn) read(r *bufio.Reader, in *counted, take func(message) error) error {
	var messages, bytes float64 // sent beyond the steady rate
	last := c.now()
	for {
		next := lspframe.Read
		if c.middle {
			next = lspframe.ReadMiddle
		}
		body, err := next(r)
		if err != nil {
			return err
		}
		c.middle = false
		now := c.now()
		seconds := max(0, now.Sub(last).Seconds())
		last = now
		messages, bytes = max(0, messages-seconds*steadyMessages)+1, max(0, bytes-seconds*steadyBytes)+float64(len(body))
		if messages > floodMessages || bytes > floodBytes {
			return fmt.Errorf("it flooded: %.0f messages with %.0f bytes more than it may send", messages, bytes)
		}
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			return lspframe.Error("it sent a message that is not JSON-RPC")
		}
		if err := take(m); err != nil {
			return err
		}
		c.taken.Store(in.n - int64(r.Buffered()))
	}
}

// counted counts what is read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *Conn) take(ctx context.Context, m message, h Handler, work *sync.WaitGroup) error {
	switch {
	case len(m.ID) > maxID:
		return lspframe.Error("it sent an id that is too long")
	case m.Method != "" && len(m.ID) == 0:
		h.Notified(m.Method, m.Params)
	case m.Method != "":
		if slow, ok := h.(Slow); ok && slow.Slow(m.Method) {
			select {
			case c.slow <- struct{}{}:
			default:
				return c.reply(m.ID, nil, errors.New("too many at once"))
			}
			work.Go(func() {
				defer func() { <-c.slow }()
				result, err := slow.AskedSlow(ctx, m.Method, m.Params)
				_ = c.reply(m.ID, result, err) // it fails when the connection has ended
			})
			return nil
		}
		result, err := h.Asked(m.Method, m.Params)
		if err := c.reply(m.ID, result, err); err != nil {
			return err
		}
		if after, ok := h.(Replied); ok {
			after.Replied(m.Method, m.Params)
		}
		return nil
	case len(m.ID) > 0:
		c.mu.Lock()
		ch, ok := c.pending[string(m.ID)]
		delete(c.pending, string(m.ID))
		c.mu.Unlock()
		if ok { // else it was cancelled, or never asked
			a := answer{result: m.Result}
			if m.Error != nil {
				a = answer{err: m.Error}
			}
			ch <- a
		}
	}
	return nil
}

// reply answers a request of the server.
func (c *Conn) reply(id json.RawMessage, result any, err error) error {
	m := message{ID: id}
	if err == nil {
		m.Result, err = json.Marshal(result)
	}
	switch {
	case errors.Is(err, ErrNoMethod):
		m.Error = &ResponseError{Code: codeNoMethod, Message: "not supported"}
	case err != nil:
		m.Error = &ResponseError{Code: codeInternal, Message: err.Error()}
	}
	return c.send(m)
}
