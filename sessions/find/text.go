// Package find searches the output of terminals: it extracts the text from a stream of bytes and escape sequences, stores a small
// filter for each block of it, and looks for words and regular expressions in the blocks that may contain them.
//
// A stream is always cut into the same blocks, at line ends, so a block can be read independently. A filter records which
// trigrams a block cannot contain: a search reads only the few blocks that remain.
package find

import (
	"sort"
	"unicode/utf8"
)

// BlockBytes is roughly the size of a block: it ends with the first line that ends at or after this size. A line that does not
// end within as much again is cut.
const BlockBytes = 256 << 10

// MaxBlock is the largest size of a block.
const MaxBlock = 2 * BlockBytes

// Text is the text of one block: lines, without sequences that only colour text or move the cursor. Moving the cursor to another
// position ends a line, and so does returning to its beginning, so text that was overdrawn is a line of its own.
type Text struct {
	Buf   []byte // lines, each ended by ' '
	marks []mark
	low   []byte // Buf in lower case, computed on demand
}

// mark records that from position text of Buf on, bytes correspond one to one to those at raw of the block.
type mark struct{ text, raw int }

// plain marks bytes that are text.
var plain = func() (t [256]bool) {
	for i := range t {
		t[i] = i >= 0x20 && i != 0x7f
	}
	return t
}()

// Take makes t the text of the block that begins with p. It reads up to the block's end or to the end of p. It returns the
// block's length, and whether that is its end in the stream no matter how much follows.
func (t *Text) Take(p []byte) (n int, whole bool) {
	t.Buf, t.marks, t.low = t.Buf[:0], t.marks[:0], nil
	p = p[:min(len(p), MaxBlock)]
	for i := 0; i < len(p); {
		if plain[p[i]] {
			j := i + 1
			for j < len(p) && plain[p[j]] {
				j++
			}
			t.add(p[i:j], i)
			i = j
			continue
		}
		ended := false
		switch p[i] {
		case '\n', '\v', '\f', '\r':
			t.newline()
			i++
			ended = true
		case '\t':
			t.add([]byte{' '}, i)
			i++
		case '\b':
			t.back()
			i++
		case 0x1b:
			i, ended = t.escape(p, i)
		default:
			i++
		}
		if ended && i >= BlockBytes {
			t.newline()
			return i, true
		}
	}
	t.newline()
	return len(p), len(p) == MaxBlock
}

// add appends text that is at raw.
func (t *Text) add(p []byte, raw int) {
	if n := len(t.marks); n == 0 || raw-t.marks[n-1].raw != len(t.Buf)-t.marks[n-1].text {
		t.marks = append(t.marks, mark{len(t.Buf), raw})
	}
	t.Buf = append(t.Buf, p...)
}

// newline ends the line, unless it is empty.
func (t *Text) newline() {
	if n := len(t.Buf); n > 0 && t.Buf[n-1] != '\n' {
		t.Buf = append(t.Buf, '\n')
	}
}

// back removes the last letter of the line.
func (t *Text) back() {
	n := len(t.Buf)
	if n == 0 || t.Buf[n-1] == '\n' {
		return
	}
	_, size := utf8.DecodeLastRune(t.Buf)
	t.Buf = t.Buf[:n-size]
	for k := len(t.marks); k > 0 && t.marks[k-1].text >= len(t.Buf) && k > 1; k-- {
		t.marks = t.marks[:k-1]
	}
}

// escape reads the sequence at i and returns where it ends, and whether it ended a line.
func (t *Text) escape(p []byte, i int) (next int, ended bool) {
	i++
	if i >= len(p) {
		return i, false
	}
	switch c := p[i]; {
	case c == '[':
		return t.csi(p, i+1)
	case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
		return stringEnd(p, i+1), false
	case c == 'D' || c == 'E' || c == 'M' || c == 'c' || c == '8':
		t.newline()
		return i + 1, true
	case c >= 0x20 && c < 0x30:
		for i < len(p) && p[i] >= 0x20 && p[i] < 0x30 {
			i++
		}
		return min(i+1, len(p)), false
	}
	return i + 1, false
}

// maxString is the longest string of an escape sequence; a longer one is treated as text that lost its end.
const maxString = 64 << 10

// stringEnd returns where a string that began before i ends: after BEL or ST, or before another ESC.
func stringEnd(p []byte, i int) int {
	for end := min(len(p), i+maxString); i < end; i++ {
		switch p[i] {
		case 0x07, 0x18, 0x1a:
			return i + 1
		case 0x1b:
			if i+1 < len(p) && p[i+1] == '\\' {
				return i + 2
			}
			return i
		}
	}
	return i
}

// csi reads a control sequence whose parameters begin at i.
func (t *Text) csi(p []byte, i int) (next int, ended bool) {
	from := i
	num, first, private := 0, true, false
	for ; i < len(p) && p[i] >= 0x20 && p[i] < 0x40; i++ {
		switch c := p[i]; {
		case c >= '0' && c <= '9':
			if first && num < 1000 {
				num = num*10 + int(c-'0')
			}
		case c == ';' || c == ':':
			first = false
		default:
			private = true
		}
	}
	if i >= len(p) {
		return i, false
	}
	if p[i] < 0x20 || p[i] >= 0x7f { // not a sequence: the byte that broke it is read again
		return i, false
	}
	if private {
		return i + 1, false
	}
	switch p[i] {
	case 'A', 'B', 'D', 'E', 'F', 'H', 'f', 'd', 'r', 'S', 'T', 'L', 'M', 'u':
		t.newline()
		return i + 1, true
	case 'G', '`':
		if num <= 1 {
			t.newline()
			return i + 1, true
		}
		t.space(1, from)
	case 'C', 'a':
		t.space(max(num, 1), from)
	case 'b':
		t.repeat(num, from)
	}
	return i + 1, false
}

// space moves the cursor forward over n cells.
func (t *Text) space(n, raw int) {
	if k := len(t.Buf); k == 0 || t.Buf[k-1] == '\n' {
		return // an indent
	}
	for range min(n, 80) {
		t.add([]byte{' '}, raw)
	}
}

// repeat prints the last letter n more times.
func (t *Text) repeat(n, raw int) {
	k := len(t.Buf)
	if k == 0 || t.Buf[k-1] == '\n' || t.Buf[k-1] >= 0x80 {
		return
	}
	c := t.Buf[k-1]
	for range min(n, 200) {
		t.add([]byte{c}, raw)
	}
}

// Raw returns where in the block the byte at pos of Buf is.
func (t *Text) Raw(pos int) int {
	i := sort.Search(len(t.marks), func(i int) bool { return t.marks[i].text > pos })
	if i == 0 {
		return 0
	}
	m := t.marks[i-1]
	raw := m.raw + pos - m.text
	if i < len(t.marks) {
		raw = min(raw, t.marks[i].raw)
	}
	return raw
}

// lower returns Buf with A to Z in lower case.
func (t *Text) lower() []byte {
	if t.low == nil {
		t.low = make([]byte, len(t.Buf))
		for i, c := range t.Buf {
			t.low[i] = folded[c]
		}
	}
	return t.low
}

// folded maps each ASCII byte to lower case.
var folded = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()
