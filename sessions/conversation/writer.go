package conversation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/parawork/parawork/internal/atomicfile"
)

// FileName is the name of a stored timeline in its session's folder.
const FileName = "conversation.jsonl"

// kept is a line of a stored timeline: an item in its state at one time. The last line of an item applies; its first one sets its
// position, except for usage, whose position is that of its last line.
type kept struct {
	N   int64 `json:"n"`           // number of the line, increasing, never reused
	Key int64 `json:"k,omitempty"` // key of the item, where it is not N
	Off int64 `json:"off"`         // offset of the terminal's output; -1 = unknown
	Item
}

// maxKept bounds one line of a stored timeline: every field of an item has its own limit.
const maxKept = 2 << 20

// Writer stores the timeline of one session in a file. The file only grows until it reaches its limit: then the older half is
// dropped. Not safe for concurrent use; a file has one Writer.
type Writer struct {
	path string
	max  int64
	seed maphash.Seed

	opened bool
	size   int64
	next   int64             // number of the next line
	places map[string]int64  // key by ID
	known  map[string]uint64 // hash of the last line by ID; nil when not needed
}

// NewWriter returns a Writer. It opens nothing before the first Append.
func NewWriter(path string, max int64) *Writer {
	return &Writer{path: path, max: max, seed: maphash.MakeSeed()}
}

// Append adds items. offset returns the offset of the terminal's output at a time; nil when unknown. With again, items already
// stored in this state are left out. It returns the number of lines so far and whether any were new.
func (w *Writer) Append(items []Item, offset func(at int64) int64, again bool) (n int64, grew bool, err error) {
	if len(items) == 0 {
		return w.next - 1, false, nil
	}
	if !w.opened || again && w.known == nil {
		if err := w.open(); err != nil {
			return 0, false, err
		}
	}
	var out bytes.Buffer
	next, places := w.next, map[string]int64{}
	for _, it := range items {
		raw, err := encode(it)
		if err != nil {
			return 0, false, err
		}
		sum := maphash.Bytes(w.seed, raw)
		if again && w.known[it.ID] == sum {
			continue
		}
		if w.known != nil {
			w.known[it.ID] = sum
		}
		l := kept{N: next, Off: -1, Item: it}
		if offset != nil {
			l.Off = offset(it.At)
		}
		if key, ok := w.places[it.ID]; ok && it.Kind != Spent {
			l.Key = key
		} else if key, ok := places[it.ID]; ok && it.Kind != Spent {
			l.Key = key
		} else {
			places[it.ID] = next
		}
		if raw, err = encode(l); err != nil {
			return 0, false, err
		}
		out.Write(raw)
		next++
	}
	if out.Len() == 0 {
		return w.next - 1, false, nil
	}
	if err := w.write(out.Bytes()); err != nil {
		w.opened, w.known = false, nil // read the file again
		return 0, false, err
	}
	w.next, w.size = next, w.size+int64(out.Len())
	maps.Copy(w.places, places)
	if w.size > w.max {
		if err := w.shrink(); err != nil {
			return w.next - 1, true, err
		}
	}
	return w.next - 1, true, nil
}

// Amend stores another state of items that are stored; of others, and of those in this state already, nothing.
func (w *Writer) Amend(items []Item) (n int64, grew bool, err error) {
	if err := w.open(); err != nil {
		return 0, false, err
	}
	known := slices.DeleteFunc(slices.Clone(items), func(it Item) bool { _, ok := w.places[it.ID]; return !ok })
	return w.Append(known, nil, true)
}

// Settle frees what is only needed while a record is read again.
func (w *Writer) Settle() { w.known = nil }

// encode writes v as one line.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding an item: %w", err)
	}
	return b.Bytes(), nil
}

func (w *Writer) write(p []byte) error {
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(p)
	return errors.Join(err, f.Close())
}

// open reads what is already stored; it drops a last line that a crash of the server cut off.
func (w *Writer) open() error {
	w.opened, w.size, w.next, w.places, w.known = false, 0, 1, map[string]int64{}, map[string]uint64{}
	f, err := os.OpenFile(w.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		w.opened = true
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	w.size, err = eachLine(f, 0, func(_ int64, raw []byte) bool {
		var l kept
		if json.Unmarshal(raw, &l) != nil {
			return true
		}
		w.next = max(w.next, l.N+1)
		if it, err := encode(l.Item); err == nil {
			w.known[l.ID] = maphash.Bytes(w.seed, it)
		}
		if _, ok := w.places[l.ID]; !ok || l.Kind == Spent {
			w.places[l.ID] = l.key()
		}
		return true
	})
	if err != nil {
		return err
	}
	if err := f.Truncate(w.size); err != nil {
		return err
	}
	w.opened = true
	return nil
}

func (l *kept) key() int64 {
	if l.Key != 0 {
		return l.Key
	}
	return l.N
}

// shrink retains the newest items in their last state, up to half the limit.
func (w *Writer) shrink() error {
	f, err := os.Open(w.path)
	if err != nil {
		return err
	}
	defer f.Close()
	type place struct{ key, off, len int64 }
	last := map[string]place{}
	if _, err := eachLine(f, 0, func(off int64, raw []byte) bool {
		var l kept
		if json.Unmarshal(raw, &l) == nil {
			last[l.ID] = place{l.key(), off, int64(len(raw)) + 1}
		}
		return true
	}); err != nil {
		return err
	}
	keep := make([]place, 0, len(last))
	for _, p := range last {
		keep = append(keep, p)
	}
	slices.SortFunc(keep, func(a, b place) int { return int(b.key - a.key) })
	var size int64
	for i, p := range keep {
		if size += p.len; size > w.max/2 {
			keep = keep[:i]
			break
		}
	}
	slices.Reverse(keep)
	lines := make([]io.Reader, len(keep))
	for i, p := range keep {
		lines[i] = io.NewSectionReader(f, p.off, p.len)
	}
	if err := atomicfile.Copy(w.path, struct{ io.Reader }{bufio.NewReaderSize(io.MultiReader(lines...), 256<<10)}, 0o600); err != nil {
		return err
	}
	next := w.next
	err = w.open()
	w.next = max(w.next, next)
	w.known = nil
	return err
}

// eachLine calls fn with each complete line from an offset on, until it returns false. It returns the offset after the last
// complete line.
func eachLine(f io.ReaderAt, from int64, fn func(off int64, raw []byte) bool) (int64, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, 1<<62), 256<<10)
	off := from
	var long []byte
	for {
		raw, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) < maxKept { // only a damaged file has a line that long
				long = append(long, raw...)
			} else {
				off += int64(len(raw))
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return off, nil
		}
		if err != nil {
			return off, err
		}
		size := int64(len(raw))
		if len(long) > 0 {
			raw = append(long, raw...)
			size, long = int64(len(raw)), nil
		}
		if !fn(off, raw[:len(raw)-1]) {
			return off, nil
		}
		off += size
	}
}
