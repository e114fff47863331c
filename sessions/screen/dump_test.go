package screen

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// A dump says all about a screen in a form that testdata/xterm.mjs gives too.
type dump struct {
	Error       string      `json:"error"`
	Alt         bool        `json:"alt"`
	Main        bufferDump  `json:"main"`
	AltBuf      *bufferDump `json:"altBuf"`
	Pen         string      `json:"pen"`
	Charsets    string      `json:"charsets"`
	Modes       string      `json:"modes"`
	CursorStyle int         `json:"cursorStyle"`
	Mouse       string      `json:"mouse"`
	Title       string      `json:"title"`
}

type bufferDump struct {
	Above int        `json:"above"`
	Lines []lineDump `json:"lines"`
	X     int        `json:"x"`
	Y     int        `json:"y"`
	First int        `json:"first"`
	Last  int        `json:"last"`
	Tabs  string     `json:"tabs"`
	Saved string     `json:"saved"`
}

type lineDump struct {
	Wrapped bool     `json:"wrapped"`
	Cells   []string `json:"cells"`
}

func dumpColor(c uint32) string {
	switch c & modeMask {
	case 0:
		return "-"
	case mode16:
		return fmt.Sprintf("p%d", c&255)
	case mode256:
		return fmt.Sprintf("P%d", c&255)
	}
	return fmt.Sprintf("#%x", c&rgbMask)
}

func (s *Screen) dumpStyle(st style) string {
	uri := ""
	if st.link != 0 {
		l := s.links.list[st.link]
		uri = l.id + " " + l.uri
	}
	return fmt.Sprint(st.fg>>26, " ", dumpColor(st.fg), " ", st.bg>>26&0x1b, " ", dumpColor(st.bg), " ",
		st.ext>>underlineShift&7, " ", dumpColor(st.ext), " ", uri)
}

func (s *Screen) dumpLine(l *line, first bool) lineDump {
	d := lineDump{Wrapped: l.wrapped && !first}
	last, n, prev := "", 0, cell(0)
	flush := func() {
		if n > 0 {
			d.Cells = append(d.Cells, fmt.Sprintf("%d*%s", n, last))
		}
	}
	for i, c := range l.cells {
		if i >= l.used && c != 0 {
			panic("a cell beyond the used ones is not zero")
		}
		if c.isSpacer() && (i == 0 || l.cells[i-1].columns() != 2) {
			c = 0 // the second half of no character
		}
		if n > 0 && c == prev {
			n++
			continue
		}
		prev = c
		text := fmt.Sprintf("%s|%d|%s", s.clusters.append(nil, c), c.columns(), s.dumpStyle(s.styles.list[c.style()]))
		if text != last {
			flush()
			last, n = text, 0
		}
		n++
	}
	flush()
	return d
}

func (s *Screen) dumpBuffer(b *buffer) bufferDump {
	d := bufferDump{X: b.x, Y: b.y, First: b.first, Last: b.last}
	if b.hasScrollback {
		d.Above = s.hist.len()
		for i := range d.Above {
			l := line{cells: make([]cell, s.cols)}
			decode(s.hist.at(i), &l)
			d.Lines = append(d.Lines, s.dumpLine(&l, i == 0))
		}
	}
	for y := range s.rows {
		d.Lines = append(d.Lines, s.dumpLine(b.row(y), len(d.Lines) == 0))
	}
	var tabs []string
	for x := range s.cols {
		if b.tabs[x] {
			tabs = append(tabs, fmt.Sprint(x))
		}
	}
	d.Tabs = strings.Join(tabs, " ")
	v := b.saved
	d.Saved = fmt.Sprint(min(v.x, s.cols-1), " ", min(max(v.y-b.base, 0), s.rows-1), " ", v.fg>>26, " ", dumpColor(v.fg), " ",
		v.bg>>26&0x1b, " ", dumpColor(v.bg), " ", charsetNames[v.charset:v.charset+1])
	return d
}

func (s *Screen) dump() dump {
	pen := s.cur.normal()
	if pen.halfUnderlined() { // not in snapshots
		pen.fg, pen.bg, pen.ext = pen.fg&^underline, pen.bg&^hasExt, 0
	}
	d := dump{Alt: s.AltScreen(), Main: s.dumpBuffer(&s.main), Pen: s.dumpStyle(pen), CursorStyle: int(s.modes.cursorStyle), Title: s.title}
	if d.Alt {
		a := s.dumpBuffer(&s.alt)
		d.AltBuf = &a
	}
	for _, set := range s.sets {
		d.Charsets += charsetNames[set : set+1]
	}
	d.Charsets += fmt.Sprint(s.level) + charsetNames[s.charset:s.charset+1]
	m := &s.modes
	for _, on := range []bool{m.appCursor, m.appKeypad, m.paste, m.origin, m.reverseWrap, m.focus, !m.noWrap, m.insert, m.newline, m.hidden} {
		d.Modes += map[bool]string{true: "1", false: "0"}[on]
	}
	d.Mouse = map[int]string{0: "NONE", 9: "X10", 1000: "VT200", 1002: "DRAG", 1003: "ANY"}[m.mouse] + " " +
		map[int]string{0: "DEFAULT", 1006: "SGR", 1016: "SGR_PIXELS"}[m.mouseCode]
	return d
}

// differences tells in words how two dumps differ, "" when they do not.
func differences(got, want dump) string {
	if want.Error != "" {
		return "other side: " + want.Error
	}
	var out []string
	say := func(what string, g, w any) {
		if !reflect.DeepEqual(g, w) {
			out = append(out, fmt.Sprintf("%s:\n   got %v\n  want %v", what, g, w))
		}
	}
	buffers := func(name string, g, w *bufferDump, shown bool) {
		if (g == nil) != (w == nil) {
			say(name, g == nil, w == nil)
			return
		}
		if g == nil {
			return
		}
		say(name+" lines above", g.Above, w.Above)
		say(name+" lines", len(g.Lines), len(w.Lines))
		for i := range min(len(g.Lines), len(w.Lines)) {
			say(fmt.Sprintf("%s line %d wrapped", name, i-g.Above), g.Lines[i].Wrapped, w.Lines[i].Wrapped)
			say(fmt.Sprintf("%s line %d", name, i-g.Above), strings.Join(g.Lines[i].Cells, "\n       "), strings.Join(w.Lines[i].Cells, "\n       "))
			if len(out) > 4 {
				return
			}
		}
		if shown {
			say(name+" cursor", fmt.Sprint(g.X, ",", g.Y), fmt.Sprint(w.X, ",", w.Y))
		}
		say(name+" region", fmt.Sprint(g.First, ",", g.Last), fmt.Sprint(w.First, ",", w.Last))
		say(name+" tabs", g.Tabs, w.Tabs)
		say(name+" saved", g.Saved, w.Saved)
	}
	say("alternate screen", got.Alt, want.Alt)
	buffers("main", &got.Main, &want.Main, !got.Alt)
	buffers("alt", got.AltBuf, want.AltBuf, true)
	say("pen", got.Pen, want.Pen)
	say("charsets", got.Charsets, want.Charsets)
	say("modes", got.Modes, want.Modes)
	say("cursor style", got.CursorStyle, want.CursorStyle)
	say("mouse", got.Mouse, want.Mouse)
	say("title", got.Title, want.Title)
	return strings.Join(out, "\n")
}

func mustEqual(t testing.TB, what string, got, want dump) {
	t.Helper()
	if d := differences(got, want); d != "" {
		t.Fatalf("%s:\n%s", what, d)
	}
}
