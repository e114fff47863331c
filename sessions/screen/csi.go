package screen

// dispatchCSI executes a control sequence; id is its prefix, its intermediate bytes and its final one.
func (s *Screen) dispatchCSI(id uint32) {
	switch id >> 8 {
	case 0:
		s.plainControl(byte(id))
	case '?':
		s.privateControl(byte(id))
	default:
		s.rareControl(id)
	}
}

// plainControl executes a control sequence without prefix and intermediate bytes.
func (s *Screen) plainControl(final byte) {
	b, p := s.buf, &s.params
	n := p.count()
	switch final {
	case '@':
		s.insertChars(n)
	case 'A':
		s.cursorUp(n)
	case 'B':
		s.cursorDown(n)
	case 'C', 'a':
		s.moveBy(n, 0)
	case 'D':
		s.moveBy(-n, 0)
	case 'E':
		s.cursorDown(n)
		b.x = 0
	case 'F':
		s.cursorUp(n)
		b.x = 0
	case 'G', '`':
		s.moveTo(n-1, b.y)
	case 'H', 'f':
		x := 0
		if p.n > 1 {
			x = max(1, int(p.val[1])) - 1
		}
		s.moveTo(x, n-1)
	case 'I':
		for b.x < s.cols && n > 0 {
			x := b.x
			if b.x = b.nextTab(s.cols); b.x == x {
				break
			}
			n--
		}
	case 'J':
		s.eraseDisplay(p.val[0], false)
	case 'K':
		s.eraseLine(p.val[0], false)
	case 'L':
		s.insertLines(n)
	case 'M':
		s.insertLines(-n)
	case 'P':
		s.insertChars(-n)
	case 'S', 'T':
		s.scrollLines(n, final == 'T')
	case 'X':
		s.eraseChars(n)
	case 'Z':
		if b.x < s.cols {
			for b.x > 0 && n > 0 {
				b.x = b.prevTab(s.cols)
				n--
			}
		}
	case 'b':
		s.repeat(n)
	case 'c':
		if p.val[0] == 0 {
			s.reply("\x1b[?62;22c")
		}
	case 'd':
		s.moveTo(b.x, n-1)
	case 'e':
		s.moveBy(0, n)
	case 'g':
		switch p.val[0] {
		case 0:
			if b.x < len(b.tabs) {
				b.tabs[b.x] = false
			}
		case 3:
			clear(b.tabs)
		}
	case 'h', 'l':
		for _, m := range p.val[:p.n] {
			s.setMode(m, final == 'h')
		}
	case 'm':
		s.setStyle()
	case 'n':
		s.reportStatus(p.val[0], false)
	case 'r':
		s.setRegion()
	case 's':
		s.saveCursor()
	case 't':
		s.windowOp()
	case 'u':
		s.restoreCursor()
	}
}

// privateControl executes a control sequence that begins with a question mark.
func (s *Screen) privateControl(final byte) {
	p := &s.params
	switch final {
	case 'J':
		s.eraseDisplay(p.val[0], true)
	case 'K':
		s.eraseLine(p.val[0], true)
	case 'h', 'l':
		for _, m := range p.val[:p.n] {
			s.setPrivateMode(m, final == 'h')
		}
	case 'm':
		if p.val[0] == 4 {
			s.replyf("\x1b[>4;%dm", s.modes.otherKeys)
		}
	case 'n':
		s.reportStatus(p.val[0], true)
	case 'u':
		s.replyf("\x1b[?%du", s.modes.kitty[len(s.modes.kitty)-1])
	}
}

// rareControl executes the other control sequences.
func (s *Screen) rareControl(id uint32) {
	p := &s.params
	n := p.count()
	prefix := func(a, b byte) uint32 { return uint32(a)<<8 | uint32(b) }
	switch id {
	case prefix(' ', '@'):
		s.insertColumns(0, -n)
	case prefix(' ', 'A'):
		s.insertColumns(0, n)
	case prefix('\'', '}'):
		s.insertColumns(s.buf.x, n)
	case prefix('\'', '~'):
		s.insertColumns(s.buf.x, -n)
	case prefix('!', 'p'):
		s.softReset()
	case prefix(' ', 'q'):
		if p.val[0] <= 6 {
			s.modes.cursorStyle = uint8(p.val[0])
		}
	case prefix('"', 'q'):
		switch p.val[0] {
		case 1:
			s.cur.bg |= protected
		case 0, 2:
			s.cur.bg &^= protected
		}
		s.changed = true
	case prefix('>', 'c'):
		if p.val[0] == 0 {
			s.reply("\x1b[>0;276;0c")
		}
	case prefix('>', 'q'):
		if p.val[0] == 0 {
			s.reply("\x1bP>|" + s.cfg.Name + "\x1b\\")
		}
	case prefix('>', 'm'):
		if p.val[0] == 4 {
			s.modes.otherKeys = 0
			if p.n > 1 {
				s.modes.otherKeys = uint8(min(p.val[1], 3))
			}
		}
	case prefix('>', 'n'):
		if p.val[0] == 4 {
			s.modes.otherKeys = 0
		}
	case prefix('>', 'u'):
		s.modes.pushKitty(uint8(p.val[0] & 31))
	case prefix('<', 'u'):
		s.modes.popKitty(n)
	case prefix('=', 'u'):
		how := int32(1)
		if p.n > 1 {
			how = p.val[1]
		}
		s.modes.setKitty(uint8(p.val[0]&31), how)
	case prefix('$', 'p'):
		s.reportMode(p.val[0], false)
	case uint32('?')<<16 | prefix('$', 'p'):
		s.reportMode(p.val[0], true)
	}
}

func (s *Screen) cursorUp(n int) {
	if room := s.buf.y - s.buf.first; room >= 0 {
		n = min(n, room)
	}
	s.moveBy(0, -n)
}

func (s *Screen) cursorDown(n int) {
	if room := s.buf.last - s.buf.y; room >= 0 {
		n = min(n, room)
	}
	s.moveBy(0, n)
}

func (s *Screen) setRegion() {
	p := &s.params
	first, last := p.count(), s.rows
	if p.n > 1 && p.val[1] > 0 && int(p.val[1]) < s.rows {
		last = int(p.val[1])
	}
	if last > first {
		s.buf.first, s.buf.last = first-1, last-1
		s.moveTo(0, 0)
	}
}

// scrollLines does SU, or SD with down.
func (s *Screen) scrollLines(n int, down bool) {
	b := s.buf
	if down {
		b.shift(b.first, b.last, -n, 0) // xterm.js omits the background here
		return
	}
	if s.changed {
		s.refresh()
	}
	b.shift(b.first, b.last, n, s.blank)
}

// windowOp does the window operations that make sense without a window: size, and saved titles.
func (s *Screen) windowOp() {
	p := &s.params
	second := int32(0)
	if p.n > 1 {
		second = p.val[1]
	}
	switch p.val[0] {
	case 18:
		s.replyf("\x1b[8;%d;%dt", s.rows, s.cols)
	case 22:
		if second == 0 || second == 2 {
			if s.titles = append(s.titles, s.title); len(s.titles) > maxTitles {
				s.titles = append(s.titles[:0], s.titles[1:]...)
			}
		}
	case 23:
		if k := len(s.titles); k > 0 && (second == 0 || second == 2) {
			s.setTitle(s.titles[k-1])
			s.titles = s.titles[:k-1]
		}
	}
}
