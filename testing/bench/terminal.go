package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// client is a viewer of either the bridge (plain bytes) or Parawork's terminal socket.
type client struct {
	conn  *websocket.Conn
	ours  bool
	off   int64 // next expected offset (ours)
	acked int64
	delay func(n int) // slows the reader
	pen   sync.Mutex  // acknowledgements go beside what is typed
}

func dialBridge(p *proc) (*client, error) {
	conn, _, err := (&websocket.Dialer{ReadBufferSize: 64 << 10}).Dial("ws"+strings.TrimPrefix(p.url, "http")+"/", nil)
	return &client{conn: conn}, err
}

func dialHarness(h *harness, session, role string) (*client, error) {
	conn, resp, err := (&websocket.Dialer{ReadBufferSize: 64 << 10}).Dial("ws"+strings.TrimPrefix(h.url, "http")+"/api/v1/sessions/"+session+"/terminal?from=0&role="+role,
		http.Header{"Authorization": {"Bearer " + h.token}})
	if err != nil && resp != nil {
		err = fmt.Errorf("%w (%s)", err, resp.Status)
	}
	return &client{conn: conn, ours: true}, err
}

// read returns the next output bytes.
func (c *client) read() ([]byte, error) {
	for {
		_, p, err := c.conn.ReadMessage()
		if err != nil {
			return nil, err
		}
		if !c.ours {
			return p, nil
		}
		if len(p) == 0 {
			return nil, errors.New("empty frame")
		}
		switch p[0] {
		case 0:
			off := int64(binary.BigEndian.Uint64(p[1:]))
			if off != c.off {
				return nil, fmt.Errorf("output at %d, expected %d", off, c.off)
			}
			out := p[9:]
			c.off += int64(len(out))
			if c.delay != nil {
				c.delay(len(out))
			}
			if c.off-c.acked >= 64<<10 {
				c.acked = c.off
				ack := make([]byte, 9)
				ack[0] = 2
				binary.BigEndian.PutUint64(ack[1:], uint64(c.off))
				if err := c.send(ack); err != nil {
					return nil, err
				}
			}
			return out, nil
		case 5:
			return nil, fmt.Errorf("server says: %s", p[1:])
		}
	}
}

func (c *client) write(p []byte) error {
	if c.ours {
		p = append([]byte{0}, p...)
	}
	return c.send(p)
}

func (c *client) send(p []byte) error {
	c.pen.Lock()
	defer c.pen.Unlock()
	return c.conn.WriteMessage(websocket.BinaryMessage, p)
}

// ready waits for the child's "R".
func (c *client) ready() error {
	p, err := c.read()
	if err == nil && string(p) != "R" {
		err = fmt.Errorf("child said %q instead of R", p)
	}
	return err
}

// drain reads n bytes and returns their hash.
func (c *client) drain(n int64, h hash.Hash) error {
	for got := int64(0); got < n; {
		p, err := c.read()
		if err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", got, n, err)
		}
		h.Write(p)
		got += int64(len(p))
	}
	return nil
}

// flow measures n bytes of output to one client: MB/s and the CPU seconds per GB of the processes in pids.
func flow(c *client, n int64, want [32]byte, pids ...int) (mbs, cpuPerGB float64, err error) {
	if err := c.ready(); err != nil {
		return 0, 0, err
	}
	before := cpuOf(pids)
	t0 := time.Now()
	if err := c.write([]byte("g")); err != nil {
		return 0, 0, err
	}
	h := sha256.New()
	if err := c.drain(n, h); err != nil {
		return 0, 0, err
	}
	took := time.Since(t0)
	used := cpuOf(pids) - before
	if [32]byte(h.Sum(nil)) != want {
		return 0, 0, errors.New("the bytes that arrived are not the bytes that were written")
	}
	return float64(n) / 1e6 / took.Seconds(), used.Seconds() / (float64(n) / 1e9), nil
}

func cpuOf(pids []int) time.Duration {
	var sum time.Duration
	for _, p := range pids {
		sum += cpu(p)
	}
	return sum
}

func (b *bench) output() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	guest, err := h.guestPid()
	if err != nil {
		return err
	}
	n := int64(b.size(200<<20, 8<<20))
	want := patternHash(n)
	var om, oc, bm, bc []float64
	for range b.size(5, 1) {
		p, err := start(nil, nil, b.self, "child-bridge", b.self, "child-spew", fmt.Sprint(n))
		if err != nil {
			return err
		}
		c, err := dialBridge(p)
		if err != nil {
			return err
		}
		m, u, err := flow(c, n, want, p.cmd.Process.Pid)
		_ = c.conn.Close()
		p.stop()
		if err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		bm, bc = append(bm, m), append(bc, u)

		s, err := h.newSession(b.self, "child-spew", fmt.Sprint(n))
		if err != nil {
			return err
		}
		if c, err = dialHarness(h, s, "writer"); err != nil {
			return err
		}
		m, u, err = flow(c, n, want, h.cmd.Process.Pid, guest)
		_ = c.write([]byte("q"))
		_ = c.conn.Close()
		if err != nil {
			return fmt.Errorf("parawork: %w", err)
		}
		om, oc = append(om, m), append(oc, u)
	}
	r := median(om) / median(bm)
	b.figure("output, one client, MB/s", f1(median(om)), f1(median(bm)), r, ">= 0.9", r >= 0.9)
	r = median(oc) / median(bc)
	b.figure("output, CPU s per GB (server + guest)", f1(median(oc)), f1(median(bc)), r, "<= 2", r <= 2)
	return nil
}

// keystrokes measures n echoes of one byte each.
func keystrokes(c *client, n int) ([]time.Duration, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, n)
	for i := range n {
		key := []byte{byte('a' + i%26)}
		t0 := time.Now()
		if err := c.write(key); err != nil {
			return nil, err
		}
		p, err := c.read()
		if err != nil {
			return nil, err
		}
		if string(p) != string(key) {
			return nil, fmt.Errorf("typed %q, got %q", key, p)
		}
		took = append(took, time.Since(t0))
		time.Sleep(time.Millisecond) // a person's keys come one by one
	}
	slices.Sort(took)
	return took, nil
}

func (b *bench) echo() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	n := b.size(2000, 100)
	var op50, op99, bp50, bp99 []float64
	for range b.size(5, 1) {
		p, err := start(nil, nil, b.self, "child-bridge", b.self, "child-echo")
		if err != nil {
			return err
		}
		c, err := dialBridge(p)
		if err != nil {
			return err
		}
		base, err := keystrokes(c, n)
		_ = c.conn.Close()
		p.stop()
		if err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		s, err := h.newSession(b.self, "child-echo")
		if err != nil {
			return err
		}
		if c, err = dialHarness(h, s, "writer"); err != nil {
			return err
		}
		ours, err := keystrokes(c, n)
		_ = c.conn.Close()
		_ = h.do("POST", "/sessions/"+s+"/stop", map[string]any{"grace_ms": 100}, nil)
		if err != nil {
			return fmt.Errorf("parawork: %w", err)
		}
		op50, op99 = append(op50, us(ours[n/2])), append(op99, us(ours[n*99/100]))
		bp50, bp99 = append(bp50, us(base[n/2])), append(bp99, us(base[n*99/100]))
	}
	r := median(op50) / median(bp50)
	b.figure("keystroke echo p50, us", f1(median(op50)), f1(median(bp50)), r, "<= 2", r <= 2)
	d := median(op99) - median(bp99)
	b.figure("keystroke echo p99, us", f1(median(op99)), f1(median(bp99)), median(op99)/median(bp99), "+ 2000 us", d <= 2000)
	return nil
}

func (b *bench) fanout() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	viewers, n := b.size(100, 8), int64(b.size(10<<20, 1<<20))
	want := patternHash(n)
	var plain, base, alone, slowed []float64
	for range b.size(5, 1) { // in turns, so that what else the machine does falls on all alike
		t, err := b.fanBridge(viewers, n, want, "BRIDGE_PLAIN=1")
		if err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		plain = append(plain, t.Seconds())
		if t, err = b.fanBridge(viewers, n, want); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		base = append(base, t.Seconds())
		if t, err = b.fanHarness(h, viewers, n, want, false); err != nil {
			return fmt.Errorf("parawork: %w", err)
		}
		alone = append(alone, t.Seconds())
		if t, err = b.fanHarness(h, viewers, n, want, true); err != nil {
			return fmt.Errorf("parawork: %w", err)
		}
		slowed = append(slowed, t.Seconds())
	}
	total := float64(viewers) * float64(n) / 1e6
	r := median(plain) / median(alone)
	b.figure(fmt.Sprintf("%d viewers, total MB/s", viewers), f1(total/median(alone)), f1(total/median(plain)), r, ">= 1", r >= 1)
	// A bridge that joins small reads as we do, but has no log, no offsets and no acknowledgements, is the least it can cost.
	r = median(base) / median(alone)
	b.figure("the same, against a joining bridge", f1(total/median(alone)), f1(total/median(base)), r, "none", true)
	r = median(slowed) / median(alone)
	b.figure("the same with one viewer at 1 KB/s, s", fmt.Sprintf("%.2f", median(slowed)), fmt.Sprintf("%.2f", median(alone)), r, "<= 1.1", r <= 1.1)
	return nil
}

// fanBridge measures the time until every client of the plain bridge has everything.
func (b *bench) fanBridge(viewers int, n int64, want [32]byte, env ...string) (time.Duration, error) {
	p, err := start(append(env, fmt.Sprintf("BRIDGE_CLIENTS=%d", viewers)), nil, b.self, "child-bridge", b.self, "child-spew", fmt.Sprint(n))
	if err != nil {
		return 0, err
	}
	defer p.stop()
	var all []*client
	for range viewers {
		c, err := dialBridge(p)
		if err != nil {
			return 0, err
		}
		all = append(all, c)
	}
	return fan(all, n, want)
}

// fanHarness measures the time until every fast viewer has everything; with slow, one more viewer reads 1 KB/s.
func (b *bench) fanHarness(h *harness, viewers int, n int64, want [32]byte, slow bool) (time.Duration, error) {
	s, err := h.newSession(b.self, "child-spew", fmt.Sprint(n))
	if err != nil {
		return 0, err
	}
	defer func() { _ = h.do("POST", "/sessions/"+s+"/stop", map[string]any{"grace_ms": 100}, nil) }()
	var all []*client
	for i := range viewers {
		role := "viewer"
		if i == 0 {
			role = "writer"
		}
		c, err := dialHarness(h, s, role)
		if err != nil {
			return 0, err
		}
		all = append(all, c)
	}
	if slow {
		crawler, err := dialHarness(h, s, "viewer")
		if err != nil {
			return 0, err
		}
		defer crawler.conn.Close()
		crawler.delay = func(n int) { time.Sleep(time.Duration(n) * time.Millisecond) }
		go func() {
			for {
				if _, err := crawler.read(); err != nil {
					return
				}
			}
		}()
	}
	return fan(all, n, want)
}

// fan lets the child go and waits until every client has the n bytes, each hashed.
func fan(cs []*client, n int64, want [32]byte) (time.Duration, error) {
	errs := make([]error, len(cs))
	var all sync.WaitGroup
	var readies sync.WaitGroup
	readies.Add(len(cs))
	for i, c := range cs {
		all.Go(func() {
			err := c.ready()
			readies.Done()
			if err != nil {
				errs[i] = err
				return
			}
			h := sha256.New()
			if errs[i] = c.drain(n, h); errs[i] == nil && [32]byte(h.Sum(nil)) != want {
				errs[i] = errors.New("bytes lost or changed")
			}
		})
	}
	readies.Wait()
	t0 := time.Now()
	if err := cs[0].write([]byte("g")); err != nil {
		return 0, err
	}
	all.Wait()
	took := time.Since(t0)
	for _, c := range cs {
		_ = c.conn.Close()
	}
	return took, errors.Join(errs...)
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func f1(v float64) string        { return fmt.Sprintf("%.1f", v) }
func f2(v float64) string        { return fmt.Sprintf("%.2f", v) }
