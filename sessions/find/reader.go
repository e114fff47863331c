package find

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/sessions/journal"
)

// Suffix ends the names of search files; the offset of their first byte precedes it.
const Suffix = ".find"

// Shards returns the offsets at which a session's search files begin, in order.
func Shards(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, e := range entries {
		if digits, ok := strings.CutSuffix(e.Name(), Suffix); ok && e.Type().IsRegular() {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n >= 0 {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func ShardPath(dir string, start int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d", start)+Suffix)
}

// maxShard bounds a search file: its blocks with the largest filters.
const maxShard = 4 << 20

// ReadShard returns the blocks of a search file; none when it is damaged, in which case a search reads the bytes instead.
func ReadShard(dir string, start int64) []Block {
	f, err := os.Open(ShardPath(dir, start))
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxShard))
	if err != nil {
		return nil
	}
	blocks, err := Decode(raw)
	if err != nil || len(blocks) == 0 || blocks[0].Start < start {
		return nil
	}
	return blocks
}

// Reader reads a log block by block.
type Reader struct {
	log  *bytelog.Log
	buf  []byte
	off  int64 // of the first byte in buf
	n    int   // bytes in buf: a block seldom uses everything that was read for it
	Text Text
}

func NewReader(log *bytelog.Log) *Reader { return &Reader{log: log} }

// At reads bytes from off on, up to most and to the next gap. from is the offset of the first: larger than off after a gap.
func (r *Reader) At(off, most int64) (p []byte, from int64, err error) {
	if r.buf == nil {
		r.buf = make([]byte, MaxBlock)
	}
	if had := off - r.off; had >= 0 && had < int64(r.n) {
		r.n = copy(r.buf, r.buf[had:r.n])
	} else {
		r.n = 0
	}
	r.off = off
	limit := int(min(most, MaxBlock))
	for r.n < limit {
		k, at, err := r.log.ReadAt(r.buf[r.n:limit], r.off+int64(r.n))
		if k == 0 || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.n = 0
			return nil, r.off, err
		}
		if at != r.off+int64(r.n) {
			if r.n > 0 {
				break
			}
			r.off = at
		}
		r.n += k
	}
	return r.buf[:min(r.n, limit)], r.off, nil
}

// Shard reads the blocks of one search file from off on. It leaves out a block that later output continues, unless the session
// has ended.
func (r *Reader) Shard(ctx context.Context, off int64, ended bool) (blocks []Block, next int64, err error) {
	_, end := r.log.Bounds()
	for next = off; next < end && next-off < ShardBytes && ctx.Err() == nil; {
		p, from, err := r.At(next, end-next)
		if err != nil || len(p) == 0 {
			return blocks, next, err
		}
		n, whole := r.Text.Take(p)
		if !whole && !ended && from+int64(n) >= end {
			break
		}
		blocks = append(blocks, Block{Start: from, End: from + int64(n), Filter: NewFilter(&r.Text)})
		next = from + int64(n)
	}
	return blocks, next, ctx.Err()
}

// Dater returns when bytes came.
type Dater struct{ offs, at []int64 }

// maxDates bounds the marks of a Dater: when there are more, it leaves out every second one.
const maxDates = 1 << 20

func NewDater(j *journal.Journal) *Dater {
	d := &Dater{}
	_ = j.Scan(0, func(e journal.Entry) bool { // without dates a hit has the date of its session
		if e.Kind != journal.Time {
			return true
		}
		if len(d.offs) == maxDates {
			for i := range maxDates / 2 {
				d.offs[i], d.at[i] = d.offs[2*i+1], d.at[2*i+1]
			}
			d.offs, d.at = d.offs[:maxDates/2], d.at[:maxDates/2]
		}
		d.offs, d.at = append(d.offs, e.Offset), append(d.at, e.At)
		return true
	})
	return d
}

// Date returns when the byte at off came; or when that is unknown.
func (d *Dater) Date(off, or int64) int64 {
	i, _ := slices.BinarySearch(d.offs, off+1)
	if i == len(d.offs) {
		return or
	}
	return d.at[i]
}
