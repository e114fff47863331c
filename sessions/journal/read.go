package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sort"
)

// reader reads blocks one after the other.
type reader struct {
	in   *bufio.Reader
	body []byte
}

func newReader(r io.Reader) *reader { return &reader{in: bufio.NewReaderSize(r, 64<<10)} }

// block returns the body of the next block, of which at most left bytes remain. It is valid until the next call.
func (r *reader) block(left int64) ([]byte, error) {
	var head [blockHead]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return nil, torn(err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > maxBlock || int64(n) > left-blockHead {
		return nil, errTorn
	}
	r.body = slices.Grow(r.body[:0], int(n))[:n]
	if _, err := io.ReadFull(r.in, r.body); err != nil {
		return nil, torn(err)
	}
	if crc32.Checksum(r.body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return r.body, nil
}

func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// Scan calls fn with every entry from number from on, in order, until fn returns false. An entry's Data is valid only during the
// call. It slows no writer.
func (j *Journal) Scan(from int64, fn func(Entry) bool) error {
	j.mu.Lock()
	written := j.written
	waiting := [2][]byte{slices.Clone(j.flying), slices.Clone(j.buf)}
	first := j.entries - j.inBuf
	g := j.group
	end := j.entries
	j.mu.Unlock()
	take := func(e Entry) bool { return e.Seq < from || fn(e) }
	seq, more := int64(0), true
	visit := func(body []byte, seq int64) (n int64, on bool, err error) {
		n, more, err = walk(body, seq, take)
		return n, more, err
	}
	if written > 0 {
		f, err := openRegular(j.path, os.O_RDONLY)
		if err != nil {
			return fmt.Errorf("reading journal: %w", err)
		}
		defer f.Close()
		if _, seq, err = readBlocks(f, written, visit); err != nil {
			return fmt.Errorf("reading journal: %w", err)
		}
	}
	for i, block := range waiting {
		if !more || block == nil {
			continue
		}
		if i == 1 {
			seq = first
		}
		n, on, err := walk(block[blockHead:], seq, take)
		if err != nil {
			return fmt.Errorf("reading journal: %w", err)
		}
		seq, more = seq+n, on
	}
	if more && g.open {
		take(Entry{Seq: end, At: g.at, Offset: g.off, Kind: Time})
	}
	return nil
}

// Sizes returns the terminal's sizes, by offset.
func (j *Journal) Sizes() []SizeMark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.sizes)
}

// SizeAt returns the terminal's size when the byte at off was printed; false when that is unknown.
func (j *Journal) SizeAt(off int64) (Dims, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := sort.Search(len(j.sizes), func(i int) bool { return j.sizes[i].Offset > off })
	if i == 0 {
		return Dims{}, false
	}
	return j.sizes[i-1].Dims, true
}

// SizeUntil returns what SizeAt does, and the offset from which on the size differed; math.MaxInt64 when it has not changed
// since.
func (j *Journal) SizeUntil(off int64) (d Dims, until int64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.sizes)
	if n > 0 && j.sizes[n-1].Offset <= off { // nearly always
		return j.sizes[n-1].Dims, math.MaxInt64, true
	}
	i := sort.Search(n, func(i int) bool { return j.sizes[i].Offset > off })
	until = math.MaxInt64
	if i < n {
		until = j.sizes[i].Offset
	}
	if i == 0 {
		return Dims{}, until, false
	}
	return j.sizes[i-1].Dims, until, true
}

// TimesAt returns, for each of the offsets, which must ascend, the time (ms UTC) at which the byte there came; 0 where that is
// unknown.
func (j *Journal) TimesAt(offs []int64) ([]int64, error) {
	out := make([]int64, len(offs))
	next := 0
	err := j.Scan(0, func(e Entry) bool {
		if e.Kind != Time { // other entries record where output was, not when it came
			return true
		}
		for next < len(offs) && offs[next] < e.Offset {
			out[next] = e.At
			next++
		}
		return next < len(offs)
	})
	return out, err
}

// TimeAt returns the time at which the byte at off came; 0 when that is unknown.
func (j *Journal) TimeAt(off int64) (int64, error) {
	at, err := j.TimesAt([]int64{off})
	return at[0], err
}

// OffsetAt returns the offset of the output at time at: everything before it had been printed.
func (j *Journal) OffsetAt(at int64) (int64, error) {
	off := int64(0)
	err := j.Scan(0, func(e Entry) bool {
		if e.At > at {
			return e.Kind != Time
		}
		if e.Kind == Time {
			off = e.Offset
		}
		return true
	})
	return off, err
}

// Span returns the times of the first and the last entry; 0, 0 when there are none.
func (j *Journal) Span() (from, to int64, err error) {
	from = math.MaxInt64
	err = j.Scan(0, func(e Entry) bool {
		from, to = min(from, e.At), max(to, e.At)
		return true
	})
	if to == 0 {
		from = 0
	}
	return from, to, err
}
