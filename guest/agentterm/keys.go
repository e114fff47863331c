package agentterm

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// action is a key that is no text.
type action int

const (
	enter action = iota + 1
	interrupt
	end
	backspace
	deleteWord
	deleteLine
	left
	right
	home
	last
)

// key is text, or an action.
type key struct {
	text string
	act  action
}

// keyReader turns bytes into keys. What is pasted is text, whatever it contains.
type keyReader struct {
	pending []byte
	pasting bool
}

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

var sequences = map[string]action{"\x1b[D": left, "\x1bOD": left, "\x1b[C": right, "\x1bOC": right, "\x1b[H": home, "\x1bOH": home, "\x1b[1~": home, "\x1b[F": last, "\x1bOF": last, "\x1b[4~": last}

var controls = map[byte]action{'\r': enter, '\n': enter, 0x03: interrupt, 0x04: end, 0x7f: backspace, 0x08: backspace, 0x17: deleteWord, 0x15: deleteLine, 0x01: home, 0x05: last}

// open reports whether what was read last may be the beginning of a sequence.
func (r *keyReader) open() bool { return !r.pasting && len(r.pending) > 0 && r.pending[0] == 0x1b }

// settle takes that as it is, because nothing followed: a lone Escape interrupts.
func (r *keyReader) settle() (keys []key) {
	if len(r.pending) == 1 {
		keys = []key{{act: interrupt}}
	}
	r.pending = nil
	return keys
}

func (r *keyReader) feed(p []byte) (keys []key) {
	r.pending = append(r.pending, p...)
	for len(r.pending) > 0 {
		b := r.pending
		switch {
		case r.pasting:
			text, rest, ended := bytes.Cut(b, []byte(pasteEnd))
			if !ended {
				// Its end, a line end or a character may be cut in two.
				text = b[:len(b)-max(partOf(b, pasteEnd), partOf(b, "\r\n"), cutRune(b))]
				rest = b[len(text):]
			}
			if len(text) > 0 {
				keys = append(keys, key{text: clean(text)})
			}
			r.pending, r.pasting = rest, !ended
			if !ended {
				return keys
			}
		case bytes.HasPrefix(b, []byte(pasteBegin)):
			r.pending, r.pasting = b[len(pasteBegin):], true
		case b[0] == 0x1b:
			n, act, whole := escape(b)
			if !whole {
				return keys
			}
			if act != 0 {
				keys = append(keys, key{act: act})
			}
			r.pending = b[n:]
		case b[0] < ' ' || b[0] == 0x7f:
			if act := controls[b[0]]; act != 0 {
				keys = append(keys, key{act: act})
			}
			r.pending = b[1:]
		default:
			n := 0
			for n < len(b) && b[n] >= ' ' && b[n] != 0x7f {
				n++
			}
			whole := n
			if n == len(b) {
				whole -= cutRune(b)
			}
			if whole > 0 {
				keys = append(keys, key{text: clean(b[:whole])})
			}
			if r.pending = b[whole:]; whole < n {
				return keys
			}
		}
	}
	return keys
}

// cutRune is how many bytes at the end of b begin a character whose rest has not come yet.
func cutRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if utf8.FullRune(b[len(b)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// escape reads a sequence, as far as it has come; an Escape that begins none interrupts.
func escape(b []byte) (n int, act action, whole bool) {
	if len(b) == 1 {
		return 0, 0, false
	}
	if b[1] != '[' && b[1] != 'O' {
		return 1, interrupt, true
	}
	for n = 2; n < len(b); n++ {
		if b[n] >= '@' && b[n] <= '~' {
			return n + 1, sequences[string(b[:n+1])], true
		}
	}
	if len(b) > 64 {
		return len(b), 0, true
	}
	return 0, 0, false
}

// partOf is how many bytes at the end of b may be the beginning of mark.
func partOf(b []byte, mark string) int {
	for n := min(len(mark)-1, len(b)); n > 0; n-- {
		if bytes.HasSuffix(b, []byte(mark[:n])) {
			return n
		}
	}
	return 0
}

// clean removes control characters from text, except for line feeds and tabs.
func clean(b []byte) string {
	s := strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), "\r", "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
