package locks

import "context"

// Turn is a mutex for which a caller waits no longer than its context. Another goroutine than the one that locked it may unlock it. Make one
// with NewTurn; safe for concurrent use.
type Turn chan struct{} // holds one token while it is locked

// NewTurn returns an unlocked Turn.
func NewTurn() Turn { return make(Turn, 1) }

// Lock waits for the turn until ctx ends: the error is its cause then. The returned func is Unlock.
func (t Turn) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case t <- struct{}{}:
		return t.Unlock, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TryLock takes the turn if nobody has it. The returned func is Unlock.
func (t Turn) TryLock() (unlock func(), ok bool) {
	select {
	case t <- struct{}{}:
		return t.Unlock, true
	default:
		return nil, false
	}
}

// Unlock gives the turn back. It panics when nobody has it.
func (t Turn) Unlock() {
	select {
	case <-t:
	default:
		panic("locks: a Turn was unlocked that nobody has")
	}
}

// Locked reports whether somebody has the turn.
func (t Turn) Locked() bool { return len(t) > 0 }
