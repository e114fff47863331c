package bridge

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// Some carriers of a bridge's output lose bytes when whoever reads is slow: BoxLite's server keeps so many messages of an execution and drops the
// rest. So the host may confirm what it has read, and the bridge never has more on its way than a window.
//
// What the host writes is then in frames, each of them 4 bytes (big endian) and what follows: a length and so many bytes, or, with the highest
// bit set, how many bytes the host has read since it last said so.

const (
	window    = 128 << 10 // bytes on their way
	maxOnWay  = 64        // writes on their way: each may become several messages
	maxFrame  = 64 << 10
	ackBit    = 1 << 31
	headBytes = 4
)

// acked is the bridge's end.
type acked struct {
	in   io.Reader
	out  io.Writer
	left int // of the frame that is being read

	mu     sync.Mutex
	room   *sync.Cond
	onWay  []int // sizes of the writes that are not confirmed
	bytes  int   // of them
	closed bool
}

func newAcked(in io.Reader, out io.Writer) *acked {
	a := &acked{in: in, out: out}
	a.room = sync.NewCond(&a.mu)
	return a
}

// Read returns what the host wrote.
func (a *acked) Read(p []byte) (n int, err error) {
	defer func() {
		if err != nil { // nobody will confirm any more
			a.mu.Lock()
			a.closed = true
			a.mu.Unlock()
			a.room.Broadcast()
		}
	}()
	for a.left == 0 {
		var head [headBytes]byte
		if _, err := io.ReadFull(a.in, head[:]); err != nil {
			return 0, err
		}
		v := binary.BigEndian.Uint32(head[:])
		if v&ackBit != 0 {
			a.confirmed(int(v &^ ackBit))
			continue
		}
		if v > maxFrame {
			return 0, errors.New("the host sends a frame that is too long")
		}
		a.left = int(v)
	}
	n, err = a.in.Read(p[:min(len(p), a.left)])
	a.left -= n
	return n, err
}

func (a *acked) confirmed(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.bytes -= min(n, a.bytes); n > 0 && len(a.onWay) > 0; {
		if a.onWay[0] > n {
			a.onWay[0] -= n
			break
		}
		n -= a.onWay[0]
		a.onWay = a.onWay[1:]
	}
	a.room.Broadcast()
}

// Write writes to the host once there is room.
func (a *acked) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, window/4)
		a.mu.Lock()
		for !a.closed && (a.bytes+n > window || len(a.onWay) >= maxOnWay) {
			a.room.Wait()
		}
		if a.closed {
			a.mu.Unlock()
			return sent, io.ErrClosedPipe
		}
		a.bytes += n
		a.onWay = append(a.onWay, n)
		a.mu.Unlock()
		if _, err := a.out.Write(p[sent : sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// Acked is the host's end of a bridge that was started with --acked, from Begun on.
func Acked(pipe io.ReadWriteCloser) io.ReadWriteCloser { return &host{ReadWriteCloser: pipe} }

type host struct {
	io.ReadWriteCloser
	mu  sync.Mutex
	buf []byte
}

// Read reads and confirms.
func (h *host) Read(p []byte) (int, error) {
	n, err := h.ReadWriteCloser.Read(p)
	if n > 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, werr := h.ReadWriteCloser.Write(binary.BigEndian.AppendUint32(nil, uint32(n)|ackBit)); err == nil {
			err = werr
		}
	}
	return n, err
}

// Write writes in frames.
func (h *host) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, maxFrame)
		h.buf = append(binary.BigEndian.AppendUint32(h.buf[:0], uint32(n)), p[sent:sent+n]...)
		if _, err := h.ReadWriteCloser.Write(h.buf); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}
