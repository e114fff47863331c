package command

import "sync"

// OutputKeep is how many bytes a command record keeps of the beginning and as many of the end of each output.
const OutputKeep = 512 << 10

// keeper keeps the first and the last OutputKeep bytes of a stream. Safe for concurrent use.
type keeper struct {
	mu   sync.Mutex
	head []byte
	tail []byte // a ring once it is full
	at   int    // where the ring's oldest byte is
	next int64  // absolute offset after the last byte added
	cut  bool   // bytes in between are missing
}

// add takes the bytes at offset off; bytes that were seen before are ignored, a jump is noted as a cut.
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
	for len(p) > 0 { // the ring is full: the oldest bytes give way
		k.cut = true
		n := copy(k.tail[k.at:], p)
		k.at = (k.at + n) % OutputKeep
		p = p[n:]
	}
}

// offset is the absolute offset after the last byte added.
func (k *keeper) offset() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next
}

// bytes returns a copy of what is kept, and whether something in between is missing.
func (k *keeper) bytes() ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]byte, 0, len(k.head)+len(k.tail))
	out = append(out, k.head...)
	out = append(out, k.tail[k.at:]...)
	out = append(out, k.tail[:k.at]...)
	return out, k.cut
}
