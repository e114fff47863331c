package main

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// way carries connections to a server: late, or not at all.
type way struct {
	l    net.Listener
	to   string
	work sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration
	cut   bool
	conns map[net.Conn]bool
}

func newWay(to string) (*way, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &way{l: l, to: to, conns: map[net.Conn]bool{}}
	w.work.Go(w.accept)
	return w, nil
}

func (w *way) address() string { return w.l.Addr().String() }

// set changes the way from now on. A cut one closes its connections and takes no new ones.
func (w *way) set(delay time.Duration, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay, w.cut = delay, cut
	if cut {
		w.drop()
	}
}

// drop closes all connections. The caller holds mu.
func (w *way) drop() {
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *way) close() {
	_ = w.l.Close()
	w.set(0, true)
	w.work.Wait()
}

func (w *way) accept() {
	for {
		a, err := w.l.Accept()
		if err != nil {
			return
		}
		w.work.Go(func() { w.carry(a) })
	}
}

func (w *way) carry(a net.Conn) {
	defer a.Close()
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return
	}
	b, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer b.Close()
	w.mu.Lock()
	if w.cut {
		w.mu.Unlock()
		return
	}
	w.conns[a], w.conns[b] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.copy(b, a) })
	both.Go(func() { w.copy(a, b) })
	both.Wait()
	w.mu.Lock()
	delete(w.conns, a)
	delete(w.conns, b)
	w.mu.Unlock()
}

// copy carries one direction; what it has read waits its time beside what it reads next.
func (w *way) copy(to, from net.Conn) {
	type piece struct {
		at    time.Time
		bytes []byte
	}
	late := make(chan piece, 1024)
	var out sync.WaitGroup
	out.Go(func() {
		defer to.Close()
		for p := range late {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close()
			}
		}
	})
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		b := make([]byte, 64<<10)
		n, err := r.Read(b)
		if err != nil {
			break
		}
		w.mu.Lock()
		delay := w.delay
		w.mu.Unlock()
		late <- piece{time.Now().Add(delay), b[:n]}
	}
	close(late)
	out.Wait()
}
