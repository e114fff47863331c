package bytelog

import (
	"fmt"
	"os"
	"path/filepath"
)

// endSuffix ends the name of an empty file that records where the writer ended a log that ends in zeros.
const endSuffix = ".end"

// cutZeros cuts the zeros at the end of the newest segment. After a power failure a file may have its new size without its new bytes, and
// then reads as zeros. Zeros before ended were written, and are on disk: see seal.
func (d *disk) cutZeros(ended int64) error {
	i := len(d.segments) - 1
	for i >= 0 && d.segments[i].size == 0 && d.segments[i].packed == nil {
		i--
	}
	if i < 0 || d.segments[i].packed != nil || d.segments[i].end() <= ended {
		return nil
	}
	s := d.segments[i]
	size, err := d.lastByte(s, max(ended-s.start, 0))
	if err != nil || size == s.size {
		return err
	}
	f, err := openRegular(d.path(s.start), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("cutting zeros off: %w", err)
	}
	d.remove(d.segments[i+1:])
	d.segments = d.segments[:i+1]
	d.segments[i].size = size
	return nil
}

// lastByte returns the length of a segment without the zeros at its end, but at least least.
func (d *disk) lastByte(s segment, least int64) (size int64, err error) {
	size = s.size
	err = d.withSegment(s, func(f *os.File) error {
		buf := make([]byte, blockSize)
		for size > least {
			from := max(least, size-blockSize)
			p := buf[:size-from]
			if _, err := f.ReadAt(p, from); err != nil {
				return err
			}
			for n := len(p); n > 0; n-- {
				if p[n-1] != 0 {
					size = from + int64(n)
					return nil
				}
			}
			size = from
		}
		return nil
	})
	return size, err
}

// seal makes zeros at the end of an ended log survive the death of the machine, and records that they were written. A log with any other end
// needs nothing.
func (d *disk) seal() error {
	d.mu.RLock()
	var last segment
	if n := len(d.segments); n > 0 {
		last = d.segments[n-1]
	}
	d.mu.RUnlock()
	if last.size == 0 || last.packed != nil || last.end() == d.ended {
		return nil
	}
	f, err := openRegular(d.path(last.start), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], last.size-1); err != nil || b[0] != 0 {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	mark, err := openRegular(d.pathOf(last.end(), endSuffix), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	_ = mark.Close() // nothing was written
	if d.ended > 0 {
		_ = os.Remove(d.pathOf(d.ended, endSuffix)) // an empty file
	}
	d.ended = last.end()
	dir, err := os.Open(filepath.Clean(d.dir))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
