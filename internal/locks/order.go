package locks

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Ordered returns mutexes with a rank: a goroutine that holds one of them may only take those of a higher rank, and one key of each rank, so
// that no two can wait for each other. The name is for reports.
func Ordered(rank int, name string) Keyed { return Keyed{rank: &place{rank, name}} }

// place is a rank in an order of locks.
type place struct {
	at   int
	name string
}

// CheckOrder makes locks report each violation of the order from now on, in the goroutine that commits it. It is for tests: it costs
// microseconds for each lock. A lock that another goroutine unlocks counts as held by the one that took it.
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

// check reports a lock taken out of order.
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

// note records that the goroutine holds a key; the returned func removes the record.
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

// goroutine returns the number of the calling goroutine, with which a trace begins ("goroutine 7 [running]:").
func goroutine() string {
	var b [64]byte
	fields := bytes.Fields(b[:runtime.Stack(b[:], false)])
	return string(fields[1])
}
