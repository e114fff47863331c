package conversation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// View reads a stored timeline by pages. It remembers the position of each item, not the items. Safe for concurrent use, also
// with the file's Writer.
type View struct {
	path string

	mu    sync.Mutex
	id    os.FileInfo // of the indexed file
	size  int64       // bytes indexed
	last  int64       // number of the last line
	items []place     // in order
	at    map[string]int
	holes int
	spent Usage
	usage map[string]Usage
}

// place is the position of the last line of an item.
type place struct {
	id       string
	key, n   int64
	off, len int64 // len 0: the item has moved to another position
	kind     Kind
}

// NewView returns a View. It opens nothing yet.
func NewView(path string) *View { return &View{path: path} }

// Query requests a page.
type Query struct {
	Before int64  // items before this key; 0 = the newest
	Since  int64  // items added or changed after this line, in that order; excludes Before
	Limit  int    // at least 1
	Search string // text that must be in the item, ignoring case
	Kinds  []Kind // nil = all
	Oldest bool   // from the beginning instead of from the end
	After  int64  // with Oldest: items after this key
}

// Placed is an item with its key and the line that changed it last.
type Placed struct {
	Item
	Place, Version int64
	Offset         int64 // of the terminal's output when it happened; -1 = unknown
}

// Page is a piece of a timeline, oldest first.
type Page struct {
	Items   []Placed
	Before  int64 // request more before this key; 0 = there is none
	More    bool  // with Since: there are more changes after Version
	Version int64 // the last line these items reflect
	Total   int   // number of stored items, regardless of the query
	Spent   Usage // of the whole stored conversation
}

// maxPage is roughly the most bytes of items in a page.
const maxPage = 4 << 20

// Page answers a query. A missing timeline is empty.
func (v *View) Page(q Query) (Page, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, err := os.Open(v.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Page{}, nil
	}
	if err != nil {
		return Page{}, fmt.Errorf("reading a timeline: %w", err)
	}
	defer f.Close()
	if err := v.refresh(f); err != nil {
		return Page{}, fmt.Errorf("reading a timeline: %w", err)
	}
	p := Page{Version: v.last, Total: len(v.items) - v.holes, Spent: v.spent}
	match := newMatcher(q.Search)
	room := int64(maxPage)
	full := func() bool { return len(p.Items) == q.Limit || room <= 0 }
	wanted := func(pl place) (Placed, bool) {
		if pl.len == 0 || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, pl.kind) {
			return Placed{}, false
		}
		raw := make([]byte, pl.len)
		if _, err := f.ReadAt(raw, pl.off); err != nil {
			return Placed{}, false
		}
		if !match.maybe(raw) {
			return Placed{}, false
		}
		var l kept
		if json.Unmarshal(raw, &l) != nil || l.ID != pl.id || !match.item(&l.Item) {
			return Placed{}, false
		}
		room -= pl.len
		return Placed{l.Item, pl.key, pl.n, l.Off}, true
	}
	if q.Since > 0 {
		changed := make([]place, 0, 64)
		for _, pl := range v.items {
			if pl.len > 0 && pl.n > q.Since {
				changed = append(changed, pl)
			}
		}
		slices.SortFunc(changed, func(a, b place) int { return int(a.n - b.n) })
		for _, pl := range changed {
			if full() {
				p.More, p.Version = true, p.Items[len(p.Items)-1].Version
				break
			}
			if it, ok := wanted(pl); ok {
				p.Items = append(p.Items, it)
			}
		}
		return p, nil
	}
	if q.Oldest {
		from, found := slices.BinarySearchFunc(v.items, q.After, func(pl place, key int64) int { return int(pl.key - key) })
		if found {
			from++
		}
		for _, pl := range v.items[from:] {
			if full() {
				p.More = true
				break
			}
			if it, ok := wanted(pl); ok {
				p.Items = append(p.Items, it)
			}
		}
		return p, nil
	}
	end := len(v.items)
	if q.Before > 0 {
		end, _ = slices.BinarySearchFunc(v.items, q.Before, func(pl place, key int64) int { return int(pl.key - key) })
	}
	for i := end - 1; i >= 0; i-- {
		if len(p.Items) > 0 && room <= 0 {
			p.Before = p.Items[len(p.Items)-1].Place
			break
		}
		it, ok := wanted(v.items[i])
		if !ok {
			continue
		}
		if len(p.Items) == q.Limit {
			p.Before = p.Items[q.Limit-1].Place
			break
		}
		p.Items = append(p.Items, it)
	}
	slices.Reverse(p.Items)
	return p, nil
}

// refresh updates the index.
func (v *View) refresh(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if v.id == nil || !os.SameFile(v.id, st) || st.Size() < v.size {
		v.id, v.size, v.last, v.items, v.at, v.holes, v.spent = st, 0, 0, nil, map[string]int{}, 0, Usage{}
		v.usage = map[string]Usage{}
	}
	if st.Size() == v.size {
		return nil
	}
	v.size, err = eachLine(f, v.size, func(off int64, raw []byte) bool {
		var l struct {
			N     int64  `json:"n"`
			Key   int64  `json:"k"`
			ID    string `json:"id"`
			Kind  Kind   `json:"kind"`
			Usage *Usage `json:"usage"`
		}
		if json.Unmarshal(raw, &l) != nil || l.ID == "" {
			return true
		}
		l.Key = cmp.Or(l.Key, l.N)
		v.last = max(v.last, l.N)
		next := place{id: l.ID, key: l.Key, n: l.N, off: off, len: int64(len(raw)), kind: l.Kind}
		if l.Usage != nil {
			v.spent.sub(v.usage[l.ID])
			v.spent.add(*l.Usage)
			v.usage[l.ID] = *l.Usage
		}
		i, ok := v.at[l.ID]
		switch {
		case ok && v.items[i].key == next.key:
			v.items[i] = next
			return true
		case ok:
			v.items[i].len = 0
			v.holes++
		}
		if n := len(v.items); n > 0 && v.items[n-1].key > next.key { // a line dropped since left its old position behind
			next.key = v.items[n-1].key
		}
		v.at[l.ID] = len(v.items)
		v.items = append(v.items, next)
		return true
	})
	if v.holes > 1000 && v.holes > len(v.items)/2 {
		v.items = slices.DeleteFunc(v.items, func(p place) bool { return p.len == 0 })
		v.holes = 0
		for i, p := range v.items {
			v.at[p.id] = i
		}
	}
	return err
}

// matcher finds items that contain a text.
type matcher struct {
	words string // in lower case; "" matches everything
	raw   []byte // the same, when its JSON form is identical
}

func newMatcher(words string) matcher {
	m := matcher{words: strings.ToLower(strings.TrimSpace(words))}
	plain := true
	for i := range len(m.words) {
		if c := m.words[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
		}
	}
	if plain {
		m.raw = []byte(m.words)
	}
	return m
}

// maybe cheaply excludes lines that cannot match.
func (m matcher) maybe(line []byte) bool {
	return len(m.raw) == 0 || bytes.Contains(bytes.ToLower(line), m.raw)
}

func (m matcher) item(it *Item) bool {
	if m.words == "" {
		return true
	}
	for _, s := range it.searched() {
		if strings.Contains(strings.ToLower(s), m.words) {
			return true
		}
	}
	return false
}

// searched returns the fields that are searched, the most telling first.
func (it *Item) searched() [7]string {
	return [7]string{it.Text, it.Diff, it.Title, it.Path, it.Tool, it.Input, it.Output}
}

// Snippet returns the part of an item around the text, in one line.
func Snippet(it *Item, words string) string {
	words = strings.ToLower(strings.TrimSpace(words))
	const around = 80
	for _, s := range it.searched() {
		low := strings.ToLower(s)
		i := strings.Index(low, words)
		if i < 0 {
			continue
		}
		if len(low) != len(s) { // some letters have another length in lower case
			s = low
		}
		from, to := max(i-around, 0), min(i+len(words)+around, len(s))
		for from > 0 && !utf8.RuneStart(s[from]) {
			from--
		}
		for to < len(s) && !utf8.RuneStart(s[to]) {
			to++
		}
		out := line(s[from:to])
		if from > 0 {
			out = "…" + out
		}
		if to < len(s) {
			out += "…"
		}
		return out
	}
	return ""
}
