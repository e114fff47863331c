package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"

	"github.com/mattn/go-sqlite3"
)

// WAL is what lies in the write-ahead log of a SQLite database that was not closed. SQLite itself reads up to the first frame whose checksum
// is wrong and forgets the rest without a word: https://sqlite.org/fileformat2.html#the_write_ahead_log
type WAL struct {
	Frames  int // of the log's newest generation
	Read    int // frames before the first bad one: what SQLite reads
	Lost    int // transactions that had ended and that SQLite would forget
	pageLen int
	size    int64          // pages of the database after the last transaction that is whole
	pages   map[uint32]int // the newest intact frame of each page
	torn    map[uint32]bool
	blind   bool // a frame is damaged so that its page is not known
}

// Damaged reports whether SQLite would forget transactions that had ended. One that is torn at the very end had not: its sync was cut by a loss
// of power.
func (w WAL) Damaged() bool { return w.Lost > 0 }

// Whole reports whether every page the database has after its last transaction is intact in the log or the database.
func (w WAL) Whole() bool { return !w.blind && len(w.torn) == 0 && w.size > 0 }

const (
	walHeader   = 32
	frameHeader = 24
)

// walSum is SQLite's checksum of a log, on with (a, b). n is a multiple of 8.
func walSum(order binary.ByteOrder, p []byte, a, b uint32) (uint32, uint32) {
	for i := 0; i+8 <= len(p); i += 8 {
		a += order.Uint32(p[i:]) + b
		b += order.Uint32(p[i+4:]) + a
	}
	return a, b
}

// CheckWAL reads the log beside a database file that no process has open. No log is an empty WAL.
func CheckWAL(path string) (w WAL, err error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, fmt.Errorf("reading the database's log: %w", err)
	}
	defer f.Close()
	head := make([]byte, walHeader)
	if _, err := io.ReadFull(f, head); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return w, nil
	} else if err != nil {
		return w, fmt.Errorf("reading the database's log: %w", err)
	}
	be := binary.BigEndian
	var order binary.ByteOrder = binary.LittleEndian
	if be.Uint32(head)&1 == 1 {
		order = be
	}
	w.pageLen = int(be.Uint32(head[8:]))
	if w.pageLen < 512 || w.pageLen > 65536 || w.pageLen&(w.pageLen-1) != 0 {
		if w.pageLen, err = pageLen(path); err != nil {
			return w, err
		}
	}
	a, b := walSum(order, head[:24], 0, 0)
	good := be.Uint32(head)&^1 == 0x377f0682 && a == be.Uint32(head[24:]) && b == be.Uint32(head[28:])
	salts := string(head[16:24])
	frame := make([]byte, frameHeader+w.pageLen)
	w.pages, w.torn = map[uint32]int{}, map[uint32]bool{}
	chained, known := good, good // whether SQLite reads on; whether (a, b) is what the next frame goes on with
	lost, last := 0, -1          // ends of transactions behind the first bad frame, itself included; the last end that is intact
	open := map[uint32]int{}     // the frames since then; -1 = damaged
	for i := 0; ; i++ {
		if _, err := io.ReadFull(f, frame); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		} else if err != nil {
			return w, fmt.Errorf("reading the database's log: %w", err)
		}
		if i == 0 && !good {
			salts = string(frame[8:16])
		}
		page, size := be.Uint32(frame), be.Uint32(frame[4:])
		ours := string(frame[8:16]) == salts && page != 0
		x, y := walSum(order, frame[:8], a, b)
		x, y = walSum(order, frame[frameHeader:], x, y)
		a, b = be.Uint32(frame[16:]), be.Uint32(frame[20:])
		intact := ours && known && x == a && y == b
		known = ours // a damaged page leaves the sum in its frame's header, which the next frame goes on with
		if chained = chained && intact; chained {
			w.Read++
		}
		if !ours {
			continue
		}
		w.Frames = i + 1
		if open[page] = i; !intact {
			open[page] = -1
		}
		if size == 0 {
			continue
		}
		if !chained {
			lost++
		}
		if !intact {
			continue
		}
		for page, i := range open {
			if delete(w.torn, page); i >= 0 {
				w.pages[page] = i
			} else {
				w.torn[page] = true
			}
		}
		clear(open)
		w.size, last = int64(size), i
	}
	if lost > 1 {
		w.Lost = lost
	}
	// A frame whose own header is damaged may be of any page.
	w.blind = !good || w.hasHole(f, salts, last)
	return w, nil
}

// hasHole reports whether a frame up to the last one has a header that is not of this generation.
func (w *WAL) hasHole(f *os.File, salts string, last int) bool {
	var head [frameHeader]byte
	for i := range last {
		if _, err := f.ReadAt(head[:], w.at(i)); err != nil || string(head[8:16]) != salts || binary.BigEndian.Uint32(head[:]) == 0 {
			return true
		}
	}
	return false
}

func (w *WAL) at(frame int) int64 {
	return walHeader + int64(frame)*int64(frameHeader+w.pageLen)
}

// pageLen reads the size of pages out of a database's header.
func pageLen(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("reading the database's header: %w", err)
	}
	defer f.Close()
	var b [18]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return 0, fmt.Errorf("reading the database's header: %w", err)
	}
	if n := int(binary.BigEndian.Uint16(b[16:])); n >= 512 {
		return n, nil
	}
	return 65536, nil
}

// SalvageWAL writes to the file at to what the database at path and every intact frame of its log hold together, as it was after the last
// transaction that is whole. The database and its log stay as they are. Where the log is not Whole, pages may be of different times: the caller
// checks what comes of it (Sound).
func SalvageWAL(path, to string) (w WAL, err error) {
	if w, err = CheckWAL(path); err != nil {
		return w, err
	}
	log, err := os.Open(path + "-wal")
	if err != nil {
		return w, fmt.Errorf("reading the database's log: %w", err)
	}
	defer log.Close()
	from, err := os.Open(path)
	if err != nil {
		return w, fmt.Errorf("reading the database: %w", err)
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return w, fmt.Errorf("writing the salvaged database: %w", err)
	}
	defer out.Close()
	if _, err := io.Copy(out, from); err != nil {
		return w, fmt.Errorf("writing the salvaged database: %w", err)
	}
	page := make([]byte, w.pageLen)
	for n, i := range w.pages {
		if int64(n) > w.size {
			continue // the database has become smaller since
		}
		if _, err := log.ReadAt(page, w.at(i)+frameHeader); err != nil {
			return w, fmt.Errorf("reading the database's log: %w", err)
		}
		if _, err := out.WriteAt(page, int64(n-1)*int64(w.pageLen)); err != nil {
			return w, fmt.Errorf("writing the salvaged database: %w", err)
		}
	}
	if w.size > 0 {
		if err := out.Truncate(w.size * int64(w.pageLen)); err != nil {
			return w, fmt.Errorf("writing the salvaged database: %w", err)
		}
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return w, fmt.Errorf("writing the salvaged database: %w", err)
	}
	return w, nil
}

// SQLiteFile is the file of the database that cfg names; "" when that is not SQLite.
func SQLiteFile(cfg Config) (string, error) {
	_, path, err := cfg.parse()
	return path, err
}

// Sound checks the pages and indexes of a SQLite database, which takes a look at each page. wrong says what is wrong with it; an error is that it
// could not be checked.
func Sound(ctx context.Context, path string) (wrong string, err error) {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_busy_timeout=10000")
	if err != nil {
		return "", fmt.Errorf("opening the database: %w", err)
	}
	defer db.Close()
	var found string
	err = db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&found)
	if e, ok := errors.AsType[sqlite3.Error](err); ok && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB) {
		return e.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("checking the database: %w", err)
	}
	if found != "ok" {
		return found, nil
	}
	return "", nil
}
