// Package testlink is a bad network between two programs of a test: packets come late, twice, out of order or not at all, in one direction or in both,
// for a while or permanently, and an end changes its address. Neither program is notified.
//
// As root on Linux each program gets a network namespace of its own; between them is nothing but this package, which carries IP packets
// from one TUN device to the other. Elsewhere it carries connections over the loopback: late, or not at all.
package testlink

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Side is one of the two ends.
type Side int

// The sides.
const (
	Server Side = iota
	Machine
)

// Faults are what the network does. The zero value is a good one.
type Faults struct {
	Delay     time.Duration // each way
	Jitter    time.Duration // up to so much more: packets overtake each other
	Loss      float64       // of packets, 0 to 1
	Duplicate float64       // likewise
	Cut       bool          // nothing gets through, and neither end is notified
	Deaf      bool          // nothing gets to the machine; what it sends arrives
	Mute      bool          // nothing comes from the machine; what is sent to it arrives
}

// carrier is how packets or connections travel.
type carrier interface {
	start(side Side, cmd *exec.Cmd) error
	dial() (net.Conn, error) // the server, from its own side
	moveMachine() error
	close()
}

// Link is the network. It ends with the test.
type Link struct {
	// Listen is where the server is to listen.
	Listen string
	// URL is the server's for the machine.
	URL string
	// Local is the server's for the test itself, past the network.
	Local string
	// Packets says that the two are in namespaces of their own: loss, duplicates and addresses that change are real.
	Packets bool

	t       testing.TB
	carrier carrier
	front   net.Listener
	work    sync.WaitGroup

	mu     sync.Mutex
	faults Faults
	rand   *rand.Rand
	conns  map[net.Conn]bool
	closed bool
}

// New makes a network in good order.
func New(t testing.TB) *Link {
	t.Helper()
	l := &Link{t: t, rand: rand.New(rand.NewPCG(1, 2)), conns: map[net.Conn]bool{}}
	if err := l.open(); err != nil {
		t.Fatalf("making a network: %v", err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.carrier.close()
		t.Fatal(err)
	}
	l.front, l.Local = front, "http://"+front.Addr().String()
	l.work.Go(func() { l.forward(front, func() (net.Conn, error) { return l.carrier.dial() }, false) })
	t.Cleanup(l.close)
	return l
}

// Start starts a program at one end.
func (l *Link) Start(side Side, cmd *exec.Cmd) error { return l.carrier.start(side, cmd) }

// Set makes the network behave so from now on.
func (l *Link) Set(f Faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// MoveMachine gives the machine another address, as a laptop that is carried to another network. What it has open is dead, and nobody says so.
func (l *Link) MoveMachine() {
	l.t.Helper()
	if err := l.carrier.moveMachine(); err != nil {
		l.t.Fatalf("moving the machine: %v", err)
	}
}

// fate is when copies of a packet to a side arrive; none when it does not.
func (l *Link) fate(to Side) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.faults
	if f.Cut || f.Deaf && to == Machine || f.Mute && to == Server || l.rand.Float64() < f.Loss {
		return nil
	}
	late := func() time.Duration {
		if f.Jitter <= 0 {
			return f.Delay
		}
		return f.Delay + time.Duration(l.rand.Int64N(int64(f.Jitter)))
	}
	if l.rand.Float64() < f.Duplicate {
		return []time.Duration{late(), late()}
	}
	return []time.Duration{late()}
}

func (l *Link) close() {
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	_ = l.front.Close()
	l.carrier.close()
	l.work.Wait()
}

// keep remembers a connection until it is closed; false when all is over.
func (l *Link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.conns[c] = true
	return true
}

func (l *Link) drop(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// forward carries connections to what dial reaches; bad says whether they suffer from the faults.
func (l *Link) forward(from net.Listener, dial func() (net.Conn, error), bad bool) {
	for {
		a, err := from.Accept()
		if err != nil {
			return
		}
		if !l.keep(a) {
			return
		}
		l.work.Go(func() {
			defer l.drop(a)
			b, err := dial()
			if err != nil || !l.keep(b) {
				return
			}
			defer l.drop(b)
			var both sync.WaitGroup
			both.Go(func() { l.copy(b, a, Server, bad) })
			both.Go(func() { l.copy(a, b, Machine, bad) })
			both.Wait()
		})
	}
}

// copy carries one direction of a connection, whose bytes vanish while the network is cut: such a connection is dead from then on.
func (l *Link) copy(to, from net.Conn, side Side, bad bool) {
	if !bad {
		_, _ = io.Copy(to, from)
		closeWrite(to)
		return
	}
	b := make([]byte, 32<<10)
	dead := false
	for {
		n, err := from.Read(b)
		if err != nil {
			if !dead {
				closeWrite(to)
			}
			return
		}
		when := l.fate(side)
		if dead = dead || len(when) == 0; dead {
			continue
		}
		time.Sleep(when[0])
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
}

// loopback is the network where there are no namespaces.
type loopback struct {
	link   *Link
	server string
	front  net.Listener
}

func (l *Link) openLoopback() error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	lo := &loopback{link: l, server: free.Addr().String()}
	_ = free.Close() // the server listens there in a moment
	if lo.front, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	l.Listen, l.URL, l.carrier = lo.server, fmt.Sprintf("http://%s", lo.front.Addr()), lo
	l.work.Go(func() { l.forward(lo.front, lo.dial, true) })
	return nil
}

func (lo *loopback) start(_ Side, cmd *exec.Cmd) error { return cmd.Start() }
func (lo *loopback) dial() (net.Conn, error)           { return net.Dial("tcp", lo.server) }
func (lo *loopback) close()                            { _ = lo.front.Close() }

// moveMachine lets all connections of now be dead: what is read of them goes nowhere.
func (lo *loopback) moveMachine() error {
	l := lo.link
	l.mu.Lock()
	before := l.faults
	l.faults.Cut = true
	l.mu.Unlock()
	defer l.Set(before)
	// A moment in which each connection meets the cut: those that are quiet meet it later, and live on, as some do in truth.
	time.Sleep(50 * time.Millisecond)
	return nil
}
