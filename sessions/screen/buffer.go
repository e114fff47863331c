package screen

// buffer is one of the two screens of a terminal.
type buffer struct {
	lines []line // a ring of as many lines as the screen has rows
	top   int    // index of row 0
	slab  []cell // the cells of all lines

	x, y          int // x is the number of columns while a wrap is pending
	first, last   int // rows of the scroll region
	tabs          []bool
	saved         savedCursor
	base          int // lines that scrolled off, as far as a viewer retains them; saved.y counts from the first of them
	rotated       []line
	hasScrollback bool
}

// savedCursor is what DECSC saves.
type savedCursor struct {
	x, y    int
	fg, bg  uint32
	charset uint8
}

func (b *buffer) row(y int) *line {
	i := b.top + y
	if i >= len(b.lines) {
		i -= len(b.lines)
	}
	return &b.lines[i]
}

// allocate gives the buffer fresh lines.
func (b *buffer) allocate(cols, rows int) {
	b.slab = make([]cell, cols*rows)
	b.lines = make([]line, rows)
	b.top = 0
	for i := range b.lines {
		b.lines[i].cells = b.slab[i*cols : (i+1)*cols : (i+1)*cols]
	}
}

// reset empties the buffer, reusing its memory.
func (b *buffer) reset(cols, rows int) {
	for i := range b.lines {
		b.lines[i].fill(0)
	}
	*b = buffer{lines: b.lines, slab: b.slab, rotated: b.rotated, tabs: b.tabs, last: rows - 1}
	b.resetTabs(cols)
}

// resetTabs puts a tab stop into each eighth column.
func (b *buffer) resetTabs(cols int) {
	if cap(b.tabs) <= cols {
		b.tabs = make([]bool, cols+1)
	}
	b.tabs = b.tabs[:cols+1]
	for i := range b.tabs {
		b.tabs[i] = i%8 == 0 && i < cols
	}
}

// moreTabs adds the tab stops of new columns.
func (b *buffer) moreTabs(cols int) {
	for len(b.tabs) <= cols {
		b.tabs = append(b.tabs, false)
	}
	i := cols
	if !b.tabs[i] {
		for i--; i > 0 && !b.tabs[i]; i-- {
		}
	}
	for ; i < cols; i += 8 {
		b.tabs[i] = true
	}
}

func (b *buffer) nextTab(cols int) int {
	x := b.x + 1
	for x < cols && !b.tabs[x] {
		x++
	}
	return min(x, cols-1)
}

func (b *buffer) prevTab(cols int) int {
	x := b.x - 1
	for x > 0 && !b.tabs[x] {
		x--
	}
	return min(max(x, 0), cols-1)
}

// shift moves the lines of rows first..last up by n, or down by -n, and blanks those that become free.
func (b *buffer) shift(first, last, n int, blank cell) {
	size := last - first + 1
	if size <= 0 || n == 0 {
		return
	}
	if n >= size || -n >= size {
		for y := first; y <= last; y++ {
			b.row(y).fill(blank)
		}
		return
	}
	free, count := last-n+1, n
	if n < 0 {
		free, count = first, -n
	}
	if n == 1 {
		gone := *b.row(first)
		for y := first; y < last; y++ {
			*b.row(y) = *b.row(y + 1)
		}
		*b.row(last) = gone
	} else {
		b.rotated = b.rotated[:0]
		for y := first; y <= last; y++ {
			b.rotated = append(b.rotated, *b.row(y))
		}
		for i, l := range b.rotated {
			to := i - n
			if to < 0 {
				to += size
			} else if to >= size {
				to -= size
			}
			*b.row(first + to) = l
		}
	}
	for y := free; y < free+count; y++ {
		b.row(y).fill(blank)
	}
}

// scroll moves the scroll region up by one line.
func (s *Screen) scroll(wrapped bool) {
	b := s.buf
	if b.first > 0 {
		b.shift(b.first, b.last, 1, s.blank)
		b.row(b.last).wrapped = wrapped
		return
	}
	if b.hasScrollback {
		s.hist.push(b.row(0))
		if b.base < s.keep {
			b.base++
		}
	}
	if b.last == len(b.lines)-1 {
		if b.top++; b.top == len(b.lines) {
			b.top = 0
		}
		b.row(b.last).fill(s.blank)
	} else {
		b.shift(0, b.last, 1, s.blank)
	}
	b.row(b.last).wrapped = wrapped
}
