package redact

import "bytes"

// matcher looks for many patterns at once: it compares blocks of two bytes with a table of how far it may skip (the algorithm of Wu and
// Manber), so that its time hardly grows with the number of patterns.
type matcher struct {
	patterns [][]byte
	window   int // bytes of the shortest pattern
	longest  int
	skip     [blocks]uint8 // by block: how far the window may move on
	first    [blocks]int32 // by the block a window ends with: 1 + a pattern that begins with that window, 0 = none
	next     []int32       // by pattern: 1 + another of the same block
}

// blocks is how many kinds of blocks are distinguished: few enough for thousands of matchers in memory.
const blocks = 1 << 12

func blockOf(a, b byte) uint16 { return (uint16(a)<<5 ^ uint16(b)) & (blocks - 1) }

// newMatcher returns a matcher of patterns of two bytes and more, at least one.
func newMatcher(patterns [][]byte) *matcher {
	m := &matcher{patterns: patterns, window: len(patterns[0]), next: make([]int32, len(patterns))}
	for _, p := range patterns {
		m.window, m.longest = min(m.window, len(p)), max(m.longest, len(p))
	}
	m.window = min(m.window, 200)
	for i := range m.skip {
		m.skip[i] = uint8(m.window - 1)
	}
	for n, p := range patterns {
		for i := 1; i < m.window; i++ {
			b := blockOf(p[i-1], p[i])
			m.skip[b] = min(m.skip[b], uint8(m.window-1-i))
		}
		last := blockOf(p[m.window-2], p[m.window-1])
		m.next[n], m.first[last] = m.first[last], int32(n+1)
	}
	return m
}

// each calls fn with where in b each pattern begins, overlapping ones too, and with its number, until fn returns false.
func (m *matcher) each(b []byte, fn func(from, pattern int) bool) {
	for at := m.window - 1; at < len(b); {
		block := blockOf(b[at-1], b[at])
		if s := m.skip[block]; s > 0 {
			at += int(s)
			continue
		}
		from := at - m.window + 1
		for n := m.first[block]; n > 0; n = m.next[n-1] {
			if bytes.HasPrefix(b[from:], m.patterns[n-1]) && !fn(from, int(n-1)) {
				return
			}
		}
		at++
	}
}
