package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// maxSaid bounds what is kept of a program's standard error.
const maxSaid = 2000

// stream is the input and output of a program in a pod, as a connection. It goes over a WebSocket (v5.channel.k8s.io), or over SPDY where the
// server or a proxy before it knows no such WebSocket; either is pinged every five seconds.
type stream struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu   sync.Mutex
	said bytes.Buffer
	end  error // how it ended; valid once done is closed
}

var _ net.Conn = (*stream)(nil)

// exec starts a program in a pod's container. The stream lives until it is closed or cut, or the executor is closed.
func (e *Executor) exec(c *cluster, pod string, args ...string) (*stream, error) {
	q := url.Values{"container": {containerName}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "command": args}
	u := c.base.JoinPath(c.pods(pod), "exec")
	u.RawQuery = q.Encode()
	ws, err := remotecommand.NewWebSocketExecutor(c.cfg, http.MethodGet, u.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.cfg, http.MethodPost, u)
	if err != nil {
		return nil, err
	}
	both, err := remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(klog.NewContext(e.life, logr.Discard()))
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &stream{in: inW, out: outR, cancel: cancel, done: make(chan struct{})}
	if !e.work.Go(func() {
		defer close(s.done)
		err := both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: inR, Stdout: outW, Stderr: (*saying)(s)})
		err = s.why(ctx, err)
		s.mu.Lock()
		s.end = err
		s.mu.Unlock()
		_ = outW.CloseWithError(err)
		_ = inR.CloseWithError(err)
	}) {
		cancel(errStopped)
		return nil, errStopped
	}
	return s, nil
}

var errStopped = errors.New("the executor was closed")

// exitError is the end of a program that says it failed.
type exitError struct {
	code int
	said string
}

func (e *exitError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("it ended with exit status %d", e.code)
	}
	return fmt.Sprintf("it ended with exit status %d: %s", e.code, e.said)
}

// why is how a program's stream ended: io.EOF when it was closed in order.
func (s *stream) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	said := line(s.said.String(), 500)
	s.mu.Unlock()
	if err == nil {
		return io.EOF
	}
	if x, ok := errors.AsType[exec.CodeExitError](err); ok {
		return &exitError{x.Code, strings.TrimPrefix(said, "parawork-guest: ")}
	}
	if said != "" {
		return fmt.Errorf("%w (%s)", err, said)
	}
	return &lostError{err}
}

// saying keeps what a program says on its standard error.
type saying stream

func (s *saying) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said.Write(b[:min(len(b), max(maxSaid-s.said.Len(), 0))])
	return len(b), nil
}

func (s *stream) Read(b []byte) (int, error)  { return s.out.Read(b) }
func (s *stream) Write(b []byte) (int, error) { return s.in.Write(b) }

// CloseWrite ends the program's input.
func (s *stream) CloseWrite() error { return s.in.Close() }

// Close cuts the stream, which ends the program.
func (s *stream) Close() error {
	s.cut(net.ErrClosed)
	return nil
}

func (s *stream) cut(why error) {
	s.cancel(why)
	_ = s.in.CloseWithError(why)
	_ = s.out.CloseWithError(why)
}

// wait waits for the program's end.
func (s *stream) wait(ctx context.Context) error {
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cut(context.Cause(ctx))
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.end, io.EOF) {
		return nil
	}
	return s.end
}

type streamAddr struct{}

func (streamAddr) Network() string { return "pod" }
func (streamAddr) String() string  { return "pod" }

func (*stream) LocalAddr() net.Addr              { return streamAddr{} }
func (*stream) RemoteAddr() net.Addr             { return streamAddr{} }
func (*stream) SetDeadline(time.Time) error      { return nil }
func (*stream) SetReadDeadline(time.Time) error  { return nil }
func (*stream) SetWriteDeadline(time.Time) error { return nil }
