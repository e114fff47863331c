package seal_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/guest/seal"
)

// wire is a pipe that keeps a record of what is written to it, as E2B does.
type wire struct {
	net.Conn
	mu   sync.Mutex
	seen bytes.Buffer
	harm func(p []byte)
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.seen.Write(p)
	harm := w.harm
	w.mu.Unlock()
	if harm != nil {
		p = bytes.Clone(p)
		harm(p)
	}
	return w.Conn.Write(p)
}

// guest echoes its input, and returns how it ended.
func guest(t *testing.T, token string) (dial func() *wire, ended <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	sealed := seal.Listen(l, token)
	over := make(chan error, 8)
	go func() { // ends with the listener
		for {
			c, err := sealed.Accept()
			if err != nil {
				return
			}
			go func() {
				_, err := io.Copy(c, struct{ io.Reader }{c})
				_ = c.Close()
				over <- err
			}()
		}
	}()
	return func() *wire {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return &wire{Conn: c}
	}, over
}

func TestWhatCrossesIsWholeAndCannotBeReadOnTheWay(t *testing.T) {
	t.Parallel()
	dial, _ := guest(t, "the token")
	w := dial()
	host, err := seal.Client(w, "the token")
	if err != nil {
		t.Fatal(err)
	}
	sent := make([]byte, 3<<20+17)
	_, _ = rand.Read(sent)
	copy(sent[100_000:], "sk-secret-of-an-agent")
	go func() { // ends with the pipe
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 70_001)
			if _, err := host.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(host, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("what came back is not what was sent (%v)", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(w.seen.Bytes(), []byte("secret-of")) || bytes.Contains(w.seen.Bytes(), []byte("the token")) {
		t.Error("a secret can be read on the way")
	}
}

func TestWithoutTheTokenNobodyAnswers(t *testing.T) {
	t.Parallel()
	dial, ended := guest(t, "the token")
	host, err := seal.Client(dial(), "another")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("the guest took it: %v", err)
	}
	if n, err := host.Read(make([]byte, 10)); err == nil {
		t.Errorf("it answered %d bytes", n)
	}
	// Nor is one heard who does not seal at all.
	if _, err := dial().Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n and more that fills a hello")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("the guest heard it: %v", err)
	}
}

func TestWhatWasChangedOnTheWayIsRefused(t *testing.T) {
	t.Parallel()
	dial, ended := guest(t, "t")
	w := dial()
	host, err := seal.Client(w, "t")
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.harm = func(p []byte) { p[len(p)-1] ^= 1 }
	w.mu.Unlock()
	if _, err := host.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("the guest took it: %v", err)
	}
}

// net/http breaks a read off to take a connection over: nothing is lost by that.
func TestAReadThatIsBrokenOffGoesOn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	slow := &halves{Conn: c, next: make(chan struct{})}
	got := make(chan string, 1)
	broken := make(chan error, 1)
	go func() { // ends with the pipe
		g, err := seal.Listen(l, "t").Accept()
		if err != nil {
			return
		}
		if _, err := io.ReadFull(g, make([]byte, 5)); err != nil {
			broken <- err
			return
		}
		_ = g.SetReadDeadline(time.Now().Add(-time.Second))
		_, err = g.Read(make([]byte, 1))
		broken <- err
		_ = g.SetReadDeadline(time.Time{})
		b := make([]byte, 6)
		_, _ = io.ReadFull(g, b)
		got <- string(b)
	}()
	host, err := seal.Client(slow, "t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	slow.hold.Store(true)
	go func() { _, _ = host.Write([]byte("world!")) }() // ends with the pipe
	var late net.Error
	if err := <-broken; !errors.As(err, &late) || !late.Timeout() {
		t.Fatalf("the read ended with %v", err)
	}
	close(slow.next)
	if s := <-got; s != "world!" {
		t.Errorf("then came %q", s)
	}
}

// halves sends the first half of a write at once, and the second on request.
type halves struct {
	net.Conn
	hold atomic.Bool
	next chan struct{}
}

func (h *halves) Write(p []byte) (int, error) {
	if !h.hold.Load() {
		return h.Conn.Write(p)
	}
	n, err := h.Conn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	<-h.next
	m, err := h.Conn.Write(p[len(p)/2:])
	return n + m, err
}
