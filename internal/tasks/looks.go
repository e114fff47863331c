package tasks

import (
	"context"
	"sync"
)

// Looks looks at many things, each named by a key: at one of them in one goroutine at a time, and at so many at once. Make one with
// NewLooks; safe for concurrent use.
type Looks struct {
	scope *Scope
	look  func(ctx context.Context, key string)
	turn  chan struct{} // one token for each that may be looked at

	mu  sync.Mutex
	due map[string]bool // what is being looked at: whether once more afterwards
}

// NewLooks returns a Looks whose goroutines are the scope's. It starts nothing.
func NewLooks(scope *Scope, atOnce int, look func(ctx context.Context, key string)) *Looks {
	return &Looks{scope: scope, look: look, turn: make(chan struct{}, atOnce), due: map[string]bool{}}
}

// At has a thing looked at soon: after this call, in any case, unless the scope ends.
func (l *Looks) At(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, busy := l.due[key]; busy {
		l.due[key] = true
	} else if l.scope.Go(func() { l.run(key) }) {
		l.due[key] = false
	}
}

func (l *Looks) run(key string) {
	ctx := l.scope.Context()
	for {
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		l.look(ctx, key)
		<-l.turn
		l.mu.Lock()
		if !l.due[key] {
			delete(l.due, key)
			l.mu.Unlock()
			return
		}
		l.due[key] = false
		l.mu.Unlock()
	}
}
