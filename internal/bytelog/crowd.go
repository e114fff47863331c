package bytelog

import (
	"io"
	"os"
	"sync"
	"weak"
)

// chunkBytes is how much of a segment readers behind the ring read from disk at once.
const chunkBytes = 256 << 10

// chunk is a piece of a segment that is full and so never changes.
type chunk struct{ buf [chunkBytes]byte }

// crowd shares bytes read from disk between readers at about the same position of a log, such as a hundred viewers of a burst: the first one
// reads a chunk, the others copy it. It holds chunks weakly, so that the garbage collector frees them when nobody reads there any more and
// an idle log costs nothing.
type crowd struct {
	mu     sync.Mutex
	chunks map[int64]weak.Pointer[chunk] // by offset in the log
}

// at returns the chunk at offset off of the log; load reads it when nobody has it.
func (c *crowd) at(off int64, load func(*chunk) error) (*chunk, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.chunks[off].Value(); k != nil {
		return k, nil
	}
	k := new(chunk)
	if err := load(k); err != nil {
		return nil, err
	}
	for at, w := range c.chunks {
		if w.Value() == nil {
			delete(c.chunks, at)
		}
	}
	if c.chunks == nil {
		c.chunks = make(map[int64]weak.Pointer[chunk])
	}
	c.chunks[off] = weak.Make(k)
	return k, nil
}

// readShared reads from off, within a chunk of s that is full; 0 where there is none yet or it cannot be read whole, in which case a smaller
// read reports the error.
func (d *disk) readShared(p []byte, s segment, off int64) int {
	rel := (off - s.start) / chunkBytes * chunkBytes
	if rel+chunkBytes > s.size {
		return 0
	}
	k, err := d.crowd.at(s.start+rel, func(k *chunk) error {
		return d.withSegment(s, func(f *os.File) error {
			_, err := io.ReadFull(io.NewSectionReader(f, rel, chunkBytes), k.buf[:])
			return err
		})
	})
	if err != nil {
		return 0
	}
	return copy(p, k.buf[off-s.start-rel:])
}
