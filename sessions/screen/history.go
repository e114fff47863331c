package screen

import "encoding/binary"

// history is the scrollback: the newest lines that left the screen at the top, each encoded into one record of a ring of
// bytes. A record is a byte that says whether the line was wrapped, and tokens:
//
//	20..7e             a character, one column
//	c2..f4 ...         a character as UTF-8, one column
//	tokStyle n         from here on the style is n
//	tokBlank n         n empty cells
//	tokWide ...        a character as UTF-8 and its spacer
//	tokCluster n       cluster n, one column
//	tokWideCluster n   cluster n and its spacer
//	tokCell n          any other cell: the low half of it
//
// Numbers are varints. Empty cells of default style at the end are left out.
type history struct {
	max  int
	buf  []byte
	recs []record // a ring
	head int      // index of the oldest in recs
	n    int
	end  int // where the next record begins in buf
}

type record struct{ at, size int32 }

const (
	tokStyle = iota
	tokBlank
	tokWide
	tokCluster
	tokWideCluster
	tokCell
)

// A line of n cells never takes more than recordHead + n*recordCell bytes.
const (
	recordHead = 1
	recordCell = 12
)

func (h *history) len() int { return h.n }

func (h *history) clear() { *h = history{max: h.max} }

// at returns record i, 0 being the oldest.
func (h *history) at(i int) []byte {
	r := h.recs[(h.head+i)%len(h.recs)]
	return h.buf[r.at : r.at+r.size]
}

// push adds a line; the oldest one goes when there are too many.
func (h *history) push(l *line) {
	if h.max <= 0 {
		return
	}
	if h.n == h.max {
		h.head = (h.head + 1) % len(h.recs)
		h.n--
	}
	if h.n == len(h.recs) {
		h.growRecords()
	}
	at := h.room(recordHead + l.used*recordCell)
	size := encode(h.buf[at:], l)
	h.recs[(h.head+h.n)%len(h.recs)] = record{int32(at), int32(size)}
	h.n++
	h.end = at + size
}

func (h *history) growRecords() {
	size := min(max(32, 2*len(h.recs)), h.max)
	recs := make([]record, size)
	for i := range h.n {
		recs[i] = h.recs[(h.head+i)%len(h.recs)]
	}
	h.recs, h.head = recs, 0
}

// room returns the position of need free bytes in one piece.
func (h *history) room(need int) int {
	if h.n == 0 {
		h.end = 0
		if need > len(h.buf) {
			h.resize(need)
		}
		return 0
	}
	first := int(h.recs[h.head].at)
	if h.end > first { // records are in first..end
		if h.end+need <= len(h.buf) {
			return h.end
		}
		if need < first {
			return 0
		}
	} else if h.end+need <= first {
		return h.end
	}
	h.resize(need)
	return h.end
}

// resize moves all records into a larger buffer.
func (h *history) resize(need int) {
	sum := 0
	for i := range h.n {
		sum += int(h.recs[(h.head+i)%len(h.recs)].size)
	}
	buf := make([]byte, sum+sum/2+need+1024)
	at := 0
	for i := range h.n {
		r := &h.recs[(h.head+i)%len(h.recs)]
		copy(buf[at:], h.buf[r.at:r.at+r.size])
		r.at = int32(at)
		at += int(r.size)
	}
	h.buf, h.end = buf, at
}

// encode writes a line's record into b, which is long enough, and returns its length.
func encode(b []byte, l *line) int {
	b[0] = 0
	if l.wrapped {
		b[0] = 1
	}
	cells := l.cells[:l.used]
	for len(cells) > 0 && cells[len(cells)-1] == 0 {
		cells = cells[:len(cells)-1]
	}
	n := 1
	style := cell(0)
	for i := 0; i < len(cells); {
		c := cells[i]
		if c&styleMask != style {
			style = c & styleMask
			b[n] = tokStyle
			n++
			n += binary.PutUvarint(b[n:], uint64(style>>styleShift))
		}
		if lo := uint32(c); lo-0x20 < 0x5f {
			run := cells[i:]
			to := b[n:][:len(run)]
			k := 0
			for k < len(run) {
				x := uint64(run[k] ^ style)
				if x-0x20 >= 0x5f {
					break
				}
				to[k] = byte(x)
				k++
			}
			n, i = n+k, i+k
			continue
		}
		i++
		switch c &^ styleMask &^ codeMask {
		case 0:
			if c&codeMask != 0 {
				n += putRune(b[n:], uint32(c&codeMask))
				continue
			}
			run := 1
			for i < len(cells) && cells[i] == c {
				run++
				i++
			}
			b[n] = tokBlank
			n++
			n += binary.PutUvarint(b[n:], uint64(run))
			continue
		case wide:
			if i < len(cells) && cells[i] == style|spacer && c&codeMask != 0 {
				b[n] = tokWide
				n++
				n += putRune(b[n:], uint32(c&codeMask))
				i++
				continue
			}
		case combined:
			b[n] = tokCluster
			n++
			n += binary.PutUvarint(b[n:], uint64(c&codeMask))
			continue
		case combined | wide:
			if i < len(cells) && cells[i] == style|spacer {
				b[n] = tokWideCluster
				n++
				n += binary.PutUvarint(b[n:], uint64(c&codeMask))
				i++
				continue
			}
		}
		b[n] = tokCell
		n++
		n += binary.PutUvarint(b[n:], uint64(c&^styleMask))
	}
	return n
}

// putRune writes r, at least U+0080, as UTF-8.
func putRune(b []byte, r uint32) int {
	switch {
	case r < 0x800:
		b[0], b[1] = 0xc0|byte(r>>6), 0x80|byte(r&0x3f)
		return 2
	case r < 0x10000:
		b[0], b[1], b[2] = 0xe0|byte(r>>12), 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f)
		return 3
	}
	b[0], b[1], b[2], b[3] = 0xf0|byte(r>>18), 0x80|byte(r>>12&0x3f), 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f)
	return 4
}

// getRune reads what putRune wrote.
func getRune(b []byte) (uint32, int) {
	c := uint32(b[0])
	switch {
	case c < 0xe0:
		return c&0x1f<<6 | uint32(b[1]&0x3f), 2
	case c < 0xf0:
		return c&0xf<<12 | uint32(b[1]&0x3f)<<6 | uint32(b[2]&0x3f), 3
	}
	return c&7<<18 | uint32(b[1]&0x3f)<<12 | uint32(b[2]&0x3f)<<6 | uint32(b[3]&0x3f), 4
}

// decode fills l, whose cells are zero, with a record's line. Columns beyond the line's are dropped.
func decode(rec []byte, l *line) {
	l.wrapped = rec[0] != 0
	x := 0
	put := func(c cell) {
		if x < len(l.cells) {
			l.cells[x] = c
		}
		x++
	}
	style := cell(0)
	for b := rec[1:]; len(b) > 0; {
		c := b[0]
		if c >= 0x20 && c < 0x7f {
			put(style | cell(c))
			b = b[1:]
			continue
		}
		if c >= 0x80 {
			r, n := getRune(b)
			put(style | cell(r))
			b = b[n:]
			continue
		}
		b = b[1:]
		if c == tokWide {
			r, n := getRune(b)
			put(style | wide | cell(r))
			put(style | spacer)
			b = b[n:]
			continue
		}
		v, n := binary.Uvarint(b)
		b = b[n:]
		switch c {
		case tokStyle:
			style = cell(v) << styleShift
		case tokBlank:
			for range min(v, uint64(len(l.cells))) {
				put(style)
			}
		case tokCluster:
			put(style | combined | cell(v))
		case tokWideCluster:
			put(style | combined | wide | cell(v))
			put(style | spacer)
		case tokCell:
			put(style | cell(v))
		}
	}
	l.used = min(x, len(l.cells))
}

// marks calls style and cluster for each number of one that a record holds.
func marks(rec []byte, style, cluster func(uint32)) {
	for b := rec[1:]; len(b) > 0; {
		c := b[0]
		switch {
		case c >= 0x20 && c < 0x7f:
			b = b[1:]
			continue
		case c >= 0x80:
			_, n := getRune(b)
			b = b[n:]
			continue
		case c == tokWide:
			_, n := getRune(b[1:])
			b = b[1+n:]
			continue
		}
		v, n := binary.Uvarint(b[1:])
		b = b[1+n:]
		switch c {
		case tokStyle:
			style(uint32(v))
		case tokCluster, tokWideCluster:
			cluster(uint32(v))
		case tokCell:
			if cell(v)&combined != 0 {
				cluster(uint32(cell(v) & codeMask))
			}
		}
	}
}
