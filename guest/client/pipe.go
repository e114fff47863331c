package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

const (
	// streamWindow is how much of one stream may be under way unread.
	streamWindow = 512 << 10
	// frameSize is the largest frame the guest may send: small enough that a keystroke's echo does not wait long behind one.
	frameSize = 64 << 10
	// helloTimeout bounds the first answer on a new pipe.
	helloTimeout = 15 * time.Second
	// quietPing is how long a pipe may be quiet before it is pinged.
	quietPing = time.Minute
)

// newTransport makes pipes of the given dialler speak HTTP/2. It serves one pipe at a time, never a pool.
func newTransport(dial func(context.Context) (io.ReadWriteCloser, error)) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		Protocols: protocols,
		// The window of the whole pipe stays the transport's default of 1 GiB: a stream nobody reads holds only its own window.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow, MaxReadFrameSize: frameSize,
			SendPingTimeout: quietPing, PingTimeout: quietPing},
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			rwc, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			if found, ok := ctx.Value(signerKey{}).(*Signer); ok {
				*found, _ = rwc.(Signer)
			}
			if conn, ok := rwc.(net.Conn); ok {
				return conn, nil
			}
			return pipeConn{rwc}, nil
		},
	}
}

// signerKey is the context key of a dial for a *Signer that is set to the pipe where it is one.
type signerKey struct{}

// pipe is one connection to the guest that has said hello.
type pipe struct {
	conn   *http.ClientConn
	hello  guest.Hello
	signer Signer // nil where no signatures are required
}

func (p *pipe) close() { _ = p.conn.Close() }

// connect returns the pipe, dialling when there is no live one; fresh reports that it has just been dialled. Concurrent callers
// wait for the one that dials.
func (c *Client) connect(ctx context.Context) (p *pipe, fresh bool, err error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, false, errClosed
		}
		if c.pipe != nil && c.pipe.conn.Err() == nil {
			defer c.mu.Unlock()
			return c.pipe, false, nil
		}
		if c.dialed == nil {
			c.dialed = make(chan struct{})
			c.mu.Unlock()
			p, err := c.dial(ctx)
			return p, true, err
		}
		wait := c.dialed
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// dial opens a pipe and lets the guest say hello on it. The caller has set c.dialed.
func (c *Client) dial(ctx context.Context) (*pipe, error) {
	p, err := c.greet(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.dialed)
	c.dialed = nil
	if err != nil {
		return nil, unreachable(err)
	}
	if c.closed {
		p.close()
		return nil, errClosed
	}
	if c.pipe != nil {
		c.pipe.close()
	}
	c.pipe = p
	return p, nil
}

func (c *Client) greet(ctx context.Context) (*pipe, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helloTimeout, errors.New("the guest did not say hello in time"))
	defer cancel()
	p := &pipe{}
	conn, err := c.transport.NewClientConn(context.WithValue(ctx, signerKey{}, &p.signer), "http", "guest:80")
	if err != nil {
		return nil, fmt.Errorf("dialling the guest: %w", err)
	}
	p.conn = conn
	hello, err := c.build(ctx, request{method: "GET", path: []string{"hello"}}, nil, p.signer)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	resp, err := conn.RoundTrip(hello)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("saying hello to the guest: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		err = readError(resp)
	} else if err = decode(resp.Body, &p.hello); err == nil {
		err = c.checkHello(p.hello)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return p, nil
}

// checkHello reports whether this is the expected guest, with a supported protocol version.
func (c *Client) checkHello(h guest.Hello) error {
	switch {
	case h.Version != guest.Version && h.Version != guest.Version-1:
		return fault.New(fault.Unsupported, "guest_version",
			"The sandbox's guest speaks version %d of the protocol, this server %d. Restart the sandbox.", h.Version, guest.Version)
	case c.cfg.SandboxID != "" && h.SandboxID != c.cfg.SandboxID:
		return wrong("hello", fmt.Errorf("sandbox %q answers for %q", clip(h.SandboxID, 100), c.cfg.SandboxID))
	case len(h.Root) > guest.MaxPath || !filepath.IsAbs(h.Root):
		return wrong("hello", errors.New("the root is not an absolute path"))
	case h.Home != "" && (len(h.Home) > guest.MaxPath || !filepath.IsAbs(h.Home) || filepath.Clean(h.Home) != h.Home || h.Home == "/"):
		return wrong("hello", errors.New("the home is not an absolute path"))
	case h.Gateway < 0 || h.Gateway > 65535:
		return wrong("hello", errors.New("the gateway's port is invalid"))
	case len(h.Build) > 200 || len(h.OS) > 50 || len(h.Arch) > 50 || len(h.Degraded) > 2000 || h.Pid < 0 || h.StartedAt < 0:
		return wrong("hello", errors.New("a field is out of bounds"))
	}
	return nil
}

func clip(s string, n int) string { return s[:min(len(s), n)] }

// pipeConn makes a bare pipe look like a network connection. It has no deadlines: closing it ends what is under way.
type pipeConn struct{ io.ReadWriteCloser }

func (pipeConn) LocalAddr() net.Addr              { return pipeAddr{} }
func (pipeConn) RemoteAddr() net.Addr             { return pipeAddr{} }
func (pipeConn) SetDeadline(time.Time) error      { return nil }
func (pipeConn) SetReadDeadline(time.Time) error  { return nil }
func (pipeConn) SetWriteDeadline(time.Time) error { return nil }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "guest" }
