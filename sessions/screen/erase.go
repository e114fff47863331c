package screen

// eraseDisplay does ED, and DECSED with selective.
func (s *Screen) eraseDisplay(what int32, selective bool) {
	b := s.buf
	s.restrict(s.cols)
	if s.changed {
		s.refresh()
	}
	switch what {
	case 0:
		s.eraseCells(b.y, b.x, s.cols, b.x == 0, selective)
		for y := b.y + 1; y < s.rows; y++ {
			s.eraseRow(y, selective)
		}
	case 1:
		s.eraseCells(b.y, 0, b.x+1, true, selective)
		if b.x+1 >= s.cols && b.y+1 < s.rows {
			b.row(b.y + 1).wrapped = false
		}
		for y := range b.y {
			s.eraseRow(y, selective)
		}
	case 2:
		for y := range s.rows {
			s.eraseRow(y, selective)
		}
	case 3:
		if b.hasScrollback {
			b.base = 0
			if !s.cfg.Archive {
				s.hist.clear()
			}
		}
	}
}

// eraseLine does EL, and DECSEL with selective.
func (s *Screen) eraseLine(what int32, selective bool) {
	b := s.buf
	s.restrict(s.cols)
	if s.changed {
		s.refresh()
	}
	switch what {
	case 0:
		s.eraseCells(b.y, b.x, s.cols, b.x == 0, selective)
	case 1:
		s.eraseCells(b.y, 0, b.x+1, false, selective)
	case 2:
		s.eraseCells(b.y, 0, s.cols, true, selective)
	}
}

func (s *Screen) eraseCells(y, from, to int, unwrap, selective bool) {
	l := s.buf.row(y)
	if selective {
		s.eraseUnprotected(l, from, to)
	} else {
		l.replace(from, to, s.blank)
	}
	if unwrap {
		l.wrapped = false
	}
}

func (s *Screen) eraseRow(y int, selective bool) {
	l := s.buf.row(y)
	if selective {
		for i := range l.cells {
			if !s.isProtected(l.cells[i]) {
				l.set(i, s.blank)
			}
		}
		l.wrapped = false
		return
	}
	l.fill(s.blank)
}

// eraseUnprotected erases cells DECSCA did not protect.
func (s *Screen) eraseUnprotected(l *line, from, to int) {
	to = min(to, len(l.cells))
	if from > 0 && from <= len(l.cells) && l.cells[from-1]&widthMask == wide && !s.isProtected(l.cells[from-1]) {
		l.set(from-1, s.blank)
	}
	if to > 0 && to < len(l.cells) && l.cells[to-1]&widthMask == wide && !s.isProtected(l.cells[to]) {
		l.set(to, s.blank)
	}
	for i := from; i < to; i++ {
		if !s.isProtected(l.cells[i]) {
			l.set(i, s.blank)
		}
	}
}

func (s *Screen) isProtected(c cell) bool {
	n := c.style()
	return n != 0 && s.styles.list[n].bg&protected != 0
}

// inRegion reports whether the cursor is in the rows of the scroll region.
func (s *Screen) inRegion() bool { return s.buf.y >= s.buf.first && s.buf.y <= s.buf.last }

// insertLines does IL, and DL with a negative n.
func (s *Screen) insertLines(n int) {
	b := s.buf
	s.restrict(s.cols - 1)
	if !s.inRegion() {
		return
	}
	if s.changed {
		s.refresh()
	}
	b.shift(b.y, b.last, -n, s.blank)
	b.x = 0
}

// insertChars does ICH, and DCH with a negative n.
func (s *Screen) insertChars(n int) {
	s.restrict(s.cols - 1)
	if s.changed {
		s.refresh()
	}
	s.changeCells(s.buf.row(s.buf.y), s.buf.x, n)
}

func (s *Screen) changeCells(l *line, x, n int) {
	if n > 0 {
		l.insert(x, n, s.blank)
	} else {
		l.remove(x, -n, s.blank)
	}
}

// insertColumns inserts n columns at column x in each row of the scroll region, or removes -n.
func (s *Screen) insertColumns(x, n int) {
	if !s.inRegion() {
		return
	}
	if s.changed {
		s.refresh()
	}
	for y := s.buf.first; y <= s.buf.last; y++ {
		l := s.buf.row(y)
		s.changeCells(l, x, n)
		l.wrapped = false
	}
}

func (s *Screen) eraseChars(n int) {
	s.restrict(s.cols - 1)
	if s.changed {
		s.refresh()
	}
	s.buf.row(s.buf.y).replace(s.buf.x, min(s.cols, s.buf.x+n), s.blank)
}
