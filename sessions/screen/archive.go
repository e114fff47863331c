package screen

import "bytes"

// Scrolled returns the lines above the screen, the oldest first, as text with SGR sequences only. Each line begins and ends in
// the default style, trailing blanks are omitted, and wrapped lines are joined. With plain there are no sequences. A line that
// continues in the first row of the screen ends where the screen begins.
func (s *Screen) Scrolled(plain bool) []string {
	out := make([]string, 0, s.hist.len())
	e := emitter{s: s, kind: none}
	scratch := line{cells: make([]cell, s.cols)}
	for i := range s.hist.len() {
		scratch.fill(0)
		decode(s.hist.at(i), &scratch)
		goesOn := i+1 < s.hist.len() && s.hist.at(i + 1)[0] != 0
		if plain {
			e.out = s.appendText(e.out, &scratch, !goesOn)
		} else {
			e.styledText(&scratch, goesOn)
		}
		if goesOn {
			continue
		}
		if plain {
			e.out = bytes.TrimRight(e.out, " ")
		}
		out = append(out, string(e.out))
		e.out = e.out[:0]
	}
	return out
}

// styledText writes a line's text with its styles; whole is false for a line that ends at its last character.
func (e *emitter) styledText(l *line, whole bool) {
	s := e.s
	end := len(l.cells)
	if !whole {
		for end = l.used; end > 0; end-- {
			st := s.styles.list[l.cells[end-1].style()]
			if l.cells[end-1].hasText() && l.cells[end-1]&textMask != ' ' || l.cells[end-1].isSpacer() || !st.plainBlank() {
				break
			}
		}
	} else if c := l.cells[end-1]; !c.hasText() && c&widthMask != spacer {
		end-- // a wide character did not fit there
	}
	for x := 0; x < end; {
		c := l.cells[x]
		st := s.styles.list[c.style()]
		st.link = 0
		st.updateExt()
		if e.st != st {
			e.setStyle(st)
		}
		if c.hasText() {
			e.out = s.clusters.append(e.out, c)
		} else {
			e.out = append(e.out, ' ')
		}
		x += max(1, c.columns())
	}
	e.setStyle(style{})
}

// plainBlank reports whether a blank of this style is invisible.
func (s style) plainBlank() bool {
	return s.bg&colorMask == 0 && s.fg&(underline|inverse|strike) == 0 && s.bg&overline == 0
}
