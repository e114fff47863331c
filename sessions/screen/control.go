package screen

// execute executes a control character.
func (s *Screen) execute(c byte) {
	s.joinKind = none
	b := s.buf
	switch c {
	case '\n', '\v', '\f':
		s.lineFeed()
	case '\r':
		b.x = 0
	case '\b':
		s.backspace()
	case '\t':
		if b.x < s.cols {
			b.x = b.nextTab(s.cols)
		}
	case 0x07:
		s.notify(Event{Kind: Bell})
	case 0x0e:
		s.useSet(1)
	case 0x0f:
		s.useSet(0)
	case 0x84:
		s.index()
	case 0x85:
		b.x = 0
		s.index()
	case 0x88:
		s.setTab()
	}
}

func (s *Screen) lineFeed() {
	if s.changed {
		s.refresh()
	}
	b := s.buf
	if s.modes.newline {
		b.x = 0
	}
	b.y++
	switch {
	case b.y == b.last+1:
		b.y--
		s.scroll(false)
	case b.y >= s.rows:
		b.y = s.rows - 1
	default:
		b.row(b.y).wrapped = false
	}
	if b.x >= s.cols {
		b.x--
	}
}

func (s *Screen) backspace() {
	b := s.buf
	if !s.modes.reverseWrap {
		s.restrict(s.cols - 1)
		b.x = max(0, b.x-1)
		return
	}
	s.restrict(s.cols)
	if b.x > 0 {
		b.x--
	} else if l := b.row(b.y); b.y > b.first && b.y <= b.last && l.wrapped {
		l.wrapped = false
		b.y--
		b.x = s.cols - 1
		// The line ended early because a wide character did not fit in its last column.
		if c := b.row(b.y).cells[b.x]; c&widthMask != spacer && !c.hasText() {
			b.x--
		}
	}
	s.restrict(s.cols - 1)
}

func (s *Screen) index() {
	if s.changed {
		s.refresh()
	}
	b := s.buf
	s.restrict(s.cols - 1)
	b.y++
	if b.y == b.last+1 {
		b.y--
		s.scroll(false)
	} else if b.y >= s.rows {
		b.y = s.rows - 1
	}
	s.restrict(s.cols - 1)
}

func (s *Screen) reverseIndex() {
	b := s.buf
	s.restrict(s.cols - 1)
	if b.y == b.first {
		if s.changed {
			s.refresh()
		}
		b.shift(b.first, b.last, -1, s.blank)
		return
	}
	b.y--
	s.restrict(s.cols - 1)
}

func (s *Screen) setTab() {
	if s.buf.x < len(s.buf.tabs) {
		s.buf.tabs[s.buf.x] = true
	}
}

func (s *Screen) useSet(level uint8) {
	s.level = level
	s.charset = s.sets[level]
}

func (s *Screen) defineSet(level, set uint8) {
	s.sets[level] = set
	if s.level == level {
		s.charset = set
	}
}

// restrict keeps the cursor on the screen, or in the scroll region in origin mode.
func (s *Screen) restrict(maxX int) {
	b := s.buf
	b.x = min(max(b.x, 0), maxX)
	if s.modes.origin {
		b.y = min(max(b.y, b.first), b.last)
	} else {
		b.y = min(max(b.y, 0), s.rows-1)
	}
}

// moveTo puts the cursor at x and y, counted from the scroll region in origin mode.
func (s *Screen) moveTo(x, y int) {
	s.buf.x, s.buf.y = x, y
	if s.modes.origin {
		s.buf.y += s.buf.first
	}
	s.restrict(s.cols - 1)
}

// moveBy moves the cursor. In origin mode xterm.js counts the row from the region again, and so do we.
func (s *Screen) moveBy(dx, dy int) {
	s.restrict(s.cols - 1)
	s.moveTo(s.buf.x+dx, s.buf.y+dy)
}

func (s *Screen) saveCursor() {
	b := s.buf
	b.saved = savedCursor{x: b.x, y: b.base + b.y, fg: s.cur.fg, bg: s.cur.bg, charset: s.charset}
}

func (s *Screen) restoreCursor() {
	b := s.buf
	b.x = b.saved.x
	b.y = max(b.saved.y-b.base, 0)
	s.cur.fg, s.cur.bg = b.saved.fg, b.saved.bg
	s.changed = true
	s.charset = b.saved.charset
	s.restrict(s.cols - 1)
}

// dispatchESC executes an escape sequence; id is its intermediate bytes and its final one.
func (s *Screen) dispatchESC(id uint32) {
	final := byte(id)
	switch id >> 8 {
	case 0:
		switch final {
		case '7':
			s.saveCursor()
		case '8':
			s.restoreCursor()
		case 'D':
			s.index()
		case 'E':
			s.buf.x = 0
			s.index()
		case 'H':
			s.setTab()
		case 'M':
			s.reverseIndex()
		case '=':
			s.modes.appKeypad = true
		case '>':
			s.modes.appKeypad = false
		case 'c':
			s.reset()
		case 'n', '}':
			s.useSet(2)
		case 'o', '|':
			s.useSet(3)
		case '~':
			s.useSet(1)
		}
	case '%':
		if final == '@' || final == 'G' {
			s.useSet(0)
			s.defineSet(0, 0)
		}
	case '(', ')', '*', '+', '-', '.':
		set, ok := charsetOf(final)
		if !ok {
			return
		}
		switch byte(id >> 8) {
		case '(':
			s.defineSet(0, set)
		case ')', '-':
			s.defineSet(1, set)
		case '*', '.':
			s.defineSet(2, set)
		case '+':
			s.defineSet(3, set)
		}
	case '#':
		if final == '8' {
			s.alignmentTest()
		}
	}
}

// alignmentTest fills the screen with the letter E.
func (s *Screen) alignmentTest() {
	st := style{fg: s.cur.fg, bg: s.cur.bg}
	c := s.styled(st.normal()) | 'E'
	for y := range s.rows {
		s.buf.row(y).fill(c)
	}
	s.moveTo(0, 0)
}

// reset does a hard reset: everything is as New made it, except the titles.
func (s *Screen) reset() {
	s.modes = defaultModes()
	s.sets, s.level, s.charset = [4]uint8{}, 0, 0
	s.colors = colorChanges{}
	s.progress = ""
	s.parser = parser{}
	s.resetScreens()
}

// softReset does DECSTR.
func (s *Screen) softReset() {
	b := s.buf
	b.first, b.last = 0, s.rows-1
	s.cur = style{}
	s.changed = true
	s.modes.soft()
	s.sets, s.level, s.charset = [4]uint8{}, 0, 0
	b.saved = savedCursor{y: b.base}
}
