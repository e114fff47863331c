package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"

	"github.com/parawork/parawork/guest"
)

// Output is a stream of a process, from an offset on. Its Read ends with io.EOF only when the process has ended and everything
// was read; any other error says that the stream was cut: open it again at the offset reached. Close it in any case.
type Output struct {
	From int64 // offset of the first byte Read gives: larger than asked for when the bytes between were dropped

	body   io.ReadCloser
	cancel context.CancelFunc
}

// Output opens a stream at offset from and follows it. It ends with ctx.
func (c *Client) Output(ctx context.Context, id string, stream guest.Stream, from int64) (*Output, error) {
	q, err := of("GET", id, "output", url.PathEscape(string(stream)))
	if err != nil {
		return nil, err
	}
	q.query = url.Values{"from": {strconv.FormatInt(from, 10)}}
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.do(ctx, q)
	if err != nil {
		cancel()
		return nil, err
	}
	o := &Output{body: resp.Body, cancel: cancel}
	o.From, err = strconv.ParseInt(resp.Header.Get(guest.HeaderOffset), 10, 64)
	if err != nil || o.From < from || o.From > math.MaxInt64/2 {
		_ = o.Close()
		return nil, wrong("output", fmt.Errorf("offset %q when asked for %d", clip(resp.Header.Get(guest.HeaderOffset), 50), from))
	}
	return o, nil
}

// Read reads the next bytes, waiting for them. One call at a time.
func (o *Output) Read(p []byte) (int, error) {
	n, err := o.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreachable(fmt.Errorf("reading output: %w", err))
	}
	return n, err
}

// Close lets the stream go. A Read under way fails.
func (o *Output) Close() error {
	o.cancel()
	return o.body.Close()
}
