package screen

// style is how a cell looks. The bits are those of xterm.js, so that its rules can be followed to the letter.
type style struct {
	fg   uint32 // colour, and the flags below
	bg   uint32
	ext  uint32 // underline: colour in the low bits, kind from underlineShift on. Only with hasExt in bg
	link uint32 // number of the hyperlink, 0 for none. Only with hasExt in bg
}

// Colours in fg, bg and ext.
const (
	colorMask  = 0x3ffffff
	modeMask   = 0x3000000
	mode16     = 0x1000000
	mode256    = 0x2000000
	modeRGB    = 0x3000000
	rgbMask    = 0xffffff
	paletteBit = 0xff
)

// Flags in fg.
const (
	inverse   = 1 << 26
	bold      = 1 << 27
	underline = 1 << 28
	blink     = 1 << 29
	invisible = 1 << 30
	strike    = 1 << 31
)

// Flags in bg.
const (
	italic    = 1 << 26
	dim       = 1 << 27
	hasExt    = 1 << 28
	protected = 1 << 29
	overline  = 1 << 30
)

const (
	underlineShift = 26
	underlineMask  = 7 << underlineShift
)

// normal returns the style as cells hold it: one form for all that look the same.
func (s style) normal() style {
	if s.fg&underline == 0 {
		s.ext &^= underlineMask
	}
	switch {
	case s.bg&hasExt == 0:
		s.ext, s.link = 0, 0
		if s.fg&underline != 0 {
			s.bg |= hasExt
			s.ext = 1 << underlineShift
		}
	case s.link != 0:
		if s.fg&underline != 0 && s.ext&underlineMask == 0 {
			s.ext |= 1 << underlineShift
		}
	case s.fg&underline == 0:
		s.bg &^= hasExt
		s.ext = 0
	}
	return s
}

// updateExt keeps hasExt in step with what the style holds.
func (s *style) updateExt() {
	if s.ext&underlineMask == 0 && s.link == 0 {
		s.bg &^= hasExt
	} else {
		s.bg |= hasExt
	}
}

const (
	firstStyles = 512
	maxStyles   = 1 << 17 // beyond this, new styles become the default one
)

// styles numbers styles. Number 0 is the default style.
type styles struct {
	list  []style
	used  []bool // marks of the collector; nil between its runs
	free  []uint32
	slots []uint32 // open addressing, a power of two; 0 is empty
	crowd          // when to look for unused ones
}

// crowd decides when a table should be swept: when it has grown to twice what the last sweep left, and, where that was nearly all
// a table may hold, only now and then.
type crowd struct {
	limit int
	wait  int // how many more to let pass
}

const sweepEvery = 2048

// due reports whether to sweep a table of n before one more is added.
func (c *crowd) due(n int) bool {
	if n < c.limit {
		return false
	}
	if c.wait > 0 {
		c.wait--
		return false
	}
	return true
}

// swept records that a sweep left n in a table that begins with least and holds most.
func (c *crowd) swept(n, least, most int) {
	c.limit = min(max(least, 2*n), most)
	c.wait = 0
	if n > most-most/8 {
		c.wait = sweepEvery
	}
}

func newStyles() styles {
	return styles{list: make([]style, 1, 16), slots: make([]uint32, 32), crowd: crowd{limit: firstStyles}}
}

func (s style) hash() uint64 {
	h := (uint64(s.fg)<<32 | uint64(s.bg)) * 0x9e3779b97f4a7c15
	h ^= (uint64(s.ext)<<32|uint64(s.link))*0xc2b2ae3d27d4eb4f + h>>29
	return h ^ h>>32
}

// live returns how many styles there are.
func (t *styles) live() int { return len(t.list) - len(t.free) }

// number returns the number of a style.
func (t *styles) number(s style) uint32 {
	if s == (style{}) {
		return 0
	}
	mask := uint64(len(t.slots) - 1)
	i := s.hash() & mask
	for t.slots[i] != 0 {
		if n := t.slots[i]; t.list[n] == s {
			return n
		}
		i = (i + 1) & mask
	}
	if t.live() >= maxStyles {
		return 0
	}
	var n uint32
	if k := len(t.free); k > 0 {
		n = t.free[k-1]
		t.free = t.free[:k-1]
		t.list[n] = s
	} else {
		n = uint32(len(t.list))
		t.list = append(t.list, s)
	}
	t.slots[i] = n
	if 2*t.live() > len(t.slots) {
		t.rehash(2 * len(t.slots))
	}
	return n
}

func (t *styles) rehash(size int) {
	t.slots = make([]uint32, size)
	free := make(map[uint32]bool, len(t.free))
	for _, n := range t.free {
		free[n] = true
	}
	mask := uint64(size - 1)
	for n := 1; n < len(t.list); n++ {
		if free[uint32(n)] {
			continue
		}
		i := t.list[n].hash() & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = uint32(n)
	}
}

// sweep frees the styles that are not marked.
func (t *styles) sweep() {
	t.free = t.free[:0]
	for n := len(t.list) - 1; n > 0; n-- {
		if !t.used[n] {
			t.free = append(t.free, uint32(n))
		}
	}
	t.used = nil
	size := 32
	for size < 2*t.live() {
		size *= 2
	}
	t.rehash(max(size, len(t.slots)/2))
	t.swept(t.live(), firstStyles, maxStyles)
}
