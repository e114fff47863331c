package screen

import "unicode/utf8"

const (
	maxCluster    = 128 // bytes of one grapheme
	firstClusters = 256
	maxClusters   = 1 << 15 // beyond, marks are dropped
)

// clusters numbers the graphemes of more than one code point.
type clusters struct {
	text []string
	next map[uint64]uint32 // from a grapheme and one more code point
	free []uint32
	used []bool // marks of the collector
	crowd
}

func (t *clusters) live() int { return len(t.text) - len(t.free) }

// add returns the content of a cell that holds the text of c and then r: c itself when there is no room for more.
func (t *clusters) add(c cell, r rune) cell {
	key := uint64(c&textMask)<<21 | uint64(r)
	if n, ok := t.next[key]; ok {
		return cell(n) | combined
	}
	var b [utf8.UTFMax + maxCluster]byte
	text := t.append(b[:0], c)
	text = utf8.AppendRune(text, r)
	if len(text) > maxCluster || t.live() >= maxClusters {
		return c & textMask
	}
	var n uint32
	if k := len(t.free); k > 0 {
		n = t.free[k-1]
		t.free = t.free[:k-1]
		t.text[n] = string(text)
	} else {
		n = uint32(len(t.text))
		t.text = append(t.text, string(text))
	}
	if t.next == nil {
		t.next = make(map[uint64]uint32)
	}
	t.next[key] = n
	return cell(n) | combined
}

// append appends the text of a cell to b.
func (t *clusters) append(b []byte, c cell) []byte {
	if c&combined != 0 {
		return append(b, t.text[c&codeMask]...)
	}
	if c&codeMask != 0 {
		return utf8.AppendRune(b, rune(c&codeMask))
	}
	return b
}

// sweep frees the clusters that are not marked.
func (t *clusters) sweep() {
	if t.next == nil {
		t.used = nil
		return
	}
	for key, n := range t.next {
		base := cell(key >> 21)
		if !t.used[n] || base&combined != 0 && !t.used[base&codeMask] {
			delete(t.next, key)
		}
	}
	t.free = t.free[:0]
	for n := len(t.text) - 1; n >= 0; n-- {
		if !t.used[n] {
			t.text[n] = ""
			t.free = append(t.free, uint32(n))
		}
	}
	t.used = nil
	t.swept(t.live(), firstClusters, maxClusters)
}
