// Package egressbridge carries a sandbox's way out to its host where no socket of the host can be mounted inside, as on an engine
// in a virtual machine: a small program in the sandbox listens where the gate's socket would be. Each connection becomes a stream
// of HTTP/2 on its standard input and output, which the host connects to the gate.
//
// The program is the client: streams begin in the sandbox. Its data is untrusted. The host accepts a limited number of streams at
// once, and nothing but streams.
package egressbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

const (
	// most is how many connections one sandbox may have open through it: the same as its gate's limit.
	most = 512
	// window is how much unread data of one stream may be in flight.
	window = 256 << 10
	chunk  = 32 << 10
	path   = "/"
)

func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Run is `parawork-guest egress-bridge SOCKET`. It returns when the host has closed standard input.
func Run(ctx context.Context, args []string, in io.ReadCloser, out io.WriteCloser) error {
	if len(args) != 1 {
		return errors.New("the socket for programs is required")
	}
	socket := args[0]
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an earlier run
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening for outgoing connections: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // by then it may be the next run's
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pipe := &stdio{in: in, out: out, ended: cancel}
	t := &http.Transport{Protocols: protocols(), DisableCompression: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return pipe, nil }}
	host, err := t.NewClientConn(ctx, "http", "host:80")
	if err != nil {
		return fmt.Errorf("speaking to the host: %w", err)
	}
	defer host.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	slots := make(chan struct{}, most)
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(context.Cause(ctx), io.EOF) {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		work.Go(func() {
			defer func() { <-slots }()
			carryOut(ctx, host, conn.(*net.UnixConn))
		})
	}
}

// carryOut carries one connection.
func carryOut(ctx context.Context, host *http.ClientConn, conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r, w := io.Pipe()
	var up sync.WaitGroup
	defer up.Wait()
	defer r.Close()
	up.Go(func() {
		_, err := io.CopyBuffer(w, struct{ io.Reader }{conn}, make([]byte, chunk))
		_ = w.CloseWithError(err) // nil: the end of the data sent
	})
	req := (&http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "host", Path: path}, Host: "host", Header: http.Header{},
		Body: r, ContentLength: -1}).WithContext(ctx)
	resp, err := host.RoundTrip(req)
	if err != nil {
		_ = conn.Close()
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		if _, err := io.CopyBuffer(struct{ io.Writer }{conn}, resp.Body, make([]byte, chunk)); err == nil {
			_ = conn.CloseWrite()
			up.Wait() // wait for the data still being sent
		}
	}
	_ = conn.Close()
}

// stdio is standard input and output as one connection.
type stdio struct {
	in    io.ReadCloser
	out   io.WriteCloser
	ended context.CancelCauseFunc
}

func (s *stdio) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil {
		s.ended(err)
	}
	return n, err
}

func (s *stdio) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	if err != nil {
		s.ended(err)
	}
	return n, err
}

func (s *stdio) Close() error {
	s.ended(net.ErrClosed)
	return errors.Join(s.in.Close(), s.out.Close())
}

func (*stdio) LocalAddr() net.Addr              { return addr{} }
func (*stdio) RemoteAddr() net.Addr             { return addr{} }
func (*stdio) SetDeadline(time.Time) error      { return nil }
func (*stdio) SetReadDeadline(time.Time) error  { return nil }
func (*stdio) SetWriteDeadline(time.Time) error { return nil }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "pipe" }

// Conn is a connection one direction of which can be closed.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Serve is the host's end: it connects each stream of the pipe with a connection from dial, until the pipe or ctx ends. It closes
// the pipe.
func Serve(ctx context.Context, pipe net.Conn, dial func(context.Context) (Conn, error), log *slog.Logger) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	one := &single{conn: make(chan net.Conn, 1), over: make(chan struct{})}
	one.conn <- &watched{Conn: pipe, closed: one.end}
	srv := &http.Server{Protocols: protocols(), ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: most, MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: 8 << 20,
			SendPingTimeout: time.Minute, PingTimeout: time.Minute},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != path {
				http.NotFound(w, r)
				return
			}
			carryIn(w, r, dial)
		})}
	defer context.AfterFunc(ctx, func() { _ = srv.Close(); _ = pipe.Close(); one.end() })()
	_ = srv.Serve(one) // it ends with the pipe
	_ = srv.Close()
	_ = pipe.Close()
}

// carryIn connects one stream with the gate.
func carryIn(w http.ResponseWriter, r *http.Request, dial func(context.Context) (Conn, error)) {
	conn, err := dial(r.Context())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(r.Context(), func() { _ = conn.Close() })()
	var up sync.WaitGroup
	up.Go(func() {
		if _, err := io.CopyBuffer(struct{ io.Writer }{conn}, r.Body, make([]byte, chunk)); err == nil {
			_ = conn.CloseWrite()
		} else {
			_ = conn.Close()
		}
	})
	rc := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()
	buf := make([]byte, chunk)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil || rc.Flush() != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = r.Body.Close() // the gate has ended: nobody reads what is still sent
	up.Wait()
}

// single is a listener with one connection, and lives as long as that.
type single struct {
	conn chan net.Conn
	over chan struct{}
	once sync.Once
}

func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.over:
		return nil, net.ErrClosed
	}
}

func (s *single) end()           { s.once.Do(func() { close(s.over) }) }
func (s *single) Close() error   { s.end(); return nil }
func (s *single) Addr() net.Addr { return addr{} }

// watched reports when it was closed.
type watched struct {
	net.Conn
	closed func()
}

func (w *watched) Close() error {
	err := w.Conn.Close()
	w.closed()
	return err
}
