package screen

import (
	"fmt"
	"slices"
)

// state writes the state that is neither on the screen nor about the cursor.
func (e *emitter) state() {
	s := e.s
	m := &s.modes
	mode := func(on bool, number string, final byte) {
		if on {
			e.raw("\x1b[" + number + string(final))
		}
	}
	for _, title := range s.titles {
		e.raw("\x1b]2;" + title + "\x1b\\\x1b[22;2t")
	}
	if s.title != "" {
		e.raw("\x1b]2;" + s.title + "\x1b\\")
	}
	if s.progress != "" {
		e.raw("\x1b]9;4;" + s.progress + "\x1b\\")
	}
	e.colors()
	mode(m.blink == 1, "?12", 'l')
	mode(m.blink == 2, "?12", 'h')
	mode(m.appCursor, "?1", 'h')
	mode(m.appKeypad, "?66", 'h')
	mode(m.noWrap, "?7", 'l')
	mode(m.reverseWrap, "?45", 'h')
	mode(m.insert, "4", 'h')
	mode(m.newline, "20", 'h')
	mode(m.hidden, "?25", 'l')
	mode(m.focus, "?1004", 'h')
	mode(m.paste, "?2004", 'h')
	mode(m.schemeReports, "?2031", 'h')
	mode(m.mouse != 0, fmt.Sprintf("?%d", m.mouse), 'h')
	mode(m.mouseUTF8, "?1005", 'h')
	mode(m.mouseUrxvt, "?1015", 'h')
	mode(m.mouseCode != 0, fmt.Sprintf("?%d", m.mouseCode), 'h')
	mode(s.synchronized(), "?2026", 'h')
	mode(m.cursorStyle != 0, fmt.Sprintf("%d ", m.cursorStyle), 'q')
	mode(m.otherKeys != 0, fmt.Sprintf(">4;%d", m.otherKeys), 'm')
	mode(m.kitty[0] != 0, fmt.Sprintf("=%d;1", m.kitty[0]), 'u')
	for _, flags := range m.kitty[1:] {
		e.raw(fmt.Sprintf("\x1b[>%du", flags))
	}
}

func (e *emitter) colors() {
	c := &e.s.colors
	for i, v := range c.special {
		if v&isSet != 0 {
			e.raw(fmt.Sprintf("\x1b]%d;%s\x1b\\", 10+i, RGB(v&rgbMask)))
		}
	}
	var set []uint8
	for i := range c.indexed {
		set = append(set, i)
	}
	slices.Sort(set)
	for _, i := range set {
		e.raw(fmt.Sprintf("\x1b]4;%d;%s\x1b\\", i, RGB(c.indexed[i]&rgbMask)))
	}
}

// restoredSet reports whether the current character set came with a restored cursor: it is none of those selected.
func (s *Screen) restoredSet() bool {
	return s.charset != s.sets[s.level] && s.charset == s.buf.saved.charset
}

// charsets selects the character sets.
func (e *emitter) charsets() {
	s := e.s
	for i, set := range s.sets {
		if set != 0 {
			e.raw("\x1b" + "()*+"[i:i+1] + charsetNames[set:set+1])
		}
	}
	switch s.level {
	case 1:
		e.raw("\x0e")
	case 2:
		e.raw("\x1bn")
	case 3:
		e.raw("\x1bo")
	}
	if s.restoredSet() {
		e.raw("\x1b8\x1b[m")
		e.st = style{link: e.st.link}
	}
}

// position moves the cursor to its position. A pending wrap, and a character that the next one may join, result only from
// printing: then the character before the cursor is printed again, and last.
func (e *emitter) position() {
	s := e.s
	b := s.buf
	x, y := b.x, b.y
	joined := s.joinKind != none && x > 0
	again := joined || x >= s.cols
	start := x
	if again {
		start = x - 1
		if l := b.row(y); start > 0 && l.cells[start].isSpacer() {
			start--
		}
	}
	c := b.row(y).cells[min(start, s.cols-1)]
	pen := s.cur.normal()
	joined = joined && c.hasText() && start+c.columns() == x && c.style() == s.pen.style() && !s.changed && !pen.halfUnderlined()
	if !joined && x < s.cols {
		again, start = false, x
	}
	early := joined || s.restoredSet()
	e.setStyle(style{})
	if early {
		e.charsets()
	}
	outside := ""
	if s.modes.origin {
		if y < b.first || y > b.last {
			if b == &s.main { // the other screen has no region that limits the cursor
				e.raw("\x1b[?47h")
				outside = "\x1b[?47l"
			}
		}
		e.raw("\x1b[?6h")
		if outside == "" {
			y = max(0, y-b.first)
		}
	}
	e.moveTo(min(start, s.cols-1), y)
	if outside != "" {
		e.raw(outside)
	}
	if again && s.modes.insert {
		e.csi(s.firstColumns(c), 'P') // printing will move it back
	}
	switch {
	case joined:
		e.setPen(pen)
		e.printIn(c, s.charset)
		return
	case again && c.hasText():
		e.setStyle(s.styles.list[c.style()])
		set := uint8(0)
		if early {
			set = s.charset
		}
		e.printIn(c, set)
	case again: // the line was erased while a wrap was pending
		st := s.styles.list[c.style()]
		e.print(' ')
		e.setStyle(style{bg: st.bg & colorMask})
		e.eraseIfBlank(b.row(b.y))
	}
	if !early {
		e.charsets()
	}
	e.setPen(pen)
}

// firstColumns returns how many columns the first code point of a cell takes. Code points that join it widen it without moving
// what is on the right.
func (s *Screen) firstColumns(c cell) int {
	for _, r := range string(s.clusters.append(nil, c)) {
		if charInfo(uint32(r))&wideBit != 0 {
			return 2
		}
		break
	}
	return 1
}

// eraseIfBlank erases the line the cursor is in when the whole of it looks like its last cell.
func (e *emitter) eraseIfBlank(l *line) {
	for _, c := range l.cells {
		if c != l.cells[len(l.cells)-1] {
			return
		}
	}
	e.raw("\x1b[1K")
}

// setPen sets the style for further output, including the colour of an underline that is not on yet.
func (e *emitter) setPen(pen style) {
	if pen.halfUnderlined() { // making it would overwrite the cursor the program saved
		pen.fg, pen.bg = pen.fg&^underline, pen.bg&^hasExt
	}
	e.setStyle(pen)
	if cur := e.s.cur; pen.fg&underline == 0 && cur.ext&colorMask != pen.ext&colorMask {
		e.out = append(e.out, "\x1b["...)
		e.color(50, cur.ext)
		e.endSGR()
	}
}

// printIn prints a cell's text through a character set.
func (e *emitter) printIn(c cell, set uint8) {
	if r := c & textMask; set != 0 && r < 127 && charsets[set][r] != 0 {
		for from, to := range charsets[set] {
			if cell(to) == r {
				c = c&^textMask | cell(from)
			}
		}
	}
	e.kind = none
	e.print(c)
}

// pending writes the part of a sequence that has come so far.
func (e *emitter) pending() {
	p := &e.s.parser
	add := func(b ...byte) { e.out = append(e.out, b...) }
	collected := func(drop int) {
		for shift := 24; shift >= 8*drop; shift -= 8 {
			if c := byte(p.collect >> shift); c != 0 {
				add(c)
			}
		}
	}
	prefix, inner := byte(0), p.collect
	for shift := 24; shift >= 0; shift -= 8 {
		if c := byte(p.collect >> shift); c != 0 {
			if c >= 0x3c {
				prefix = c
				inner &^= 0xff << shift
			}
			break
		}
	}
	params := func() {
		if prefix != 0 {
			add(prefix)
		}
		e.out = p.params.append(e.out)
		for shift := 24; shift >= 0; shift -= 8 {
			if c := byte(inner >> shift); c != 0 {
				add(c)
			}
		}
	}
	switch p.state {
	case escape:
		add(0x1b)
	case escapeIntermediate:
		add(0x1b)
		collected(0)
	case csiEntry:
		add(0x1b, '[')
	case csiParam, csiIntermediate:
		add(0x1b, '[')
		params()
	case csiIgnore:
		add(0x1b, '[', '0', '<')
	case skipString:
		add(0x1b, '_')
	case oscString:
		add(0x1b, ']')
		if p.over {
			add('x') // not a valid command
		}
		add(p.osc...)
	case dcsEntry:
		add(0x1b, 'P')
	case dcsParam, dcsIntermediate:
		add(0x1b, 'P')
		params()
	case dcsIgnore:
		add(0x1b, 'P', '0', '<')
	case dcsPassthrough:
		if p.over || !answeredDCS(p.hook) {
			add(0x1b, 'P', 'x')
			return
		}
		add(0x1b, 'P', byte(p.hook>>8), byte(p.hook))
		add(p.osc...)
	}
}
