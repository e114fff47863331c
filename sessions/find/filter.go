package find

import "math/bits"

// Sizes of filters, as powers of two in bits.
const (
	minFilter = 9
	maxFilter = 17
)

// fullest is the percentage of a filter's bits that may be set after it was made smaller: at that level each trigram of a search
// wrongly passes that share of the blocks.
const fullest = 30

// Filter records which trigrams (three letters, A to Z in lower case) a text may have: bit hash(trigram) is set for each. It has
// 2^k bits.
type Filter []byte

func hash(a, b, c byte) uint32 { return spread(uint32(a)<<16 | uint32(b)<<8 | uint32(c)) }

func spread(trigram uint32) uint32 { return trigram * 0x9E3779B1 >> (32 - maxFilter) }

// NewFilter returns the filter of a text.
func NewFilter(t *Text) Filter {
	var set [1 << (maxFilter - 6)]uint64
	buf := t.Buf
	if len(buf) >= 3 {
		last := uint32(folded[buf[0]])<<8 | uint32(folded[buf[1]])
		for _, c := range buf[2:] {
			last = last<<8&0xffff00 | uint32(folded[c])
			h := spread(last)
			set[h>>6] |= 1 << (h & 63)
		}
	}
	words := set[:]
	n := 0
	for len(words) > 1<<(minFilter-6) {
		half := len(words) / 2
		n = 0
		for i := range half {
			n += bits.OnesCount64(words[i] | words[i+half])
		}
		if n*100 > fullest*half*64 {
			break
		}
		for i := range half {
			words[i] |= words[i+half]
		}
		words = words[:half]
	}
	f := make(Filter, 0, len(words)*8)
	for _, w := range words {
		for s := 0; s < 64; s += 8 {
			f = append(f, byte(w>>s))
		}
	}
	return f
}

// has reports whether the text may have the trigram with that hash. A filter was folded upon itself by halves, so the low bits of
// the hash decide.
func (f Filter) has(h uint32) bool {
	h &= uint32(len(f)*8 - 1)
	return f[h>>3]&(1<<(h&7)) != 0
}

// valid reports whether f has a size that filters can have.
func (f Filter) valid() bool {
	n := len(f) * 8
	return n >= 1<<minFilter && n <= 1<<maxFilter && bits.OnesCount(uint(n)) == 1
}
