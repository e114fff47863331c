package screen

import (
	"slices"
	"strings"
)

// Text is a screen as text.
type Text struct {
	Cols      int      `json:"cols"`
	Rows      int      `json:"rows"`
	Lines     []string `json:"lines"` // one per row, without trailing blanks
	Cursor    Position `json:"cursor"`
	Title     string   `json:"title"`
	AltScreen bool     `json:"alt_screen"`
}

// Position is a position on the screen, from 0.
type Position struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// Text returns what the screen shows.
func (s *Screen) Text() Text {
	x, y, _ := s.Cursor()
	t := Text{Cols: s.cols, Rows: s.rows, Lines: make([]string, s.rows), Cursor: Position{x, y}, Title: strings.ToValidUTF8(s.title, "\ufffd"), AltScreen: s.AltScreen()}
	var b []byte
	for y := range s.rows {
		b = s.appendText(b[:0], s.buf.row(y), true)
		t.Lines[y] = string(b)
	}
	return t
}

// appendText appends the text of a line; with trim it omits trailing blanks, otherwise it goes up to the last column.
func (s *Screen) appendText(b []byte, l *line, trim bool) []byte {
	end := l.trimmed()
	if !trim {
		end = len(l.cells)
		if !l.cells[end-1].hasText() && l.cells[end-1]&widthMask != spacer {
			end-- // a wide character did not fit there
		}
	}
	for x := 0; x < end && x < len(l.cells); {
		c := l.cells[x]
		if c.hasText() {
			b = s.clusters.append(b, c)
		} else {
			b = append(b, ' ')
		}
		x += max(1, c.columns())
	}
	if trim {
		for len(b) > 0 && b[len(b)-1] == ' ' {
			b = b[:len(b)-1]
		}
	}
	return b
}

// LastLines returns at most n lines of text, the oldest first: the last ones printed, with lines that were wrapped at the edge of
// the screen joined. Trailing blank lines are omitted. While the alternate screen is shown, it returns that screen.
func (s *Screen) LastLines(n int) []string {
	var out []string
	var pieces []string // of one line, the last first
	scratch := line{cells: make([]cell, s.cols)}
	var buf []byte
	above := 0
	if s.buf.hasScrollback {
		above = s.hist.len()
	}
	below := false // the line continues in the one below
	for i := above + s.rows - 1; i >= 0 && len(out) < n; i-- {
		l := &scratch
		if i >= above {
			l = s.buf.row(i - above)
		} else {
			l.fill(0)
			decode(s.hist.at(i), l)
		}
		buf = s.appendText(buf[:0], l, !below)
		pieces = append(pieces, string(buf))
		if below = l.wrapped && i > 0; below {
			continue
		}
		slices.Reverse(pieces)
		text := strings.TrimRight(strings.Join(pieces, ""), " ")
		pieces = pieces[:0]
		if text != "" || len(out) > 0 {
			out = append(out, text)
		}
	}
	slices.Reverse(out)
	return out
}
