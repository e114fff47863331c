package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/guest"
)

// Flow control windows of a pipe with many streams, in bytes. They equal those of guest/client and guest/daemon: a proxy between the two
// must not be narrower, and does not buffer more.
const (
	answerWindow  = 512 << 10
	askedWindow   = 512 << 10
	pipeWindow    = 16 << 20
	frameSize     = 64 << 10
	streamsAtOnce = 4 * guest.MaxProcesses
	quietPing     = time.Minute
)

// serveShared serves HTTP/2 on a pipe: it judges each request and forwards it over one connection to the guest.
func (g *Guard) serveShared(ctx context.Context, conn net.Conn, t Target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back, err := g.dial(ctx, t)
	if err != nil {
		return err
	}
	defer back.conn.Close()
	s := &shared{g: g, t: t, back: back}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler:   s,
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streamsAtOnce, MaxReceiveBufferPerConnection: pipeWindow, MaxReceiveBufferPerStream: askedWindow,
			MaxReadFrameSize: frameSize},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(g.cfg.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(newOnce(conn)) }() // ends with srv
	select {
	case err = <-served: // the pipe has ended
		served <- nil
	case <-back.dead: // the guest's last responses still reach the server; then it dials anew
		sctx, stop := context.WithTimeout(ctx, lastWords)
		_ = srv.Shutdown(sctx)
		stop()
	case <-ctx.Done():
	}
	cancel()
	_ = srv.Close()
	_ = conn.Close()
	<-served
	s.entry.Lock()
	s.over = true
	s.entry.Unlock()
	s.under.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// lastWords is how long the responses of a guest that has ended may still take to be sent.
const lastWords = 2 * time.Second

// once is a listener for one connection: the next Accept waits until that is closed.
type once struct {
	conn   *closing
	taken  atomic.Bool
	closed sync.Once
	over   chan struct{}
}

func newOnce(conn net.Conn) *once {
	c := &closing{Conn: conn, done: make(chan struct{})}
	return &once{conn: c, over: make(chan struct{})}
}

func (l *once) Accept() (net.Conn, error) {
	if l.taken.CompareAndSwap(false, true) {
		return l.conn, nil
	}
	select {
	case <-l.conn.done:
	case <-l.over:
	}
	return nil, net.ErrClosed
}

func (l *once) Close() error {
	l.closed.Do(func() { close(l.over) })
	return nil
}

func (l *once) Addr() net.Addr { return l.conn.LocalAddr() }

// closing signals when a connection is closed.
type closing struct {
	net.Conn
	one  sync.Once
	done chan struct{}
}

func (c *closing) Close() error {
	c.one.Do(func() { close(c.done) })
	return c.Conn.Close()
}

// backend is the connection to the guest.
type backend struct {
	conn  *http.ClientConn
	token string
	dead  <-chan struct{} // closed when the guest has closed it
}

// dial opens the connection to the guest.
func (g *Guard) dial(ctx context.Context, t Target) (*backend, error) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	reported, dead := make(chan string, 1), make(chan struct{})
	transport := &http.Transport{
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: answerWindow, MaxReadFrameSize: frameSize, SendPingTimeout: quietPing, PingTimeout: quietPing},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			rwc, token, err := t.Dial(ctx)
			if err != nil {
				return nil, err
			}
			reported <- token
			return &watched{Conn: asConn(rwc), dead: dead}, nil
		},
	}
	conn, err := transport.NewClientConn(ctx, "http", "guest:80")
	if err != nil {
		return nil, fmt.Errorf("reaching the guest: %w", err)
	}
	return &backend{conn: conn, token: <-reported, dead: dead}, nil
}

// watched is a connection that signals when it can no longer be read.
type watched struct {
	net.Conn
	once sync.Once
	dead chan struct{}
}

func (c *watched) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.once.Do(func() { close(c.dead) })
	}
	return n, err
}

// shared is the handler of one pipe.
type shared struct {
	g     *Guard
	t     Target
	back  *backend
	under sync.WaitGroup

	entry sync.Mutex // of under: nothing begins once it is being waited for
	over  bool
}

// passedOn are the headers of a request that reach the guest.
var passedOn = []string{"Content-Type", guest.HeaderIfMatch, guest.HeaderOffset}

func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.entry.Lock()
	if s.over {
		s.entry.Unlock()
		return
	}
	s.under.Add(1)
	s.entry.Unlock()
	defer s.under.Done()
	may, err := s.g.judge(r, s.t)
	if err != nil {
		refuse(w, r, err)
		return
	}
	resp, err := s.back.conn.RoundTrip(s.onward(r, may))
	if err != nil {
		panic(http.ErrAbortHandler) // the guest did not answer: the stream ends, and the pipe too where the guest is gone
	}
	defer resp.Body.Close()
	s.done(may, resp.StatusCode)
	for name, values := range resp.Header {
		if name != "Connection" && name != "Transfer-Encoding" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	if err := carry(w, rc, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // a truncated response must not look complete
	}
}

// done records what has happened in the guest.
func (s *shared) done(may allowed, status int) {
	switch {
	case status >= 300:
	case may.ends && s.t.Ended != nil:
		s.t.Ended()
	case may.spec != nil && s.t.Start != nil:
		s.t.Start(may.spec.ID, may.spec.Argv)
	}
}

// onward builds the request for the guest.
func (s *shared) onward(r *http.Request, may allowed) *http.Request {
	u := &url.URL{Scheme: "http", Host: "guest", Path: r.URL.Path, RawQuery: r.URL.RawQuery}
	out := (&http.Request{Method: r.Method, URL: u, Host: "guest", Header: header(r, s.back.token), Body: r.Body, ContentLength: r.ContentLength}).WithContext(r.Context())
	switch {
	case may.body != nil:
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(may.body)), int64(len(may.body))
	case r.ContentLength == 0:
		out.Body = http.NoBody
	}
	return out
}

// header returns the headers of a request to the guest.
func header(r *http.Request, token string) http.Header {
	out := http.Header{"Authorization": {"Bearer " + token}}
	for _, name := range passedOn {
		if v := r.Header.Values(name); len(v) > 0 {
			out[name] = v
		}
	}
	return out
}

var buffers = sync.Pool{New: func() any { return new([frameSize]byte) }}

// carry copies a response as it comes.
func carry(w io.Writer, rc *http.ResponseController, from io.Reader) error {
	buf := buffers.Get().(*[frameSize]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(buf[:])
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			if werr := rc.Flush(); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
