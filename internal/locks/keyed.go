// Package locks has mutexes by name.
package locks

import "sync"

// Keyed is a mutex for each key. A key that nobody holds or waits for takes no memory. The zero value is ready; safe for concurrent use.
type Keyed struct {
	mu   sync.Mutex
	used map[string]*entry
}

type entry struct {
	sync.Mutex
	refs int // who holds it or waits for it; under Keyed.mu
}

// Lock waits for the key's turn. The returned func gives it back; it is called once.
func (k *Keyed) Lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.used == nil {
		k.used = make(map[string]*entry)
	}
	e := k.used[key]
	if e == nil {
		e = new(entry)
		k.used[key] = e
	}
	e.refs++
	k.mu.Unlock()
	e.Lock()
	return func() {
		e.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if e.refs--; e.refs == 0 {
			delete(k.used, key)
		}
	}
}

// Len is how many keys are held or waited for.
func (k *Keyed) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.used)
}
