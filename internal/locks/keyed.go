// Package locks has mutexes by name.
package locks

import (
	"context"
	"sync"
)

// Keyed is a mutex for each key. A key that nobody holds or waits for takes no memory. The zero value is ready; safe for concurrent use.
type Keyed struct {
	rank *place // nil = taken in no particular order

	mu   sync.Mutex
	used map[string]*entry
}

type entry struct {
	turn chan struct{} // holds one token while the key is held
	refs int           // who holds it or waits for it; under Keyed.mu
}

// Lock waits for the key's turn. The returned func gives it back; it is called once.
func (k *Keyed) Lock(key string) (unlock func()) {
	k.rank.check(key)
	e := k.use(key)
	e.turn <- struct{}{}
	return k.held(key, e)
}

// LockContext waits for the key's turn until ctx ends: the error is its cause then.
func (k *Keyed) LockContext(ctx context.Context, key string) (unlock func(), err error) {
	k.rank.check(key)
	e := k.use(key)
	select {
	case e.turn <- struct{}{}:
		return k.held(key, e), nil
	case <-ctx.Done():
		k.leave(key, e)
		return nil, context.Cause(ctx)
	}
}

// TryLock takes the key's turn if nobody has it.
func (k *Keyed) TryLock(key string) (unlock func(), ok bool) {
	e := k.use(key)
	select {
	case e.turn <- struct{}{}:
		return k.held(key, e), true
	default:
		k.leave(key, e)
		return nil, false
	}
}

// Len is how many keys are held or waited for.
func (k *Keyed) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.used)
}

func (k *Keyed) use(key string) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used == nil {
		k.used = make(map[string]*entry)
	}
	e := k.used[key]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		k.used[key] = e
	}
	e.refs++
	return e
}

func (k *Keyed) leave(key string, e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.refs--; e.refs == 0 {
		delete(k.used, key)
	}
}

// held is what gives a turn back that was just taken.
func (k *Keyed) held(key string, e *entry) (unlock func()) {
	forget := k.rank.note(key)
	return func() {
		forget()
		<-e.turn
		k.leave(key, e)
	}
}
