package screen

// A cell is one column of one line. The low half is its content, the high half the number of its style:
//
// \tbits 0..20 the code point, or with combined set the number of a cluster; 0: nothing
// \tbit 21 combined
// \tbits 22..23 wide: the first column of two; spacer: the second one
// \tbits 32..63 style
//
// The zero cell is an empty one of default style.
type cell uint64

const (
	codeMask   cell = 1<<21 - 1
	combined   cell = 1 << 21
	wide       cell = 1 << 22
	spacer     cell = 2 << 22
	widthMask  cell = 3 << 22
	textMask        = codeMask | combined
	styleShift      = 32
	styleMask  cell = 0xffffffff << styleShift
)

// hasText reports whether something was printed into the cell.
func (c cell) hasText() bool { return c&textMask != 0 }

// columns returns how many columns the cell begins: 1, 2, or 0 for a spacer.
func (c cell) columns() int {
	switch c & widthMask {
	case wide:
		return 2
	case spacer:
		return 0
	}
	return 1
}

// isSpacer reports whether the cell is the second column of a wide character: nothing is printed into it.
func (c cell) isSpacer() bool { return c&(widthMask|textMask) == spacer }

func (c cell) style() uint32 { return uint32(c >> styleShift) }

// line is one line of the screen. Cells from used on are zero.
type line struct {
	cells   []cell
	used    int
	wrapped bool // it continues the line above
}

// set stores c at column i.
func (l *line) set(i int, c cell) {
	l.cells[i] = c
	if i >= l.used {
		l.used = i + 1
	}
}

// fill makes every cell blank and ends the line's wrap.
func (l *line) fill(blank cell) {
	l.wrapped = false
	if blank == 0 {
		clear(l.cells[:l.used])
		l.used = 0
		return
	}
	fillCells(l.cells, blank)
	l.used = len(l.cells)
}

func fillCells(cells []cell, c cell) {
	for i := range cells {
		cells[i] = c
	}
}

// put stores blank in columns from..to-1, without regard to wide characters it cuts in half.
func (l *line) put(from, to int, blank cell) {
	to = min(to, len(l.cells))
	if from >= to {
		return
	}
	if blank != 0 {
		fillCells(l.cells[from:to], blank)
		l.used = max(l.used, to)
		return
	}
	clear(l.cells[from:min(to, max(from, l.used))])
	if to >= l.used {
		l.used = min(l.used, from)
	}
}

// replace stores blank in columns from..to-1; a wide character cut by either end is removed whole.
func (l *line) replace(from, to int, blank cell) {
	if from > 0 && from <= len(l.cells) && l.cells[from-1]&widthMask == wide {
		l.set(from-1, blank)
	}
	if to > 0 && to < len(l.cells) && l.cells[to-1]&widthMask == wide {
		l.set(to, blank)
	}
	l.put(from, to, blank)
}

// insert moves the cells from column pos on to the right by n and fills the gap. Cells beyond the line's end are lost.
func (l *line) insert(pos, n int, blank cell) {
	size := len(l.cells)
	pos %= size
	if pos > 0 && l.cells[pos-1]&widthMask == wide {
		l.set(pos-1, blank)
	}
	if n < size-pos {
		copy(l.cells[pos+n:], l.cells[pos:size-n])
		if l.used > pos {
			l.used = min(size, l.used+n)
		}
		l.used = max(l.used, pos+n)
		fillCells(l.cells[pos:pos+n], blank)
	} else {
		l.put(pos, size, blank)
	}
	if l.cells[size-1]&widthMask == wide {
		l.set(size-1, blank)
	}
}

// remove moves the cells right of pos+n to pos and fills the end of the line.
func (l *line) remove(pos, n int, blank cell) {
	size := len(l.cells)
	pos %= size
	if n < size-pos {
		copy(l.cells[pos:], l.cells[pos+n:])
		if blank == 0 {
			clear(l.cells[size-n:])
			if l.used > pos {
				l.used = max(pos, l.used-n)
			}
		} else {
			fillCells(l.cells[size-n:], blank)
			l.used = size
		}
	} else {
		l.put(pos, size, blank)
	}
	if pos > 0 && l.cells[pos-1]&widthMask == wide {
		l.set(pos-1, blank)
	}
	if l.cells[pos].isSpacer() {
		l.set(pos, blank)
	}
}

// trimmed returns the number of columns up to the last text.
func (l *line) trimmed() int {
	for i := min(l.used, len(l.cells)) - 1; i >= 0; i-- {
		if l.cells[i].hasText() {
			return i + l.cells[i].columns()
		}
	}
	return 0
}
