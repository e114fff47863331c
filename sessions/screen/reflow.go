package screen

// The functions below rewrap lines as BufferReflow.ts of xterm.js does, step by step: viewers do the same with their own copy of
// the lines, and both must get the same result.

// group returns the lines from y on that are one wrapped line.
func (sh *sheet) group(y int) []*line {
	end := y + 1
	for end < len(sh.lines) && sh.lines[end].wrapped {
		end++
	}
	return sh.lines[y:end:end]
}

// lengthIn returns how many columns of line i of a group belong to the text.
func lengthIn(group []*line, i, cols int) int {
	if i == len(group)-1 {
		return group[i].trimmed()
	}
	last := group[i].cells[cols-1]
	if !last.hasText() && last&widthMask == 0 && group[i+1].cells[0]&widthMask == wide {
		return cols - 1 // a wide character did not fit in the last column
	}
	return cols
}

func (l *line) copyFrom(src *line, from, to, n int) {
	if n > 0 {
		copy(l.cells[to:to+n], src.cells[from:from+n])
		l.used = max(l.used, to+n)
	}
}

func (sh *sheet) reflowWider() {
	cols := sh.newCols
	cursor := sh.base + sh.y
	kept := make([]*line, 0, len(sh.lines))
	removed := 0
	for y := 0; y < len(sh.lines); {
		group := sh.group(y)
		at := y
		y += len(group)
		kept = append(kept, group...)
		if len(group) == 1 || cursor >= at && cursor < y {
			continue
		}
		dest, destCol := 0, lengthIn(group, 0, sh.oldCols)
		src, srcCol := 1, 0
		for src < len(group) {
			length := lengthIn(group, src, sh.oldCols)
			n := min(length-srcCol, cols-destCol)
			group[dest].copyFrom(group[src], srcCol, destCol, n)
			if destCol += n; destCol == cols {
				dest++
				destCol = 0
			}
			if srcCol += n; srcCol == length {
				src++
				srcCol = 0
			}
			if destCol == 0 && dest != 0 {
				if last := group[dest-1]; last.cells[cols-1]&widthMask == wide {
					group[dest].copyFrom(last, cols-1, destCol, 1)
					destCol++
					last.set(cols-1, 0)
				}
			}
		}
		group[dest].replace(destCol, cols, 0)
		drop := 0
		for i := len(group) - 1; i > 0 && (i > dest || group[i].trimmed() == 0); i-- {
			drop++
		}
		kept = kept[:len(kept)-drop]
		removed += drop
	}
	if removed == 0 {
		return
	}
	sh.lines = kept
	for range removed {
		if sh.base > 0 {
			sh.base--
			continue
		}
		sh.y = max(0, sh.y-1)
		if len(sh.lines) < sh.newRows {
			sh.lines = append(sh.lines, &line{cells: make([]cell, cols)})
		}
	}
	sh.savedY = max(sh.savedY-removed, 0)
}

// newLengths returns how long the lines of a group are when it is wrapped at a smaller width.
func newLengths(group []*line, oldCols, cols int) []int {
	need := 0
	for i := range group {
		need += lengthIn(group, i, oldCols)
	}
	var out []int
	col, i := 0, 0
	for have := 0; have < need; {
		if need-have < cols {
			return append(out, need-have)
		}
		col += cols
		if length := lengthIn(group, i, oldCols); col > length {
			col -= length
			i++
		}
		n := cols
		if i < len(group) && group[i].cells[col-1]&widthMask == wide {
			col--
			n--
		}
		out = append(out, n)
		have += n
	}
	return out
}

// insertion is new lines in a sheet.
type insertion struct {
	at    int // before which of the old lines
	lines []*line
}

func (sh *sheet) reflowNarrower() {
	cols := sh.newCols
	var inserts []insertion // from the bottom up
	added := 0
	all := sh.lines // follow removes blank lines at the end, and occasionally one that is not
	for y := len(all) - 1; y >= 0; y-- {
		if l := all[y]; !l.wrapped && l.trimmed() <= cols {
			continue
		}
		end := y + 1
		for all[y].wrapped && y > 0 {
			y--
		}
		group := all[y:end:end]
		if cursor := sh.base + sh.y; cursor >= y && cursor < end {
			continue
		}
		lengths := newLengths(group, sh.oldCols, cols)
		more := len(lengths) - len(group)
		trimmed := len(sh.lines) - sh.max + more
		if sh.base == 0 && sh.y != len(sh.lines)-1 {
			trimmed = sh.y - sh.max + more
		}
		trimmed = max(0, trimmed)
		if more > 0 {
			fresh := make([]*line, more)
			for i := range fresh {
				fresh[i] = &line{cells: make([]cell, sh.oldCols), wrapped: true}
			}
			inserts = append(inserts, insertion{end, fresh})
			added += more
			group = append(group, fresh...)
		}
		sh.rewrap(group, lengths, max(0, more))
		sh.follow(more, trimmed, added)
	}
	if added > 0 {
		sh.insert(inserts)
	}
}

// rewrap moves the text of a group, whose last more lines are new, to lines of the lengths given.
func (sh *sheet) rewrap(group []*line, lengths []int, more int) {
	src := len(group) - more - 1
	srcCol := group[src].trimmed()
	dest := len(lengths) - 1
	for dest >= 0 && lengths[dest] == 0 {
		dest--
	}
	if dest >= 0 {
		destCol := lengths[dest]
		for src >= 0 && dest >= 0 {
			n := min(srcCol, destCol)
			group[dest].copyFrom(group[src], srcCol-n, destCol-n, n)
			if destCol -= n; destCol == 0 {
				if dest--; dest >= 0 {
					destCol = lengths[dest]
				}
			}
			if srcCol -= n; srcCol == 0 {
				src--
				srcCol = lengthIn(group, max(src, 0), sh.oldCols)
			}
		}
	}
	for i, n := range lengths {
		if i < len(group) && n < sh.newCols {
			group[i].set(n, 0)
		}
	}
}

// follow keeps the screen and the cursor in position when lines were added above.
func (sh *sheet) follow(more, trimmed, added int) {
	for range more - trimmed {
		switch {
		case sh.base > 0:
			if sh.base < min(sh.max, len(sh.lines)+added)-sh.newRows {
				sh.base++
			}
		case sh.y < sh.newRows-1:
			sh.y++
			sh.lines = sh.lines[:len(sh.lines)-1]
		default:
			sh.base++
		}
	}
	sh.savedY = min(sh.savedY+more, sh.base+sh.newRows-1)
}

// insert puts new lines into their positions; the oldest lines are dropped when there are too many.
func (sh *sheet) insert(inserts []insertion) {
	var out []*line
	k := len(inserts) - 1
	for i, l := range sh.lines {
		for ; k >= 0 && inserts[k].at == i; k-- {
			out = append(out, inserts[k].lines...)
		}
		out = append(out, l)
	}
	for ; k >= 0 && inserts[k].at >= len(sh.lines); k-- {
		out = append(out, inserts[k].lines...)
	}
	if drop := len(out) - sh.max; drop > 0 {
		out = out[drop:]
	}
	sh.lines = out
}
