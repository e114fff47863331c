package screen

// Resize changes the size as xterm.js does: it rewraps the wrapped lines of the main screen and of the scrollback, except for the
// one with the cursor, which its program redraws; it cuts or extends the alternate screen.
func (s *Screen) Resize(cols, rows int) {
	cols, rows = clampSize(cols, rows)
	if cols == s.cols && rows == s.rows {
		return
	}
	s.joinKind = none
	s.resizeBuffer(&s.main, cols, rows)
	s.resizeBuffer(&s.alt, cols, rows)
	s.cols, s.rows = cols, rows
	s.main.moreTabs(cols)
	s.alt.moreTabs(cols)
}

// sheet holds all lines of a buffer, scrollback and screen, while its size changes.
type sheet struct {
	lines            []*line
	base             int // the first line of the screen
	x, y             int
	savedX, savedY   int // savedY counts from line 0
	max              int // the most lines allowed
	oldCols, newCols int
	newRows          int
}

func (s *Screen) resizeBuffer(b *buffer, cols, rows int) {
	if len(b.lines) == 0 || b == &s.alt && s.buf != b { // it is empty
		b.lines, b.slab = nil, nil
		b.first, b.last = 0, rows-1
		return
	}
	scrollback := 0
	if b.hasScrollback {
		scrollback = s.hist.max
	}
	sh := sheet{x: b.x, y: b.y, savedX: b.saved.x, savedY: b.saved.y - b.base,
		max: s.rows + scrollback, oldCols: s.cols, newCols: cols, newRows: rows}
	if b.hasScrollback {
		for i := range s.hist.len() {
			l := &line{cells: make([]cell, s.cols)}
			decode(s.hist.at(i), l)
			sh.lines = append(sh.lines, l)
		}
	}
	sh.base = len(sh.lines)
	sh.savedY += sh.base
	for y := range s.rows {
		sh.lines = append(sh.lines, b.row(y))
	}
	before := sh.base
	sh.resize(rows+scrollback, b.hasScrollback)

	b.allocate(cols, rows)
	if b.hasScrollback {
		s.hist.clear()
		for _, l := range sh.lines[:sh.base] {
			s.hist.push(l)
		}
	}
	for y := range rows {
		if i := sh.base + y; i < len(sh.lines) {
			l := b.row(y)
			l.wrapped = sh.lines[i].wrapped
			l.used = copy(l.cells, sh.lines[i].cells)
		}
	}
	b.x, b.y = sh.x, min(max(sh.y, 0), rows-1)
	b.base = max(0, b.base+sh.base-before)
	b.saved.x, b.saved.y = sh.savedX, max(0, sh.savedY-sh.base+b.base)
	b.first, b.last = 0, rows-1
}

// resize does what Buffer.resize of xterm.js does.
func (sh *sheet) resize(most int, reflow bool) {
	sh.max = max(sh.max, most)
	oldRows, newRows := sh.rows(), sh.newRows
	if sh.oldCols < sh.newCols {
		for _, l := range sh.lines {
			l.widen(sh.newCols)
		}
	}
	added := 0
	for r := oldRows; r < newRows; r++ {
		if len(sh.lines) >= newRows+sh.base {
			continue
		}
		if sh.base > 0 && len(sh.lines) <= sh.base+sh.y+added+1 {
			sh.base--
			added++
		} else {
			sh.lines = append(sh.lines, &line{cells: make([]cell, sh.newCols)})
		}
	}
	for r := oldRows; r > newRows; r-- {
		if len(sh.lines) <= newRows+sh.base {
			continue
		}
		if len(sh.lines) > sh.base+sh.y+1 {
			sh.lines = sh.lines[:len(sh.lines)-1]
		} else {
			sh.base++
		}
	}
	if most < sh.max {
		if trim := len(sh.lines) - most; trim > 0 {
			sh.lines = sh.lines[trim:]
			sh.base = max(sh.base-trim, 0)
			sh.savedY = max(sh.savedY-trim, 0)
		}
		sh.max = most
	}
	sh.x = min(sh.x, sh.newCols-1)
	sh.y = min(sh.y, newRows-1) + added
	sh.savedX = min(sh.savedX, sh.newCols-1)
	if reflow {
		if sh.newCols > sh.oldCols {
			sh.reflowWider()
		} else if sh.newCols < sh.oldCols {
			sh.reflowNarrower()
		}
	}
	if sh.newCols < sh.oldCols {
		for _, l := range sh.lines {
			l.narrow(sh.newCols)
		}
	}
}

func (sh *sheet) rows() int { return len(sh.lines) - sh.base }

// widen adds empty columns.
func (l *line) widen(cols int) {
	cells := make([]cell, cols)
	copy(cells, l.cells)
	l.cells = cells
}

// narrow cuts columns off; half a wide character is removed.
func (l *line) narrow(cols int) {
	if len(l.cells) <= cols {
		return
	}
	l.cells = l.cells[:cols:cols]
	l.used = min(l.used, cols)
	if last := &l.cells[cols-1]; *last&widthMask == wide {
		*last &= styleMask
	}
}
