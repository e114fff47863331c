package history

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/guest"
)

// Everything that ever scrolled off a screen can be read again, page by page, without reading the log from its beginning: a file
// next to it stores, for about each megabyte of output, the screen at that point. Records of
//
// \tu64 offset in the log, u16 columns, u16 rows, u32 length and u32 checksum of the snapshot, the snapshot
//
// follow each other by offset. A record that a crash cut off is overwritten.
const (
	pagesFile  = "pages"
	pageHead   = 8 + 2 + 2 + 4 + 4
	pageEvery  = 1 << 20  // bytes of output
	maxPages   = 64 << 20 // bytes of the file; later output is read back from its end only
	maxPageLen = 8 << 20
)

// leaf is a point from which a screen can be restored.
type leaf struct {
	off  int64
	size guest.Size
	at   int64 // of the snapshot in the file
	len  uint32
	sum  uint32
}

// openPages opens the file, to write or only to read, and returns its pages and where they end. A missing file is empty.
func (r *Recording) openPages(write bool) (f *os.File, pages []leaf, end int64, err error) {
	flags := os.O_RDONLY
	if write {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err = os.OpenFile(filepath.Join(r.all.dir(r.id), pagesFile), flags|noFollow, 0o600)
	if err != nil {
		return nil, nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, 0, err
	}
	head := make([]byte, pageHead)
	for end+pageHead <= info.Size() {
		if _, err := f.ReadAt(head, end); err != nil {
			break
		}
		p := leaf{off: int64(binary.BigEndian.Uint64(head)), size: guest.Size{Cols: binary.BigEndian.Uint16(head[8:]), Rows: binary.BigEndian.Uint16(head[10:])},
			at: end + pageHead, len: binary.BigEndian.Uint32(head[12:]), sum: binary.BigEndian.Uint32(head[16:])}
		if p.len > maxPageLen || p.at+int64(p.len) > info.Size() || p.size.Cols == 0 || p.size.Rows == 0 || p.off <= 0 || len(pages) > 0 && p.off <= pages[len(pages)-1].off {
			break
		}
		pages = append(pages, p)
		end = p.at + int64(p.len)
	}
	return f, pages, end, nil
}

// read returns a page's snapshot; false when it is damaged.
func (p leaf) read(f *os.File) ([]byte, bool) {
	b := make([]byte, p.len)
	if _, err := io.ReadFull(io.NewSectionReader(f, p.at, int64(p.len)), b); err != nil {
		return nil, false
	}
	return b, crc32.Checksum(b, castagnoli) == p.sum
}

// lastPage returns the offset of the newest page, 0 when there is none.
func (r *Recording) lastPage() int64 {
	f, pages, _, err := r.openPages(false)
	if err != nil || len(pages) == 0 {
		return 0
	}
	_ = f.Close()
	return pages[len(pages)-1].off
}

// turn stores the current screen as the beginning of a new page. The caller holds mu; the model is awake.
func (m *model) turn() {
	off := m.off - int64(m.scr.Held())
	m.page = off
	f, pages, end, err := m.r.openPages(true)
	if err != nil {
		return // the log has everything: pages are longer then
	}
	defer f.Close()
	if end > maxPages || len(pages) > 0 && pages[len(pages)-1].off >= off {
		return
	}
	snap := m.scr.Snapshot(0)
	b := make([]byte, 0, pageHead+len(snap))
	b = binary.BigEndian.AppendUint64(b, uint64(off))
	b = binary.BigEndian.AppendUint16(b, m.size.Cols)
	b = binary.BigEndian.AppendUint16(b, m.size.Rows)
	b = binary.BigEndian.AppendUint32(b, uint32(len(snap)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(snap, castagnoli))
	if _, err := f.WriteAt(append(b, snap...), end); err != nil {
		_ = f.Truncate(end) // the disk is full: the partial record is overwritten in any case
	}
}
