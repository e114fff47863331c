package redact

import "bytes"

// A terminal shows the text of a stream: a value is visible there although escape sequences stand between its bytes.

// parseState is the position of a stream within an escape sequence, as xterm parses it.
type parseState uint8

const (
	ground   parseState = iota
	escape              // behind ESC
	between             // after ESC and an intermediate byte
	control             // in a CSI sequence
	bellEnds            // in an OSC string
	noBell              // in another string: DCS, SOS, PM, APC
)

// piece is a run of text: where it begins in the text, and in the bytes it was taken from.
type piece struct{ text, raw int }

// plain reports whether a stream in ground state has only text in p.
func plain(p []byte) bool {
	return bytes.IndexByte(p, 0x1b) < 0 && escapesAlone(p)
}

// escapesAlone reports whether only ESC ends runs of text in p, as with the colours of most programs.
func escapesAlone(p []byte) bool {
	return bytes.IndexByte(p, 0xc2) < 0 && bytes.IndexByte(p, 0) < 0 && bytes.IndexByte(p, 0x07) < 0 && bytes.IndexByte(p, 0x7f) < 0
}

// unshown are the bytes at which a run of text ends, or may end.
var unshown = [256]bool{0: true, 0x07: true, 0x1b: true, 0x7f: true, 0xc2: true}

// strip appends the text of p to text and its runs to pieces, and returns the state after it. Line ends and other moves by single bytes are
// text; what shows and moves nothing (NUL, BEL, DEL) is not.
func strip(p []byte, st parseState, text []byte, pieces []piece) ([]byte, []piece, parseState) {
	escapes := escapesAlone(p)
	for i := 0; i < len(p); {
		if st == ground {
			run := i
			if escapes { // nothing else ends a run
				for short := min(run+8, len(p)); i < short && p[i] != 0x1b; {
					i++
				}
				if i == run+8 { // a long one: the fastest search there is
					if n := bytes.IndexByte(p[i:], 0x1b); n < 0 {
						i = len(p)
					} else {
						i += n
					}
				}
			}
			for !escapes && i < len(p) && (!unshown[p[i]] || p[i] == 0xc2 && (i+1 == len(p) || p[i+1] < 0x80 || p[i+1] >= 0xa0)) {
				i++
			}
			if i > run {
				pieces = append(pieces, piece{len(text), run})
				text = append(text, p[run:i]...)
			}
			if i == len(p) {
				break
			}
			switch p[i] {
			case 0x1b:
				st = escape
				if i+1 < len(p) && p[i+1] == '[' { // what nearly all sequences are
					st = control
					i++
				}
			case 0xc2: // a control character in two bytes
				i++
				st = controlOf(p[i])
			}
			i++
			continue
		}
		if st == control {
			for i < len(p) && p[i] >= 0x20 && p[i] < 0x40 {
				i++
			}
			if i == len(p) {
				break
			}
			if p[i] >= 0x40 && p[i] != 0x7f {
				st = ground
				i++
				continue
			}
		}
		c := p[i]
		i++
		switch {
		case c == 0x18 || c == 0x1a:
			st = ground
		case c == 0x1b:
			st = escape
		case st == escape:
			switch {
			case c == '[':
				st = control
			case c == ']':
				st = bellEnds
			case c == 'P' || c == 'X' || c == '^' || c == '_':
				st = noBell
			case c >= 0x20 && c < 0x30:
				st = between
			case c >= 0x20 && c != 0x7f:
				st = ground
			}
		case st == between && c >= 0x30 && c != 0x7f, st == control && c >= 0x40 && c != 0x7f, st == bellEnds && c == 0x07:
			st = ground
		case (st == bellEnds || st == noBell) && c == 0xc2 && i < len(p) && p[i] == 0x9c:
			i++
			st = ground
		}
	}
	return text, pieces, st
}

// controlOf returns the state after a control character of 0x80 and above.
func controlOf(c byte) parseState {
	switch c {
	case 0x9b:
		return control
	case 0x9d:
		return bellEnds
	case 0x90, 0x98, 0x9e, 0x9f:
		return noBell
	}
	return ground
}
