package history

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/find"
)

const (
	searchesAtOnce = 2    // in the whole server: each uses a core
	hitsOfBlock    = 2000 // different lines returned from one block
	hitBefore      = 120  // bytes of a line shown before a match
	hitAfter       = 280  // and from the match on
)

// SearchQuery requests lines from the output of all sessions of a workspace.
type SearchQuery struct {
	find.Query
	Agent  string // "" = all
	Limit  int
	Cursor string // of an earlier answer
}

// Hit is a matching line.
type Hit struct {
	SessionID, Agent, AgentName string
	Offset, At                  int64  // of the match; ms UTC
	Line                        string // around the match
	Start, End                  int    // of the match in Line, in characters
	Repeats                     int    // how often the same line was found right before this one
}

// Found is an answer to a search, newest first.
type Found struct {
	Hits    []Hit
	Next    string // cursor; "" when there is nothing more
	Bytes   int64  // of output in the search's range
	Skipped int64  // of these, skipped because of their filters
	Late    bool   // the time limit was reached: Next continues
}

// place is a position in the order of hits: newest first.
type place struct {
	at      int64
	session string
	off     int64
}

// compare orders places, newest first.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(q.at, p.at), cmp.Compare(q.session, p.session), cmp.Compare(q.off, p.off))
}

func (p place) String() string { return fmt.Sprintf("%d.%s.%d", p.at, p.session, p.off) }

func parsePlace(s string) (p place, err error) {
	if s == "" {
		return place{at: math.MaxInt64}, nil
	}
	parts := strings.Split(s, ".")
	if len(parts) == 3 {
		p.session = parts[1]
		if _, err = fmt.Sscanf(parts[0]+" "+parts[2], "%d %d", &p.at, &p.off); err == nil {
			return p, nil
		}
	}
	return p, fault.New(fault.Invalid, "invalid_cursor", "The cursor does not come from a search.").With("field", "cursor")
}

// source is one session that is searched.
type source struct {
	row   Row
	rec   *reader // opened when needed
	dates *find.Dater
}

// span is a range of a session's output that may contain hits.
type span struct {
	src      *source
	from, to int64 // offsets
	at       int64 // when its last byte came, at the latest
	since    int64 // when its first byte came; 0: unknown
}

// spans is a heap, newest first.
type spans []span

// top is a position before which the span cannot have a hit.
func (st span) top() place { return place{st.at, st.src.row.ID, st.to} }

func (h spans) Len() int           { return len(h) }
func (h spans) Less(i, j int) bool { return h[i].top().compare(h[j].top()) < 0 }
func (h spans) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *spans) Push(x any)        { *h = append(*h, x.(span)) }
func (h *spans) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// search is one running search.
type search struct {
	svc     *Recordings
	m       *find.Matcher
	before  place // only hits after it count
	limit   int
	todo    spans
	hits    []Hit
	readers map[*source]*find.Reader
	out     Found
}

// Search looks for lines in the output of all sessions of a workspace, including running ones. It searches the plain text,
// without colours and cursor movements, and each time a line was overdrawn counts as a line. Errors: invalid_query,
// invalid_cursor; ctx's.
func (s *Recordings) Search(ctx context.Context, workspaceID string, q SearchQuery) (Found, error) {
	m, err := find.Compile(q.Query)
	if err != nil {
		return Found{}, err
	}
	before, err := parsePlace(q.Cursor)
	if err != nil {
		return Found{}, err
	}
	rows, err := s.cfg.Sessions.Rows(ctx, workspaceID)
	if err != nil {
		return Found{}, err
	}
	select {
	case s.searches <- struct{}{}:
		defer func() { <-s.searches }()
	case <-ctx.Done():
		return Found{}, ctx.Err()
	}
	r := &search{svc: s, m: m, before: before, limit: max(q.Limit, 1), readers: map[*source]*find.Reader{}}
	defer r.close()
	for _, row := range rows {
		if q.Agent != "" && row.Agent != q.Agent {
			continue
		}
		if err := r.add(ctx, row); err != nil {
			return Found{}, err
		}
	}
	heap.Init(&r.todo)
	return r.run(ctx)
}

func (r *search) close() {
	for src := range r.readers {
		src.rec.Close()
	}
}

// add queues the spans of one session that may contain hits.
func (r *search) add(ctx context.Context, row Row) error {
	if row.Bytes == 0 {
		return ctx.Err()
	}
	src := &source{row: row}
	dir := r.svc.dir(row.ID)
	starts, err := find.Shards(dir)
	if err != nil {
		return err
	}
	latest := row.EndedAt
	if !row.Ended {
		latest = r.svc.cfg.Now().UnixMilli()
	}
	put := func(from, to, since, at int64) {
		at = cmp.Or(at, latest)
		// Otherwise earlier answers contain all of it.
		if since <= r.before.at && (row.ID != r.before.session || at != r.before.at || from < r.before.off) {
			r.todo = append(r.todo, span{src: src, from: from, to: to, since: since, at: at})
		}
	}
	r.out.Bytes += row.Bytes
	done, doneAt := int64(0), int64(0)
	for i, start := range starts {
		if err := ctx.Err(); err != nil {
			return err
		}
		blocks := find.ReadShard(dir, start)
		if len(blocks) == 0 {
			continue
		}
		if i == 0 {
			done = blocks[0].Start // earlier output has been dropped, or proves to be when it is read
			if start == 0 {
				done = 0
			}
		}
		for _, b := range blocks {
			if b.Start > done {
				put(done, b.Start, doneAt, b.From) // not covered because a search file is damaged
			}
			from := max(b.Start, done) // search files that cover the same bytes twice are damaged, too: find no line twice
			if from >= b.End {
				continue
			}
			done, doneAt = b.End, b.To
			if !r.m.May(b.Filter) {
				r.out.Skipped += b.End - from
				continue
			}
			put(from, b.End, b.From, b.To)
		}
	}
	if done < row.Bytes {
		put(done, row.Bytes, doneAt, 0)
	}
	return nil
}

// run reads span by span, newest first, until there are enough hits that are newer than everything unread.
func (r *search) run(ctx context.Context) (Found, error) {
	began := time.Now()
	for r.todo.Len() > 0 {
		if r.enough(r.todo[0].top()) {
			break
		}
		if time.Since(began) > r.svc.cfg.SearchTime && r.next().compare(r.before) > 0 { // the next search does not begin where this one did
			r.out.Late = true
			break
		}
		if err := r.read(ctx, heap.Pop(&r.todo).(span)); err != nil {
			return Found{}, err
		}
	}
	r.answer()
	return r.out, nil
}

func (h *Hit) place() place { return place{h.At, h.SessionID, h.Offset} }

// enough reports whether there are enough hits before p.
func (r *search) enough(p place) bool {
	n := 0
	for i := range r.hits {
		if r.hits[i].place().compare(p) < 0 {
			n++
		}
	}
	return n >= r.limit
}

// read searches one span.
func (r *search) read(ctx context.Context, st span) error {
	if err := r.open(ctx, st.src); err != nil {
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unavailable) {
			return nil // gone meanwhile, or being reconnected: the next search covers it
		}
		return err
	}
	reader := r.readers[st.src]
	for off := st.from; off < st.to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, from, err := reader.At(off, st.to-off)
		if err != nil {
			return err
		}
		if from > off && from < st.to { // some of it was dropped
			p = p[:min(int64(len(p)), st.to-from)]
		}
		if len(p) == 0 || from >= st.to {
			return nil
		}
		n, _ := reader.Text.Take(p)
		r.match(st.src, &reader.Text, from)
		off = from + int64(n)
	}
	return nil
}

// open opens a session's log.
func (r *search) open(ctx context.Context, src *source) error {
	if src.rec != nil {
		return nil
	}
	rec, err := r.svc.open(ctx, src.row.ID)
	if err != nil {
		return err
	}
	src.rec = rec
	r.readers[src] = find.NewReader(rec.log)
	return nil
}

// match adds the hits of one block that begins at off. Of equal lines the last stays, and counts the others.
func (r *search) match(src *source, t *find.Text, off int64) {
	seen := map[string]int{}
	first := len(r.hits)
	r.m.Each(t, func(at int, line []byte, from, to int) {
		if src.dates == nil {
			src.dates = find.NewDater(src.rec.notes)
		}
		raw := off + int64(t.Raw(at+from))
		h := Hit{SessionID: src.row.ID, Agent: src.row.Agent, AgentName: src.row.AgentName, Offset: raw, At: src.dates.Date(raw, src.row.StartedAt)}
		if h.place().compare(r.before) <= 0 {
			return
		}
		h.cut(line, from, to)
		if i, again := seen[h.Line]; again {
			h.Repeats = r.hits[i].Repeats + 1
			r.hits[i] = h
			return
		}
		if len(seen) < hitsOfBlock {
			seen[h.Line] = len(r.hits)
			r.hits = append(r.hits, h)
		}
	})
	if len(r.hits) > first {
		r.trim()
	}
}

// trim drops hits that are too old to be in the answer.
func (r *search) trim() {
	slices.SortFunc(r.hits, func(a, b Hit) int {
		return a.place().compare(b.place())
	})
	// Merge equal lines of neighbouring blocks: a program that redraws its screen prints them hundreds of times.
	newest := map[[2]string]int{}
	kept := r.hits[:0]
	for _, h := range r.hits {
		key := [2]string{h.SessionID, h.Line}
		if i, again := newest[key]; again {
			kept[i].Repeats += h.Repeats + 1
			continue
		}
		newest[key] = len(kept)
		kept = append(kept, h)
	}
	r.hits = kept
}

// next is the position before which everything was searched: that of the newest unread span. A hit at its very end must not be
// lost at the next one's beginning.
func (r *search) next() place {
	p := r.todo[0].top()
	p.off++
	return p
}

// answer builds the answer from the hits.
func (r *search) answer() {
	r.trim()
	next := place{at: -1}
	if r.todo.Len() > 0 { // everything newer than the newest unread span is final
		next = r.next()
		if n := slices.IndexFunc(r.hits, func(h Hit) bool { return h.place().compare(next) >= 0 }); n >= 0 {
			r.hits = r.hits[:n]
		}
	}
	if len(r.hits) > r.limit {
		r.hits = r.hits[:r.limit]
		last := r.hits[r.limit-1]
		next = last.place()
	}
	if next.at >= 0 {
		r.out.Next = next.String()
	}
	r.out.Hits = r.hits
}

// cut selects the part of a line to show.
func (h *Hit) cut(line []byte, from, to int) {
	begin, end := max(0, from-hitBefore), min(len(line), max(to, from+hitAfter), from+2*hitAfter)
	for begin > 0 && begin < from && !utf8.RuneStart(line[begin]) {
		begin++
	}
	for end < len(line) && end > from && !utf8.RuneStart(line[end]) {
		end--
	}
	to = min(to, end)
	head, hit, tail := shown(line[begin:from]), shown(line[from:to]), shown(line[to:end])
	head = strings.TrimLeftFunc(head, unicode.IsSpace)
	h.Line = head + hit + strings.TrimRightFunc(tail, unicode.IsSpace)
	h.Start = utf8.RuneCountInString(head)
	h.End = h.Start + utf8.RuneCountInString(hit)
}

// shown makes text safe to show: no control characters, nothing that changes the direction of what follows.
func shown(p []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(p), "\ufffd"))
}
