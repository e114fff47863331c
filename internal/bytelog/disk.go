package bytelog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// suffix of a segment's file name; before it stands the offset of its first byte in 20 digits.
const suffix = ".seg"

// noFollow are the flags for opening a segment: the folder may be one where a hostile program can put links and FIFOs.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC

// disk is the part of a log in files. The writer appends to the last segment; older ones are never written again.
type disk struct {
	dir          string
	segmentBytes int64
	maxBytes     int64
	unmade       bool  // the disk had no space for the folder yet; only the writer uses it
	ended        int64 // where the log last ended with zeros; only the writer uses it
	writeAt      func(f *os.File, p []byte, off int64) (int, error)

	file *os.File // of the last segment, nil until the next write; only the writer uses it

	mu       sync.RWMutex // guards segments; never held during a read or write
	segments []segment    // by start, not overlapping

	crowd crowd
	codec Codec
}

// segment is a file of the log. size counts the log's bytes in it, disk those of the file.
type segment struct {
	start, size int64
	packed      *packed // nil: not compressed
}

func (s segment) end() int64 { return s.start + s.size }

func (s segment) disk() int64 {
	if s.packed != nil {
		return s.packed.disk
	}
	return s.size
}

func openDisk(dir string, segmentBytes, maxBytes int64, codec Codec) (*disk, error) {
	d := &disk{dir: dir, segmentBytes: segmentBytes, maxBytes: maxBytes, codec: codec, writeAt: (*os.File).WriteAt}
	if err := os.MkdirAll(dir, 0o700); isFull(err) {
		d.unmade = true
		return d, nil
	} else if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if codec != nil && e.Type().IsRegular() {
			if start, ok := offsetOf(e.Name(), packedSuffix); ok {
				d.openPacked(start)
				continue
			}
			if _, ok := offsetOf(e.Name(), packingSuffix); ok { // a process died while making it; the plain segment still exists
				_ = os.Remove(filepath.Join(dir, e.Name()))
				continue
			}
		}
		if end, ok := offsetOf(e.Name(), endSuffix); ok && e.Type().IsRegular() {
			d.ended = max(d.ended, end)
			continue
		}
		start, ok := offsetOf(e.Name(), suffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) { // packed just now
			continue
		}
		if err != nil {
			return nil, err
		}
		d.segments = append(d.segments, segment{start: start, size: info.Size()})
	}
	d.sortSegments()
	if n := len(d.segments); n > 0 {
		old, last := d.segments[:n-1], d.segments[n-1]
		d.segments = append(slices.DeleteFunc(old, func(s segment) bool { return s.size == 0 }), last)
	}
	for i := 1; i < len(d.segments); i++ {
		if p := &d.segments[i-1]; p.end() > d.segments[i].start {
			p.size = d.segments[i].start - p.start
		}
	}
	if err := d.cutZeros(d.ended); err != nil {
		return nil, err
	}
	return d, nil
}

// offsetOf parses the offset in a file's name.
func offsetOf(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	start, err := strconv.ParseInt(digits, 10, 64)
	return start, err == nil && start >= 0
}

// sortSegments sorts segments. Of one that exists twice, because a process died between packing it and removing the plain one, the packed
// one stays.
func (d *disk) sortSegments() {
	slices.SortFunc(d.segments, func(a, b segment) int {
		if c := cmp.Compare(a.start, b.start); c != 0 {
			return c
		}
		if (a.packed != nil) == (b.packed != nil) {
			return 0
		}
		if a.packed != nil {
			return -1
		}
		return 1
	})
	d.segments = slices.CompactFunc(d.segments, func(kept, twice segment) bool {
		if kept.start != twice.start {
			return false
		}
		_ = os.Remove(d.path(twice.start)) // a file that cannot be removed only takes space
		return true
	})
}

// EmptySegment is the path of a segment file that, empty, makes a log in dir end at that offset.
func EmptySegment(dir string, end int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d", end)+suffix)
}

func (d *disk) path(start int64) string { return d.pathOf(start, suffix) }

func (d *disk) pathOf(start int64, suffix string) string {
	return filepath.Join(d.dir, fmt.Sprintf("%020d", start)+suffix)
}

func (d *disk) end() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.segments) == 0 {
		return 0
	}
	return d.segments[len(d.segments)-1].end()
}

func (d *disk) first() (int64, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, s := range d.segments {
		if s.size > 0 {
			return s.start, true
		}
	}
	return 0, false
}

func (d *disk) bytes() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.bytesLocked()
}

func (d *disk) bytesLocked() (n int64) {
	for _, s := range d.segments {
		n += s.disk()
	}
	return n
}

// write appends p at off, in a new segment where the last one is full or does not end there, and returns how many bytes of it were written:
// all, unless there is an error.
func (d *disk) write(p []byte, off int64) (written int, err error) {
	for len(p) > 0 {
		room, err := d.ready(off)
		if err != nil {
			return written, err
		}
		n, err := d.writeAt(d.file, p[:min(int64(len(p)), room)], off-d.lastStart())
		d.grow(int64(n))
		p, off, written = p[n:], off+int64(n), written+n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (d *disk) lastStart() int64 { // the writer alone appends segments
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.segments[len(d.segments)-1].start
}

func (d *disk) grow(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.segments[len(d.segments)-1].size += n
}

// ready opens the segment for off and returns how many more bytes fit.
func (d *disk) ready(off int64) (int64, error) {
	d.mu.RLock()
	var last segment
	some := len(d.segments) > 0
	if some {
		last = d.segments[len(d.segments)-1]
	}
	d.mu.RUnlock()
	if some && last.end() == off && last.size < d.segmentBytes && last.packed == nil {
		if d.file == nil {
			f, err := openRegular(d.path(last.start), os.O_RDWR)
			if err != nil {
				return 0, err
			}
			d.file = f
		}
		return d.segmentBytes - last.size, nil
	}
	if d.unmade {
		if err := os.MkdirAll(d.dir, 0o700); err != nil {
			return 0, err
		}
		d.unmade = false
	}
	f, err := openRegular(d.path(off), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return 0, err
	}
	d.closeFile()
	d.file = f
	var gone []segment
	d.mu.Lock()
	if some && last.size == 0 && last.packed == nil { // left by a write that failed
		d.segments = d.segments[:len(d.segments)-1]
		if last.start != off {
			gone = append(gone, last)
		}
	}
	d.segments = append(d.segments, segment{start: off})
	if d.maxBytes > 0 {
		// The new segment counts as full, so that the cap also holds while it fills.
		for len(d.segments) > 1 && d.bytesLocked()+d.segmentBytes > d.maxBytes {
			gone = append(gone, d.segments[0])
			d.segments = d.segments[1:]
		}
	}
	d.mu.Unlock()
	d.remove(gone)
	return d.segmentBytes, nil
}

func (d *disk) closeFile() {
	if d.file != nil {
		_ = d.file.Close() // every write was checked
		d.file = nil
	}
}

func (d *disk) dropBefore(off int64) {
	d.mu.Lock()
	var gone []segment
	for len(d.segments) > 1 && d.segments[0].end() <= off {
		gone = append(gone, d.segments[0])
		d.segments = d.segments[1:]
	}
	d.mu.Unlock()
	d.remove(gone)
}

func (d *disk) remove(gone []segment) {
	for _, s := range gone {
		_ = os.Remove(d.path(s.start)) // a file that cannot be removed only takes space
		if s.packed != nil || d.codec != nil {
			_ = os.Remove(d.pathOf(s.start, packedSuffix))
		}
	}
}

// read reads from off, or from the first byte after it that is on disk and below limit. n is 0 when there is none.
func (d *disk) read(p []byte, off, limit int64) (n int, from int64, err error) {
	for range 3 { // a segment may be dropped while it is opened
		s, ok := d.find(off)
		if !ok {
			return 0, off, nil
		}
		if s.start > off {
			if s.start >= limit {
				return 0, off, nil
			}
			off = s.start
		}
		n, err := d.readSegment(p, s, off)
		if n > 0 {
			return n, off, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return 0, off, fmt.Errorf("reading byte log: %w", err)
		}
		d.adopt(s)
	}
	return 0, off, nil
}

// find returns the segment that contains off, or the first one after it.
func (d *disk) find(off int64) (segment, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(d.segments, off, func(s segment, off int64) int {
		if s.end() <= off {
			return -1
		}
		return 1
	})
	if i == len(d.segments) || d.segments[i].size == 0 {
		return segment{}, false
	}
	return d.segments[i], true
}

func (d *disk) readSegment(p []byte, s segment, off int64) (n int, err error) {
	if s.packed != nil {
		return d.readPacked(p, s, off)
	}
	if n := d.readShared(p, s, off); n > 0 {
		return n, nil
	}
	err = d.withSegment(s, func(f *os.File) error {
		n, err = f.ReadAt(p[:min(int64(len(p)), s.end()-off)], off-s.start)
		if n == 0 && errors.Is(err, io.EOF) { // shorter than what was written: somebody truncated it
			return fmt.Errorf("segment at %d is shorter than it was: %w", s.start, io.ErrUnexpectedEOF)
		}
		return err
	})
	return n, err
}

func (d *disk) withSegment(s segment, read func(*os.File) error) error {
	f, err := openRegular(d.path(s.start), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}

func openRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
