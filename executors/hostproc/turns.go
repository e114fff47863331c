package hostproc

import "sync"

// Turns lets making, finding and destroying one sandbox take turns. The zero value is ready.
type Turns struct {
	mu sync.Mutex
	by map[string]*turn // by sandbox id
}

type turn struct {
	mu    sync.Mutex
	users int
}

// Take takes the turn of one sandbox; the returned func gives it back.
func (ts *Turns) Take(id string) func() {
	ts.mu.Lock()
	t := ts.by[id]
	if t == nil {
		t = &turn{}
		if ts.by == nil {
			ts.by = make(map[string]*turn)
		}
		ts.by[id] = t
	}
	t.users++
	ts.mu.Unlock()
	t.mu.Lock()
	return func() {
		t.mu.Unlock()
		ts.mu.Lock()
		if t.users--; t.users == 0 {
			delete(ts.by, id)
		}
		ts.mu.Unlock()
	}
}
