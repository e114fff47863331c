package screen

// printPlain prints the ASCII characters at the beginning of p, at least one, and returns how many it printed.
func (s *Screen) printPlain(p []byte) int {
	if s.charset != 0 || s.modes.insert || s.joinKind == prepend {
		s.print(uint32(p[0]))
		return 1
	}
	if s.changed {
		s.refresh()
	}
	s.joinKind, s.joinCols = other, 1
	b, cols, pen := s.buf, s.cols, s.pen
	n := 0
	for {
		if b.x >= cols {
			if s.modes.noWrap {
				b.x = cols - 1
			} else {
				s.wrapLine()
			}
		}
		l := b.row(b.y)
		x := b.x
		s.repairLeft(l, x)
		room := l.cells[x:]
		if len(room) > len(p)-n {
			room = room[:len(p)-n]
		}
		run := p[n:][:len(room)] // same length, as the compiler sees: no bounds checks below
		k := 0
		for k < len(run) {
			c := run[k]
			if c-0x20 >= 0x5f {
				break
			}
			room[k] = pen | cell(c)
			k++
		}
		n += k
		x += k
		b.x = x
		if x > l.used {
			l.used = x
		}
		if x < cols {
			s.repairRight(l, x)
			return n
		}
		if n == len(p) || p[n]-0x20 >= 0x5f {
			return n
		}
	}
}

// repairLeft clears the first half of a wide character whose second half is about to be overwritten at column x.
func (s *Screen) repairLeft(l *line, x int) {
	if x > 0 && l.cells[x-1]&widthMask == wide {
		l.set(x-1, s.pen)
	}
}

// repairRight clears the second half of a wide character whose first half was overwritten.
func (s *Screen) repairRight(l *line, x int) {
	if l.cells[x].isSpacer() {
		l.set(x, s.pen)
	}
}

// wrapLine goes to the beginning of the next line because this one is full.
func (s *Screen) wrapLine() {
	b := s.buf
	b.x = 0
	b.y++
	if b.y == b.last+1 {
		b.y--
		s.scroll(true)
		return
	}
	b.y = min(b.y, s.rows-1)
	b.row(b.y).wrapped = true
}

// print prints one character.
func (s *Screen) print(r uint32) {
	if r < 127 && s.charset != 0 {
		if to := charsets[s.charset][r]; to != 0 {
			r = uint32(to)
		}
	}
	if s.changed {
		s.refresh()
	}
	info := charInfo(r)
	kind, width, old := info&kindMask, 1, 0
	if info&wideBit != 0 {
		width = 2
	}
	join := joins(s.joinKind, kind)
	if join {
		old = int(s.joinCols)
		if old > width {
			width = old
		} else if kind == regional {
			width = 2
		}
		if kind == regional {
			kind = other // the next one begins a new pair
		}
	}
	s.joinKind, s.joinCols = kind, uint8(width)

	b, cols := s.buf, s.cols
	l := b.row(b.y)
	s.repairLeft(l, b.x)
	if b.x+width-old > cols {
		if s.modes.noWrap {
			b.x = cols - 1
			if width == 2 { // does not fit: not printed at all
				s.joinKind = none
				return
			}
			s.repairLeft(l, b.x)
		} else {
			// A grapheme that grew too wide for the line moves to the next one whole.
			var moved [2]cell
			from := max(0, b.x-old)
			copy(moved[:], l.cells[from:b.x])
			for i := from; i < cols; i++ {
				l.set(i, s.pen)
			}
			s.wrapLine()
			l = b.row(b.y)
			for i := range old {
				l.set(i, moved[i])
			}
			b.x = old
		}
	}
	switch {
	case join && b.x > 0:
		at := b.x - 1
		if l.cells[at]&widthMask == spacer && at > 0 {
			at--
		}
		s.addTo(l, at, r, width)
		for range width - old {
			l.set(b.x, s.pen|spacer)
			b.x++
		}
	default:
		if s.modes.insert {
			l.insert(b.x, width-old, s.pen)
			if l.cells[cols-1]&widthMask == wide {
				l.set(cols-1, s.pen)
			}
		}
		c := s.pen | cell(r)
		if width == 2 {
			c |= wide
		}
		l.set(b.x, c)
		b.x++
		if width == 2 && b.x < cols {
			l.set(b.x, s.pen|spacer)
			b.x++
		}
	}
	if b.x < cols {
		s.repairRight(l, b.x)
	}
}

// addTo adds a character to the grapheme at column x, which then takes width columns.
func (s *Screen) addTo(l *line, x int, r uint32, width int) {
	c := l.cells[x]
	content := c & textMask
	if content == 0 {
		content = cell(r)
	} else {
		if s.clusters.due(s.clusters.live()) {
			s.sweep()
		}
		content = s.clusters.add(content, rune(r))
	}
	if width == 2 {
		content |= wide
	}
	l.set(x, c&styleMask|content)
}

// repeat prints the grapheme before the cursor again, n times.
func (s *Screen) repeat(n int) {
	if s.joinKind == none {
		return
	}
	at := s.buf.x - int(s.joinCols)
	if at < 0 {
		return
	}
	c := s.buf.row(s.buf.y).cells[at]
	n = min(n, max(4096, s.cols*s.rows))
	if r := c & textMask; r >= 0x20 && r < 0x7f && s.charset == 0 && !s.modes.insert && n > 1 {
		var plain [256]byte
		for i := range plain {
			plain[i] = byte(r)
		}
		for n > 0 {
			n -= s.printPlain(plain[:min(n, len(plain))])
		}
		return
	}
	text := string(s.clusters.append(nil, c))
	for range n {
		for _, r := range text {
			s.print(uint32(r))
		}
	}
}
