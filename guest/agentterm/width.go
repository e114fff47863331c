package agentterm

import (
	"unicode"

	"golang.org/x/text/width"
)

// cell is what a person sees as one character: one rune or several, such as a letter with its accents, a flag, or a family of emoji.
type cell struct {
	end  int // position in the line of the rune after it
	cols int // columns of the terminal
}

const (
	joiner      = 0x200d
	emojiStyle  = 0xfe0f // the character before is shown as an emoji
	firstLetter = 0x1f1e6
	lastLetter  = 0x1f1ff // of those that make flags, in pairs
)

// cells divides a line.
func cells(line []rune) []cell {
	out := make([]cell, 0, len(line))
	for at := 0; at < len(line); {
		c := cell{end: at + 1, cols: columns(line[at])}
		if flag(line[at]) && c.end < len(line) && flag(line[c.end]) {
			c.end, c.cols = c.end+1, 2
		}
		for c.end < len(line) && (belongs(line[c.end]) || line[c.end-1] == joiner) {
			if line[c.end] == emojiStyle && c.cols == 1 {
				c.cols = 2
			}
			c.end++
		}
		out = append(out, c)
		at = c.end
	}
	return out
}

func flag(r rune) bool { return r >= firstLetter && r <= lastLetter }

// belongs reports whether a rune is a part of the character before it.
func belongs(r rune) bool {
	return r == joiner || unicode.In(r, unicode.Mn, unicode.Me, unicode.Variation_Selector) || r >= 0x1f3fb && r <= 0x1f3ff || // colours of skin
		r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7fb || // vowels and ends of Korean syllables
		r >= 0xe0020 && r <= 0xe007f // names of regional flags
}

// columns is how wide a rune is at the beginning of a character.
func columns(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	case r != '\n' && r != '\t' && r != 0xad && unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	return 1
}

// fit is as much of a text as fits into columns.
func fit(text []rune, cols int) []rune {
	end := 0
	for _, c := range cells(text) {
		if cols -= c.cols; cols < 0 {
			break
		}
		end = c.end
	}
	return text[:end]
}
