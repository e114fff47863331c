package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Stream opens a stream: the bodies of a POST to path (with its query) and of the response are its two directions. ctx bounds only the
// opening; Close ends the stream. Once a Write has returned, its bytes have left for the network, also when Close follows at once. It has no
// deadlines. An error response comes back as a fault with the machine's own code.
func (l *Link) Stream(ctx context.Context, path string, header http.Header) (net.Conn, error) {
	u, err := url.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	open, late := context.WithTimeoutCause(ctx, openTime, fault.New(fault.Timeout, wire.CodeOffline, "The machine does not answer."))
	defer late()
	life, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(open, func() { cancel(context.Cause(open)) })
	up := newFeed()
	req := (&http.Request{Method: http.MethodPost, URL: u, Header: header.Clone(), Body: up, ContentLength: -1}).WithContext(life)
	resp, err := l.RoundTrip(req)
	if err == nil && !stop() {
		_ = resp.Body.Close()
		err = context.Cause(open)
	}
	if err != nil {
		cancel(err)
		_ = up.Close()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel(nil)
		defer resp.Body.Close()
		return nil, ReadError(resp)
	}
	return &stream{feed: up, body: resp.Body, cancel: cancel, link: l}, nil
}

// stream is the server's end of one.
type stream struct {
	*feed
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	link   *Link
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.link.unreachable(err)
	}
	return n, err
}

// CloseWrite tells the machine that nothing more comes.
func (s *stream) CloseWrite() error { return s.feed.end(io.EOF) }

func (s *stream) Close() error {
	s.cancel(net.ErrClosed)
	_ = s.feed.Close()
	return s.body.Close()
}

func (s *stream) LocalAddr() net.Addr              { return address{} }
func (s *stream) RemoteAddr() net.Addr             { return address{} }
func (s *stream) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (s *stream) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (s *stream) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type address struct{}

func (address) Network() string { return "runner" }
func (address) String() string  { return "runner" }

// feed is a request body that is written while the request runs. Unlike a pipe's, its Write returns when the bytes have been passed on:
// HTTP/2 reads again only when it has sent what it read before.
type feed struct {
	mu      sync.Mutex
	cond    sync.Cond
	left    []byte // of the current Write
	taken   bool   // part of it was read and may not be sent yet
	err     error  // for Read, once left is empty
	gone    bool   // nobody reads any more
	writing sync.Mutex
}

func newFeed() *feed {
	f := &feed{}
	f.cond.L = &f.mu
	return f
}

func (f *feed) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken {
		f.taken = false
		f.cond.Broadcast()
	}
	for len(f.left) == 0 && f.err == nil {
		f.cond.Wait()
	}
	if len(f.left) == 0 {
		return 0, f.err
	}
	n := copy(p, f.left)
	f.left, f.taken = f.left[n:], true
	return n, nil
}

func (f *feed) Write(p []byte) (int, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.gone {
		return 0, net.ErrClosed
	}
	f.left = p
	f.cond.Broadcast()
	for (len(f.left) > 0 || f.taken) && !f.gone {
		f.cond.Wait()
	}
	n := len(p) - len(f.left)
	f.left = nil
	if f.gone && (n < len(p) || f.taken) {
		return n, net.ErrClosed
	}
	return n, nil
}

// end makes Read return err after what was written.
func (f *feed) end(err error) error {
	f.writing.Lock() // a pending Write goes first
	defer f.writing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = cmp.Or(f.err, err)
	f.cond.Broadcast()
	return nil
}

// Close says that nobody reads any more. HTTP/2 calls it, too.
func (f *feed) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	f.err = cmp.Or(f.err, net.ErrClosed)
	f.cond.Broadcast()
	return nil
}
