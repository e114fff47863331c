package bytelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/parawork/parawork/internal/atomicfile"
)

// Codec compresses bytes. It is part of Config so that programs which never pack link no compressor. Safe for concurrent use.
type Codec interface {
	// Encode appends the compressed form of p.
	Encode(dst, p []byte) []byte
	// Decode appends the original of p; an error when Encode did not make p.
	Decode(dst, p []byte) ([]byte, error)
}

// A packed segment is a file that replaces the plain one: frames, each of chunkBytes of the log but the last, then the end of each frame in
// the file (u64), the number of the log's bytes (u64), the number of frames (u32), the CRC-32C of all that from the first end on (u32), and
// the magic. All integers are big-endian.
const (
	packedSuffix  = ".segz"
	packingSuffix = ".packing"
	packedMagic   = "PARAWRK1"
	packedTail    = 8 + 4 + 4 + 8
)

// packed is what is needed to read a packed segment.
type packed struct {
	ends []int64 // of its frames in the file
	disk int64   // size of the file
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Pack packs segments that will not be written any more: all but the newest, and that too once the log is finished. One caller at a time may
// run it, concurrently with any number of appends and reads, which it does not block. It returns how many segments were packed; an error
// leaves the rest as they were.
func (l *Log) Pack(ctx context.Context) (n int, err error) {
	if l.disk == nil || l.disk.codec == nil {
		return 0, nil
	}
	for {
		s, ok := l.disk.unpacked(l.finished.Load())
		if !ok || ctx.Err() != nil {
			return n, ctx.Err()
		}
		if err := l.disk.pack(s); err != nil {
			return n, fmt.Errorf("packing byte log: %w", err)
		}
		n++
	}
}

// Unpacked reports whether Pack has something to do.
func (l *Log) Unpacked() bool {
	if l.disk == nil || l.disk.codec == nil {
		return false
	}
	_, ok := l.disk.unpacked(l.finished.Load())
	return ok
}

// unpacked returns the first segment that can be packed.
func (d *disk) unpacked(last bool) (segment, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for i, s := range d.segments {
		if s.packed == nil && s.size > 0 && (last || i < len(d.segments)-1) {
			return s, true
		}
	}
	return segment{}, false
}

// pack makes a packed segment next to s and then replaces s. A process that dies meanwhile leaves s, or both.
func (d *disk) pack(s segment) error {
	tmp := d.pathOf(s.start, packingSuffix)
	k, err := d.packTo(tmp, s)
	if err != nil {
		_ = os.Remove(tmp)
		if errors.Is(err, os.ErrNotExist) && !d.has(s) { // dropped meanwhile
			return nil
		}
		return err
	}
	if err := os.Rename(tmp, d.pathOf(s.start, packedSuffix)); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	_ = atomicfile.SyncDir(d.dir) // a name lost in a power failure is packed again
	d.mu.Lock()
	i := slices.IndexFunc(d.segments, func(o segment) bool { return o.start == s.start && o.packed == nil })
	if i >= 0 {
		d.segments[i].packed = k
	}
	d.mu.Unlock()
	if i < 0 { // dropped meanwhile
		_ = os.Remove(d.pathOf(s.start, packedSuffix))
	}
	_ = os.Remove(d.path(s.start)) // what stays is removed when the log is opened again
	return nil
}

func (d *disk) has(s segment) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.segments, func(o segment) bool { return o.start == s.start })
}

func (d *disk) packTo(path string, s segment) (*packed, error) {
	in, err := openRegular(d.path(s.start), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := openRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	k, at := &packed{}, int64(0)
	raw, frame := make([]byte, min(chunkBytes, s.size)), []byte(nil)
	for off := int64(0); off < s.size; off += int64(len(raw)) {
		raw = raw[:min(chunkBytes, s.size-off)]
		if _, err := io.ReadFull(io.NewSectionReader(in, off, int64(len(raw))), raw); err != nil {
			return nil, err
		}
		frame = d.codec.Encode(frame[:0], raw)
		if _, err := out.Write(frame); err != nil {
			return nil, err
		}
		at += int64(len(frame))
		k.ends = append(k.ends, at)
	}
	var tail []byte
	for _, e := range k.ends {
		tail = binary.BigEndian.AppendUint64(tail, uint64(e))
	}
	tail = binary.BigEndian.AppendUint64(tail, uint64(s.size))
	tail = binary.BigEndian.AppendUint32(tail, uint32(len(k.ends)))
	tail = binary.BigEndian.AppendUint32(tail, crc32.Checksum(tail, castagnoli))
	tail = append(tail, packedMagic...)
	if _, err := out.Write(tail); err != nil {
		return nil, err
	}
	if err := out.Sync(); err != nil { // the plain segment goes only when this one is safe
		return nil, err
	}
	k.disk = at + int64(len(tail))
	return k, out.Close()
}

// openPacked adds the packed segment at start to the list; it skips a damaged one, and uses the plain one instead if that exists.
func (d *disk) openPacked(start int64) {
	if s, err := d.loadPacked(start); err == nil {
		d.segments = append(d.segments, s)
	}
}

func (d *disk) loadPacked(start int64) (segment, error) {
	bad := fmt.Errorf("packed segment at %d is damaged", start)
	f, err := openRegular(d.pathOf(start, packedSuffix), os.O_RDONLY)
	if err != nil {
		return segment{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return segment{}, err
	}
	size := info.Size()
	tail := make([]byte, min(size, 4<<10))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return segment{}, err
	}
	if len(tail) < packedTail || string(tail[len(tail)-8:]) != packedMagic {
		return segment{}, bad
	}
	head := tail[len(tail)-packedTail:]
	length, frames := int64(binary.BigEndian.Uint64(head)), int64(binary.BigEndian.Uint32(head[8:]))
	if length <= 0 || frames != (length+chunkBytes-1)/chunkBytes || frames*8+packedTail > size {
		return segment{}, bad
	}
	sum := make([]byte, frames*8+12)
	if _, err := f.ReadAt(sum, size-packedTail-frames*8); err != nil {
		return segment{}, err
	}
	if crc32.Checksum(sum, castagnoli) != binary.BigEndian.Uint32(head[12:]) {
		return segment{}, bad
	}
	k := &packed{ends: make([]int64, frames), disk: size}
	for i := range k.ends {
		k.ends[i] = int64(binary.BigEndian.Uint64(sum[i*8:]))
	}
	if !slices.IsSorted(k.ends) || k.ends[frames-1] != size-packedTail-frames*8 {
		return segment{}, bad
	}
	return segment{start: start, size: length, packed: k}, nil
}

// adopt adds the packed form of s to the list when another Log of the same folder has packed it.
func (d *disk) adopt(s segment) {
	if d.codec == nil || s.packed != nil {
		return
	}
	k, err := d.loadPacked(s.start)
	if err != nil || k.size < s.size {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, o := range d.segments {
		if o.start == s.start && o.packed == nil {
			d.segments[i].packed = k.packed
		}
	}
}

// readPacked reads from off, within one frame of s. Readers that follow each other share the unpacked bytes.
func (d *disk) readPacked(p []byte, s segment, off int64) (int, error) {
	i := (off - s.start) / chunkBytes
	rel := i * chunkBytes
	k, err := d.crowd.at(s.start+rel, func(k *chunk) error { return d.unpack(k, s, i) })
	if err != nil {
		return 0, err
	}
	return copy(p, k.buf[off-s.start-rel:min(chunkBytes, s.size-rel)]), nil
}

func (d *disk) unpack(k *chunk, s segment, i int64) error {
	from := int64(0)
	if i > 0 {
		from = s.packed.ends[i-1]
	}
	f, err := openRegular(d.pathOf(s.start, packedSuffix), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	raw := make([]byte, s.packed.ends[i]-from)
	if _, err := f.ReadAt(raw, from); err != nil {
		return err
	}
	out, err := d.codec.Decode(k.buf[:0], raw)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(f.Name()), err)
	}
	if want := min(chunkBytes, s.size-i*chunkBytes); int64(len(out)) < want {
		return fmt.Errorf("%s: frame %d has %d bytes, want %d", filepath.Base(f.Name()), i, len(out), want)
	}
	if &out[0] != &k.buf[0] { // longer than allowed
		return fmt.Errorf("%s: frame %d is too long", filepath.Base(f.Name()), i)
	}
	return nil
}
