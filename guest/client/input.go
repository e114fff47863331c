package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Input is a stream of numbered frames to one process. After a cut, open another and send again from Last+1 on: the guest ignores
// frames it has already received. Close it in any case.
type Input struct {
	Last uint64 // the newest frame the guest had received when the stream was opened; numbers begin at 1

	frames io.WriteCloser
	cancel context.CancelFunc // after frames is closed, once everything sent is on its way
	alone  bool               // on a separate pipe
	sent   func(seq uint64)

	mu  sync.Mutex
	buf []byte
}

// Input opens the input of a process. It ends with ctx, and with the process.
func (c *Client) Input(ctx context.Context, id string) (*Input, error) {
	q, err := of("POST", id, "input")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	in := &Input{cancel: cancel, sent: func(seq uint64) { c.noteSent(id, seq) }}
	var head http.Header
	if c.onePipe() {
		head, err = in.shared(ctx, c, q)
	} else {
		in.frames, _, head, err = c.direct(ctx, q)
		in.alone = true
	}
	if err != nil {
		cancel()
		return nil, err
	}
	if in.Last, err = strconv.ParseUint(head.Get(guest.HeaderInputSeq), 10, 64); err != nil {
		cancel()
		return nil, wrong("input", err)
	}
	return in, nil
}

// shared opens the stream on the common pipe.
func (in *Input) shared(ctx context.Context, c *Client, q request) (http.Header, error) {
	r, w := io.Pipe()
	q.body = r
	resp, err := c.do(ctx, q)
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	go func() { // ends with the stream
		defer in.cancel()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // the guest sends nothing here
		_ = resp.Body.Close()
		_ = r.CloseWithError(errInputEnded)
	}()
	in.frames = w
	return resp.Header, nil
}

var errInputEnded = fault.New(fault.Gone, "input_ended", "The process does not take input any more, or the sandbox was cut off.")

// Write sends p as frame seq, which must grow from frame to frame; the guest ignores a number it has seen. It returns when the
// frame is on its way, which takes as long as the program does not read earlier input. After an error the stream is unusable, and
// the frame may or may not have been received.
func (in *Input) Write(seq uint64, p []byte) error {
	if len(p) > guest.MaxInput {
		return fault.New(fault.TooLarge, "input_too_large", "Input of %d bytes exceeds the limit of %d.", len(p), guest.MaxInput)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.buf = guest.AppendInput(in.buf[:0], seq, p)
	_, err := in.frames.Write(in.buf)
	if cap(in.buf) > frameSize {
		in.buf = nil
	}
	if err != nil {
		return unreachable(fmt.Errorf("sending input: %w", err))
	}
	in.sent(seq)
	return nil
}

// noteSent records the newest frame sent to a process: CloseStdin uses a separate stream and must not overtake it.
func (c *Client) noteSent(id string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = make(map[string]uint64)
	}
	c.sent[id] = max(c.sent[id], seq)
}

// takeSent returns the newest frame sent to a process, and forgets it.
func (c *Client) takeSent(id string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq := c.sent[id]
	delete(c.sent, id)
	return seq
}

// Close ends the stream; what was sent still arrives.
func (in *Input) Close() error {
	err := in.frames.Close()
	if in.alone { // the system has what was written; on the common pipe the guest's answer ends the stream
		in.cancel()
	}
	return err
}
