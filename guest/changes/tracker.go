package changes

import (
	"crypto/sha256"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// tracker holds the set of changes against one base, with the version at which each last differed.
type tracker struct {
	base    string
	holders int // guarded by Poller.mu

	// The fields below are used only with the Poller's turn: the result of the last successful poll.
	lastPoll uint64
	lastFull uint64 // likewise of the last full one that began
	entries  map[string]*entry
	print    [sha256.Size]byte
	trusted  bool // print distinguishes the next state from this one
	links    linkCache
	commits  sinceBase

	mu       sync.Mutex
	start    uint64 // the version before the first poll
	version  uint64
	items    map[string]item   // by wire path
	removed  map[string]uint64 // wire path -> version of its removal
	forgot   uint64            // removals up to this version are not remembered
	head     head
	err      string
	polledAt int64 // ms UTC; 0 = never
	schedule schedule
	wake     chan struct{} // closed at the next hint, poll or difference
}

type item struct {
	change  guest.Change
	version uint64
}

// maxRemoved bounds the remembered removals; a client behind them is sent everything.
const maxRemoved = 100_000

func newTracker(base string, start uint64) *tracker {
	return &tracker{
		base: base, start: start, version: start, forgot: start,
		items: make(map[string]item), removed: make(map[string]uint64), wake: make(chan struct{}),
	}
}

// record takes the result of a poll, and reports whether anything differs.
func (t *tracker) record(s seen, err error, now time.Time) bool {
	if err == nil {
		t.print, t.trusted = s.print, !s.racy
		if !s.same {
			t.entries = s.entries
		}
	} else {
		t.trusted = false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.version + 1
	changed := t.polledAt == 0
	text, h := s.note, s.head
	if err != nil {
		text, h = fault.Words(err, err.Error()), t.head
	}
	if s.same && text == "" {
		text = t.err // notes of the details stay while nothing differs
	}
	if t.err != text || t.head != h {
		t.err, t.head, changed = text, h, true
	}
	if err == nil && !s.same {
		changed = t.merge(s.entries, next) || changed
	}
	if changed {
		t.version = next
	}
	t.polledAt = now.UnixMilli()
	return changed
}

// merge makes items equal to entries, at version next.
func (t *tracker) merge(entries map[string]*entry, next uint64) (changed bool) {
	present := make(map[string]bool, len(entries))
	for _, e := range entries {
		path := e.change.Path
		present[path] = true
		if old, ok := t.items[path]; ok && old.change == e.change {
			continue
		}
		t.items[path] = item{e.change, next}
		delete(t.removed, path)
		changed = true
	}
	for path := range t.items {
		if !present[path] {
			delete(t.items, path)
			t.removed[path] = next
			changed = true
		}
	}
	if len(t.removed) > maxRemoved {
		clear(t.removed)
		t.forgot = next
	}
	return changed
}

// A record of a stream stays well under guest.MaxJSON.
const (
	recordItems = 4000
	recordBytes = 2 << 20
)

// delta returns what differs from version since, in records that fit the pipe. It is never empty.
func (t *tracker) delta(since uint64) []guest.ChangeSet {
	first, upserts, removes := t.since(since)
	sort.Slice(upserts, func(i, j int) bool { return upserts[i].Path < upserts[j].Path })
	sort.Strings(removes)
	return split(first, upserts, removes)
}

func (t *tracker) since(since uint64) (head guest.ChangeSet, upserts []guest.Change, removes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	reset := since < t.forgot || since > t.version || since == t.start
	for _, it := range t.items {
		if reset || it.version > since {
			upserts = append(upserts, it.change)
		}
	}
	for path, v := range t.removed {
		if !reset && v > since {
			removes = append(removes, path)
		}
	}
	return guest.ChangeSet{
		Since: since, Version: t.version, Reset: reset, Base: t.base, Head: t.head.commit,
		Branch: strings.ToValidUTF8(t.head.branch, "\uFFFD"), Error: t.err, PolledAt: t.polledAt,
	}, upserts, removes
}

// split divides a set into records. The first has Reset, all but the last have More.
func split(first guest.ChangeSet, upserts []guest.Change, removes []string) []guest.ChangeSet {
	sets := []guest.ChangeSet{first}
	count, size := 0, 0
	room := func(n int) *guest.ChangeSet {
		if count > 0 && (count >= recordItems || size+n > recordBytes) {
			sets[len(sets)-1].More = true
			next := first
			next.Reset = false
			sets = append(sets, next)
			count, size = 0, 0
		}
		count, size = count+1, size+n
		return &sets[len(sets)-1]
	}
	for _, path := range removes {
		set := room(6*len(path) + 8) // six bytes of JSON for a byte at worst
		set.Removes = append(set.Removes, path)
	}
	for _, c := range upserts {
		set := room(6*(len(c.Path)+len(c.OldPath)) + 400)
		set.Upserts = append(set.Upserts, c)
	}
	return sets
}

// current returns the version, and a channel that is closed when something may have happened since.
func (t *tracker) current() (version uint64, polled bool, wake <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version, t.polledAt != 0, t.wake
}

func (t *tracker) hint(now time.Time, strong bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.schedule.hint(now, strong) {
		t.broadcast()
	}
}

func (t *tracker) begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedule.begin(now)
}

// interrupted makes the next watcher poll at once: this poll was abandoned half-way.
func (t *tracker) interrupted() {
	t.lastPoll, t.lastFull = 0, 0
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedule = schedule{}
	t.broadcast()
}

func (t *tracker) end(now time.Time, cost time.Duration, changed, covered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedule.end(now, cost, changed, covered)
	t.broadcast()
}

// due says when to look next.
func (t *tracker) due() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.schedule.due()
}

// broadcast wakes all waiters. The caller holds t.mu.
func (t *tracker) broadcast() {
	close(t.wake)
	t.wake = make(chan struct{})
}
