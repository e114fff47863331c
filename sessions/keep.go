package sessions

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
	"sync"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/find"
	"github.com/parawork/parawork/sessions/journal"
)

// keepEach is after how many bytes of output a session's history is packed and made ready for searches.
const keepEach = bytelog.DefaultSegmentBytes

// searchSuffix ends the names of search files; before it stands the offset of their first byte.
const searchSuffix = ".find"

// keeping is the sessions whose history is to be packed, by id.
type keeping struct {
	mu   sync.Mutex
	ids  map[string]struct{}
	wake chan struct{}
}

func newKeeping() keeping { return keeping{ids: map[string]struct{}{}, wake: make(chan struct{}, 1)} }

func (k *keeping) add(id string) {
	k.mu.Lock()
	k.ids[id] = struct{}{}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeping) take() (id string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.ids {
		delete(k.ids, id)
		return id, true
	}
	return "", false
}

// keepLoop packs what sessions have printed, one session at a time: first what an earlier server left, then as it comes.
func (s *Service) keepLoop(ctx context.Context) {
	s.keepLeft(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.keeping.wake:
		}
		for id, ok := s.keeping.take(); ok && ctx.Err() == nil; id, ok = s.keeping.take() {
			s.keep(ctx, id)
		}
	}
}

// keepLeft packs what ended before it was packed.
func (s *Service) keepLeft(ctx context.Context) {
	entries, err := os.ReadDir(filepath.Join(s.cfg.DataDir, "sessions"))
	if err != nil {
		return // there is none yet
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		if plain, err := filepath.Glob(filepath.Join(s.dir(e.Name()), "*.seg")); err == nil && len(plain) > 0 && s.running(e.Name()) == nil {
			s.keep(ctx, e.Name())
		}
	}
}

// keep packs a session's output and makes it ready for searches.
func (s *Service) keep(ctx context.Context, id string) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) && ctx.Err() == nil {
			s.cfg.Log.Warn("history of a session not packed", "session_id", id, "error", err)
		}
		return
	}
	defer s.release(l)
	if l.log.Degraded() != nil {
		return // it is asked for again once all output is on disk
	}
	// The screen reads first: from a packed segment it would have to unpack each byte.
	if _, end := l.log.Bounds(); (l.pour.now() || l.model.behind()) && end-l.indexed < keepLag && !l.over() {
		s.after(pourLook, func() { s.keeping.add(id) })
		return
	}
	if err := l.index(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("history of a session not made ready for searches", "session_id", id, "error", err)
	}
	if _, err := l.log.Pack(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("history of a session not packed", "session_id", id, "error", err)
	}
	select {
	case s.packed <- struct{}{}:
	default:
	}
}

// shards returns the offsets at which a session's search files begin, in order.
func shards(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, e := range entries {
		if digits, ok := strings.CutSuffix(e.Name(), searchSuffix); ok && e.Type().IsRegular() {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n >= 0 {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func shardPath(dir string, start int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d", start)+searchSuffix)
}

// maxShard bounds a search file: its blocks with the largest filters.
const maxShard = 4 << 20

// readShard returns the blocks of a search file; none when it is damaged, which a search makes good by reading the bytes.
func readShard(dir string, start int64) []find.Block {
	f, err := os.Open(shardPath(dir, start))
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxShard))
	if err != nil {
		return nil
	}
	blocks, err := find.Decode(raw)
	if err != nil || len(blocks) == 0 || blocks[0].Start < start {
		return nil
	}
	return blocks
}

// index writes search files for what was printed since the last, as far as it fills files; to the end of an ended session.
func (l *live) index(ctx context.Context) error {
	dir := l.svc.dir(l.id)
	starts, err := shards(dir)
	if err != nil {
		return err
	}
	first, end := l.log.Bounds()
	off := max(first, l.indexed)
	for i, start := range starts {
		if l.indexed > 0 && (i == len(starts)-1 || starts[i+1] > first) {
			break // was read before
		}
		blocks := readShard(dir, start)
		if len(blocks) == 0 { // damaged: it is written anew, and those after it
			for _, s := range starts[i:] {
				_ = os.Remove(shardPath(dir, s))
			}
			off = max(off, start)
			break
		}
		if blocks[len(blocks)-1].End <= first { // of bytes that were dropped
			_ = os.Remove(shardPath(dir, start))
			continue
		}
		off = max(off, blocks[len(blocks)-1].End)
	}
	ended := l.over()
	r := newBlockReader(l.log)
	for off < end && ctx.Err() == nil {
		blocks, next, err := r.shard(ctx, off, ended)
		if err != nil || len(blocks) == 0 || next == off {
			return err
		}
		if full := next-off >= find.ShardBytes; !full && !ended {
			return nil
		}
		l.dateBlocks(blocks)
		if err := atomicfile.Write(shardPath(dir, off), find.Encode(blocks), 0o600); err != nil {
			return err
		}
		off = next
		l.indexed = off
	}
	return ctx.Err()
}

// dateBlocks fills in when the bytes of blocks came.
func (l *live) dateBlocks(blocks []find.Block) {
	var offs []int64
	for _, b := range blocks {
		offs = append(offs, b.Start, b.End-1)
	}
	at, err := l.notes.TimesAt(offs)
	if err != nil {
		return
	}
	for i := range blocks {
		blocks[i].From, blocks[i].To = at[2*i], at[2*i+1]
	}
}

// blockReader reads a log block by block.
type blockReader struct {
	log  *bytelog.Log
	buf  []byte
	off  int64 // of the first byte in buf
	n    int   // bytes in buf: a block seldom takes all that was read for it
	text find.Text
}

func newBlockReader(log *bytelog.Log) *blockReader { return &blockReader{log: log} }

// at reads bytes from off on, up to most and to the next gap. from is the offset of the first: larger than off behind a gap.
func (r *blockReader) at(off, most int64) (p []byte, from int64, err error) {
	if r.buf == nil {
		r.buf = make([]byte, find.MaxBlock)
	}
	if had := off - r.off; had >= 0 && had < int64(r.n) {
		r.n = copy(r.buf, r.buf[had:r.n])
	} else {
		r.n = 0
	}
	r.off = off
	limit := int(min(most, find.MaxBlock))
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

// shard reads the blocks of one search file from off on. A block that goes on with what is printed next is left out, unless
// the session has ended.
func (r *blockReader) shard(ctx context.Context, off int64, ended bool) (blocks []find.Block, next int64, err error) {
	_, end := r.log.Bounds()
	for next = off; next < end && next-off < find.ShardBytes && ctx.Err() == nil; {
		p, from, err := r.at(next, end-next)
		if err != nil || len(p) == 0 {
			return blocks, next, err
		}
		n, whole := r.text.Take(p)
		if !whole && !ended && from+int64(n) >= end {
			break
		}
		blocks = append(blocks, find.Block{Start: from, End: from + int64(n), Filter: find.NewFilter(&r.text)})
		next = from + int64(n)
	}
	return blocks, next, ctx.Err()
}

// dater tells when bytes came.
type dater struct{ offs, at []int64 }

// maxDates bounds what a dater keeps: of more time marks, every second one is left out.
const maxDates = 1 << 20

func newDater(j *journal.Journal) *dater {
	d := &dater{}
	_ = j.Scan(0, func(e journal.Entry) bool { // without dates a hit has that of its session
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

// date returns when the byte at off came; or if that is not known.
func (d *dater) date(off, or int64) int64 {
	i, _ := slices.BinarySearch(d.offs, off+1)
	if i == len(d.offs) {
		return or
	}
	return d.at[i]
}
