package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// MarkEvery is the time, in ms, within which pieces of output share a time mark while the journal is young.
const MarkEvery = 50

// DefaultMaxBytes is the cap of a journal.
const DefaultMaxBytes = 32 << 20

// keepUnwritten is how much waits in memory while the disk cannot be written.
const keepUnwritten = 256 << 10

// noFollow are the flags for opening the file: it must be a regular file.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC

// Config configures a journal.
type Config struct {
	Path     string
	End      int64 // end of the byte log: blocks about later bytes are dropped
	MaxBytes int64 // 0 = DefaultMaxBytes
}

// SizeMark is the terminal's size from an offset on.
type SizeMark struct {
	At, Offset int64
	Dims
}

// Journal is one session's journal. All methods are safe for concurrent use. Mark and Note never read or write a file.
type Journal struct {
	path string
	max  int64

	mu      sync.Mutex // a leaf; never held over a read or a write
	buf     []byte     // the block being filled, nil when nothing waits
	cur     cursor     // of buf
	flying  []byte     // the block being written
	written int64      // bytes of whole blocks in the file
	entries int64      // in the file, flying and buf included
	inBuf   int64      // entries in buf
	group   group
	sizes   []SizeMark
	lost    int64 // entries lost to a failing disk or the cap

	fileMu sync.Mutex // one Flush at a time
}

// group is output that will share a time mark.
type group struct {
	open    bool
	at, off int64
}

// maxSizes bounds the sizes remembered in memory: later changes replace the last.
const maxSizes = 20_000

// Open opens the journal at cfg.Path, or an empty one; the first Flush creates the file. It cuts off a torn end.
func Open(cfg Config) (*Journal, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	j := &Journal{path: cfg.Path, max: cfg.MaxBytes}
	f, err := openRegular(cfg.Path, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	j.written, j.entries, err = readBlocks(f, info.Size(), func(body []byte, seq int64) (int64, bool, error) {
		last, sizes := int64(0), len(j.sizes)
		n, _, err := walk(body, seq, func(e Entry) bool {
			last = max(last, e.Offset)
			j.remember(e)
			return true
		})
		if err != nil || last > cfg.End {
			j.sizes = j.sizes[:sizes]
			return n, false, errTorn
		}
		return n, true, nil
	})
	if err != nil && !errors.Is(err, errTorn) {
		return nil, fmt.Errorf("reading journal: %w", err)
	}
	if j.written < info.Size() {
		if err := f.Truncate(j.written); err != nil {
			return nil, fmt.Errorf("cutting the torn end of a journal: %w", err)
		}
	}
	return j, nil
}

// readBlocks calls fn with the body of each complete block in the first size bytes of f. It returns the bytes and entries of the
// blocks fn took, and errTorn when something follows that is not a block.
func readBlocks(f io.ReaderAt, size int64, fn func(body []byte, seq int64) (n int64, more bool, err error)) (at, seq int64, err error) {
	r := io.NewSectionReader(f, 0, size)
	in := newReader(r)
	for at < size {
		body, err := in.block(size - at)
		if err != nil {
			return at, seq, err
		}
		n, more, err := fn(body, seq)
		if err != nil {
			return at, seq, err
		}
		at, seq = at+blockHead+int64(len(body)), seq+n
		if !more {
			return at, seq, nil
		}
	}
	return at, seq, nil
}

func openRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(err, &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")})
	}
	return f, nil
}

// Mark records that at time at (ms UTC) output had reached off. It reports whether a Flush has just become due.
func (j *Journal) Mark(at, off int64) (first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first = j.buf == nil && !j.group.open
	g := &j.group
	if g.open && at-g.at < j.every() {
		g.off = off
		return first
	}
	j.closeGroup()
	*g = group{open: true, at: at, off: off}
	return first
}

// every is the time within which output shares a mark. The caller holds mu.
func (j *Journal) every() int64 {
	switch part := j.max / 8; {
	case j.written < part:
		return MarkEvery
	case j.written < 2*part:
		return 5 * MarkEvery
	case j.written < 4*part:
		return 20 * MarkEvery
	default:
		return 200 * MarkEvery
	}
}

// closeGroup writes the mark of output that came together. The caller holds mu.
func (j *Journal) closeGroup() {
	if g := &j.group; g.open {
		g.open = false
		j.put(Time, g.at, g.off, nil)
	}
}

// Note adds an entry. Data that cannot be encoded, or is too long, is left out.
func (j *Journal) Note(k Kind, at, off int64, data any) {
	raw, err := json.Marshal(data)
	if err != nil || len(raw) > maxData {
		raw = []byte(`{"cut":true}`)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closeGroup()
	j.put(k, at, off, raw)
	j.remember(Entry{At: at, Offset: off, Kind: k, Data: raw})
}

// put adds to the block being filled. The caller holds mu.
func (j *Journal) put(k Kind, at, off int64, data []byte) {
	if waiting := int64(len(j.buf) + len(j.flying)); waiting > keepUnwritten || j.written+waiting > j.max {
		j.lost++
		return
	}
	if j.buf == nil {
		j.cur = cursor{at, off}
		j.buf = begin(make([]byte, 0, 512), j.cur)
	}
	j.buf = j.cur.put(j.buf, k, at, off, data)
	j.entries++
	j.inBuf++
}

// remember keeps sizes in memory. The caller holds mu, or nobody else has the journal yet.
func (j *Journal) remember(e Entry) {
	if e.Kind != Size {
		return
	}
	m := SizeMark{At: e.At, Offset: e.Offset}
	if json.Unmarshal(e.Data, &m.Dims) != nil || m.Cols == 0 || m.Rows == 0 {
		return
	}
	if n := len(j.sizes); n > 0 && (j.sizes[n-1].Offset == m.Offset || n >= maxSizes) {
		j.sizes[n-1] = m
		return
	}
	j.sizes = append(j.sizes, m)
}

// Flush writes what waits. When it cannot, as many entries as fit keep waiting; the error says why.
func (j *Journal) Flush() error {
	j.fileMu.Lock()
	defer j.fileMu.Unlock()
	j.mu.Lock()
	j.closeGroup()
	if j.flying == nil { // otherwise: the block an earlier Flush could not write
		j.flying, j.buf, j.inBuf = j.buf, nil, 0
		if j.flying != nil {
			seal(j.flying)
		}
	}
	block, at := j.flying, j.written
	j.mu.Unlock()
	if block == nil {
		return nil
	}
	if err := j.write(block, at); err != nil {
		return fmt.Errorf("writing journal: %w", err)
	}
	j.mu.Lock()
	j.written += int64(len(block))
	j.flying = nil
	j.mu.Unlock()
	return nil
}

func (j *Journal) write(block []byte, at int64) error {
	f, err := openRegular(j.path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(block, at) // overwrites what a failed write may have left
	return errors.Join(err, f.Close())
}

// Pending reports whether a Flush is due.
func (j *Journal) Pending() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf != nil || j.flying != nil || j.group.open
}

// Lost is the number of entries that were dropped: the journal was full, or the disk could not be written.
func (j *Journal) Lost() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// Bytes is the size of the file.
func (j *Journal) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.written
}
