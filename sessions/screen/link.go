package screen

const (
	maxURI     = 8 << 10 // bytes; a longer address makes no link
	maxLinkID  = 256     // bytes; a longer ID is ignored
	firstLinks = 128
	maxLinks   = 4096
	maxLinkMem = 1 << 20 // bytes of all addresses together; beyond, there are no new links
)

type link struct{ id, uri string }

// links numbers hyperlinks. Number 0 is none.
type links struct {
	list  []link
	known map[link]uint32
	free  []uint32
	used  []bool // marks of the collector
	bytes int
	crowd
}

func (t *links) live() int { return len(t.list) - len(t.free) }

// number returns the number of a link, 0 when there are too many.
func (t *links) number(l link) uint32 {
	if n, ok := t.known[l]; ok {
		return n
	}
	if t.live() >= maxLinks || t.bytes+len(l.uri)+len(l.id) > maxLinkMem {
		return 0
	}
	if t.known == nil {
		t.known = make(map[link]uint32)
		t.list = make([]link, 1)
	}
	var n uint32
	if k := len(t.free); k > 0 {
		n = t.free[k-1]
		t.free = t.free[:k-1]
		t.list[n] = l
	} else {
		n = uint32(len(t.list))
		t.list = append(t.list, l)
	}
	t.known[l] = n
	t.bytes += len(l.uri) + len(l.id)
	if t.bytes > maxLinkMem/2 {
		t.limit = 0 // the next one looks for unused ones
	}
	return n
}

// sweep frees the links that are not marked.
func (t *links) sweep() {
	if t.known == nil {
		t.used = nil
		return
	}
	t.free = t.free[:0]
	t.bytes = 0
	for n := len(t.list) - 1; n > 0; n-- {
		if t.used[n] {
			t.bytes += len(t.list[n].uri) + len(t.list[n].id)
			continue
		}
		if t.list[n].uri != "" {
			delete(t.known, t.list[n])
			t.list[n] = link{}
		}
		t.free = append(t.free, uint32(n))
	}
	t.used = nil
	t.swept(t.live(), firstLinks, maxLinks)
	if t.bytes > maxLinkMem/2 {
		t.wait = sweepEvery
	}
}
