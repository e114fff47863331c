package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/parawork/parawork/guest"
)

// Output is a stream of a process, from an offset on. Its Read ends with io.EOF only when the process has ended and everything
// was read; any other error means that the stream was cut: open it again at the current offset. Close it in any case.
type Output struct {
	From int64 // offset of the first byte Read returns: larger than requested when the bytes between were dropped

	body   io.ReadCloser
	cancel context.CancelFunc
}

// Output opens a stream at offset from and follows it, on a separate pipe: for terminals. It ends with ctx.
func (c *Client) Output(ctx context.Context, id string, stream guest.Stream, from int64) (*Output, error) {
	return c.output(ctx, id, stream, from, c.onePipe())
}

// SharedOutput is Output on the common pipe. It needs no dial, which to a remote sandbox takes longer than a separate pipe saves
// per keystroke.
func (c *Client) SharedOutput(ctx context.Context, id string, stream guest.Stream, from int64) (*Output, error) {
	return c.output(ctx, id, stream, from, true)
}

func (c *Client) output(ctx context.Context, id string, stream guest.Stream, from int64, shared bool) (*Output, error) {
	q, err := of("GET", id, "output", url.PathEscape(string(stream)))
	if err != nil {
		return nil, err
	}
	q.query = url.Values{"from": {strconv.FormatInt(from, 10)}}
	ctx, cancel := context.WithCancel(ctx)
	o := &Output{cancel: cancel}
	var head http.Header
	if shared {
		resp, err := c.do(ctx, q)
		if err != nil {
			cancel()
			return nil, err
		}
		o.body, head = resp.Body, resp.Header
	} else {
		conn, r, h, err := c.direct(ctx, q)
		if err != nil {
			cancel()
			return nil, err
		}
		o.body, head = &frames{conn: conn, r: r}, h
	}
	o.From, err = strconv.ParseInt(head.Get(guest.HeaderOffset), 10, 64)
	if err != nil || o.From < from || o.From > math.MaxInt64/2 {
		_ = o.Close()
		return nil, wrong("output", fmt.Errorf("offset %q when %d was requested", clip(head.Get(guest.HeaderOffset), 50), from))
	}
	return o, nil
}

// frames reads from a separate pipe.
type frames struct {
	conn  io.Closer
	r     *bufio.Reader
	left  int // bytes left of the current frame
	ended bool
}

func (f *frames) Read(p []byte) (int, error) {
	if f.ended {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	for f.left == 0 {
		var head [guest.FrameHeader]byte
		if _, err := io.ReadFull(f.r, head[:]); err != nil {
			return 0, cut(err)
		}
		n := binary.BigEndian.Uint32(head[:])
		if n == 0 {
			f.ended = true
			return 0, io.EOF
		}
		if n > guest.MaxFrame {
			return 0, wrong("output", fmt.Errorf("frame of %d bytes", n))
		}
		f.left = int(n)
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, cut(err)
}

// cut turns the end of a pipe that is not the end of the stream into an error.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (f *frames) Close() error { return f.conn.Close() }

// Read reads the next bytes, waiting for them. One call at a time.
func (o *Output) Read(p []byte) (int, error) {
	n, err := o.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreachable(fmt.Errorf("reading output: %w", err))
	}
	return n, err
}

// Close ends the stream. A Read under way fails.
func (o *Output) Close() error {
	o.cancel()
	return o.body.Close()
}
