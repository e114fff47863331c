package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/parawork/parawork/guest"
)

// pipeBuffer holds the largest frame with its header: what the guest wrote at once is read at once, and stays in one piece.
const pipeBuffer = guest.FrameHeader + frameSize

// direct opens a pipe for one stream, after the guest has said hello on the common one. The pipe ends with ctx.
func (c *Client) direct(ctx context.Context, q request) (io.WriteCloser, *bufio.Reader, http.Header, error) {
	if c.cfg.Ready != nil {
		if err := c.cfg.Ready(); err != nil {
			return nil, nil, nil, err
		}
	}
	if _, _, err := c.connect(ctx); err != nil {
		return nil, nil, nil, err
	}
	conn, err := c.cfg.Dial(ctx)
	if err != nil {
		return nil, nil, nil, unreachable(fmt.Errorf("dialling the guest: %w", err))
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	// A pipe whose first bytes were lost never answers.
	late := time.AfterFunc(helloTimeout, func() { _ = conn.Close() })
	r, head, err := c.upgrade(ctx, conn, q)
	if !late.Stop() && err == nil {
		err = errors.New("the guest took too long to open a stream")
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, nil, nil, context.Cause(ctx)
		}
		return nil, nil, nil, unreachable(err)
	}
	return conn, r, head, nil
}

func (c *Client) upgrade(ctx context.Context, conn io.ReadWriter, q request) (*bufio.Reader, http.Header, error) {
	signer, _ := conn.(Signer)
	req, err := c.build(ctx, q, nil, signer)
	if err != nil {
		return nil, nil, err
	}
	req.Header["Connection"] = []string{"Upgrade"}
	req.Header["Upgrade"] = []string{guest.UpgradeStream}
	// A short stream may have been answered, and its pipe closed, before the write is known to have succeeded.
	asked := req.Write(conn)
	bounded := &bound{r: conn, left: maxHead}
	r := bufio.NewReaderSize(bounded, pipeBuffer)
	resp, err := http.ReadResponse(r, req)
	if err != nil && asked != nil {
		err = asked
	}
	if err != nil {
		return nil, nil, fmt.Errorf("requesting a stream from the guest: %w", err)
	}
	switch {
	case resp.StatusCode >= 400:
		defer resp.Body.Close()
		return nil, nil, readError(resp)
	case resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, nil, wrong("a stream", errors.New(clip(resp.Status, 100)))
	}
	bounded.left = math.MaxInt64
	return r, resp.Header, nil
}

// maxHead bounds the header of an answer.
const maxHead = 64 << 10

// bound reads a bounded number of bytes.
type bound struct {
	r    io.Reader
	left int64
}

func (b *bound) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the guest's answer has no end")
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
