package screen

import "strconv"

// line writes the cells of a line into the viewer's blank one, from column 0 on. With over, column 0 holds something that must be
// overwritten. It returns whether the viewer is about to wrap.
func (e *emitter) line(cells []cell, over bool) (full bool) {
	for len(cells) > 0 && cells[len(cells)-1] == 0 {
		cells = cells[:len(cells)-1]
	}
	if over && (len(cells) == 0 || !cells[0].hasText()) {
		e.setStyle(style{})
		e.csi(1, 'X')
	}
	cols := e.s.cols
	x := 0 // the viewer's cursor column
	goTo := func(to int) {
		if to > x {
			e.csi(to-x, 'C')
			x = to
		}
	}
	for i := 0; i < len(cells); {
		c := cells[i]
		if c.hasText() {
			goTo(i)
			if c&styleMask != 0 || e.st != (style{}) {
				e.setStyle(e.s.styles.list[c.style()])
			}
			e.print(c)
			x += c.columns()
			i = x
			for e.kind == other && i < len(cells) { // plain text in the same style
				d := uint64(cells[i] ^ c&styleMask)
				if d-0x20 >= 0x5f {
					break
				}
				e.out = append(e.out, byte(d))
				i++
			}
			x = i
			continue
		}
		if c.isSpacer() { // the second half of nothing
			i++
			continue
		}
		j := i + 1
		for j < len(cells) && cells[j] == c {
			j++
		}
		st := e.s.styles.list[c.style()]
		switch {
		case st == (style{}):
		case st.erasable():
			goTo(i)
			e.setStyle(st)
			e.csi(j-i, 'X')
		default:
			goTo(i)
			for ; i < j; i++ {
				x = e.styledBlank(cells, i)
			}
			if x < j {
				return false // that was the last column
			}
		}
		i = j
	}
	return x == cols
}

// styledBlank makes an empty cell with a style that erasing does not give. Only a wide character that is overwritten in half
// leaves such a cell. The viewer's cursor is in column i, and then in the one returned.
func (e *emitter) styledBlank(cells []cell, i int) int {
	st := e.s.styles.list[cells[i].style()]
	wideChar := cell('一') | wide
	if i+1 < e.s.cols {
		e.setStyle(st)
		e.print(wideChar)
		e.csi(i+2, 'G')
		e.print(' ')
		e.csi(i+2, 'G')
		e.setStyle(style{})
		e.csi(1, 'X')
		return i + 1
	}
	// In the last column the cell before must do the overwriting, and is written again; likewise while that is such a cell too.
	before := i - 1
	for ; before >= 0; before-- {
		e.csi(before+1, 'G')
		e.setStyle(st)
		e.print(wideChar)
		e.csi(before+1, 'G')
		e.print(' ')
		e.csi(before+1, 'G')
		c := cells[before]
		if st = e.s.styles.list[c.style()]; c.hasText() || c.isSpacer() || st.erasable() {
			break
		}
	}
	if before < 0 {
		e.csi(1, 'G') // the whole line is of that kind, which no output produces
		e.csi(1, 'X')
		return i
	}
	e.setStyle(style{})
	e.csi(1, 'X')
	if cells[before].isSpacer() && before > 0 {
		before--
		e.csi(before+1, 'G')
	}
	c := cells[before]
	st = e.s.styles.list[c.style()]
	if c.hasText() {
		e.setStyle(st)
		e.print(c)
	} else if st.erasable() {
		e.setStyle(st)
		e.csi(1, 'X')
	}
	return i
}

// erasable reports whether erasing leaves cells of this style.
func (s style) erasable() bool { return s == style{bg: s.bg & colorMask} }

// wrap makes the viewer continue in the next line because this one, row, is full. The viewer's cursor is then in column 0 of the
// next line, which holds a blank. With full, the viewer is about to wrap; with fix, there is a line above to go back to.
func (e *emitter) wrap(row []cell, full, fix bool) {
	cols := e.s.cols
	e.setStyle(style{})
	if !full {
		e.csi(cols, 'G')
		e.print(' ')
	}
	e.print(' ')
	if !full && fix {
		e.csi(1, 'A')
		e.csi(cols, 'G')
		c := row[cols-1]
		st := e.s.styles.list[c.style()]
		if c.isSpacer() {
			st = style{}
		}
		if st.erasable() {
			e.setStyle(st)
			e.csi(1, 'X')
		} else {
			e.csi(1, 'X')
			e.styledBlank(row, cols-1)
		}
		e.setStyle(style{})
		e.csi(1, 'B')
	}
	e.raw("\r")
}

// setStyle makes the viewer print in a style.
func (e *emitter) setStyle(st style) {
	if st == e.st {
		return
	}
	if st.link != e.st.link {
		e.setLink(st.link)
	}
	was := e.st
	e.st = st
	const fgFlags, bgFlags = ^uint32(colorMask), ^uint32(colorMask | hasExt)
	if st.fg&fgFlags == was.fg&fgFlags && st.bg&bgFlags == was.bg&bgFlags && st.ext == was.ext && !st.halfUnderlined() && !was.halfUnderlined() {
		if st.fg == was.fg && (st.bg^was.bg)&colorMask == 0 {
			return
		}
		e.out = append(e.out, "\x1b["...)
		if st.fg != was.fg {
			e.color(30, st.fg)
		}
		if (st.bg^was.bg)&colorMask != 0 {
			e.color(40, st.bg)
		}
		e.endSGR()
		return
	}
	e.out = append(e.out, "\x1b[0;"...)
	for _, f := range [...]struct {
		bit  uint32
		code string
	}{{bold, "1;"}, {blink, "5;"}, {inverse, "7;"}, {invisible, "8;"}, {strike, "9;"}} {
		if st.fg&f.bit != 0 {
			e.out = append(e.out, f.code...)
		}
	}
	for _, f := range [...]struct {
		bit  uint32
		code string
	}{{dim, "2;"}, {italic, "3;"}, {overline, "53;"}} {
		if st.bg&f.bit != 0 {
			e.out = append(e.out, f.code...)
		}
	}
	if st.ext&colorMask != 0 {
		e.color(50, st.ext)
	}
	if st.fg&underline != 0 {
		switch kind := st.ext & underlineMask >> underlineShift; kind {
		case 0, 1:
			e.out = append(e.out, "4;"...)
		default:
			e.out = append(e.out, '4', ':', '0'+byte(kind), ';')
		}
	}
	if st.fg&colorMask != 0 {
		e.color(30, st.fg)
	}
	if st.bg&colorMask != 0 {
		e.color(40, st.bg)
	}
	e.endSGR()
	if st.bg&protected != 0 {
		e.raw("\x1b[1\"q")
	}
	if st.halfUnderlined() {
		e.raw("\x1b7\x1b[24m\x1b8")
		e.used = true
	}
}

// halfUnderlined reports whether the style is what a program in xterm.js gets that saves the cursor underlined, turns that
// off, and restores the cursor: marked as underlined, with no kind of underline.
func (s style) halfUnderlined() bool {
	return s.fg&underline != 0 && s.link == 0 && s.bg&hasExt != 0 && s.ext&underlineMask == 0
}

// endSGR ends a list of numbers that ends with a semicolon.
func (e *emitter) endSGR() {
	n := len(e.out) - 1
	if e.out[n-1] == '0' && e.out[n-2] == '[' {
		n--
	}
	e.out = append(e.out[:n], 'm')
	e.kind = none
}

// color writes a colour for text (30), background (40) or underline (50), and a semicolon.
func (e *emitter) color(base int, c uint32) {
	v := int64(c & paletteBit)
	switch c & modeMask {
	case 0:
		e.out = strconv.AppendInt(e.out, int64(base)+9, 10)
	case mode16:
		if v > 7 {
			v += 60 - 8
		}
		e.out = strconv.AppendInt(e.out, int64(base)+v, 10)
	case mode256:
		e.out = strconv.AppendInt(e.out, int64(base)+8, 10)
		e.out = append(e.out, ";5;"...)
		e.out = strconv.AppendInt(e.out, v, 10)
	default:
		e.out = strconv.AppendInt(e.out, int64(base)+8, 10)
		e.out = append(e.out, ";2;"...)
		for shift := 16; shift >= 0; shift -= 8 {
			e.out = strconv.AppendInt(e.out, int64(c>>shift&0xff), 10)
			e.out = append(e.out, ';')
		}
		return
	}
	e.out = append(e.out, ';')
}

func (e *emitter) setLink(n uint32) {
	e.raw("\x1b]8;")
	if n != 0 {
		l := e.s.links.list[n]
		if l.id != "" {
			e.raw("id=" + l.id)
		}
		e.raw(";" + l.uri)
	} else {
		e.raw(";")
	}
	e.raw("\x1b\\")
}
