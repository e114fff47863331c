// Package signals extracts from a terminal's output the control messages that programs send to the terminal.
package signals

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/parawork/parawork/sessions/agents"
)

// Scanner finds, in a stream of terminal output, the control messages of programs: titles, notifications, progress, state
// reports, and whether to bracket pasted text. It skips everything else quickly and buffers at most maxOSC bytes.
type Scanner struct {
	Signal func(agents.Signal) // called with each
	Clean  func(string) string // makes their text safe to show

	at    scanState
	buf   []byte // of the control string being read
	over  bool   // it is too long
	paste bool   // mode 2004 is on
}

type scanState uint8

const (
	inText      scanState = iota
	inEsc                 // after ESC
	inCSI                 // after ESC [
	inOSC                 // after ESC ]
	inOSCEsc              // after ESC ] ... ESC
	inString              // after ESC P, X, ^ or _
	inStringEsc           // the same, after ESC
)

// Esc begins a control sequence.
const Esc = 0x1b

// maxOSC is the longest control string that is parsed; longer ones are skipped.
const maxOSC = 2048

// Paste reports whether to bracket pasted text.
func (s *Scanner) Paste() bool { return s.paste }

// Scan takes the next bytes of the stream.
func (s *Scanner) Scan(p []byte) {
	for len(p) > 0 {
		switch s.at {
		case inText:
			i := bytes.IndexByte(p, Esc)
			if i < 0 {
				return
			}
			p = p[i+1:]
			if n := idle(p); n > 0 {
				p = p[n:]
				continue
			}
			s.at = inEsc
		case inOSC, inString:
			i := bytes.IndexAny(p, "\x07\x18\x1a\x1b")
			if i < 0 {
				s.keep(p)
				return
			}
			s.keep(p[:i])
			c := p[i]
			p = p[i+1:]
			switch {
			case c == Esc && s.at == inOSC:
				s.at = inOSCEsc
			case c == Esc:
				s.at = inStringEsc
			case c == 0x07 && s.at == inOSC:
				s.osc()
				s.at = inText
			case c != 0x07: // CAN and SUB abort it
				s.at = inText
			}
		default:
			c := p[0]
			p = p[1:]
			s.step(c)
		}
	}
}

// idle returns the length of an irrelevant control sequence that is complete at the beginning of p, which follows an ESC;
// otherwise 0. Nearly all sequences are such, and colours alone are many.
func idle(p []byte) int {
	if len(p) == 0 || p[0] != '[' {
		return 0
	}
	for i, c := range p[1:] {
		switch {
		case c >= 0x20 && c < 0x40:
		case c >= 0x40 && c <= 0x7e && c != 'h' && c != 'l':
			return i + 2
		default:
			return 0
		}
	}
	return 0
}

// step takes one byte inside a sequence.
func (s *Scanner) step(c byte) {
	switch s.at {
	case inOSCEsc, inStringEsc:
		if c == '\\' {
			if s.at == inOSCEsc {
				s.osc()
			}
			s.at = inText
			return
		}
		s.at = inEsc // another sequence aborted the string
		s.step(c)
	case inEsc:
		s.buf, s.over = s.buf[:0], false
		switch c {
		case '[':
			s.at = inCSI
		case ']':
			s.at = inOSC
		case 'P', 'X', '^', '_':
			s.at, s.over = inString, true
		case Esc:
		default:
			s.at = inText
		}
	case inCSI:
		switch {
		case c == Esc:
			s.at = inEsc
		case c >= 0x40 && c <= 0x7e:
			s.csi(c)
			s.at = inText
		case c >= 0x20 && c < 0x40:
			s.keep([]byte{c})
		case c == 0x18 || c == 0x1a:
			s.at = inText
		}
	}
}

func (s *Scanner) keep(p []byte) {
	if s.over {
		return
	}
	if len(s.buf)+len(p) > maxOSC {
		s.over, s.buf = true, nil
		return
	}
	s.buf = append(s.buf, p...)
}

func (s *Scanner) csi(final byte) {
	if s.over || final != 'h' && final != 'l' || len(s.buf) == 0 || s.buf[0] != '?' {
		return
	}
	for mode := range bytes.SplitSeq(s.buf[1:], []byte{';'}) {
		if string(mode) == "2004" {
			s.paste = final == 'h'
		}
	}
}

func (s *Scanner) osc() {
	if s.over {
		return
	}
	code, text, ok := strings.Cut(string(s.buf), ";")
	if cap(s.buf) > 512 {
		s.buf = nil // do not retain the memory of a rare long one
	}
	if !ok {
		return
	}
	switch code {
	case "0", "2":
		s.Signal(agents.Signal{Kind: agents.Title, Text: s.Clean(text)})
	case "9":
		rest, progress := strings.CutPrefix(text, "4;")
		switch {
		case progress:
			s.Signal(agents.Signal{Kind: agents.Progress, Text: s.Clean(rest)})
		case len(text) > 1 && text[0] >= '0' && text[0] <= '9' && (text[1] == ';' || text[1] >= '0' && text[1] <= '9' && strings.HasPrefix(text[2:], ";")):
			// Other numbered commands of ConEmu are not notifications.
		case text != "":
			s.Signal(agents.Signal{Kind: agents.Notify, Text: s.Clean(text)})
		}
	case "777":
		if rest, ok := strings.CutPrefix(text, "notify;"); ok {
			title, body, _ := strings.Cut(rest, ";")
			if t := s.Clean(cmp.Or(body, title)); t != "" {
				s.Signal(agents.Signal{Kind: agents.Notify, Text: t})
			}
		}
	case "7501":
		s.Signal(agents.Signal{Kind: agents.Report, Text: s.Clean(text)})
	}
}
