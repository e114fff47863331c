package bytelog

import "sync/atomic"

// blockSize is the size of one block of the ring. Blocks begin at multiples of it.
const blockSize = 32 << 10

// ring holds the newest bytes in blocks. One writer puts, readers read without locks: a reader pins the block it copies from, and the writer
// replaces a pinned block by a new one instead of reusing it.
type ring struct {
	slots []atomic.Pointer[block]
	start atomic.Int64 // offset of the first byte it ever held, and after drop of the next one
}

type block struct {
	base int64        // offset of buf[0]; fixed while the block is in a slot
	pins atomic.Int32 // number of readers copying; recycled while the writer has it
	buf  [blockSize]byte
}

// recycled marks a block the writer is about to refill: no reader may pin it.
const recycled = -1 << 30

func (r *ring) init(size, end int64) {
	n := max((size+blockSize-1)/blockSize, 2)
	r.slots = make([]atomic.Pointer[block], n)
	r.start.Store(end)
}

func (r *ring) size() int64 { return int64(len(r.slots)) * blockSize }

func (r *ring) slot(off int64) *atomic.Pointer[block] {
	return &r.slots[(off/blockSize)%int64(len(r.slots))]
}

// put copies p to offset off, the current end. Readers see it once the log publishes the new end. Only the writer calls it.
func (r *ring) put(p []byte, off int64) {
	for len(p) > 0 {
		base := off - off%blockSize
		s := r.slot(off)
		b := s.Load()
		if b == nil || b.base != base {
			if next := base - r.size() + blockSize; next > r.start.Load() {
				r.start.Store(next) // before the old block goes: a reader that finds it gone knows where to go on
			}
			b = r.take(s, b, base)
		}
		n := copy(b.buf[off-base:], p)
		p, off = p[n:], off+int64(n)
	}
}

// take returns the block for base in slot s: the old one when nobody reads it, else a new one.
func (r *ring) take(s *atomic.Pointer[block], old *block, base int64) *block {
	if old != nil && old.pins.CompareAndSwap(0, recycled) {
		s.Store(nil)
		old.base = base
		old.pins.Store(0)
		s.Store(old)
		return old
	}
	b := &block{base: base}
	s.Store(b)
	return b
}

// first is the offset of the oldest byte it holds.
func (r *ring) first() int64 { return r.start.Load() }

// read copies bytes from off, which must be below end, into p; 0 when the ring does not have them.
func (r *ring) read(p []byte, off, end int64) int {
	total := 0
	for total < len(p) && off < end && off >= r.start.Load() {
		base := off - off%blockSize
		b := r.slot(off).Load()
		if b == nil || !b.pin() {
			break
		}
		n := 0
		if b.base == base {
			n = copy(p[total:], b.buf[off-base:min(end-base, blockSize)])
		}
		b.pins.Add(-1)
		if n == 0 {
			break
		}
		total, off = total+n, off+int64(n)
	}
	return total
}

func (b *block) pin() bool {
	for {
		n := b.pins.Load()
		if n < 0 {
			return false
		}
		if b.pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// drop drops everything before end. Only the writer calls it.
func (r *ring) drop(end int64) {
	r.start.Store(end)
	for i := range r.slots {
		r.slots[i].Store(nil)
	}
}
