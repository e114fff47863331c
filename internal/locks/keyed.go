// Package locks provides mutexes by name, and mutexes for which a caller waits no longer than its context.
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
	turn Turn
	refs int // holders and waiters; guarded by Keyed.mu
}

// Lock waits for the key's turn. The returned func unlocks it; call it once.
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
	if _, err := e.turn.Lock(ctx); err != nil {
		k.leave(key, e)
		return nil, err
	}
	return k.held(key, e), nil
}

// TryLock takes the key's turn if nobody has it.
func (k *Keyed) TryLock(key string) (unlock func(), ok bool) {
	e := k.use(key)
	if _, ok := e.turn.TryLock(); !ok {
		k.leave(key, e)
		return nil, false
	}
	return k.held(key, e), true
}

// Len returns how many keys are held or waited for.
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
		e = &entry{turn: NewTurn()}
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

// held returns the func that unlocks a key just locked.
func (k *Keyed) held(key string, e *entry) (unlock func()) {
	forget := k.rank.note(key)
	return func() {
		forget()
		e.turn.Unlock()
		k.leave(key, e)
	}
}
