package bytelog

import "sync"

// DefaultBacklogBytes is how many bytes a log buffers for a failing disk before Full asks its writer to wait.
const DefaultBacklogBytes = 1 << 20

// backlogSlack is how much more the backlog accepts from a writer that cannot wait, such as what is in the pipe of a program that has ended.
// Beyond it the oldest bytes are dropped.
const backlogSlack = 1 << 20

// backlog holds, in order and without gaps, the bytes that a failing disk has not accepted. One writer adds; readers copy.
type backlog struct {
	most int64 // the size at which it is full

	mu     sync.RWMutex
	from   int64    // offset of its first byte
	size   int64    // bytes in blocks
	blocks [][]byte // none is empty
}

// add appends p, which begins at off, and drops the oldest bytes beyond its limit.
func (b *backlog) add(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size == 0 {
		b.from = off
	}
	b.size += int64(len(p))
	for len(p) > 0 {
		last := len(b.blocks) - 1
		if last < 0 || len(b.blocks[last]) == cap(b.blocks[last]) {
			b.blocks = append(b.blocks, make([]byte, 0, blockSize))
			last++
		}
		n := min(len(p), cap(b.blocks[last])-len(b.blocks[last]))
		b.blocks[last] = append(b.blocks[last], p[:n]...)
		p = p[n:]
	}
	b.drop(b.from + b.size - b.most - backlogSlack)
}

// dropBefore drops the bytes before off.
func (b *backlog) dropBefore(off int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(off)
}

func (b *backlog) drop(off int64) {
	for b.size > 0 && b.from < off {
		n := min(int64(len(b.blocks[0])), off-b.from)
		b.from, b.size = b.from+n, b.size-n
		if b.blocks[0] = b.blocks[0][n:]; len(b.blocks[0]) == 0 {
			b.blocks = b.blocks[1:]
		}
	}
	if b.size == 0 {
		b.blocks = nil
	}
}

// front returns the first block and its offset; nil when there is none. A returned block does not change.
func (b *backlog) front() ([]byte, int64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.size == 0 {
		return nil, 0
	}
	return b.blocks[0], b.from
}

// first returns the offset of its first byte; false when it is empty.
func (b *backlog) first() (int64, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.from, b.size > 0
}

func (b *backlog) full() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.size >= b.most
}

// read copies bytes from off into p; 0 when it does not have them.
func (b *backlog) read(p []byte, off int64) (n int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if off < b.from || off >= b.from+b.size {
		return 0
	}
	rel := off - b.from
	for _, k := range b.blocks {
		if rel >= int64(len(k)) {
			rel -= int64(len(k))
			continue
		}
		n += copy(p[n:], k[rel:])
		rel = 0
		if n == len(p) {
			break
		}
	}
	return n
}
