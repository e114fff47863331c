package command

import "sync"

// OutputKeep is how many bytes of the beginning, and of the end, of each output a command record stores.
const OutputKeep = 512 << 10

// keeper stores the first and the last OutputKeep bytes of a stream. Safe for concurrent use.
type keeper struct {
	mu   sync.Mutex
	head []byte
	tail []byte // a ring once it is full
	at   int    // index of the ring's oldest byte
	next int64  // absolute offset after the last byte added
	cut  bool   // bytes in between are missing
}

// add appends the bytes at offset off. It ignores bytes it has seen before, and records a jump as a cut.
func (k *keeper) add(off int64, p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if off < k.next {
		seen := min(k.next-off, int64(len(p)))
		p, off = p[seen:], off+seen
	}
	if off > k.next {
		k.cut = true
	}
	k.next = max(k.next, off+int64(len(p)))
	if n := min(OutputKeep-len(k.head), len(p)); n > 0 && len(k.tail) == 0 {
		k.head = append(k.head, p[:n]...)
		p = p[n:]
	}
	if over := len(p) - OutputKeep; over > 0 {
		k.cut = true
		p = p[over:]
	}
	if n := min(OutputKeep-len(k.tail), len(p)); n > 0 {
		k.tail = append(k.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 { // the ring is full: overwrite the oldest bytes
		k.cut = true
		n := copy(k.tail[k.at:], p)
		k.at = (k.at + n) % OutputKeep
		p = p[n:]
	}
}

// offset returns the absolute offset after the last byte added.
func (k *keeper) offset() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next
}

// bytes returns a copy of the stored bytes, and whether some in between are missing.
func (k *keeper) bytes() ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all(), k.cut
}

// all is called under mu.
func (k *keeper) all() []byte {
	out := make([]byte, 0, len(k.head)+len(k.tail))
	out = append(out, k.head...)
	out = append(out, k.tail[k.at:]...)
	return append(out, k.tail[:k.at]...)
}

// after returns a copy of the stored bytes from an offset on, the offset of the first and the one after the last. Where bytes in between
// are missing the first is a later one than asked for.
func (k *keeper) after(off int64) (p []byte, from, end int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p = k.all()
	if k.cut && len(k.tail) > 0 {
		p = p[len(k.head):] // what is before them ends somewhere else
	}
	first := k.next - int64(len(p))
	off = min(max(off, first), k.next)
	return p[off-first:], off, k.next
}
