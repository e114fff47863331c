// Package safetext makes text that others wrote safe to show: programs in a terminal, agents, guests and people may send anything. It has no
// state.
package safetext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible removes from s what could change how the text around it is shown: control characters except those in keep, and characters that
// change the reading direction.
func Visible(s string, keep rune) string {
	return strings.Map(func(r rune) rune {
		if r != keep && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return -1
		}
		return r
	}, s)
}

// MaxLine is the maximum number of characters Line returns.
const MaxLine = 200

// Line makes a short text safe to show: valid UTF-8, no control characters, nothing that changes the reading direction, at most MaxLine
// characters.
func Line(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	return Cut(strings.TrimSpace(Visible(s, -1)), MaxLine)
}

// Cut returns the first n characters of s.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// Lines makes text of several lines safe to show; tabs and line breaks stay.
func Lines(s string) string {
	parts := strings.Split(strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\r\n", "\n"), "\n")
	for i, p := range parts {
		parts[i] = Visible(p, '\t')
	}
	return strings.Trim(strings.Join(parts, "\n"), "\n")
}

// OneLine is Lines with everything on one line.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(Lines(s), func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}
