package screen

import "strconv"

// AllLines requests the whole scrollback from Snapshot.
const AllLines = -1

// Snapshot returns bytes that bring a viewer's terminal of the same size, whatever it showed before, to this screen's state: the
// newest lines of the scrollback (at most scrollback of them; AllLines for all), both screens, cursor and saved cursor, colours,
// modes, title, and the position within an unfinished sequence. It ends at the last whole character: further output for the
// viewer begins Held bytes before the end of what was written.
func (s *Screen) Snapshot(scrollback int) []byte {
	return s.AppendSnapshot(nil, scrollback)
}

// AppendSnapshot appends what Snapshot returns to b.
func (s *Screen) AppendSnapshot(b []byte, scrollback int) []byte {
	if b == nil {
		b = make([]byte, 0, 16<<10)
	}
	e := emitter{s: s, out: b, kind: none}
	// A viewer that was used before preserves some state across a reset.
	e.raw("\x1bc\x1b[20l\x1b[?25h\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\")
	above := s.hist.len()
	if scrollback >= 0 {
		above = min(above, scrollback)
	}
	e.screen(&s.main, above)
	if s.buf == &s.alt {
		e.setStyle(style{})
		e.moveTo(min(s.main.x, s.cols-1), s.main.y)
		e.raw("\x1b[?47h\x1b[H")
		e.screen(&s.alt, 0)
	} else if a := s.alt.saved; a != (savedCursor{}) {
		e.setStyle(style{})
		e.raw("\x1b[?47h")
		e.saveCursor(&s.alt)
		e.raw("\x1b[?47l")
	}
	e.state()
	e.position()
	e.pending()
	return e.out
}

// emitter writes a snapshot. It tracks the state of the viewer's terminal.
type emitter struct {
	s    *Screen
	out  []byte
	st   style // the viewer's current style
	kind uint8 // of the last written character, none after anything else
	used bool  // the viewer's saved cursor was used for something else
}

// raw writes a sequence.
func (e *emitter) raw(seq string) {
	e.out = append(e.out, seq...)
	e.kind = none
}

// csi writes a control sequence with one number, which is omitted where it is the default 1.
func (e *emitter) csi(n int, final byte) {
	e.out = append(e.out, '\x1b', '[')
	if n != 1 {
		e.out = strconv.AppendInt(e.out, int64(n), 10)
	}
	e.out = append(e.out, final)
	e.kind = none
}

func (e *emitter) moveTo(x, y int) {
	e.out = append(e.out, '\x1b', '[')
	e.out = strconv.AppendInt(e.out, int64(y)+1, 10)
	e.out = append(e.out, ';')
	e.out = strconv.AppendInt(e.out, int64(x)+1, 10)
	e.out = append(e.out, 'H')
	e.kind = none
}

// print writes the text of a cell, in the current style.
func (e *emitter) print(c cell) {
	if c&combined == 0 {
		r := uint32(c & codeMask)
		if r < 0x80 {
			if e.kind == prepend {
				e.raw("\x1b\\")
			}
			e.out = append(e.out, byte(r))
			e.kind = other
			return
		}
		info := charInfo(r) & kindMask
		if joins(e.kind, info) {
			e.raw("\x1b\\")
		}
		var b [4]byte
		e.out = append(e.out, b[:putRune(b[:], r)]...)
		e.kind = info
		return
	}
	for i, r := range e.s.clusters.text[c&codeMask] {
		info := charInfo(uint32(r)) & kindMask
		join := joins(e.kind, info)
		if i == 0 && join {
			e.raw("\x1b\\")
			join = false
		}
		e.out = append(e.out, string(r)...)
		e.kind = info
		if join && info == regional {
			e.kind = other
		}
	}
}

// screen writes a buffer: lines of the scrollback and its rows, tab stops, scroll region and saved cursor. The viewer's cursor
// is at the top left of an empty screen.
func (e *emitter) screen(b *buffer, above int) {
	s := e.s
	rows := s.rows
	scratch := [2]line{{cells: make([]cell, s.cols)}, {cells: make([]cell, s.cols)}}
	first := s.hist.len() - above
	full := false  // the viewer is about to wrap
	var prev *line // the one above
	for i := range above + rows {
		l := &scratch[i&1]
		if i < above {
			l.fill(0)
			decode(s.hist.at(first+i), l)
		} else {
			l = b.row(i - above)
		}
		over := false // column 0 holds a blank the viewer wrapped with
		switch {
		case i == 0:
		case l.wrapped:
			e.wrap(prev.cells, full, rows > 1)
			over = true
		default:
			if e.st.bg&colorMask != 0 {
				e.setStyle(style{})
			}
			e.raw("\r\n")
		}
		full = e.line(l.cells[:l.used], over)
		prev = l
	}
	e.tabs(b)
	if b.first > 0 || b.last < rows-1 {
		e.out = append(e.out, '\x1b', '[')
		e.out = strconv.AppendInt(e.out, int64(b.first)+1, 10)
		e.out = append(e.out, ';')
		e.out = strconv.AppendInt(e.out, int64(b.last)+1, 10)
		e.raw("r")
	}
	e.saveCursor(b)
}

func (e *emitter) tabs(b *buffer) {
	usual := true
	for x, set := range b.tabs[:e.s.cols] {
		usual = usual && set == (x%8 == 0)
	}
	if usual {
		return
	}
	e.raw("\x1b[3g")
	for x, set := range b.tabs[:e.s.cols] {
		if set {
			e.csi(x+1, 'G')
			e.raw("\x1bH")
		}
	}
}

// saveCursor makes the viewer save what b saved.
func (e *emitter) saveCursor(b *buffer) {
	v := b.saved
	y := max(0, v.y-b.base)
	if (savedCursor{v.x, y, v.fg, v.bg, v.charset}) == (savedCursor{}) && !e.used {
		return
	}
	e.used = false
	st := style{fg: v.fg, bg: v.bg &^ hasExt}
	if v.fg&underline != 0 {
		st.bg |= hasExt
		st.ext = 1 << underlineShift
	}
	e.setStyle(st)
	inLink := v.bg&hasExt != 0 && v.fg&underline == 0
	if inLink {
		e.raw("\x1b]8;;x:\x1b\\")
	}
	if v.charset != 0 {
		e.raw("\x1b(" + charsetNames[v.charset:v.charset+1])
	}
	e.moveTo(min(v.x, e.s.cols-1), min(y, e.s.rows-1))
	e.raw("\x1b7")
	if v.charset != 0 {
		e.raw("\x1b(B")
	}
	if inLink {
		e.raw("\x1b]8;;\x1b\\")
	}
}
