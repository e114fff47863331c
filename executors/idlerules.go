package executors

import "time"

// executionIdle is how long a sandbox that served single commands only may be idle where idle sandboxes cost money: single commands come and go.
const executionIdle = 10 * time.Minute

// IdleRules say how long a sandbox may be idle before it is ended: for ever where it costs nothing but memory of the server's own.
type IdleRules struct {
	Paid  map[Kind]func() time.Duration // of kinds where idle sandboxes cost money
	Said  *time.Duration                // what an operator says of the other kinds; nil = Usual
	Usual map[Kind]time.Duration        // of the other kinds where nobody says anything
}

// After is how long a sandbox of a kind may be idle; 0 = for ever. On a member's own machine its owner alone decides what runs.
func (r IdleRules) After(k Kind, p Purpose) time.Duration {
	if paid, ok := r.Paid[k]; ok {
		if p == ForExecution {
			return min(paid(), executionIdle)
		}
		return paid()
	}
	switch {
	case k == Runner:
		return 0
	case r.Said != nil:
		return *r.Said
	}
	return r.Usual[k]
}
