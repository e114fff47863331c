package screen

// Kinds of characters for building graphemes.
const (
	other = iota
	prepend
	extend
	regional
	spacing
	hangulL
	hangulV
	hangulT
	hangulLV
	hangulLVT
	zwj
	pictographic

	none = 15 // there is no previous character to join
)

const (
	kindMask  = 15
	wideBit   = 16
	blockBits = 7
)

var (
	infoBlocks = expand(blockRuns)
	infoIndex  = expand(indexRuns)
)

// expand decodes pairs of a run's length and its value.
func expand(runs string) []byte {
	var out []byte
	for i := 0; i < len(runs); i += 2 {
		for range runs[i] {
			out = append(out, runs[i+1])
		}
	}
	return out
}

// charInfo returns a character's kind, with wideBit if it takes two columns. r is at most U+10FFFF.
func charInfo(r uint32) uint8 {
	return infoBlocks[int(infoIndex[r>>blockBits])<<blockBits|int(r&(1<<blockBits-1))]
}

// joins reports whether a character belongs to the grapheme before it.
func joins(before, after uint8) bool {
	if before == none {
		return false
	}
	switch after {
	case extend, zwj, spacing:
		return true
	case pictographic:
		return before == zwj || before == prepend
	case regional:
		return before == regional || before == prepend
	case hangulL, hangulLV, hangulLVT:
		return before == hangulL || before == prepend
	case hangulV:
		return before == hangulL || before == hangulLV || before == hangulV || before == prepend
	case hangulT:
		return before >= hangulV && before <= hangulLVT || before == prepend
	}
	return before == prepend
}
