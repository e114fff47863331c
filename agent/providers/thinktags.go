package providers

import "strings"

// Servers without a parser for the reasoning of their model leave it in the text, between these tags at its beginning.
const (
	thinkBegin = "<think>"
	thinkEnd   = "</think>"
)

// thinkTags takes the reasoning out of a text that comes in pieces.
type thinkTags struct {
	held string // what may be a part of a tag
	in   bool   // between the tags
	past bool   // they have come, or do not
	trim bool   // empty lines after them are no part of the text
}

// split returns what of the next piece is reasoning, and what is text.
func (t *thinkTags) split(piece string) (thought, text string) {
	if t.past {
		return "", t.trimmed(piece)
	}
	piece, t.held = t.held+piece, ""
	if !t.in {
		start := strings.TrimLeft(piece, " \r\n\t")
		rest, begun := strings.CutPrefix(start, thinkBegin)
		switch {
		case begun:
			t.in, piece = true, rest
		case strings.HasPrefix(thinkBegin, start):
			t.held = piece
			return "", ""
		default:
			t.past = true
			return "", piece
		}
	}
	thought, text, t.past = strings.Cut(piece, thinkEnd)
	if t.past {
		t.trim = true
		return thought, t.trimmed(text)
	}
	for n := min(len(thinkEnd)-1, len(piece)); n > 0; n-- {
		if strings.HasSuffix(piece, thinkEnd[:n]) {
			t.held = piece[len(piece)-n:]
			break
		}
	}
	return piece[:len(piece)-len(t.held)], ""
}

func (t *thinkTags) trimmed(text string) string {
	if t.trim {
		text = strings.TrimLeft(text, "\r\n")
		t.trim = text == ""
	}
	return text
}

// rest returns what was held back until the end of the text.
func (t *thinkTags) rest() (thought, text string) {
	if t.in {
		thought, t.held = t.held, ""
		return thought, ""
	}
	text, t.held = t.held, ""
	return "", text
}
