// Package client is the host's side of the guest's protocol. It trusts nothing it receives: it checks lengths, offsets, IDs and
// paths before anybody sees them, and returns an error for an impossible answer.
//
// One pipe carries everything, multiplexed by HTTP/2; only an Output and an Input have a pipe each, which removes more than a
// third of what the guest adds to a keystroke's echo. Config.OnePipe keeps them on the common pipe too, for sandboxes where pipes
// are expensive. A pipe is dialled at first use and again after a cut; requests under way then fail, except for short ones, which
// are repeated once. The caller resumes streams from its offset or number: see Output and Input.
//
// A guest behind a proxy that requires signatures is reached through pipes that are Signers: each changing request is signed for
// the pipe it is sent over, each time it is sent.
//
// Errors of the guest are *fault.Error. When the guest cannot be reached they are of kind Unavailable and wrap the cause.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Config configures a Client. Dial and Token are required.
type Config struct {
	Dial      func(ctx context.Context) (io.ReadWriteCloser, error) // opens a pipe to the guest; called again after a cut
	Token     string                                                // the token the guest requires of its host
	SandboxID string                                                // the ID the guest must report; "" = not checked
	Ready     func() error                                          // called before each request; its error is returned instead of an answer; optional
	OnePipe   bool                                                  // pipes are expensive: no Output or Input gets its own
	Late      func() (token string, onePipe bool)                   // returns Token and OnePipe where they are known only later; optional
	Now       func() time.Time
}

// Client is a connection to one guest. Safe for concurrent use. Close it when it is no longer needed.
type Client struct {
	cfg       Config
	transport *http.Transport

	mu     sync.Mutex
	pipe   *pipe
	dialed chan struct{} // not nil during a dial; closed when that has ended
	closed bool
	sent   map[string]uint64 // by process: the newest input frame sent, until its input is closed or it is removed
}

// New returns a Client. It dials at first use.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg}
	c.transport = newTransport(cfg.Dial)
	return c
}

// token is the token the guest requires of its host.
func (c *Client) token() string {
	if c.cfg.Late != nil {
		token, _ := c.cfg.Late()
		return token
	}
	return c.cfg.Token
}

// onePipe reports whether everything goes over the common pipe.
func (c *Client) onePipe() bool {
	if c.cfg.Late != nil {
		_, one := c.cfg.Late()
		return one
	}
	return c.cfg.OnePipe
}

// Close closes the pipe. Calls under way fail, and so do later ones.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.pipe != nil {
		c.pipe.close()
		c.pipe = nil
	}
}

var errClosed = fault.New(fault.Unavailable, "guest_closed", "The connection to the sandbox was closed.")

// errCut says that a pipe was cut under a request, so that the guest may have received it, and that no other pipe reaches the guest.
var errCut = errors.New("the pipe before was cut")

// unreachable reports that the guest cannot be reached, and wraps the cause.
func unreachable(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, "guest_unreachable", "The sandbox cannot be reached.")
}

// wrong reports that the guest gave an impossible answer.
func wrong(what string, err error) error {
	return fault.Wrap(err, fault.Unavailable, "guest_wrong_answer", "The sandbox gave an invalid answer. Destroy the sandbox and try again.").With("answer", what)
}

// request is one request to the guest.
type request struct {
	method string
	path   []string // elements below /v1, escaped where needed
	query  url.Values
	header http.Header
	json   any       // sent as JSON
	body   io.Reader // sent unchanged; such a request is never repeated
}

// do sends a request and returns a successful answer. The caller closes its body.
func (c *Client) do(ctx context.Context, q request) (*http.Response, error) {
	var payload []byte
	if q.json != nil {
		b, err := json.Marshal(q.json)
		if err != nil {
			return nil, fmt.Errorf("sending a request to the guest: %w", err)
		}
		payload = b
	}
	if c.cfg.Ready != nil {
		if err := c.cfg.Ready(); err != nil {
			return nil, err
		}
	}
	for cut := error(nil); ; { // cut is why the first pipe ended with the request under way
		p, fresh, err := c.connect(ctx)
		if err != nil {
			if cut != nil && ctx.Err() == nil && !errors.Is(err, errClosed) {
				err = fmt.Errorf("%w (%w: %w)", err, errCut, cut)
			}
			return nil, err
		}
		r, err := c.build(ctx, q, payload, p.signer)
		if err != nil {
			return nil, err
		}
		resp, err := p.conn.RoundTrip(r)
		if err == nil {
			if resp.StatusCode >= 400 {
				defer resp.Body.Close()
				return nil, readError(resp)
			}
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if p.conn.Err() == nil || fresh || cut != nil || q.body != nil {
			return nil, unreachable(fmt.Errorf("sending a request to the guest: %w", err))
		}
		cut = err // perhaps earlier, unnoticed: all requests sent this way may be repeated
	}
}

// Signer is an optional interface of a pipe. Sign signs a changing request (guest.Changing) by adding to its header. body is
// everything it sends; that of a stream (guest.Streams) is unknown, and nil. The request's context is the caller's.
type Signer interface {
	Sign(r *http.Request, body []byte) error
}

// build makes the request of q for a pipe that requires signatures, or for one that does not: nil.
func (c *Client) build(ctx context.Context, q request, payload []byte, signer Signer) (*http.Request, error) {
	u := &url.URL{Scheme: "http", Host: "guest", RawQuery: q.query.Encode()}
	u.Path = "/v1/" + path.Join(q.path...)
	r := (&http.Request{Method: q.method, URL: u, Host: "guest", Header: http.Header{}}).WithContext(ctx)
	maps.Copy(r.Header, q.header)
	r.Header["Authorization"] = []string{"Bearer " + c.token()}
	switch {
	case q.body != nil:
		r.Body, r.ContentLength = io.NopCloser(q.body), -1
		if rc, ok := q.body.(io.ReadCloser); ok {
			r.Body = rc
		}
	case q.json != nil:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(payload)), int64(len(payload))
		r.Header["Content-Type"] = []string{"application/json"}
	}
	if signer == nil || !guest.Changing(r.Method, u.EscapedPath()) {
		return r, nil
	}
	if payload == nil && !guest.Streams(r.Method, u.EscapedPath()) {
		payload = []byte{}
	}
	if err := signer.Sign(r, payload); err != nil {
		return nil, fmt.Errorf("signing a request to the guest: %w", err)
	}
	return r, nil
}

// ask sends a request and decodes the answer into v, nil when there is none.
func (c *Client) ask(ctx context.Context, q request, v any) error {
	resp, err := c.do(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if v == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, 1<<10) // to its end, so that the stream is not reset
		return nil
	}
	return decode(resp.Body, v)
}

// decode reads one JSON answer.
func decode(r io.Reader, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, guest.MaxJSON+1))
	if err != nil {
		return unreachable(fmt.Errorf("reading the guest's answer: %w", err))
	}
	if len(b) > guest.MaxJSON {
		return wrong("too long", fmt.Errorf("more than %d bytes", guest.MaxJSON))
	}
	if err := json.Unmarshal(b, v); err != nil {
		return wrong("not readable", err)
	}
	return nil
}
