package testlink

import (
	"container/heap"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/tasks"
)

// Addresses within the namespaces: the same for every link, for nothing else is there.
const (
	serverIP    = "10.77.0.1"
	machineIP   = "10.77.0.2"
	machineIP2  = "10.77.0.3"
	serverPort  = "8080"
	mtu         = 1500
	queueLength = 1000 // packets under way in one direction; more are lost, as in any router
)

// namespaces is the network of two namespaces.
type namespaces struct {
	link    *Link
	spaces  [2]*os.File // of the sides
	devices [2]*os.File
	pipes   [2]*pipe // towards the sides
	moved   bool
	mu      sync.Mutex
}

func (l *Link) open() error {
	if os.Geteuid() != 0 {
		return l.openLoopback()
	}
	n := &namespaces{link: l}
	for side, ip := range []string{serverIP, machineIP} {
		if err := n.make(Side(side), ip); err != nil {
			n.close()
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOSYS) {
				return l.openLoopback() // root of a container that may not
			}
			return err
		}
	}
	for side := range n.devices {
		n.pipes[side] = newPipe(n.devices[side])
	}
	for side := range n.devices {
		from, to := n.devices[1-side], n.pipes[side]
		l.work.Go(func() { l.carry(from, to, Side(side)) })
		l.work.Go(to.deliver)
	}
	l.carrier, l.Packets = n, true
	l.Listen, l.URL = net.JoinHostPort(serverIP, serverPort), "http://"+net.JoinHostPort(serverIP, serverPort)
	return nil
}

// make makes a namespace with a device, on a thread that ends with it.
func (n *namespaces) make(side Side, ip string) error {
	made := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is of another namespace and ends with this goroutine
		made <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("making a network namespace: %w", err)
			}
			space, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
			if err != nil {
				return err
			}
			n.spaces[side] = space
			if err := up("lo", ""); err != nil {
				return err
			}
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return fmt.Errorf("opening a network device: %w", err)
			}
			req, err := unix.NewIfreq("way")
			if err != nil {
				return err
			}
			req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
				_ = unix.Close(fd)
				return fmt.Errorf("making a network device: %w", err)
			}
			n.devices[side] = os.NewFile(uintptr(fd), "tun")
			return up("way", ip)
		}()
	}()
	return <-made
}

// up gives a device of this thread's namespace an address, "" = leaves it, and turns it on.
func up(device, ip string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	set := func(what uint, addr string) error {
		req, err := unix.NewIfreq(device)
		if err != nil {
			return err
		}
		if err := req.SetInet4Addr(net.ParseIP(addr).To4()); err != nil {
			return err
		}
		return unix.IoctlIfreq(s, what, req)
	}
	if ip != "" {
		if err := set(unix.SIOCSIFADDR, ip); err != nil {
			return fmt.Errorf("giving a device an address: %w", err)
		}
		if err := set(unix.SIOCSIFNETMASK, "255.255.255.0"); err != nil {
			return fmt.Errorf("giving a device a network: %w", err)
		}
	}
	req, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, req); err != nil {
		return err
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("turning a device on: %w", err)
	}
	return nil
}

// in runs f on a thread within a side's namespace.
func (n *namespaces) in(side Side, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, as in make
		if err := unix.Setns(int(n.spaces[side].Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("entering a network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

func (n *namespaces) start(side Side, cmd *exec.Cmd) error { return n.in(side, cmd.Start) }

func (n *namespaces) dial() (c net.Conn, err error) {
	err = n.in(Server, func() (err error) {
		c, err = net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(serverIP), Port: 8080})
		return err
	})
	return c, err
}

func (n *namespaces) moveMachine() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moved = !n.moved
	ip := machineIP
	if n.moved {
		ip = machineIP2
	}
	return n.in(Machine, func() error { return up("way", ip) })
}

func (n *namespaces) close() {
	for _, p := range n.pipes {
		if p != nil {
			p.close()
		}
	}
	for side := range n.devices {
		if n.devices[side] != nil {
			_ = n.devices[side].Close()
		}
		if n.spaces[side] != nil {
			_ = n.spaces[side].Close()
		}
	}
}

// carry takes packets that one side sends and lets them meet their fate.
func (l *Link) carry(from *os.File, to *pipe, side Side) {
	b := make([]byte, mtu+100)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		for _, late := range l.fate(side) {
			to.add(append([]byte(nil), b[:n]...), late)
		}
	}
}

// pipe is one direction: packets that wait for their time.
type pipe struct {
	device *os.File
	mu     sync.Mutex
	queue  packets
	count  uint64
	wake   chan struct{}
	done   chan struct{}
	once   sync.Once
}

func newPipe(device *os.File) *pipe {
	return &pipe{device: device, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (p *pipe) close() { p.once.Do(func() { close(p.done) }) }

func (p *pipe) add(b []byte, late time.Duration) {
	p.mu.Lock()
	if len(p.queue) < queueLength {
		p.count++
		heap.Push(&p.queue, packet{at: time.Now().Add(late), number: p.count, bytes: b})
	}
	p.mu.Unlock()
	tasks.Wake(p.wake)
}

// next is the packet whose time has come, or how long until one's has; -1 = there is none.
func (p *pipe) next() ([]byte, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return nil, -1
	}
	if d := time.Until(p.queue[0].at); d > 0 {
		return nil, d
	}
	return heap.Pop(&p.queue).(packet).bytes, 0
}

func (p *pipe) deliver() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		b, wait := p.next()
		if b != nil {
			_, _ = p.device.Write(b)
			continue
		}
		if wait < 0 {
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.done:
			return
		}
	}
}

// packet waits for its time.
type packet struct {
	at     time.Time
	number uint64
	bytes  []byte
}

// packets is a heap by time, and for the same time by order.
type packets []packet

func (q packets) Len() int { return len(q) }
func (q packets) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].number < q[j].number
}
func (q packets) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *packets) Push(x any)   { *q = append(*q, x.(packet)) }
func (q *packets) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
