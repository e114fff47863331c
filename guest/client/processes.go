package client

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Hello asks the guest for its identity.
func (c *Client) Hello(ctx context.Context) (guest.Hello, error) {
	var h guest.Hello
	if err := c.ask(ctx, request{method: "GET", path: []string{"hello"}}, &h); err != nil {
		return guest.Hello{}, err
	}
	if err := c.checkHello(h); err != nil {
		return guest.Hello{}, err
	}
	return h, nil
}

// Start starts a process; for an ID the guest knows it returns that process and starts nothing. A program that cannot be run
// yields a process that has exited, with a reason that begins with "start_failed".
func (c *Client) Start(ctx context.Context, spec guest.ProcessSpec) (guest.Process, error) {
	if err := guest.CheckID(spec.ID); err != nil {
		return guest.Process{}, fault.Wrap(err, fault.Invalid, "invalid_process_id", "The process ID is invalid: %v.", err)
	}
	return c.process(ctx, request{method: "POST", path: []string{"processes"}, json: spec}, spec.ID)
}

// process sends a request whose answer is process id.
func (c *Client) process(ctx context.Context, q request, id string) (guest.Process, error) {
	var p guest.Process
	if err := c.ask(ctx, q, &p); err != nil {
		return guest.Process{}, err
	}
	if err := p.Check(id); err != nil {
		return guest.Process{}, wrong("a process", err)
	}
	p.Reason = plain(p.Reason)
	return p, nil
}

// of is a request about process id.
func of(method, id string, more ...string) (request, error) {
	if err := guest.CheckID(id); err != nil {
		return request{}, fault.Wrap(err, fault.NotFound, "process_not_found", "The sandbox knows no such process.")
	}
	return request{method: method, path: append([]string{"processes", id}, more...)}, nil
}

// Process returns what the guest knows about a process.
func (c *Client) Process(ctx context.Context, id string) (guest.Process, error) {
	q, err := of("GET", id)
	if err != nil {
		return guest.Process{}, err
	}
	return c.process(ctx, q, id)
}

// Processes returns every process the guest knows, running or ended, by ID.
func (c *Client) Processes(ctx context.Context) ([]guest.Process, error) {
	var list guest.List[guest.Process]
	if err := c.ask(ctx, request{method: "GET", path: []string{"processes"}}, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if err := list.Items[i].Check(""); err != nil {
			return nil, wrong("a process", err)
		}
		list.Items[i].Reason = plain(list.Items[i].Reason)
	}
	return list.Items, nil
}

// Wait waits until the process has ended and its output is complete. A cut of the pipe ends it with an error: call it again.
func (c *Client) Wait(ctx context.Context, id string) (guest.Process, error) {
	q, err := of("GET", id, "wait")
	if err != nil {
		return guest.Process{}, err
	}
	return c.process(ctx, q, id)
}

// CloseStdin closes the input of a process without a terminal, after what this Client has written to it. When a frame of that was
// lost with a cut pipe, the guest waits a while for it to be sent again, and then answers with fault.Conflict.
func (c *Client) CloseStdin(ctx context.Context, id string) error {
	q, err := of("POST", id, "close-stdin")
	if err != nil {
		return err
	}
	seq := c.takeSent(id)
	q.query = url.Values{"after": {strconv.FormatUint(seq, 10)}}
	if err = c.ask(ctx, q, nil); err != nil {
		c.noteSent(id, seq)
	}
	return err
}

// Ack informs the guest that everything of a stream before offset is stored: it may drop it.
func (c *Client) Ack(ctx context.Context, id string, stream guest.Stream, offset int64) error {
	return c.notify(ctx, id, "ack", guest.Ack{Stream: stream, Offset: offset})
}

// AckFull is Ack from a host whose disk is full: the guest retains everything after offset, even if it was read. It applies until
// the next Ack, and must be repeated about every second.
func (c *Client) AckFull(ctx context.Context, id string, stream guest.Stream, offset int64) error {
	return c.notify(ctx, id, "ack", guest.Ack{Stream: stream, Offset: offset, Full: true})
}

// Resize sets the size of a process's terminal.
func (c *Client) Resize(ctx context.Context, id string, size guest.Size) error {
	return c.notify(ctx, id, "resize", size)
}

// Signal sends a signal ("SIGINT", "TERM", ...) to the process and everything it started.
func (c *Client) Signal(ctx context.Context, id, sig string) error {
	return c.notify(ctx, id, "signal", guest.SignalRequest{Signal: sig})
}

func (c *Client) notify(ctx context.Context, id, what string, v any) error {
	q, err := of("POST", id, what)
	if err != nil {
		return err
	}
	q.json = v
	return c.ask(ctx, q, nil)
}

// Stop ends the process and everything it started, including what has moved into other sessions: TERM, after grace KILL. It
// returns when nothing of it is left. It also ends what an ended process left running.
func (c *Client) Stop(ctx context.Context, id string, grace time.Duration) (guest.Process, error) {
	q, err := of("POST", id, "stop")
	if err != nil {
		return guest.Process{}, err
	}
	q.json = guest.StopRequest{GraceMs: grace.Milliseconds()}
	return c.process(ctx, q, id)
}

// Remove makes the guest drop an ended process and its output.
func (c *Client) Remove(ctx context.Context, id string) error {
	c.takeSent(id)
	q, err := of("DELETE", id)
	if err != nil {
		return err
	}
	return c.ask(ctx, q, nil)
}

// Stats returns the current statistics of the sandbox.
func (c *Client) Stats(ctx context.Context) (guest.Stats, error) {
	var s guest.Stats
	if err := c.ask(ctx, request{method: "GET", path: []string{"stats"}}, &s); err != nil {
		return guest.Stats{}, err
	}
	return checkStats(s)
}

// Work returns what a process and its descendants do now. A guest of an older build does not support the request.
func (c *Client) Work(ctx context.Context, id string) (guest.Work, error) {
	var w guest.Work
	q, err := of("GET", id, "work")
	if err != nil {
		return w, err
	}
	if err := c.ask(ctx, q, &w); err != nil {
		return guest.Work{}, err
	}
	return checkWork(w)
}

// Shutdown asks the guest to end every process and itself. It returns when the guest has received the order, or is out of reach since its
// pipe was cut under the order: who must know that it has ended looks whether it is gone.
func (c *Client) Shutdown(ctx context.Context) error {
	err := c.ask(ctx, request{method: "POST", path: []string{"shutdown"}}, nil)
	// The requested end may cut the pipe before its answer arrives. For a guest that was not reached, the dial fails.
	if errors.Is(err, errCut) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.As(err, new(streamError)) {
		return nil
	}
	return err
}

// streamError is the error of a stream that the other end reset. net/http converts its own, unexported error into any struct with
// these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream broken off" }
