package locks

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Ordered returns mutexes that have a place in an order: whoever holds one of them takes only those of a higher rank, and one key of each
// rank, so that no two can wait for each other. The name is for reports.
func Ordered(rank int, name string) Keyed { return Keyed{rank: &place{rank, name}} }

// place is a place in an order of locks.
type place struct {
	at   int
	name string
}

// CheckOrder has each breach of the order reported from now on, in the goroutine that breaks it. It is for tests: it costs microseconds for
// each lock. A lock that is given back by another goroutine counts as held by the one that took it.
func CheckOrder(report func(breach string)) { reporter.Store(&report) }

var (
	reporter atomic.Pointer[func(string)]

	heldMu sync.Mutex
	heldBy = map[string][]*holding{} // by goroutine
)

type holding struct {
	*place
	key string
}

// check reports a lock that is waited for out of order.
func (p *place) check(key string) {
	report := reporter.Load()
	if p == nil || report == nil {
		return
	}
	heldMu.Lock()
	var over *holding
	for _, h := range heldBy[goroutine()] {
		if h.at >= p.at {
			over = h
		}
	}
	heldMu.Unlock()
	if over != nil {
		(*report)(fmt.Sprintf("the lock %q of %s is waited for while %q of %s is held, which comes after it", p.name, key, over.name, over.key))
	}
}

// note writes down that the goroutine holds a key; the returned func forgets that.
func (p *place) note(key string) (forget func()) {
	if p == nil || reporter.Load() == nil {
		return func() {}
	}
	h, me := &holding{p, key}, goroutine()
	heldMu.Lock()
	defer heldMu.Unlock()
	heldBy[me] = append(heldBy[me], h)
	return func() {
		heldMu.Lock()
		defer heldMu.Unlock()
		heldBy[me] = slices.DeleteFunc(heldBy[me], func(o *holding) bool { return o == h })
		if len(heldBy[me]) == 0 {
			delete(heldBy, me)
		}
	}
}

// goroutine is the number of the calling goroutine, which a trace begins with ("goroutine 7 [running]:").
func goroutine() string {
	var b [64]byte
	fields := bytes.Fields(b[:runtime.Stack(b[:], false)])
	return string(fields[1])
}
