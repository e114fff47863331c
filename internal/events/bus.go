package events

import (
	"context"
	"sync"
	"time"
)

// Sizes of the bus.
const (
	ringSize  = 1024 // events stored for reconnecting receivers
	queueSize = 256  // events queued for one slow receiver
)

// Resync is the Type of an event that only says: something was missed, read again what you show.
const Resync = "resync"

// Bus is the bus of one process. Safe for concurrent use; it has no goroutine.
type Bus struct {
	mu   sync.Mutex
	seq  int64   // of the last event
	ring []Event // the last ringSize; once it is full, the oldest is at next
	next int     // where the next one goes when the ring is full
	subs map[*Sub]struct{}
}

var _ Publisher = (*Bus)(nil)

// New returns an empty Bus. Its sequence numbers begin at the current time, so that they never match those of an earlier process, or of
// another one.
func New() *Bus { return newAt(time.Now()) }

func newAt(now time.Time) *Bus {
	return &Bus{seq: now.UnixMilli() << 10, subs: map[*Sub]struct{}{}} // 51 bits: exact as a JavaScript number
}

// Publish numbers e, stores it for a while and queues it for every receiver of its team. It never blocks: a receiver whose queue is full
// misses e, and Sub.Missed reports that.
func (b *Bus) Publish(_ context.Context, e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	e.Seq = b.seq
	if len(b.ring) < ringSize {
		b.ring = append(b.ring, e)
	} else {
		b.ring[b.next] = e
		b.next = (b.next + 1) % ringSize
	}
	for s := range b.subs {
		if s.wants(e) {
			s.offer(e)
		}
	}
}

// Lost notifies every receiver that events may have been missed: Missed returns true, and a Resync event wakes it.
func (b *Bus) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	b.ring, b.next = b.ring[:0], 0 // a receiver that reconnects with an older number has missed something too
	for s := range b.subs {
		s.missed = true
		s.offer(Event{Type: Resync, Seq: b.seq})
	}
}

// Sub is one receiver.
type Sub struct {
	// C delivers the events. It is closed by Close.
	C <-chan Event

	bus    *Bus
	team   string
	queue  chan Event
	missed bool // under bus.mu
	from   int64
}

// Subscribe starts receiving the events of a team, "" for those of all. With since, the Seq of the last event seen, the events after it come
// first; when some are no longer stored, Missed is true from the start. since 0 starts with the next event. The caller calls Close.
func (b *Bus) Subscribe(teamID string, since int64) *Sub {
	q := make(chan Event, queueSize)
	s := &Sub{C: q, bus: b, team: teamID, queue: q}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.from = b.seq
	b.subs[s] = struct{}{}
	if since == 0 || since == b.seq {
		return s
	}
	oldest := b.seq + 1
	if len(b.ring) > 0 {
		oldest = b.ring[b.next].Seq
	}
	if since < oldest-1 || since > b.seq {
		s.missed = true
		return s
	}
	for i := range b.ring {
		if e := b.ring[(b.next+i)%len(b.ring)]; e.Seq > since && s.wants(e) {
			s.offer(e)
		}
	}
	return s
}

// Start returns the number of the last event before the subscription: what to reconnect with when none arrived.
func (s *Sub) Start() int64 { return s.from }

// Missed reports, once, whether events were missed since the last call: then read again what is shown. Call it after each event, and before
// the first.
func (s *Sub) Missed() bool {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	m := s.missed
	s.missed = false
	return m
}

// Close ends the subscription and closes C. It may be called twice.
func (s *Sub) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if _, open := s.bus.subs[s]; open {
		delete(s.bus.subs, s)
		close(s.queue)
	}
}

func (s *Sub) wants(e Event) bool { return s.team == "" || s.team == e.TeamID }

// offer queues e, or records that it was missed. The queue is full then, so the receiver will wake and ask.
func (s *Sub) offer(e Event) {
	select {
	case s.queue <- e:
	default:
		s.missed = true
	}
}

// HasListeners reports whether somebody subscribed to this team's events only, as a person who looks at it does.
func (b *Bus) HasListeners(teamID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		if s.team == teamID {
			return true
		}
	}
	return false
}
