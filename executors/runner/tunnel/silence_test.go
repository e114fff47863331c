package tunnel_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// network is a connection between machines and a server within a test's own time: it can be cut without a notification.
type network struct {
	mu    sync.Mutex
	cut   bool // bytes vanish, and nobody gets through
	down  bool // connections fail at once
	dials int
	work  sync.WaitGroup
	calls chan net.Conn
	done  chan struct{}
}

func newNetwork() *network { return &network{calls: make(chan net.Conn), done: make(chan struct{})} }

func (n *network) set(cut, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut, n.down = cut, down
}

func (n *network) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

func (n *network) attempts() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	cut, down := n.cut, n.down
	n.mu.Unlock()
	if down {
		return nil, errors.New("nobody is there")
	}
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	here, one := net.Pipe()
	two, there := net.Pipe()
	carry := func(from, to net.Conn) {
		b := make([]byte, 32<<10)
		for {
			k, err := from.Read(b)
			if err != nil {
				if n.isCut() { // the end is not heard of either
					<-n.done
				}
				_ = to.Close()
				return
			}
			if !n.isCut() {
				_, _ = to.Write(b[:k])
			}
		}
	}
	n.work.Go(func() { carry(one, two) })
	n.work.Go(func() { carry(two, one) })
	select {
	case n.calls <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.calls:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { return nil }
func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// harness is a server and a machine that stays connected to it, in a test's own time.
type harness struct {
	*door
	net    *network
	states chan tunnel.State
	kept   chan error
	stop   context.CancelFunc
}

func inBubble(t *testing.T, test func(t *testing.T, h *harness)) {
	k := newKeys(t)
	synctest.Test(t, func(t *testing.T) {
		h := &harness{door: newDoor(k), net: newNetwork(), states: make(chan tunnel.State, 1000), kept: make(chan error, 1)}
		srv := &http.Server{Handler: h.door}
		served := make(chan struct{})
		go func() { _ = srv.Serve(h.net); close(served) }()
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		cfg := h.dial("http://server.test")
		cfg.Net = h.net.dial
		go func() {
			h.kept <- tunnel.Keep(ctx, tunnel.KeepConfig{Dial: cfg, Handler: machine(), Rand: func() float64 { return 1 },
				Changed: func(s tunnel.State) { h.states <- s }})
		}()
		test(t, h)
		h.stop()
		close(h.net.done)
		_ = srv.Close()
		<-served
		h.net.work.Wait()
		synctest.Wait()
		for {
			select {
			case l := <-h.links:
				<-l.Done()
			default:
				return
			}
		}
	})
}

func TestAQuietConnectionLivesOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, h *harness) {
		l := h.link(t)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if r := l.Reason(); r != "" {
			t.Fatalf("it ended: %s", r)
		}
		if q := l.Quiet(); q > tunnel.PingEvery {
			t.Errorf("nothing was heard for %s", q)
		}
		if got := ask(t, l, "GET", "/v1/hello", nil); got != "hello " {
			t.Errorf("got %q", got)
		}
	})
}

// The network is cut for a minute without a word to anybody: either end notices within 25 seconds, and the machine is back once it can be.
func TestACutForAMinute(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, h *harness) {
		l := h.link(t)
		time.Sleep(time.Hour)
		cut := time.Now()
		h.net.set(true, false)
		<-l.Done()
		if d := time.Since(cut); d > tunnel.Dead+time.Second {
			t.Errorf("the server took %s to notice", d)
		}
		if !strings.Contains(l.Reason(), "Nothing was received") {
			t.Errorf("the server says %q", l.Reason())
		}
		if s := <-h.states; !s.Connected {
			t.Errorf("first %+v", s)
		}
		s := <-h.states
		if s.Connected || !strings.Contains(s.Reason, "Nothing was received") || s.Next.IsZero() || time.Since(cut) > tunnel.Dead+time.Second {
			t.Errorf("the machine after %s: %+v", time.Since(cut), s)
		}
		time.Sleep(time.Minute - time.Since(cut))
		h.net.set(false, false)
		again := h.link(t)
		if d := time.Since(cut); d > 2*time.Minute {
			t.Errorf("it was back after %s", d)
		}
		if got := ask(t, again, "GET", "/v1/hello", nil); got != "hello " {
			t.Errorf("got %q", got)
		}
	})
}

func TestAMachineTriesEverMoreRarely(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, h *harness) {
		_ = h.link(t)
		h.net.set(false, true)
		time.Sleep(time.Minute)
		l := h.net.attempts()
		if l > 1 {
			t.Fatalf("%d attempts while it was connected", l)
		}
		// It notices within 25 seconds only that the connection is dead: cut it.
		h.net.set(true, true)
		time.Sleep(tunnel.Dead + time.Second)
		before := h.net.attempts()
		time.Sleep(time.Hour)
		if n := h.net.attempts() - before; n < 115 || n > 130 { // each 30 s, and a few at first
			t.Errorf("%d attempts in an hour", n)
		}
		h.net.set(false, false)
		start := time.Now()
		again := h.link(t)
		if d := time.Since(start); d > 31*time.Second {
			t.Errorf("back after %s", d)
		}
		time.Sleep(time.Minute) // it is steady again: the next failure waits half a second at first
		h.net.set(false, false)
		start = time.Now()
		again.Close("The server ends.")
		_ = h.link(t)
		if d := time.Since(start); d > time.Second {
			t.Errorf("back after %s", d)
		}
	})
}

func TestAMachineThatIsSentAwayStaysAway(t *testing.T) {
	t.Parallel()
	for reason, code := range map[string]string{tunnel.ReasonRevoked: wire.CodeRevoked, tunnel.ReasonReplaced: wire.CodeReplaced} {
		inBubble(t, func(t *testing.T, h *harness) {
			h.link(t).Close(reason)
			if err := <-h.kept; fault.CodeOf(err) != code || err.Error() != reason {
				t.Errorf("got %v", err)
			}
			h.kept <- nil
		})
	}
}

// A machine that takes nothing any more, with streams that pour towards it, is given up like one that is silent.
func TestAFloodIntoASilentNetworkEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, h *harness) {
		l := h.link(t)
		c, err := l.Stream(t.Context(), "/v1/echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		var up sync.WaitGroup
		up.Go(func() {
			b := make([]byte, 32<<10)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		})
		var down sync.WaitGroup
		down.Go(func() { _, _ = io.Copy(io.Discard, c) })
		h.net.set(true, false)
		cut := time.Now()
		<-l.Done()
		if d := time.Since(cut); d > 2*tunnel.Dead {
			t.Errorf("given up after %s", d)
		}
		up.Wait()
		down.Wait()
		_ = c.Close()
		h.net.set(false, false)
		_ = h.link(t)
	})
}
