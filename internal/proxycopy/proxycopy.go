// Package proxycopy copies bytes between two connections in both directions. An idle connection holds no buffer, so that thousands of quiet
// ones cost little. It copies rather than splices: measured both ways, that is as fast here, takes no pipes (four descriptors a connection),
// and it knows when bytes last moved.
package proxycopy

import (
	"cmp"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection that can close one direction.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Options of Both. Zero times mean without limit.
type Options struct {
	Idle     time.Duration // both are closed when no byte has moved for this long
	HalfIdle time.Duration // the same once one direction has ended
}

// bufferSize is how much is copied at once.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// Both copies bytes in both directions until both have ended, and closes both connections. It passes the end of one direction on as the end
// of that direction; an error ends both.
func Both(a, b Conn, o Options) {
	w := &watch{a: a, b: b, idle: o.Idle, half: o.HalfIdle}
	w.moved()
	if o.Idle > 0 {
		w.mu.Lock()
		w.timer = time.AfterFunc(o.Idle, w.look)
		w.mu.Unlock()
		defer w.stop()
	}
	var other sync.WaitGroup
	other.Go(func() { w.oneWay(a, b) })
	w.oneWay(b, a)
	other.Wait()
	w.close()
}

// watch closes a pair on which no bytes move.
type watch struct {
	a, b       Conn
	idle, half time.Duration
	last       atomic.Int64 // when bytes moved, ns
	ended      atomic.Bool  // one direction

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (w *watch) moved() { w.last.Store(time.Now().UnixNano()) }

func (w *watch) close() {
	_ = w.a.Close()
	_ = w.b.Close()
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// patience returns how long it may now be idle.
func (w *watch) patience() time.Duration {
	if w.ended.Load() && w.half > 0 {
		return min(w.idle, w.half)
	}
	return w.idle
}

func (w *watch) look() {
	left := w.patience() - time.Since(time.Unix(0, w.last.Load()))
	if left <= 0 {
		w.close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer.Reset(left)
	}
}

func (w *watch) oneWay(to, from Conn) {
	err := w.copy(to, from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		w.close()
		return
	}
	w.ended.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && !w.stopped {
		w.timer.Reset(w.patience())
	}
}

func (w *watch) copy(to io.Writer, from Conn) error {
	sys, ok := from.(syscall.Conn)
	if !ok {
		return w.copyHolding(to, from)
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return err
	}
	for {
		n, buf, err := readReady(raw)
		if n > 0 {
			w.moved()
			_, err := to.Write((*buf)[:n])
			buffers.Put(buf)
			if err != nil {
				return err
			}
			w.moved()
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// readReady waits until there is something to read, and only then takes a buffer.
func readReady(raw syscall.RawConn) (n int, buf *[]byte, err error) {
	werr := raw.Read(func(fd uintptr) bool {
		if buf == nil {
			buf = buffers.Get().(*[]byte)
		}
		for {
			n, err = syscall.Read(int(fd), *buf)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(err, syscall.EAGAIN) {
			buffers.Put(buf)
			buf = nil
			return false
		}
		return true
	})
	if werr != nil {
		err = werr
	}
	if err == nil && n > 0 {
		return n, buf, nil
	}
	if buf != nil {
		buffers.Put(buf)
	}
	err = cmp.Or(err, io.EOF)
	return 0, nil, err
}

// copyHolding is copy for connections that are not the kernel's, such as TLS.
func (w *watch) copyHolding(to io.Writer, from io.Reader) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(*buf)
		if n > 0 {
			w.moved()
			if _, err := to.Write((*buf)[:n]); err != nil {
				return err
			}
			w.moved()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
